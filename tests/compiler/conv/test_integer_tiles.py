"""Tiled convolutions of bytes: every bit as a direct one gives it, at the ends of all ranges too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.compiler.conv.convolutions import native, region
from trilobite.base import dtypes as dt
from trilobite.base.errors import ArgumentError, DTypeError, ShapeError
from trilobite.compiler.graph.pipeline import Options
from trilobite.compiler.targets.cpu.contraction.convolution import accepts, lower_root
from trilobite.compiler.targets.cpu.contraction.integer_tiled.steps import lower_integer_points
from trilobite.compiler.targets.cpu.contraction.integer_tiled.transforms import source_lanes
from trilobite.compiler.targets.cpu.contraction.multiply import has_dots
from trilobite.compiler.targets.cpu.epilogue import epilogue_of
from trilobite.compiler.targets.cpu.passes.layout import layout
from trilobite.compiler.targets.cpu.primitives.conv_integer_tiles import WHOLE, fits, product
from trilobite.compiler.targets.cpu.target import compile_graph
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitives import table
from trilobite.ir.types import Symbol, TensorType, affine, type_of
from trilobite.native.host import AARCH64, SSE2, Host, features
from trilobite.native.objects import assembly

Array = np.ndarray[Any, Any]
LANES = 2 * features().lanes(4)
WIDTHS = sorted({LANES, 2 * features().tile_lanes(4)})  # of panels; transforms have one
LEAST = source_lanes(features())  # channels that fill a vector: 16 of AVX2, 32 of AVX-512

# x[N, H, W, C], filters, low, high
CASES: list[tuple[tuple[int, int, int, int], int, tuple[int, int], tuple[int, int]]] = [
    ((1, 8, 8, LEAST), 16, (1, 1), (1, 1)),
    ((2, 7, 9, 2 * LEAST + 1), 21, (1, 0), (2, 1)),
    ((1, 3, 3, LEAST + 2), 5, (0, 0), (0, 0)),
    ((3, 5, 6, 61), 40, (2, 1), (0, 2)),
    ((1, 4, 13, 600), 17, (1, 1), (1, 1)),
    ((1, 1, 1, LEAST), 1, (1, 1), (1, 1)),
    ((0, 5, 5, LEAST + 4), 8, (1, 1), (1, 1)),
]


def window(case: Any, tile: int, zero: int, dtype: Any = dt.int32, lanes: int = LANES) -> dict[str, Any]:
    _, filters, low, high = case
    return {
        "tile": tile, "columns": filters, "lanes": lanes, "zero": zero, "low": low, "high": high,
        "dtype": dtype,
    }  # fmt: skip


def packed(w: Array, tile: int, zero: int, lanes: int = LANES) -> Array:
    """By the rule and natively."""
    graph = region("conv_integer_points", [type_of(w)], {"tile": tile, "lanes": lanes, "zero": zero})
    (want,) = run(graph, [w])
    for pieces in (1, 3):
        (got,) = native(graph, [w], pieces)
        assert got.tobytes() == want.tobytes()
    return np.asarray(want)


def settings(low: tuple[int, int], high: tuple[int, int], dtype: Any = dt.int32) -> dict[str, Any]:
    one = (1, 1)
    return {
        "stride": one, "low": low, "high": high, "x_dilation": one, "w_dilation": one, "groups": 1,
        "dtype": dtype,
    }  # fmt: skip


def direct(x: Array, w: Array, zero: int, low: tuple[int, int], high: tuple[int, int]) -> Array:
    first = np.moveaxis(x.astype(np.int32) - zero, -1, 1)
    found = table["conv"].evaluate(first, w.astype(np.int32), **settings(low, high))
    return np.ascontiguousarray(np.moveaxis(found, 1, -1))


def random(rng: np.random.Generator, shape: tuple[Any, ...], dtype: Any) -> Array:
    """All of the range, a third at its ends."""
    info = np.iinfo(dtype)
    found = rng.integers(info.min, info.max + 1, shape)
    ends = rng.choice([info.min, info.max], shape)
    return np.where(rng.random(shape) < 0.3, ends, found).astype(dtype)


@pytest.mark.parametrize("tile", WHOLE)
@pytest.mark.parametrize("dtype", [dt.int8, dt.uint8], ids=str)
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{c[1]}")
@pytest.mark.parametrize("lanes", WIDTHS)
def test_every_bit(lanes: int, case: Any, dtype: Any, tile: int) -> None:
    shape, filters, low, high = case
    rng, zero = np.random.default_rng(filters), 128 if dtype == dt.int8 else 0
    x, w = random(rng, shape, np.uint8), random(rng, (filters, shape[-1], 3, 3), dtype)
    panels = packed(w, tile, zero, lanes)
    how = window(case, tile, zero, lanes=lanes)
    graph = region("conv_integer_tiles", [type_of(x), type_of(panels)], how)
    (want,) = run(graph, [x, panels])
    assert np.array_equal(want, direct(x, w, zero, low, high))
    for pieces in (1, 3):
        (got,) = native(graph, [x, panels], pieces)
        assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("tile", WHOLE)
@pytest.mark.parametrize("largest", [True, False])
def test_the_ends_of_all_ranges(tile: int, largest: bool) -> None:
    """Sources and weights whose points are as large as they can be, and sums as large as is allowed."""
    depth = 3 * LANES
    matrix = np.array(product(WHOLE[tile].source))
    rng = np.random.default_rng(tile)
    for row in matrix:
        line = np.where(row > 0, 255, 0)
        field = np.where(np.outer(np.where(row > 0, 1, -1), np.where(row > 0, 1, -1)) > 0, 255, 0)
        for picture in (field, 255 - field, np.tile(line, (len(row), 1))):
            x = np.repeat(picture[None, :, :, None], depth, 3).astype(np.uint8)
            w = np.full((4, depth, 3, 3), -128 if largest else 127, np.int8)
            w[1] = rng.choice([-128, 127], w[1].shape)
            panels = packed(w, tile, 128)
            how = window((x.shape, 4, (1, 1), (1, 1)), tile, 128)
            graph = region("conv_integer_tiles", [type_of(x), type_of(panels)], how)
            (got,) = native(graph, [x, panels])
            assert np.array_equal(got, direct(x, w, 128, (1, 1), (1, 1)))


def test_how_many_channels_are_exact() -> None:
    """At the limit all bits are right, and beyond it the direct form is taken."""
    most = (2**31 - 1) // (36 * 128 * 128)
    assert fits(most, dt.int8, dt.int8) and not fits(most + 1, dt.int8, dt.int8)
    assert not fits(1000, dt.uint8, dt.uint8) and fits(900, dt.uint8, dt.uint8)
    x, w = np.zeros((1, 4, 4, most), np.uint8), np.full((1, most, 3, 3), -128, np.int8)
    for tile in WHOLE:
        panels = table["conv_integer_points"].evaluate(w, tile=tile, lanes=LANES, zero=128)
        how = window((x.shape, 1, (1, 1), (1, 1)), tile, 128)
        graph = region("conv_integer_tiles", [type_of(x), type_of(panels)], how)
        (got,) = native(graph, [x, panels])
        assert got.max() == 128 * 128 * 9 * most
        assert np.array_equal(got, direct(x, w, 128, (1, 1), (1, 1)))


@pytest.mark.parametrize("dtype", [dt.int8, dt.uint16, dt.int32], ids=str)
def test_narrow_results(dtype: Any) -> None:
    case = ((1, 6, 7, LEAST + 4), 19, (1, 1), (1, 1))
    rng = np.random.default_rng(5)
    x, w = random(rng, case[0], np.uint8), random(rng, (19, LEAST + 4, 3, 3), np.int8)
    panels = packed(w, 4, 128)
    graph = region("conv_integer_tiles", [type_of(x), type_of(panels)], window(case, 4, 128, dtype))
    (got,) = native(graph, [x, panels])
    assert got.tobytes() == direct(x, w, 128, (1, 1), (1, 1)).astype(dtype).tobytes()


def test_an_epilogue_reads_and_writes_rows() -> None:
    """A bias and a residual that are added, in panels that are not full."""
    conv = convolution((1, LEAST + 8, 11, 10), (21, LEAST + 8, 3, 3), dt.int8)
    (y,) = conv.outputs
    bias, other = Var(TensorType((21,), dt.int32)), Var(y.type)
    spread, first, second = (Var(y.type) for _ in range(3))
    after = [
        Equation(table["broadcast"], (bias,), {"shape": y.type.shape, "axes": (1,)}, (spread,)),
        Equation(table["add"], (y, spread), {}, (first,)),
        Equation(table["add"], (first, other), {}, (second,)),
    ]
    graph = Graph((*conv.inputs, bias, other), (*conv.equations, *after), (second,))
    rng = np.random.default_rng(9)
    values = [random(rng, v.type.shape, v.type.dtype) for v in graph.inputs]
    found = compile_graph(graph, Options(stable=frozenset({1})))
    assert found(list(values))[0].tobytes() == run(graph, values)[0].tobytes()


def test_points_are_whole() -> None:
    """Every matrix is right for a random line, and everything fits in 16 bits."""
    rng = np.random.default_rng(2)
    for tile, whole in WHOLE.items():
        b, a = (np.array(product(m), object) for m in (whole.source, whole.result))
        g, d = np.array(whole.weight, object), rng.integers(-99, 99, tile + 2).astype(object)
        f = rng.integers(-99, 99, 3).astype(object)
        y = a @ ((g @ f) * (b @ d))
        scale = 2 * round(whole.odd**0.5)
        assert list(y) == [scale * sum(d[i + k] * f[k] for k in range(3)) for i in range(tile)]
        assert whole.odd * whole.inverse % 2**32 == 1
        up, down = (np.clip(s * b, 0, None).sum(axis=1) * 255 for s in (1, -1))
        for row in b:
            above, below = (sum(n for n in s * row if n > 0) for s in (1, -1))
            assert max(above * up + below * down) < 2**15 and max(below * up + above * down) < 2**15
        assert max(np.abs(g).sum(axis=1)) ** 2 * 255 < 2**15


# -- through the compiler ------------------------------------------------------------------------------------


def convolution(x: tuple[Any, ...], w: tuple[int, ...], dtype: Any, wide: Any = dt.int32) -> Graph:
    types = [TensorType(x, dtype), TensorType(w, dtype)]
    return region("conv", types, settings((1, 1), (1, 1), wide))


def forms(graph: Graph, stable: bool = True) -> list[str]:
    found = layout(graph, stable={1} if stable else ())
    return [e.primitive.name for e in found.equations if e.primitive.name.startswith("conv")]


@pytest.mark.parametrize("wide", [dt.int32, dt.int8, dt.int64], ids=str)
@pytest.mark.parametrize("dtype", [dt.int8, dt.uint8], ids=str)
@pytest.mark.parametrize("size", [(19, 23), (16, 15)], ids=str)
def test_compiled(size: tuple[int, int], dtype: Any, wide: Any) -> None:
    graph = convolution((2, 120, *size), (130, 120, 3, 3), dtype, wide)
    assert forms(graph) == ["conv_integer_points", "conv_integer_tiles"]
    rng = np.random.default_rng(size[0])
    values = [random(rng, v.type.shape, dtype) for v in graph.inputs]
    found = compile_graph(graph, Options(stable=frozenset({1})))
    assert found(list(values))[0].tobytes() == run(graph, values)[0].tobytes()


def test_which_convolutions_are_tiled() -> None:
    plain = ["conv_integer_panels", "conv_integer"]
    assert forms(convolution((1, 64, 56, 56), (64, 64, 3, 3), dt.int8), stable=False) == plain
    assert forms(convolution((1, 8, 56, 56), (64, 8, 3, 3), dt.int8)) == plain
    assert forms(convolution((1, 4000, 14, 14), (64, 4000, 3, 3), dt.int8)) == plain
    batch = affine(0, [(Symbol("n", 1, 9), 1)])
    assert forms(convolution((batch, 64, 56, 56), (64, 64, 3, 3), dt.int8)) == plain
    tiles = [
        e.attributes["tile"]
        for size in (56, 2)
        for e in layout(convolution((1, 64, size, size), (64, 64, 3, 3), dt.int8), stable={1}).equations
        if e.primitive.name == "conv_integer_tiles"
    ]
    assert tiles == ([4] if has_dots(features(), 8) else [4, 2])


def test_refused() -> None:
    case = ((1, 6, 6, 7), 5, (1, 1), (1, 1))
    words = packed(np.zeros((5, 7, 3, 3), np.int8), 2, 0)
    x = TensorType(case[0], dt.uint8)
    graph = region("conv_integer_tiles", [x, type_of(words)], window(case, 2, 0))
    assert accepts(graph) == "a tiled convolution of fewer channels than fill a vector"
    with pytest.raises(ArgumentError, match=r"tiles of 3x3 outputs of bytes\n  expected: 2 or 4"):
        table["conv_integer_points"].type(TensorType((5, 7, 3, 3), dt.int8), tile=3, lanes=16, zero=0)
    with pytest.raises(ShapeError, match=r"\(filters, channels, 3, 3\) of fixed sizes"):
        table["conv_integer_points"].type(TensorType((5, 7, 3, 2), dt.int8), tile=2, lanes=16, zero=0)
    with pytest.raises(DTypeError, match="int8 or uint8"):
        table["conv_integer_points"].type(TensorType((5, 7, 3, 3), dt.int16), tile=2, lanes=16, zero=0)
    with pytest.raises(ShapeError, match="the value of conv_integer_points"):
        table["conv_integer_tiles"].type(x, type_of(words), **window(case, 4, 0))
    with pytest.raises(DTypeError, match="at most 32 bits"):
        table["conv_integer_tiles"].type(x, type_of(words), **window(case, 2, 0, dt.int64))


@pytest.mark.parametrize("host", [SSE2, AARCH64], ids=["sse2", "aarch64"])
def test_text_compiles_for_other_machines(host: Host) -> None:
    lanes = 2 * host.lanes(4)
    graph = region(
        "conv_integer_points", [TensorType((9, 18, 3, 3), dt.int8)], {"tile": 4, "lanes": lanes, "zero": 128}
    )
    steps = lower_integer_points(graph.equations[0], host).steps
    how = {**window(((1, 6, 6, 18), 9, (1, 1), (1, 1)), 4, 128), "lanes": lanes}
    graph = region("conv_integer_tiles", [TensorType((1, 6, 6, 18), dt.uint8), graph.output_types[0]], how)
    epilogue = epilogue_of(graph, graph.equations[0])
    assert epilogue is not None
    steps += lower_root(graph.equations[0], epilogue, (0, 1), host).steps
    for step in steps:
        assert "entry" in assembly(step.kernel.text, step.kernel.level, host)
