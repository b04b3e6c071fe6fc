"""integers: products between grids run on bytes, and every result is the exact one, rounded once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb
from tests.compiler.passes.texts import graph_of, stays
from trilobite.base.dtypes import float32, int8, int32, uint8
from trilobite.compiler.graph.passes import PASSES, Options
from trilobite.compiler.graph.passes.integers import integers
from trilobite.compiler.graph.rewrite import Counters
from trilobite.framework.tensor import Tensor, wrap
from trilobite.inference.operators.primitives import primitive
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Graph
from trilobite.ir.verify import verify

Array = np.ndarray[Any, Any]
CONV = "{stride=(1,), low=(1,), high=(0,), w_dilation=(1,), x_dilation=(1,), groups=1, dtype=%s}"
BEFORE = f"""
    graph main(%0: i8[1,2,5], %1: i8[3,2,2]) {{
      %2: f32[] = full {{shape=(), dtype=f32, value=0.5}}
      %3: i8[] = full {{shape=(), dtype=i8, value=3}}
      %4: f32[1,2,5] = dequantise %0, %2, %3 {{axis=none}}
      %5: f32[] = full {{shape=(), dtype=f32, value=0.25}}
      %6: i8[] = full {{shape=(), dtype=i8, value=0}}
      %7: f32[3,2,2] = dequantise %1, %5, %6 {{axis=none}}
      %8: f32[1,3,5] = conv %4, %7 {CONV % "f32"}
      %9: f32[1,3,5] = full {{shape=(1, 3, 5), dtype=f32, value=1.5}}
      %10: f32[1,3,5] = add %8, %9
      %11: f32[1,3,5] = full {{shape=(1, 3, 5), dtype=f32, value=0.0}}
      %12: f32[1,3,5] = maximum %10, %11
      %13: i8[] = full {{shape=(), dtype=i8, value=-4}}
      %14: i8[1,3,5] = quantise %12, %2, %13 {{axis=none, dtype=i8}}
      return %14
    }}
"""
AFTER = f"""
    graph main(%0: i8[1,2,5], %1: i8[3,2,2]) {{
      %2: i8[1,2,6] = pad %0 {{low=(0, 0, 1), high=(0, 0, 0), between=(0, 0, 0), value=3}}
      %3: i32[1,3,5] = conv %2, %1 {CONV.replace("(1,), high", "(0,), high") % "i32"}
      %4: i32[3,2,2] = cast %1 {{dtype=i32}}
      %5: i32[3] = reduce_sum %4 {{axes=(1, 2)}}
      %6: i32[] = full {{shape=(), dtype=i32, value=3}}
      %7: i32[3] = broadcast %6 {{shape=(3,), axes=()}}
      %8: i32[3] = mul %5, %7
      %9: i32[1,3,5] = broadcast %8 {{shape=(1, 3, 5), axes=(1,)}}
      %10: i32[1,3,5] = sub %3, %9
      %11: f32[] = full {{shape=(), dtype=f32, value=0.25}}
      %12: i8[] = full {{shape=(), dtype=i8, value=-4}}
      %13: i32[] = full {{shape=(), dtype=i32, value=12}}
      %14: i32[1,3,5] = broadcast %13 {{shape=(1, 3, 5), axes=()}}
      %15: i32[1,3,5] = add %10, %14
      %16: i8[1,3,5] = requantise %15, %11, %12 {{axis=none, dtype=i8}}
      %17: i8[1,3,5] = full {{shape=(1, 3, 5), dtype=i8, value=-4}}
      %18: i8[1,3,5] = maximum %16, %17
      return %18
    }}
"""


def test_a_convolution_between_grids() -> None:
    counters = Counters()
    found = integers(graph_of(BEFORE), counters)
    verify(found)
    assert found == graph_of(AFTER), str(found)
    assert counters == {"conv": 1, "requantise": 1}
    rng = np.random.default_rng(0)
    values = [rng.integers(-128, 128, t.shape, np.int8) for t in found.input_types]  # type: ignore[arg-type]
    np.testing.assert_array_equal(run(found, values)[0], run(graph_of(BEFORE), values)[0])


# -- random layers, beside exact arithmetic ------------------------------------------------------------------


def codes(rng: np.random.Generator, dtype: Any, *shape: int) -> Array:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def passed(function: Any, *arrays: Array) -> tuple[Graph, Counters]:
    """The graph of a function behind the pass, as a target sees it, and what the pass counted."""
    graph = tb.jit(function, target="reference").lower(*map(wrap, arrays)).graph
    counters = Counters()
    for p in PASSES:
        if p.name in ("inline", "dce", "simplify", "fold_constants", "cse"):
            graph = p(graph, Options())[0]
        if p.name == "integers":
            found = p(graph, Options())
            graph, counters = found[0], found[1]
    verify(graph)
    return graph, counters


def real(q: Tensor, scale: Array, zero: Array, axis: int | None) -> Tensor:
    return primitive("dequantise", q, wrap(scale), wrap(zero), axis=axis)


def to_grid(x: Tensor, scale: float, zero: int, dtype: Any) -> Tensor:
    grid = wrap(np.asarray(scale, np.float32)), wrap(np.asarray(zero, dtype))
    return primitive("quantise", x, *grid, axis=None, dtype=dtype)


def rounded(exact: Array, scale: float, zero: int, dtype: Any) -> Array:
    info = np.iinfo(dtype)
    return np.clip(np.rint(exact / np.float32(scale)) + zero, info.min, info.max).astype(np.int64)


def wide(q: Array, scale: Array, zero: Array, axis: int | None) -> Array:
    shape = [1] * q.ndim
    if axis is not None:
        shape[axis] = -1
    return (q.astype(np.float64) - zero.reshape(shape)) * scale.astype(np.float64).reshape(shape)


LAYERS = [
    # dtypes of data, weight and result; per channel; zero points of data and weight; groups, stride, dilation
    (int8, int8, int8, False, 0, 0, 1, 1, 1),
    (int8, int8, int8, True, -7, 0, 1, 2, 1),
    (uint8, int8, uint8, True, 131, 0, 3, 1, 2),
    (uint8, uint8, uint8, False, 9, 128, 1, 1, 1),
    (int8, uint8, int8, True, 77, 61, 3, 2, 1),
    (uint8, int8, int8, True, 0, -5, 1, 1, 1),
]


CLAMPS = {
    "": lambda y: y,
    "relu": tb.nn.functional.relu,
    "relu6": tb.nn.functional.relu6,
    "clip": lambda y: tb.clip(y, 0.0, 6.0),
}


@pytest.mark.parametrize("clamp", CLAMPS)
@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_convolutions_are_exact(layer: tuple[Any, ...], clamp: str) -> None:
    dx, dw, dy, per_channel, zx, zw, groups, stride, dilation = layer
    rng = np.random.default_rng(7)
    x, w = codes(rng, dx, 2, 6, 9, 8), codes(rng, dw, 9, 6 // groups, 3, 2)
    axis = 0 if per_channel else None
    sw = (rng.random(9 if per_channel else ()) * 0.02 + 0.001).astype(np.float32)
    zeros = np.full(sw.shape, zw, dw)
    sx, sy, zy = np.float32(0.043), 0.31, -11 if dy == int8 else 140
    bias = (rng.integers(-9000, 9000, 9) * (np.float64(sx) * sw)).astype(np.float32)
    window = {
        "stride": (stride, 1), "low": (1, 0), "high": (2, 1), "w_dilation": (dilation, 1),
        "x_dilation": (1, 1), "groups": groups,
    }  # fmt: skip

    def layer_of(q: Tensor, v: Tensor) -> Tensor:
        a, b = real(q, np.asarray(sx), np.asarray(zx, dx), None), real(v, np.asarray(sw), zeros, axis)
        y = primitive("conv", a, b, **window, dtype=float32) + wrap(bias.reshape(9, 1, 1))
        return to_grid(CLAMPS[clamp](y), sy, zy, dy)

    graph, counters = passed(layer_of, x, w)
    assert counters["conv"] == 1 and counters["requantise"] == 1, counters
    assert all(v.type.dtype != float32 for e in graph.equations for v in e.outputs if v.type.ndim > 1)
    left, right = wide(x, np.asarray(sx), np.asarray(zx), None), wide(w, np.asarray(sw), zeros, axis)
    exact = primitive("conv", wrap(left), wrap(right), **window, dtype=tb.float64).numpy()
    exact = exact + bias.astype(np.float64).reshape(9, 1, 1)
    exact = np.clip(exact, 0 if clamp else -np.inf, 6 if clamp in ("relu6", "clip") else np.inf)
    found = run(graph, [x, w])[0].astype(np.int64)
    expected = rounded(exact, sy, zy, dy)
    assert np.abs(found - expected).max() <= 1 and (found != expected).mean() < 2e-3
    assert len(np.unique(found)) > (20 if not clamp else 4)  # the grid is used


@pytest.mark.parametrize("rounds", [True, False])
@pytest.mark.parametrize("zero", [0, -128])
def test_channels_whose_weights_are_next_to_nothing(zero: int, rounds: bool) -> None:
    """Scales so small that no 32 bits hold the bias: those channels are their bias, others as ever."""
    rng = np.random.default_rng(11)
    x, w = codes(rng, int8, 1, 5, 27, 31), codes(rng, int8, 6, 5, 3, 3)
    sw = np.array([1e-3, 1e-15, 2e-3, 1e-30, 5e-4, 1e-12], np.float32)
    bias = np.array([0.3, 0.9, -0.2, -1.1, 0.0, 1e-4], np.float32)
    grid = np.asarray(0.02, np.float32), np.asarray(zero, int8)
    ones, none = (1, 1), (0, 0)
    window = {"stride": ones, "low": ones, "high": none, "w_dilation": ones, "x_dilation": ones, "groups": 1}

    def layer_of(q: Tensor, v: Tensor) -> Tensor:
        a, b = real(q, *grid, None), real(v, sw, np.zeros(6, int8), 0)
        y = primitive("conv", a, b, **window, dtype=float32) + wrap(bias.reshape(6, 1, 1))
        return to_grid(y, 0.013, -3, int8) if rounds else y

    graph, counters = passed(layer_of, x, w)
    assert counters["conv"] == 1 and counters["requantise"] == rounds, counters
    left, right = wide(x, grid[0], np.asarray(zero), None), wide(w, sw, np.zeros(6), 0)
    exact = primitive("conv", wrap(left), wrap(right), **window, dtype=tb.float64).numpy()
    exact = exact + bias.astype(np.float64).reshape(6, 1, 1)
    found = run(graph, [x, w])[0]
    if not rounds:
        np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-5)
        return
    expected = rounded(exact, 0.013, -3, int8)
    different = np.abs(found - expected)
    assert different.max() <= 1 and (different != 0).mean() < 2e-3


@pytest.mark.parametrize("dtype", [int8, uint8], ids=str)
@pytest.mark.parametrize("zero", [0, 23])
@pytest.mark.parametrize("batched", [False, True])
def test_products_are_exact(batched: bool, zero: int, dtype: Any) -> None:
    rng = np.random.default_rng(3)
    x = codes(rng, dtype, 2, 5, 33)
    w = codes(rng, int8, 2, 33, 6) if batched else codes(rng, int8, 33, 6)
    axis = None if batched else 1
    sw = (rng.random(() if batched else 6) * 0.02 + 0.001).astype(np.float32)
    zw = np.full(sw.shape, 4 if batched else 0, int8)

    def layer_of(q: Tensor, v: Tensor) -> Tensor:
        a = real(q, np.asarray(0.02, np.float32), np.asarray(zero, dtype), None)
        return tb.matmul(a, real(v, np.asarray(sw), zw, axis)) + 0.25

    graph, counters = passed(layer_of, x, w)
    assert counters["dot"] == 1
    exact = wide(x, np.float32(0.02), np.asarray(zero), None) @ wide(w, np.asarray(sw), zw, axis) + 0.25
    np.testing.assert_allclose(run(graph, [x, w])[0], exact, rtol=3e-7, atol=3e-4)


def test_integers_less_their_zero_points() -> None:
    """As QLinearConv and MatMulInteger are written; a zero point may be a result of the run."""
    rng = np.random.default_rng(5)
    x, w = codes(rng, uint8, 4, 40), codes(rng, uint8, 40, 7)
    zero = np.asarray(119, uint8)

    def product(q: Tensor, z: Tensor, v: Tensor) -> Tensor:
        low = q.astype(int32) - z.astype(int32)
        return tb.matmul(low, v.astype(int32) - wrap(np.asarray(128, int32)))

    graph, counters = passed(product, x, zero, w)
    assert counters == {"dot": 1}
    (dot,) = (e for e in graph.equations if e.primitive.name == "dot")
    assert [v.type.dtype for v in dot.inputs] == [int8, int8]
    expected = (x.astype(np.int64) - 119) @ (w.astype(np.int64) - 128)
    np.testing.assert_array_equal(run(graph, [x, zero, w])[0], expected)


@pytest.mark.parametrize("dtype", [int8, uint8], ids=str)
@pytest.mark.parametrize("stride, dilation, spread", [((1, 1), (1, 1), (1, 1)), ((2, 1), (1, 2), (1, 3))])
def test_margins_of_a_zero_point_that_a_run_computes(
    dtype: Any, stride: tuple[int, ...], dilation: tuple[int, ...], spread: tuple[int, ...]
) -> None:
    """As DynamicQuantizeLinear and ConvInteger are written: what lies around a picture is its zero point."""
    rng = np.random.default_rng(9)
    x, w = codes(rng, dtype, 2, 6, 7, 8), codes(rng, uint8, 5, 6, 3, 2)
    zero = np.asarray(np.iinfo(dtype).max - 17, dtype)
    window = {"stride": stride, "low": (1, 0), "high": (2, 1), "w_dilation": dilation, "x_dilation": spread}

    def convolved(q: Tensor, z: Tensor, v: Tensor) -> Tensor:
        low = q.astype(int32) - z.astype(int32)
        kernel = v.astype(int32) - wrap(np.asarray(131, int32))
        return primitive("conv", low, kernel, **window, groups=1, dtype=int32)

    graph, counters = passed(convolved, x, zero, w)
    assert counters == {"conv": 1}
    dtypes = {v.type.dtype for e in graph.equations if e.primitive.name == "conv" for v in e.inputs}
    assert dtypes == {np.dtype(int8)}
    plain = tb.jit(convolved, target="reference")(wrap(x), wrap(zero), wrap(w)).numpy()
    np.testing.assert_array_equal(run(graph, [x, zero, w])[0], plain)


def test_a_zero_point_of_another_kind_stays_as_it_is_written() -> None:
    """Signed bytes less an unsigned zero point leave what a byte holds."""
    rng = np.random.default_rng(10)
    x, w, zero = codes(rng, int8, 4, 40), codes(rng, int8, 40, 7), np.asarray(200, uint8)

    def product(q: Tensor, z: Tensor, v: Tensor) -> Tensor:
        return tb.matmul(q.astype(int32) - z.astype(int32), v.astype(int32))

    graph, _ = passed(product, x, zero, w)
    np.testing.assert_array_equal(run(graph, [x, zero, w])[0], (x.astype(int) - 200) @ w.astype(int))


def test_moves_and_sums_between_grids() -> None:
    rng = np.random.default_rng(6)
    x = codes(rng, int8, 1, 6, 8, 8)

    def function(q: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        a = real(q, np.asarray(0.11, np.float32), np.asarray(5, int8), None)
        moved = tb.concat([a[:, :, ::-1], tb.pad(a, [(0, 0), (0, 0), (1, 0), (0, 0)])[:, :, 1:]], axis=1)
        best = tb.nn.functional.max_pool2d(moved, 2)
        mean = tb.mean(a, axis=(2, 3), keepdims=True)
        return to_grid(moved, 0.11, 5, int8), to_grid(best, 0.2, 1, int8), to_grid(mean, 0.05, 0, int8)

    graph, counters = passed(function, x)
    assert counters["codes of codes"] == 1 and counters["reduce_sum"] == 1 and counters["moves"] >= 4
    floats = [v for e in graph.equations for v in e.outputs if v.type.dtype == float32 and v.type.ndim]
    assert len(floats) == 1  # the largest of windows change grids as numbers, and nothing else
    moved, best, mean = run(graph, [x])
    twice = np.concatenate([x[:, :, ::-1], x], 1)
    np.testing.assert_array_equal(moved, twice)
    windows = twice.reshape(1, 12, 4, 2, 4, 2).max((3, 5))
    exact = (windows.astype(np.float64) - 5) * np.float32(0.11)
    np.testing.assert_array_equal(best, rounded(exact, 0.2, 1, int8))
    sums = ((x.astype(np.float64) - 5) * np.float32(0.11)).mean((2, 3), keepdims=True)
    np.testing.assert_array_equal(mean, rounded(sums, 0.05, 0, int8))


# -- what stays ----------------------------------------------------------------------------------------------


def _counted(terms: int = 8, bias: float = 0.0, axis: int | None = None) -> Counters:
    rng = np.random.default_rng(1)
    x, w = codes(rng, int8, 2, terms), codes(rng, int8, terms, 3)
    scale = np.full(() if axis is None else w.shape[axis], 1e-7, np.float32)

    def function(q: Tensor, v: Tensor) -> Tensor:
        a = real(q, np.asarray(1e-7, np.float32), np.asarray(0, int8), None)
        y = tb.matmul(a, real(v, np.asarray(scale), np.zeros(scale.shape, int8), axis)) + bias
        return to_grid(y, 0.1, 0, int8)

    return passed(function, x, w)[1]


def test_what_32_bits_do_not_hold_stays_in_floats() -> None:
    assert _counted()["requantise"] == 1
    assert _counted(terms=70_000)["dot"] == 0
    assert _counted(bias=0.5) == {"dot": 1}  # 5e13 steps: the sum is added as a number
    assert _counted(axis=0)["dot"] == 0  # a scale per term


def test_graphs_without_bytes_stay() -> None:
    stays(integers, "graph main(%0: f32[3]) {\n  %1: f32[3] = neg %0\n  return %1\n}")
