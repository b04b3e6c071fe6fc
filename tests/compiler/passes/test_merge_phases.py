"""merge_phases: transposed convolutions to few channels, beside their meaning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.compiler.graph.rewrite import UNCOUNTED
from trilobite.compiler.targets.cpu.passes.merge_phases import merge_phases
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitive import table
from trilobite.ir.types import TensorType
from trilobite.ir.verify import verify

Array = np.ndarray[Any, Any]


def transposed(
    x: tuple[int, ...], w: tuple[int, ...], stride: tuple[int, ...], low: tuple[int, ...],
    extra: tuple[int, ...], **changed: Any,
) -> Graph:  # fmt: skip
    """As ConvTranspose has it: `low` is cut off at both ends, `extra` is added behind."""
    rank = len(stride)
    attributes = {"w_dilation": (1,) * rank, "groups": 1, **changed}
    sizes = zip(x[2:], stride, low, extra, w[2:], attributes["w_dilation"], strict=True)
    space = tuple((n - 1) * s - 2 * p + d * (k - 1) + e + 1 for n, s, p, e, k, d in sizes)
    attributes |= {
        "space": space, "stride": stride, "low": low, "x_dilation": (1,) * rank,
        "high": tuple(p - e for p, e in zip(low, extra, strict=True)), "dtype": np.dtype("float32"),
    }  # fmt: skip
    inputs = tuple(Var(TensorType(shape, np.dtype("float32"))) for shape in (x, w))
    channels = w[1] * attributes["groups"]
    out = Var(TensorType((x[0], channels, *space), np.dtype("float32")))
    return Graph(inputs, (Equation(table["conv_input_grad"], inputs, attributes, (out,)),), (out,))


def names(graph: Graph) -> set[str]:
    return {e.primitive.name for e in graph.equations}


def drawn(seed: int) -> Graph:
    """Kernels of one to three strides, maps of one element and more, ends cut off or lengthened."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    stride = tuple(int(s) for s in rng.integers(1, 5, rank))
    stride = (max(stride[0], 2), *stride[1:])
    kernel = tuple(int(s * rng.integers(1, 4)) for s in stride)
    low = tuple(int(rng.integers(0, k)) for k in kernel)
    size = tuple(int(rng.integers(1 + p, 5 + p)) for p in low)
    extra = tuple(int(rng.integers(0, s)) for s in stride)
    channels = int(rng.integers(1, 5))
    return transposed((2, channels, *size), (channels, 1, *kernel), stride, low, extra)


@pytest.mark.parametrize("seed", range(16))
def test_values_are_those_of_the_transposed_convolution(seed: int) -> None:
    graph = drawn(seed)
    merged = merge_phases(graph, UNCOUNTED)
    verify(merged)
    assert "conv_input_grad" not in names(merged)
    rng = np.random.default_rng(100 + seed)
    x, w = (rng.standard_normal(v.type.shape).astype(np.float32) for v in graph.inputs)
    x[rng.random(x.shape) < 0.02] = rng.choice([np.inf, np.nan])
    w[rng.random(w.shape) < 0.05] = 0
    with np.errstate(invalid="ignore"):
        (expected,), (found,) = (run(g, [x, w]) for g in (graph, merged))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "graph",
    [
        transposed((1, 4, 5, 5), (4, 1, 3, 3), (2, 2), (1, 1), (1, 1)),  # taps of some phases would be zeros
        transposed((1, 4, 5, 5), (4, 64, 2, 2), (2, 2), (0, 0), (0, 0)),  # channels fill vectors
        transposed((1, 4, 5, 5), (4, 1, 4, 4), (2, 2), (0, 0), (0, 0), w_dilation=(2, 2)),
        transposed((1, 4, 5, 5), (4, 1, 2, 2), (2, 2), (0, 0), (0, 0), groups=2),
        transposed((1, 4, 5, 5), (4, 1, 4, 4), (1, 1), (0, 0), (0, 0)),
    ],
)
def test_others_stay(graph: Graph) -> None:
    assert names(merge_phases(graph, UNCOUNTED)) == {"conv_input_grad"}


def test_a_layer_is_one_convolution() -> None:
    layer = tb.nn.ConvTranspose2d(5, 1, 4, stride=2, padding=1).requires_grad_(False)
    x = tb.tensor(np.random.default_rng(7).standard_normal((2, 5, 6, 9)).astype(np.float32))
    compiled = tb.jit(layer)
    expected = tb.jit(layer, target="reference")(x).numpy()
    np.testing.assert_allclose(compiled(x).numpy(), expected, rtol=1e-5, atol=1e-5)
    assert "conv_last_input_grad" not in compiled.lower(x).stages["layout"]
