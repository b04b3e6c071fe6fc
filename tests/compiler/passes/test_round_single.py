"""round_single: sums rounded in float32 are the bits of `requantise`, at every edge; others stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.compiler.conv.test_integer import convolution
from trilobite.base.dtypes import float32, int8, int16, int32, uint8
from trilobite.compiler.graph.pipeline import Options
from trilobite.compiler.graph.rewrite import Counters
from trilobite.compiler.targets.cpu.passes.layout import layout
from trilobite.compiler.targets.cpu.passes.round_single import round_single
from trilobite.compiler.targets.cpu.target import compile_graph
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Dense, Equation, Graph, Var
from trilobite.ir.primitives import table
from trilobite.ir.types import TensorType

Array = np.ndarray[Any, Any]
LEAST = 2.0**-15  # of scales whose sums may be anything, for results of 8 bits


def constant(array: Array) -> Equation:
    return Equation(
        table["constant"], (), {"value": Dense(array)}, (Var(TensorType(array.shape, array.dtype)),)
    )


def rounding(x: Var, scale: Array, zero: Array) -> list[Equation]:
    """x[..., C] to a grid that every channel has of its own."""
    by, point = constant(scale), constant(zero)
    out = Var(TensorType(x.type.shape, zero.dtype))
    attributes = {"axis": x.type.ndim - 1, "dtype": zero.dtype}
    operands = (x, by.outputs[0], point.outputs[0])
    return [by, point, Equation(table["requantise"], operands, attributes, (out,))]


def graph_of(shape: tuple[int, ...], scale: Array, zero: Array) -> Graph:
    x = Var(TensorType(shape, int32))
    equations = rounding(x, scale, zero)
    return Graph((x,), equations, equations[-1].outputs)


def sums(scale: Array, rng: np.random.Generator) -> Array:
    """Of every channel: the ends of 32 and of 24 bits, and numbers on both sides of the middles of codes."""
    ends = [0, 1, -1, 2**31 - 1, -(2**31), *(s * (2**24 + i) for s in (1, -1) for i in range(-3, 4))]
    middles = (rng.integers(-300, 300, (200, 1)) + 0.5) / scale.astype(np.float64)
    near = np.clip(np.rint(middles), -(2**31), 2**31 - 1).astype(np.int64)
    rows = [np.broadcast_to(np.array(ends)[:, None], (len(ends), scale.size))]
    rows += [np.clip(near + i, -(2**31), 2**31 - 1) for i in (-1, 0, 1)]
    return np.concatenate(rows).astype(np.int32)


@pytest.mark.parametrize("dtype", [int8, uint8, int16], ids=str)
def test_every_bit(dtype: Any) -> None:
    rng, info = np.random.default_rng(3), np.iinfo(dtype)
    least = LEAST * 2.0 ** (8 * dtype.itemsize - 8)
    scale = np.concatenate([
        least * rng.uniform(1, 2, 20), rng.uniform(0.001, 1, 10), [least, 0.5, 1.0, 2.0, 0.75, 1e30, -0.25],
    ]).astype(np.float32)  # fmt: skip
    scale = np.where(np.abs(scale) < least, np.float32(least), scale)
    zero = rng.integers(info.min, info.max + 1, scale.shape).astype(dtype)
    zero[:2] = info.min, info.max
    x = sums(scale, rng)
    graph = graph_of(x.shape, scale, zero)
    counters = Counters()
    round_single(graph, counters)
    assert counters["requantise_single"] == 1
    got = compile_graph(graph, Options())([x])[0]
    assert got.tobytes() == run(graph, [x])[0].tobytes()


@pytest.mark.parametrize(
    "scale", [np.nextafter(np.float32(LEAST), np.float32(0)), np.float32(np.inf), np.float32(np.nan)], ids=str
)
def test_small_and_endless_scales_stay(scale: np.float32) -> None:
    graph = graph_of((3, 2), np.array([0.5, scale], float32), np.zeros(2, np.int8))
    assert round_single(graph) == graph
    x = np.array([[5, 2**31 - 1], [2**24 + 1, 2**24 + 1], [-7, -(2**31)]], np.int32)
    assert compile_graph(graph, Options())([x])[0].tobytes() == run(graph, [x])[0].tobytes()


@pytest.mark.parametrize(("channels", "single"), [(28, True), (600, False)])
def test_small_sums_need_no_large_scale(channels: int, single: bool) -> None:
    conv = convolution((1, channels, 5, 5), (4, channels, 3, 3), {"low": (1, 1), "high": (1, 1)}, int8, int32)
    (y,) = conv.outputs
    out = Var(TensorType(y.type.shape, int8))
    scale, zero = constant(np.array([1e-9, 1e-5, 1e-7, 0.01], float32)), constant(np.zeros(4, np.int8))
    operands = (y, scale.outputs[0], zero.outputs[0])
    last = Equation(table["requantise"], operands, {"axis": 1, "dtype": int8}, (out,))
    graph = Graph(conv.inputs, (*conv.equations, scale, zero, last), (out,))
    counters = Counters()
    round_single(layout(graph, stable=(1,)), counters)
    assert bool(counters["requantise_single"]) == single
    rng = np.random.default_rng(channels)
    values = [rng.integers(-128, 128, t.shape).astype(np.int8) for t in graph.input_types]  # type: ignore[arg-type]
    values[0][0, :, :3, :3], values[1][0] = 127, 127
    got = compile_graph(graph, Options(stable=frozenset({1})))(list(values))[0]
    assert got.tobytes() == run(graph, values)[0].tobytes()


def test_a_shortcut_is_kept_as_codes() -> None:
    """What a layer and an addition read is written as bytes alone; the addition makes numbers of them."""
    space, shape = {"low": (1, 1), "high": (1, 1)}, (1, 24, 8, 9)
    first, second = (convolution(shape, (24, 24, 3, 3), space, int8, int32) for _ in range(2))
    by = [constant(np.asarray(n)) for n in (np.float32(0.002), np.int8(0), np.float32(0.5), np.int8(3))]
    scale, zero, step, point = (e.outputs[0] for e in by)
    a, b = Var(TensorType(shape, int8)), Var(TensorType(shape, int8))
    left, right, total = (Var(TensorType(shape, float32)) for _ in range(3))
    (e,), rounds = second.equations, {"axis": None, "dtype": int8}
    equations = [
        *by, *first.equations,
        Equation(table["requantise"], (first.outputs[0], scale, zero), rounds, (a,)),
        Equation(e.primitive, (a, second.inputs[1]), e.attributes, e.outputs),
        Equation(table["requantise"], (*e.outputs, scale, zero), rounds, (b,)),
        Equation(table["dequantise"], (a, step, point), {"axis": None}, (left,)),
        Equation(table["dequantise"], (b, step, point), {"axis": None}, (right,)),
        Equation(table["add"], (left, right), {}, (total,)),
    ]  # fmt: skip
    graph = Graph((*first.inputs, second.inputs[1]), equations, (total,))
    found = compile_graph(graph, Options(stable=frozenset({1, 2})))
    made = [v for e in found.main.fused.equations if e.attributes.get("kind") == "conv" for v in e.outputs]
    assert sum(v.type.dtype == float32 for v in made) == 1, str(found.main.fused)  # the sum itself
    rng = np.random.default_rng(0)
    values = [rng.integers(-128, 128, t.shape).astype(np.int8) for t in graph.input_types]  # type: ignore[arg-type]
    assert found(list(values))[0].tobytes() == run(graph, values)[0].tobytes()
