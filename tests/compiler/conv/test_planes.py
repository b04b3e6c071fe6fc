"""Convolutions of planes, natively, over random geometry: ranks, strides, padding that also crops, dilations,
odd counts of channels and filters; lines cut by panels; epilogues; empty shapes; symbolic batches.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.compiler.conv.convolutions import check, lowered, native, random, region, types_of
from tests.compiler.conv.test_convolution import Geometry
from tests.compiler.fences import fenced
from trilobite.base.dtypes import DType, float32, float64
from trilobite.compiler.targets.cpu.contraction import convolution as conv
from trilobite.compiler.targets.cpu.contraction.convolution import lower_root
from trilobite.compiler.targets.cpu.contraction.planes.steps import tile_of
from trilobite.compiler.targets.cpu.contraction.planes.tile import FILTERS
from trilobite.compiler.targets.cpu.epilogue import epilogue_of
from trilobite.compiler.targets.cpu.passes import layout_planes
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitive import result_types, table
from trilobite.ir.types import Symbol, TensorType, affine
from trilobite.native.host import AARCH64, SSE2
from trilobite.native.objects import assembly

Array = np.ndarray[Any, Any]


def case(
    rng: np.random.Generator, x: tuple[int, ...], w: tuple[int, ...], dtype: DType = float32, **window: Any
) -> tuple[Graph, list[Array], int]:
    """A region of one equation, its operands, and how many terms its sums have."""
    rank = len(x) - 2
    attributes: dict[str, Any] = {
        "stride": (1,) * rank, "low": (0,) * rank, "high": (0,) * rank, "x_dilation": (1,) * rank,
        "w_dilation": (1,) * rank, **window, "kernel": w[2:], "filters": w[0], "dtype": dtype,
    }  # fmt: skip
    weight = random(rng, w, dtype).reshape(w[0], int(np.prod(w[1:])))
    values = [random(rng, x, dtype), table["gemm_pack"].evaluate(weight, contract=1, width=FILTERS)]
    return region("conv_planes", types_of(values), attributes), values, int(np.prod(w[1:]))


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_random_geometry(rank: int, dtype: DType) -> None:
    rng, done = np.random.default_rng([rank, dtype.itemsize]), 0
    while done < 6:
        g = Geometry(rng, rank, 1)
        window = {k: v for k, v in g.window.items() if k != "groups"}
        space = (*g.space[:-1], g.space[-1] + int(rng.integers(0, 70)))  # lines as long as panels, and longer
        graph, values, terms = case(rng, (g.batch, g.channels, *space), g.w, dtype, **window)
        if conv.accepts(graph) is None:
            check(graph, values, terms, (1, 2, 7))
            done += 1


@pytest.mark.parametrize(
    "x, w, stride, pad",
    [
        ((1, 300, 14, 14), (33, 300, 1, 1), 1, 0),  # as it lies, in blocks of depth, a last panel of 4 pixels
        ((2, 5, 3, 3), (9, 5, 1, 1), 1, 0),  # fewer pixels than a panel
        ((1, 3, 61, 60), (64, 3, 7, 7), 2, 3),
        ((2, 130, 9, 29), (66, 130, 3, 3), 2, 1),  # sums wait for the next block of depth
        ((1, 2, 40, 50), (8, 2, 3, 3), 3, 1),
        ((1, 1, 8, 9), (1, 1, 1, 2), 1, 0),
        ((2, 4, 20, 150), (3, 4, 9, 9), 1, 4),  # few filters: most panels are read where they lie
        ((1, 70, 9, 120), (8, 70, 3, 3), 1, 1),  # the same through blocks of depth
        ((1, 6, 11, 211), (5, 6, 3, 3), 2, 1),
    ],
)
def test_sizes(x: Any, w: Any, stride: int, pad: int) -> None:
    window = {"stride": (stride,) * 2, "low": (pad,) * 2, "high": (pad,) * 2}
    check(*case(np.random.default_rng(5), x, w, **window), (1, 2, 5))


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
def test_pictures_without_an_edge_are_read_where_they_lie(dtype: DType) -> None:
    """Where no vector goes on behind the last pixel; a closed page stands behind the source."""
    rng, copies = np.random.default_rng(dtype.itemsize), []
    for height, width, kernel, stride, apart in (
        (7, 48, 3, 1, 1), (9, 64, 3, 1, 2), (21, 96, 5, 2, 1), (5, 41, 3, 1, 1), (4, 51, 1, 1, 1),
        (12, 19, 3, 1, 1), (2, 32, 2, 1, 1), (6, 112, 3, 3, 1), (11, 16, 9, 1, 1), (3, 80, 1, 2, 1),
        (5, 9, 3, 1, 1),
    ):  # fmt: skip
        line, lines = (kernel - 1) * apart + width, (kernel - 1) * apart + (height - 1) * stride + 1
        window = {"stride": (stride, 1), "w_dilation": (apart,) * 2}
        graph, values, terms = case(rng, (2, 3, lines, line), (7, 3, kernel, kernel), dtype, **window)
        (want,) = check(graph, values, terms, (1, 2, 5))
        with fenced(values) as closed:
            assert native(graph, closed, 3, closed=True)[0].tobytes() == want.tobytes()
        copies.append(len(lowered(graph).steps) - 1)
    assert copies[-1] == (dtype == float32) and not any(copies[:-1])  # 5 x 9: the last of three vectors of 8


def test_many_filters_are_cut_into_runs() -> None:
    graph, values, terms = case(np.random.default_rng(1), (1, 200, 5, 6), (700, 200, 1, 1))
    (step,) = lowered(graph).steps
    assert step.units == 2 * 2  # two panels of pixels, two runs of filters
    check(graph, values, terms, (1, 3, 4))


def with_epilogue(graph: Graph, long: bool) -> Graph:
    """relu(y + b[channel]) * r, or a longer chain of it."""
    out = graph.outputs[0]
    b, r = Var(TensorType((out.type.shape[1],), float32)), Var(out.type)
    equations = list(graph.equations)

    def emit(name: str, *inputs: Var, **attributes: Any) -> Var:
        (type_,) = result_types(table[name], [v.type for v in inputs], attributes)
        made = Var(type_)
        equations.append(Equation(table[name], inputs, attributes, (made,)))
        return made

    bias = emit("broadcast", b, shape=out.type.shape, axes=(1,))
    zero = emit("full", shape=out.type.shape, value=0.0, dtype=float32)
    y = emit("mul", emit("maximum", emit("add", out, bias), zero), r)
    for _ in range(12 if long else 0):
        y = emit("sub", y, bias)
    return Graph((*graph.inputs, b, r), equations, (y, out))


@pytest.mark.parametrize("long", [False, True])
def test_epilogues_read_channels_and_pixels_of_several_images(long: bool) -> None:
    rng = np.random.default_rng(3)
    plain, values, _ = case(rng, (3, 7, 12, 31), (10, 7, 3, 3), low=(1, 1), high=(1, 1))
    graph = with_epilogue(plain, long)
    b, r = random(rng, (10,), float32), random(rng, (3, 10, 12, 31), float32)
    for pieces in (1, 4):
        got, sums = native(graph, [*values, b, r], pieces)
        (y,) = native(plain, values)
        np.testing.assert_array_equal(sums, y)
        want = np.maximum(y + b[:, None, None], 0) * r
        for _ in range(12 if long else 0):
            want = want - b[:, None, None]
        np.testing.assert_array_equal(got, want)


def test_pixels_read_where_they_lie_and_packed_ones_have_the_same_bits() -> None:
    """A filter among few, and the same one among many, whose pixels are packed."""
    rng = np.random.default_rng(8)
    graph, (x, _), _ = case(rng, (1, 5, 12, 130), (3, 5, 3, 3))
    more = random(rng, (40, 45), float32)
    pack = table["gemm_pack"].evaluate
    many, _, _ = case(rng, (1, 5, 12, 130), (40, 5, 3, 3))
    (few,) = native(graph, [x, pack(more[:3], contract=1, width=FILTERS)])
    (all_,) = native(many, [x, pack(more, contract=1, width=FILTERS)])
    np.testing.assert_array_equal(few, all_[:, :3])


def test_symbolic_batches() -> None:
    n = Symbol("n", 1, 64)
    graph, values, _ = case(np.random.default_rng(2), (3, 5, 20, 19), (6, 5, 3, 3), stride=(2, 1))
    several = TensorType((affine(0, [(n, 1)]), *values[0].shape[1:]), float32)
    symbolic = region("conv_planes", [several, graph.input_types[1]], graph.equations[0].attributes)
    np.testing.assert_array_equal(native(symbolic, values, 2, {n: 3})[0], native(graph, values)[0])


@pytest.mark.parametrize("x, w", [((0, 3, 9, 9), (5, 3, 1, 1)), ((2, 0, 9, 12), (5, 0, 3, 3))])
def test_empty(x: Any, w: Any) -> None:
    check(*case(np.random.default_rng(0), x, w))


def test_what_is_beyond_a_line_is_not_part_of_it() -> None:
    """Infinities beside a window do not reach its sum, NaNs inside do."""
    graph, (x, w), _ = case(np.random.default_rng(4), (1, 2, 6, 30), (4, 2, 3, 3), stride=(1, 2))
    x[:, :, 5], x[0, 0, 0, 7] = np.inf, np.nan
    (y,) = native(graph, [x, w])
    assert (
        np.isfinite(y[:, :, 1]).all() and np.isfinite(y[:, :, 2]).all() and not np.isfinite(y[:, :, 3]).any()
    )
    assert set(np.flatnonzero(np.isnan(y[0, 0, 0]))) == {3}


def test_refusals() -> None:
    rng = np.random.default_rng(0)
    short, _, _ = case(rng, (1, 2, 9, 5), (4, 2, 3, 3))
    assert conv.accepts(short) == "planes whose lines are shorter than a vector"
    spread, _, _ = case(rng, (1, 2, 9, 40), (4, 2, 3, 3), x_dilation=(1, 2))
    assert conv.accepts(spread) == "planes with zeros between their elements"
    half, _, _ = case(rng, (1, 2, 9, 40), (4, 2, 3, 3), np.dtype("float16"))
    assert conv.accepts(half) == "convolutions of planes are of float32 or float64"
    wide, _, _ = case(rng, (1, 2, 9, 40), (16, 2, 3, 3))
    panels = TensorType((1, 18, 16), float32)
    other = region("conv_planes", [wide.input_types[0], panels], wide.equations[0].attributes)
    assert conv.accepts(other) == f"panels of 16 filters where {FILTERS} fill registers"


@pytest.mark.parametrize("host", [SSE2, AARCH64], ids=["sse2", "aarch64"])
def test_text_compiles_for_other_machines(host: Any) -> None:
    graph, _, _ = case(np.random.default_rng(0), (1, 3, 9, 40), (5, 3, 3, 3), stride=(2, 2))
    epilogue = epilogue_of(graph, graph.equations[0])
    assert epilogue is not None
    for step in lower_root(graph.equations[0], epilogue, (0, 1), host).steps:
        assert "entry" in assembly(step.kernel.text, step.kernel.level, host)


def test_one_text_serves_all_sizes_and_ranks() -> None:
    rng = np.random.default_rng(11)
    shapes = (((1, 3, 9, 40), (5, 3, 3, 3)), ((2, 30, 50), (70, 30, 4)), ((1, 9, 4, 4), (6, 9, 1, 1)))
    steps = [step for x, w in shapes for step in lowered(case(rng, x, w)[0]).steps]
    assert len({s.kernel.text for s in steps if s.kernel.name == "conv_planes"}) == 1


def test_all_images_count_as_work() -> None:
    """So that many small ones are shared by threads, and a profile says how many operations there were."""
    rng = np.random.default_rng(11)
    steps = [lowered(case(rng, (n, 3, 6, 17), (5, 3, 1, 1))[0]).steps[-1] for n in (1, 64)]
    assert [s.flops for s in steps] == [2.0 * n * 6 * 17 * 3 * 5 for n in (1, 64)]
    assert steps[0].serial and not steps[1].serial


@pytest.mark.parametrize("space", [(128,), (383,), (384,), (15, 15), (16, 16), (40, 15), (20, 20)])
def test_the_estimate_is_of_the_vectors_that_the_kernel_takes(space: tuple[int, ...]) -> None:
    """Small maps run with narrow vectors; estimated with wide ones, they stayed as they were written."""
    wide = replace(SSE2, vector_bytes=32, tile_bytes=64)
    ones, zeros = (1,) * len(space), (0,) * len(space)
    window = {"stride": ones, "low": zeros, "high": zeros, "x_dilation": ones, "w_dilation": ones}
    x, w = TensorType((1, 64, *space), float32), TensorType((64, 64, *ones), float32)
    out = Var(TensorType((1, 64, *space), float32))
    e = Equation(table["conv"], (Var(x), Var(w)), {**window, "groups": 1, "dtype": float32}, (out,))
    taken = replace(wide, tile_bytes=tile_of(e, wide).lanes * 4)
    assert layout_planes.cycles(e, wide)[0] == layout_planes.cycles(e, taken)[0]
