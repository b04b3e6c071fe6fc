"""Tiled 3x3 convolution: the native kernels against float64, the size of its error, and when it is chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.compiler.conv.convolutions import native, random, region, types_of
from tests.compiler.conv.test_convolution import with_epilogue
from trilobite.base.dtypes import float32
from trilobite.base.errors import ShapeError
from trilobite.compiler.targets.cpu.contraction import convolution as conv
from trilobite.compiler.targets.cpu.contraction.tiling import tilings
from trilobite.compiler.targets.cpu.passes.layout import layout
from trilobite.compiler.targets.cpu.passes.layout_winograd import (
    factor_of,
    squares_of_taps,
    tile_of,
    whole_source,
)
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitive import result_types, table
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import TensorType
from trilobite.native.host import AARCH64, SSE2, features
from trilobite.native.objects import assembly

Array = np.ndarray[Any, Any]


def plain(x: Array, w: Array, low: tuple[int, ...], high: tuple[int, ...], dtype: Any) -> Array:
    ones = (1, 1)
    y = table["conv"].evaluate(
        np.moveaxis(x, -1, 1).astype(dtype), w.astype(dtype), stride=ones, low=low, high=high,
        x_dilation=ones, w_dilation=ones, groups=1, dtype=np.dtype(dtype),
    )  # fmt: skip
    return np.moveaxis(y, 1, -1)


def panels(w: Array, transposed: bool = False) -> Array:
    lanes = tilings(features(), w.dtype, w.dtype)[-1].columns
    found: Array = table["conv_panels"].evaluate(w, groups=1, lanes=lanes, transposed=transposed)
    return found


def window_of(tile: int, columns: int, dtype: Any = float32, **changed: Any) -> dict[str, Any]:
    ones = dict.fromkeys(("factor", "low", "high"), (1, 1))
    other = {"columns": columns, "transposed": False, "dtype": np.dtype(dtype)}
    return {"tile": tile, **ones, **other, **changed}


@pytest.mark.parametrize("tile", [2, 4])
def test_turned_around(tile: int) -> None:
    """As an input gradient: filters are summed over, taps back to front."""
    rng = np.random.default_rng(tile)
    y, w = random(rng, (2, 9, 11, 37), float32), random(rng, (37, 21, 3, 3), float32)
    u = panels(w, transposed=True)
    graph = region("conv_winograd", types_of([y, u]), window_of(tile, 21, transposed=True))
    (got,), (ruled,) = native(graph, [y, u], 3), run(graph, [y, u])
    around = w[:, :, ::-1, ::-1].swapaxes(0, 1)
    want = plain(y, around, (1, 1), (1, 1), np.float64)
    size = plain(np.abs(y), np.abs(around), (1, 1), (1, 1), np.float64).max()
    for found in (got, ruled):
        assert np.abs(found - want).max() <= 64 * 2.0**-23 * size


@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_convolution(tile: int, dtype: str) -> None:
    """Odd extents, odd channels, uneven padding; within 64 units of the sum of absolute terms."""
    rng = np.random.default_rng(tile)
    for n, h, w_, c, k, low, high in (
        (2, 9, 7, 5, 7, (1, 1), (1, 1)), (1, 13, 4, 20, 36, (0, 2), (1, 0)),
        (3, 4, 4, 16, 48, (1, 1), (1, 1)),
        (1, 3, 3, 3, 3, (0, 0), (0, 0)), (1, 40, 40, 70, 70, (1, 1), (1, 1)),
        (2, 30, 34, 129, 17, (1, 1), (1, 1)),
    ):  # fmt: skip
        x, w = random(rng, (n, h, w_, c), np.dtype(dtype)), random(rng, (k, c, 3, 3), np.dtype(dtype))
        u = panels(w)
        window = window_of(tile, k, dtype, low=low, high=high)
        graph = region("conv_winograd", types_of([x, u]), window)
        (got,), (other,) = native(graph, [x, u]), native(graph, [x, u], 5)
        assert got.tobytes() == other.tobytes()
        wide = np.longdouble if dtype == "float64" else np.float64
        want = plain(x, w, low, high, np.float64 if wide is np.longdouble else wide)
        # Outputs of a tile share the rounding of all its inputs.
        size = plain(np.abs(x), np.abs(w), low, high, np.float64).max()
        assert np.abs(got - want).max() <= 64 * np.finfo(dtype).eps * size


@pytest.mark.parametrize("tile", [2, 4])
def test_gradient_of_the_weight(tile: int) -> None:
    """Odd sizes, uneven padding, several chunks of tiles."""
    rng = np.random.default_rng(tile)
    for n, h, w, c, k, low, high in (
        (2, 9, 7, 5, 7, (1, 1), (1, 1)), (1, 13, 6, 20, 36, (0, 2), (1, 0)),
        (9, 40, 40, 66, 70, (1, 1), (1, 1)),
    ):  # fmt: skip
        out = (h + low[0] + high[0] - 2, w + low[1] + high[1] - 2)
        x, y = random(rng, (n, h, w, c), float32), random(rng, (n, *out, k), float32)
        window = {"tile": tile, "low": low, "high": high, "dtype": float32}
        graph = region("conv_winograd_weight_grad", types_of([x, y]), window)
        (got,), (other,) = native(graph, [x, y]), native(graph, [x, y], 5)
        assert got.tobytes() == other.tobytes()
        ones = {"stride": (1, 1), "x_dilation": (1, 1), "w_dilation": (1, 1), "groups": 1, "kernel": (3, 3)}
        plain_window = {**ones, "low": low, "high": high, "dtype": np.dtype("float64")}
        rule = table["conv_last_weight_grad"].evaluate
        want = rule(x.astype(np.float64), y.astype(np.float64), **plain_window)
        size = rule(np.abs(x).astype(np.float64), np.abs(y).astype(np.float64), **plain_window).max()
        assert np.abs(got - want).max() <= 64 * 2.0**-23 * size


def test_error_is_what_is_stated() -> None:
    """Root mean square against float64, in units of the direct sum's: about 1.2 and 6 to 8."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 28, 28, 64)).astype(np.float32)
    w = rng.standard_normal((64, 64, 3, 3)).astype(np.float32)
    exact, direct = (plain(x, w, (1, 1), (1, 1), d) for d in (np.float64, np.float32))
    ratios = []
    for tile in (2, 4):
        window, u = window_of(tile, 64), panels(w)
        (got,) = native(region("conv_winograd", types_of([x, u]), window), [x, u])
        ratios.append(np.sqrt(np.mean((got - exact) ** 2)) / np.sqrt(np.mean((direct - exact) ** 2)))
    assert ratios[0] < 2.5 and 2 < ratios[1] < 12


def test_epilogue_and_empty() -> None:
    rng = np.random.default_rng(1)
    x, w = random(rng, (2, 7, 6, 5), float32), random(rng, (19, 5, 3, 3), float32)
    window, u = window_of(4, 19), panels(w)
    graph = with_epilogue(region("conv_winograd", types_of([x, u]), window))
    values = [x, u, *(random(rng, t.shape, t.dtype) for t in graph.input_types[2:])]
    size = plain(np.abs(x), np.abs(w), (1, 1), (1, 1), np.float64).max()
    for a, b in zip(native(graph, values, 3), run(graph, values), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=64 * 2.0**-23 * size)
    none = np.zeros((0, 7, 6, 5), np.float32)
    assert native(region("conv_winograd", types_of([none, u]), window), [none, u])[0].shape == (0, 7, 6, 19)


@pytest.mark.parametrize("host", [SSE2, AARCH64], ids=["sse2", "aarch64"])
def test_text_compiles_for_other_machines(host: Any) -> None:
    from trilobite.compiler.targets.cpu.contraction.convolution import lower_root
    from trilobite.compiler.targets.cpu.epilogue import epilogue_of

    w = TensorType((1, 1, 3, 3, 8, 2 * host.lanes(4)), float32)
    graph = region("conv_winograd", [TensorType((1, 8, 8, 8), float32), w], window_of(4, 8, transposed=True))
    epilogue = epilogue_of(graph, graph.equations[0])
    assert epilogue is not None
    for step in lower_root(graph.equations[0], epilogue, (0, 1), host).steps:
        assert "entry" in assembly(step.kernel.text, step.kernel.level, host)


# -- when it is chosen -------------------------------------------------------------------------------------


def recorded(
    c: int, k: int, size: int, kernel: int = 3, stride: int = 1, batch: int = 1, back: bool = False,
    dtype: Any = float32, pad: int = 1, gradient: bool = False,
) -> Graph:  # fmt: skip
    two = {
        n: (v, v)
        for n, v in (("stride", stride), ("low", pad), ("high", pad), ("x_dilation", 1), ("w_dilation", 1))
    }
    attributes = {**two, "groups": 1, "dtype": dtype}
    name, shape = ("conv", (batch, c, size, size))
    if gradient:
        types = [TensorType((batch, n, size, size), dtype) for n in (c, k)]
        attributes["kernel"] = (kernel, kernel)
        return record_graph(lambda x, y: (table["conv_weight_grad"](x, y, **attributes),), types)
    if back:
        name, shape, attributes["space"] = "conv_input_grad", (batch, k, size, size), (size, size)
    types = [TensorType(shape, dtype), TensorType((k, c, kernel, kernel), dtype)]
    return record_graph(lambda x, w: (table[name](x, w, **attributes),), types)


@pytest.mark.parametrize(
    "settings, tile",
    [
        ({"c": 64, "k": 64, "size": 56}, 4),
        ({"c": 256, "k": 256, "size": 14}, 4),
        ({"c": 512, "k": 512, "size": 7}, 4),
        ({"c": 512, "k": 512, "size": 3}, 0),  # the transform of the weight would cost too much
        ({"c": 64, "k": 64, "size": 32, "batch": 32}, 4),
        ({"c": 64, "k": 64, "size": 32, "batch": 32, "back": True}, 4),
        ({"c": 64, "k": 64, "size": 32, "batch": 32, "gradient": True}, 4),
        ({"c": 512, "k": 512, "size": 7, "gradient": True}, 0),
        ({"c": 3, "k": 64, "size": 224}, 0),
        ({"c": 64, "k": 64, "size": 56, "stride": 2}, 0),
        ({"c": 64, "k": 64, "size": 56, "kernel": 5}, 4),
        ({"c": 3, "k": 32, "size": 264, "kernel": 9, "pad": 0}, 4),
        ({"c": 3, "k": 32, "size": 264, "kernel": 9, "stride": 2}, 0),
        ({"c": 1, "k": 32, "size": 264, "kernel": 9}, 0),  # nine channels of squares fill no vector
        ({"c": 32, "k": 3, "size": 264, "kernel": 9}, 0),
        ({"c": 64, "k": 64, "size": 7, "kernel": 7, "pad": 3}, 0),  # most of the tiles would not be outputs
        ({"c": 64, "k": 64, "size": 56, "kernel": 5, "pad": 2, "back": True}, 0),
        ({"c": 64, "k": 64, "size": 56, "dtype": np.dtype("float64")}, 0),
        ({"c": 64, "k": 64, "size": 56, "pad": 3}, 0),
    ],
)
def test_chosen_where_it_wins(settings: dict[str, Any], tile: int) -> None:
    assert tile_of(recorded(**settings).equations[0]) == tile


@pytest.mark.parametrize("back", [False, True])
def test_layout_keeps_the_meaning_and_strict_keeps_the_algorithm(back: bool) -> None:
    graph = recorded(24, 32, 18, back=back, batch=8)
    tiled, strict = (layout(graph, accuracy=a, stable=(1,)) for a in ("default", "strict"))
    assert [n for n in _names(tiled) if "conv" in n] == ["conv_panels", "conv_winograd"]
    assert not any("winograd" in n for n in _names(strict))
    rng = np.random.default_rng(2)
    values = [random(rng, t.shape, t.dtype) for t in graph.input_types]
    size = run(graph, [np.abs(v) for v in values])[0].max()
    for other in (tiled, strict):
        np.testing.assert_allclose(
            run(other, values)[0], run(graph, values)[0], rtol=0, atol=64 * 2.0**-23 * size
        )


@pytest.mark.parametrize(
    "n, size, c, k, kernel, low, high",
    [
        (1, (70, 61), 3, 32, (9, 9), (0, 0), (0, 0)),
        (2, (23, 40), 16, 20, (5, 5), (2, 1), (2, 3)),
        (1, (29, 31), 40, 48, (7, 7), (3, 3), (3, 3)),
        (1, (37, 30), 7, 70, (4, 11), (0, 5), (1, 5)),
        (3, (12, 9), 33, 17, (6, 5), (5, 0), (0, 4)),
    ],
)
def test_larger_kernels(
    n: int, size: tuple[int, int], c: int, k: int, kernel: tuple[int, int], low: tuple[int, int],
    high: tuple[int, int],
) -> None:  # fmt: skip
    """As lattices of outputs of a 3x3 kernel of squares of taps: by the rule and native, at any number of
    threads, within the error of tiles; with what follows, too.
    """
    rng = np.random.default_rng(k)
    ones = {"stride": (1, 1), "x_dilation": (1, 1), "w_dilation": (1, 1), "groups": 1, "dtype": float32}
    types = [TensorType((n, c, *size), float32), TensorType((k, c, *kernel), float32)]
    x, w = (random(rng, t.shape, t.dtype) for t in types)
    graph = record_graph(lambda x, w: (table["conv"](x, w, low=low, high=high, **ones),), types)
    (e,) = graph.equations
    (y,) = run(graph, [x, w])
    exact = table["conv"].evaluate(
        x.astype(np.float64), w.astype(np.float64), low=low, high=high, **{**ones, "dtype": np.dtype("d")}
    )
    size_of_terms = run(graph, [np.abs(x), np.abs(w)])[0].max()
    for tile in (2, 4):
        lowered = _tiled(e, tile, x, w)
        (got,), (other,), (ruled,) = native(*lowered), native(*lowered, 5), run(*lowered)
        assert got.tobytes() == other.tobytes()
        for found in (got, ruled):
            assert found.shape == np.moveaxis(y, 1, -1).shape
            assert np.abs(found - np.moveaxis(exact, 1, -1)).max() <= 64 * 2.0**-23 * size_of_terms
        after = with_epilogue(lowered[0])
        more = [*lowered[1], *(random(rng, t.shape, t.dtype) for t in after.input_types[2:])]
        for a, b in zip(native(after, more, 3), run(after, more), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=64 * 2.0**-23 * size_of_terms)


def _tiled(e: Equation, tile: int, x: Array, w: Array) -> tuple[Graph, list[Array]]:
    """The graph of one `conv_winograd` for a larger kernel, and its operands."""

    equations: list[Equation] = []

    def emit(name: str, inputs: tuple[Var, ...], attributes: Any) -> Var:
        (found,) = result_types(table[name], [v.type for v in inputs], attributes)
        equations.append(Equation(table[name], inputs, dict(attributes), (Var(found),)))
        return equations[-1].outputs[0]

    moved = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    given = tuple(Var(t) for t in types_of([moved, w]))
    source, attributes = whole_source(emit, e, given[0], tile)
    squares = squares_of_taps(emit, given[1], factor_of(e))
    padded, taps = run(Graph(given, equations, (source, squares)), [moved, w])
    lanes = tilings(features(), w.dtype, w.dtype)[-1].columns
    u = table["conv_panels"].evaluate(taps, groups=1, lanes=lanes, transposed=False)
    return region("conv_winograd", types_of([padded, u]), attributes), [padded, u]


def test_sources_of_larger_kernels_are_whole() -> None:
    types = [TensorType((1, 20, 20, 3), float32), TensorType((1, 1, 3, 3, 12, 16), float32)]
    with pytest.raises(ShapeError, match="none before"):
        region("conv_winograd", types, window_of(4, 16, factor=(2, 2), low=(0, 0), high=(0, 0)))


def test_layout_of_a_larger_kernel() -> None:
    graph = recorded(3, 32, 70, kernel=9, pad=2)
    tiled, strict = (layout(graph, accuracy=a, stable=(1,)) for a in ("default", "strict"))
    assert _names(tiled)[-2:] == ["conv_winograd", "transpose"] and "pad" in _names(tiled)
    assert not any("winograd" in n for n in _names(strict))
    rng = np.random.default_rng(4)
    values = [random(rng, t.shape, t.dtype) for t in graph.input_types]
    size = run(graph, [np.abs(v) for v in values])[0].max()
    np.testing.assert_allclose(
        run(tiled, values)[0], run(graph, values)[0], rtol=0, atol=64 * 2.0**-23 * size
    )


def test_layout_of_a_weight_gradient() -> None:
    graph = recorded(24, 32, 18, batch=8, gradient=True)
    tiled = layout(graph)
    assert _names(tiled) == ["transpose", "transpose", "conv_winograd_weight_grad", "transpose"]
    assert "conv_last_weight_grad" in _names(layout(graph, accuracy="strict"))
    rng = np.random.default_rng(3)
    values = [random(rng, t.shape, t.dtype) for t in graph.input_types]
    size = run(graph, [np.abs(v) for v in values])[0].max()
    np.testing.assert_allclose(
        run(tiled, values)[0], run(graph, values)[0], rtol=0, atol=64 * 2.0**-23 * size
    )


def _names(graph: Graph) -> list[str]:
    return [e.primitive.name for e in graph.equations]


def test_half_precision_is_refused() -> None:
    f16 = np.dtype("float16")
    types = [TensorType((1, 8, 8, 8), f16), TensorType((1, 1, 3, 3, 8, 16), f16)]
    graph = region("conv_winograd", types, window_of(2, 8, f16))
    assert conv.accepts(graph) == "tiled convolutions are of float32 or float64, with a batch that is known"
