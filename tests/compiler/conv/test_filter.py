"""One filter per channel over lines of pixels: tiles that do not fill a line, strides, dilations, positions
that no tap reads, long epilogues, and which convolutions are left to rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.compiler.conv.convolutions import check, lowered, native, random
from tests.compiler.conv.test_convolution import FORMS, Geometry, case, with_epilogue
from trilobite.base.dtypes import float32
from trilobite.compiler.program.kernels import Lowering
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitive import result_types, table


def geometry(seed: int, channels: int, kernel: int, stride: int, width: int, dilation: int = 1) -> Geometry:
    g = Geometry(np.random.default_rng(seed), 2, channels, channelwise=True)
    g.kernel, g.space, g.batch = (kernel, kernel), (5 + dilation * kernel, width), 2
    low = dilation * (kernel // 2)
    g.window |= {
        "stride": (stride, stride), "low": (low, low), "high": (low, low), "w_dilation": (dilation, dilation),
    }  # fmt: skip
    return g


def in_lines(plan: Lowering) -> bool:
    return "over lines of pixels" in plan.why


@pytest.mark.parametrize("form", FORMS[:2])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_lines_of_every_length(form: str, stride: int) -> None:
    rng = np.random.default_rng(stride)
    for width, channels, kernel in ((12, 8, 3), (19, 21, 3), (43, 5, 5), (31, 33, 2), (29, 16, 7)):
        graph, values, terms = case(
            form, geometry(width, channels, kernel, stride, width), rng, float32, float32
        )
        assert in_lines(lowered(graph)) == (kernel >= stride or form == "conv_last")
        check(graph, values, terms, pieces=(1, 2, 5))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int8", "uint8", "int16", "uint16"])
def test_other_numbers(dtype: str) -> None:
    rng = np.random.default_rng(1)
    result = "int32" if "int" in dtype else dtype
    g = geometry(3, 19, 3, 1, 15, dilation=2)
    check(*case("conv_last", g, rng, np.dtype(dtype), np.dtype(result)))


def test_one_axis_and_three() -> None:
    rng = np.random.default_rng(2)
    for rank in (1, 3):
        g = Geometry(rng, rank, 11, channelwise=True)
        g.kernel, g.space = (3,) * rank, (6,) * (rank - 1) + (17,)
        ones = (1,) * rank
        g.window |= {"stride": ones, "low": ones, "high": ones, "w_dilation": ones}
        graph, values, terms = case("conv_last", g, rng, float32, float32)
        assert in_lines(lowered(graph))
        check(graph, values, terms)


def test_short_lines_and_many_taps_go_by_rows() -> None:
    rng = np.random.default_rng(3)
    for g in (geometry(1, 9, 3, 1, 3), geometry(2, 9, 9, 1, 30), geometry(4, 9, 3, 9, 90)):
        graph, values, terms = case("conv_last", g, rng, float32, float32)
        assert not in_lines(lowered(graph))
        check(graph, values, terms)


def _longer(graph: Graph, rounds: int) -> Graph:
    """More after it than stands once for every register."""
    equations, (_, last) = list(graph.equations), graph.outputs
    for i in range(rounds):
        name = ("abs", "neg", "sin")[i % 3]
        (t,) = result_types(table[name], [last.type], {})
        equations.append(Equation(table[name], (last,), {}, (Var(t),)))
        last = equations[-1].outputs[0]
    return Graph(graph.inputs, equations, (graph.outputs[0], last))


@pytest.mark.parametrize("rounds", [0, 14])
def test_what_follows(rounds: int) -> None:
    rng = np.random.default_rng(4)
    plain, values, _ = case("conv_last", geometry(5, 21, 3, 1, 13), rng, float32, float32)
    graph = _longer(with_epilogue(plain), rounds)
    values = [*values, *(random(rng, [int(n) for n in t.shape], t.dtype) for t in graph.input_types[2:])]
    got: Any = native(graph, values, 3)
    size = run(plain, [np.abs(v) for v in values[:2]])[0]
    for a, b in zip(got, run(graph, values), strict=True):
        assert (np.abs(a - b) <= 40 * np.finfo(np.float32).eps * (size + np.abs(b) + 10)).all()
