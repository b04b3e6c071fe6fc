"""Operators of com.microsoft and ai.onnx.ml: what ONNX Runtime gave for each model is kept, a few elements of
each output, and compared here; where ONNX Runtime is installed it is asked again, for all elements.

`python -m tests.inference.test_other_domains`, in the peers' environment, writes the kept ones anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from tests.inference import cases_contributed, cases_microsoft, cases_ml
from tests.inference.conftest import Model

KEPT = Path(__file__).with_name("other_domains.json")
ELEMENTS = 16  # of each output
CASES = {
    **{f"microsoft {name}": (cases_microsoft.built, name) for name in cases_microsoft.CASES},
    **{f"contributed {name}": (cases_contributed.built, name) for name in cases_contributed.CASES},
    **{f"ml {name}": (cases_ml.built, name) for name in cases_ml.CASES},
}


def made(case: str) -> Model:
    build, name = CASES[case]
    return build(name)


def asked(proto: Any, feeds: dict[str, Any]) -> list[np.ndarray[Any, Any]]:
    """What ONNX Runtime says."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


def chosen(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    flat = value.reshape(-1)
    return flat[:: max(flat.size // ELEMENTS, 1)][:ELEMENTS]


def compare(case: str, found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> None:
    if found.dtype == object:
        assert found.tolist() == expected.tolist()
    elif found.dtype.kind in "iu" and found.dtype.itemsize > 1:
        np.testing.assert_array_equal(found, expected)
    elif found.dtype in (np.uint8, np.int8):
        assert np.abs(found.astype(int) - expected.astype(int)).max() <= 1
    else:
        strict = case.startswith("ml")
        rtol, atol = (1e-4, 1e-5) if strict else (2e-3, 2e-4)
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)


@pytest.mark.parametrize("case", CASES)
def test_equal_to_what_is_kept(case: str) -> None:
    proto, feeds = made(case)
    found = tb.inference.load(proto, target="reference").run(feeds)
    for o, (shape, values) in zip(proto.graph.output, json.loads(KEPT.read_text())[case], strict=True):
        assert list(found[o.name].shape) == shape
        words = found[o.name].dtype == object
        compare(case, chosen(found[o.name]), np.asarray(values, dtype=object if words else None))


@pytest.mark.peer
@pytest.mark.parametrize("case", CASES)
def test_equal_to_onnx_runtime(case: str) -> None:
    pytest.importorskip("onnxruntime")
    proto, feeds = made(case)
    found = tb.inference.load(proto, target="cpu").run(feeds)
    for o, expected in zip(proto.graph.output, asked(proto, feeds), strict=True):
        assert found[o.name].shape == expected.shape
        compare(case, found[o.name], expected)


def _kept(element: Any) -> Any:
    return element if isinstance(element, str) else round(float(element), 7)


if __name__ == "__main__":
    rows = {
        case: [[list(v.shape), [_kept(e) for e in chosen(v)]] for v in asked(*made(case))] for case in CASES
    }
    lines = ",\n".join(f"{json.dumps(case)}: {json.dumps(row)}" for case, row in rows.items())
    KEPT.write_text("{\n" + lines + "\n}\n")
