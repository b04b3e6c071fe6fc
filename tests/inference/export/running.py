"""Runs an exported model: by onnx's reference evaluator, our own reader, or ONNX Runtime beside peers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def by_reference(model: Any, feeds: Mapping[str, Array]) -> list[Array]:
    from onnx.reference import ReferenceEvaluator

    return [np.asarray(y) for y in ReferenceEvaluator(model).run(None, dict(feeds))]


def by_session(model: Any, feeds: Mapping[str, Array]) -> list[Array]:
    """Our own reader, by the meaning; that it reads as ONNX means is the suite's to say."""
    from trilobite.inference import load

    return [np.asarray(y) for y in load(model, target="reference").run(dict(feeds)).values()]


def by_runtime(model: Any, feeds: Mapping[str, Array]) -> list[Array]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return [np.asarray(y) for y in session.run(None, dict(feeds))]


def apart(a: Array, b: Array) -> float:
    """The largest difference, by the size of b; infinite where shapes or dtypes differ."""
    if a.dtype == np.uint8 and b.dtype.name.startswith("float8"):
        a = a.view(b.dtype)  # ONNX Runtime gives the bytes
    if a.shape != b.shape or a.dtype != b.dtype:
        return float("inf")
    if a.size == 0:
        return 0.0
    if a.dtype == bool:
        return float((a != b).any())
    x, y = a.astype(np.float64), b.astype(np.float64)
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    x, y = np.where(same, 0.0, x), np.where(same, 0.0, y)
    return float(np.abs(x - y).max() / max(1.0, float(np.abs(y).max())))
