"""Models for tests, made in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

Model = tuple[Any, dict[str, Any]]  # a ModelProto, and values of its inputs

onnx = pytest.importorskip("onnx")


def model(
    nodes: Sequence[Any],
    inputs: dict[str, tuple[Any, Any]],
    outputs: Sequence[str],
    constants: dict[str, np.ndarray] | None = None,
    opset: int = 21,
    **more: Any,
) -> Any:
    """A ModelProto; inputs are (dtype, shape), outputs are declared without types."""
    h = onnx.helper

    def declared(name: str, dtype: Any, shape: Any) -> Any:
        return h.make_tensor_value_info(name, h.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)

    graph = h.make_graph(
        list(nodes),
        "network",
        [declared(n, *t) for n, t in inputs.items()],
        [onnx.ValueInfoProto(name=n) for n in outputs],
        [onnx.numpy_helper.from_array(v, k) for k, v in (constants or {}).items()],
    )
    return h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], **more)


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    """A node whose operands are named in words; "-" is one left out."""
    names = ["" if n == "-" else n for n in inputs.split()]
    return onnx.helper.make_node(op, names, outputs.split(), **attributes)
