"""Convolutions of single channels on the vector unit: beside the CPU, over windows, strides and formats."""

from __future__ import annotations

import numpy as np
import pytest

import trilobite as tb
from trilobite.base import dtypes as dt
from trilobite.compiler.targets.contract import Usage
from trilobite.compiler.targets.dlp.kernels import depthwise
from trilobite.compiler.targets.registry import find
from trilobite.ir.evaluate import run as evaluate
from trilobite.ir.primitive import table
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import TensorType

F = tb.nn.functional
# channels, height, width, kernel, stride, padding, dilation
WINDOWS = [
    (8, 9, 11, (3, 3), (1, 1), (1, 1), (1, 1)),
    (6, 12, 7, (3, 2), (2, 1), (1, 0), (1, 1)),
    (5, 13, 13, (5, 3), (3, 2), (2, 2), (1, 2)),
    (40, 10, 10, (3, 3), (2, 2), (1, 1), (2, 2)),
    (3, 6, 5, (1, 5), (4, 4), (0, 2), (1, 1)),
    (96, 3, 3, (3, 3), (1, 1), (1, 1), (1, 1)),
]


@pytest.fixture(autouse=True)
def on_the_vector_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the matrix unit would be quicker."""
    monkeypatch.setattr(depthwise, "expected_cycles", lambda *problem: float("inf"))


def _chip(machine, body, *given):
    fast = tb.jit(body, target=f"dlp:{machine}", options={"checks": True})
    with tb.no_grad():
        found = fast(*given).numpy()
        where = fast.lower(*given).stages["mapping"]
    return found, where


@pytest.mark.parametrize("machine", ["dlp-s", "dlp-m"])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_windows(machine: str, window: tuple) -> None:
    channels, height, width, kernel, stride, padding, dilation = window
    rng = np.random.default_rng(5)
    x = tb.tensor(rng.normal(size=(2, channels, height, width)).astype(np.float32))
    w = tb.tensor(rng.normal(size=(channels, 1, *kernel)).astype(np.float32))
    bias = tb.tensor(rng.normal(size=channels).astype(np.float32))

    def body(x, w, bias):
        y = F.conv2d(x, w, bias, stride=stride, padding=padding, dilation=dilation, groups=channels)
        return F.relu6(y)

    found, where = _chip(machine, body, x, w, bias)
    np.testing.assert_allclose(found, body(x, w, bias).numpy(), rtol=1e-5, atol=1e-5)
    assert "channels at a time" in where


@pytest.mark.parametrize("dtype, bound", [("float16", 2e-3), ("bfloat16", 2e-2)])
def test_short_floats(dtype: str, bound: float) -> None:
    rng = np.random.default_rng(6)
    x, w = (tb.tensor(rng.normal(size=s).astype(np.float32)).to(getattr(tb, dtype))
            for s in ((1, 24, 9, 9), (24, 1, 3, 3)))  # fmt: skip
    found, _ = _chip("dlp-m", lambda x, w: F.conv2d(x, w, padding=1, groups=24), x, w)
    want = F.conv2d(x.to(tb.float32), w.to(tb.float32), padding=1, groups=24).numpy()
    np.testing.assert_allclose(found.astype(np.float32), want, rtol=bound, atol=4 * bound)


@pytest.mark.parametrize("machine", ["dlp-s", "dlp-m"])
def test_integers_are_exact(machine: str) -> None:
    rng = np.random.default_rng(7)
    values = [rng.integers(-128, 128, s).astype(np.int8) for s in ((1, 32, 8, 9), (32, 1, 3, 3))]
    more = {"stride": (2, 1), "low": (1, 1), "high": (1, 0), "x_dilation": (1, 1), "w_dilation": (1, 1)}

    def body(x, w):
        return (table["conv"](x, w, **more, groups=32, dtype=dt.int32),)

    graph = record_graph(body, [TensorType(v.shape, dt.int8) for v in values], "single_channels")
    target = find(f"dlp:{machine}")
    made = target.load(target.lower(graph, Usage(options=(("checks", True),))))
    (found,) = made.run(list(values), [], 0)
    (want,) = evaluate(graph, values)
    np.testing.assert_array_equal(found, want)
    assert "channels at a time" in made.stages["mapping"]
