"""Joins: sums of tiles with what stands around them are one instruction, with the interpreter's bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trilobite.base import dtypes as dt
from trilobite.base.reciprocals import exact_reciprocal, with_reciprocal
from trilobite.compiler.targets.contract import Usage
from trilobite.compiler.targets.registry import executable
from trilobite.ir import primitives  # noqa: F401, fills the table
from trilobite.ir.evaluate import run
from trilobite.ir.primitive import table
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import TensorType

WINDOW = {"stride": (1, 1), "low": (0, 0), "high": (0, 0), "x_dilation": (1, 1), "w_dilation": (1, 1)}
STEPS = (with_reciprocal(0.0213, -128, 127), 0.0471)


def _full(value: float, dtype: Any, shape: tuple[int, ...] = ()) -> Any:
    return table["full"](shape=shape, value=value, dtype=dtype)


def _joined(sums: Any, scale: Any, shorts: tuple[Any, ...], axis: int) -> tuple[Any]:
    y = table["dequantise"](sums, scale, _full(0, dt.int32, scale.shape), axis=axis)
    for short, step in zip(shorts, STEPS, strict=False):
        number = table["dequantise"](short, _full(step, dt.float32), _full(0, dt.int8), axis=None)
        y = table["add"](y, number)
    y = table["maximum"](y, _full(0, dt.float32, y.shape))
    return (table["quantise"](y, _full(STEPS[0], dt.float32), _full(0, dt.int8), axis=None, dtype=dt.int8),)


def _made(types: list[TensorType], body: Any, target: str) -> tuple[Any, np.ndarray[Any, Any], Any]:
    graph = record_graph(body, types, "f")
    rng = np.random.default_rng(sum(map(len, map(str, types))))
    values = [rng.integers(-128, 128, tuple(map(int, t.shape))).astype(t.dtype) for t in types]
    values[2] = (rng.standard_normal(values[2].shape) / 2000).astype(np.float32)
    made: Any = executable(graph, target, Usage(options=(("checks", True),)))
    return made, made(values)[0], run(graph, values)[0]


@pytest.mark.parametrize("machine", ["dlp-s", "dlp-m", "tpu-v1", "odd"])
@pytest.mark.parametrize("x", [(1, 24, 9, 7), (2, 17, 5, 3), (1, 64, 14, 13), (3, 8, 1, 1), (1, 16, 31, 2)])
@pytest.mark.parametrize(("outputs", "joins"), [(64, 1), (29, 2)])
def test_convolutions(
    machine: str, x: tuple[int, int, int, int], outputs: int, joins: int, odd_machine: Path
) -> None:
    images, inputs, rows, columns = x
    out = TensorType((images, outputs, rows, columns), dt.int8)
    types = [TensorType(x, dt.int8), TensorType((outputs, inputs, 1, 1), dt.int8),
             TensorType((outputs,), dt.float32), *[out] * joins]  # fmt: skip

    def body(x: Any, w: Any, scale: Any, *shorts: Any) -> tuple[Any]:
        return _joined(table["conv"](x, w, **WINDOW, groups=1, dtype=dt.int32), scale, shorts, 1)

    target = f"dlp:{odd_machine if machine == 'odd' else machine}"
    made, got, want = _made(types, body, target)
    assert np.array_equal(got, want)
    assert "VJOIN.i8.f32.i8.relu" in made.stages["isa"]


@pytest.mark.parametrize("machine", ["dlp-s", "dlp-m"])
@pytest.mark.parametrize(("m", "n", "k"), [(33, 128, 70), (1, 100, 256), (130, 65, 19), (900, 257, 64)])
def test_products(machine: str, m: int, n: int, k: int) -> None:
    types = [TensorType((m, k), dt.int8), TensorType((n, k), dt.int8), TensorType((n,), dt.float32),
             TensorType((m, n), dt.int8)]  # fmt: skip

    def body(x: Any, w: Any, scale: Any, short: Any) -> tuple[Any]:
        sums = table["dot"](x, w, contract=((1,), (1,)), batch=((), ()), dtype=dt.int32)
        return _joined(sums, scale, (short,), 1)

    _, got, want = _made(types, body, f"dlp:{machine}")
    assert np.array_equal(got, want)


# -- chains of vectors ---------------------------------------------------------------------------------------

SHAPE = (3, 171)
EDGES = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3e38, -3e38, 65504.0, 1.0], np.float32)


def _of_floats(dtype: Any, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    wide = rng.standard_normal(SHAPE) * 2.0 ** rng.integers(-9, 9, SHAPE)
    with np.errstate(all="ignore"):
        return np.where(rng.random(SHAPE) < 0.2, rng.choice(EDGES, SHAPE), wide).astype(dtype)


def _on_chip(body: Any, values: list[np.ndarray[Any, Any]]) -> str:
    """The chip's bits are the interpreter's; its instructions."""
    graph = record_graph(body, [TensorType(v.shape, dt.DType(v.dtype)) for v in values], "f")
    made: Any = executable(graph, "dlp:dlp-s", Usage(options=(("checks", True),)))
    with np.errstate(all="ignore"):
        wants = run(graph, values)
    for got, want in zip(made(values), wants, strict=True):
        assert np.array_equal(np.isnan(got), np.isnan(want)) if want.dtype.kind == "f" else True
        known = ~np.isnan(want.astype(np.float64))
        assert got[known].tobytes() == np.asarray(want)[known].tobytes()
    return str(made.stages["isa"])


@pytest.mark.parametrize("dtype", [np.float32, np.float16, dt.bfloat16])
@pytest.mark.parametrize("relu", [False, True])
def test_sums_of_floats(dtype: Any, relu: bool) -> None:
    """A sum alone stays a sum; signs of zeros, infinities and numbers next to 0 stay."""
    rng = np.random.default_rng(7)

    def body(a: Any, b: Any) -> tuple[Any]:
        y = table["add"](a, b)
        return (table["maximum"](y, _full(0, y.dtype, y.shape)) if relu else y,)

    text = _on_chip(body, [_of_floats(dtype, rng), _of_floats(dtype, rng)])
    assert ("VJOIN" in text) == relu and ("VAV" in text) != relu


@pytest.mark.parametrize("codes", [np.int8, np.uint8, np.int16])
@pytest.mark.parametrize(("b_zero", "zero"), [(0, 0), (7, 3), (100, 120)])
@pytest.mark.parametrize("relu", [False, True])
def test_codes_with_zero_points(codes: Any, b_zero: int, zero: int, relu: bool) -> None:
    rng, dtype = np.random.default_rng(b_zero + zero), dt.DType(np.dtype(codes))
    low, high = np.iinfo(codes).min, np.iinfo(codes).max
    step = with_reciprocal(0.037, int(low) - zero, int(high) - zero)
    has_reciprocal = exact_reciprocal(step, int(low) - zero, int(high) - zero) is not None

    def body(a: Any, b: Any) -> tuple[Any]:
        number = table["dequantise"](b, _full(0.0471, dt.float32), _full(b_zero, dtype), axis=None)
        y = table["add"](number, a)
        y = table["maximum"](_full(0, y.dtype, y.shape), y) if relu else y
        return (table["quantise"](y, _full(step, dt.float32), _full(zero, dtype), axis=None, dtype=dtype),)

    values = [_of_floats(np.float32, rng), rng.integers(low, high, SHAPE, codes, endpoint=True)]
    text = _on_chip(body, values)
    wanted = f"VJOIN.{dt.DType(dtype)}" if has_reciprocal else "VJOIN.f32.f32."
    assert wanted.replace("uint", "u").replace("int", "i") in text


def test_steps_without_an_exact_reciprocal_are_divided_by() -> None:
    step = next(s for s in np.linspace(0.031, 0.039, 99) if exact_reciprocal(float(s), -128, 127) is None)

    def body(a: Any, b: Any) -> tuple[Any]:
        y = table["add"](a, table["dequantise"](b, _full(0.05, dt.float32), _full(0, dt.int8), axis=None))
        return (table["quantise"](y, _full(step, dt.float32), _full(0, dt.int8), axis=None, dtype=dt.int8),)

    rng = np.random.default_rng(3)
    text = _on_chip(body, [_of_floats(np.float32, rng), rng.integers(-128, 128, SHAPE).astype(np.int8)])
    assert "VJOIN.f32.f32.i8" in text and "VDS" in text


def test_what_somebody_else_reads_stays() -> None:
    """The sum, the numbers of the codes and what is rectified are all results as well."""

    def body(a: Any, b: Any) -> tuple[Any, ...]:
        number = table["dequantise"](b, _full(0.05, dt.float32), _full(0, dt.int8), axis=None)
        total = table["add"](a, number)
        y = table["maximum"](total, _full(0, total.dtype, total.shape))
        scale, zero = _full(STEPS[0], dt.float32), _full(0, dt.int8)
        return number, total, y, table["quantise"](y, scale, zero, axis=None, dtype=dt.int8)

    rng = np.random.default_rng(4)
    text = _on_chip(body, [_of_floats(np.float32, rng), rng.integers(-128, 128, SHAPE).astype(np.int8)])
    assert "VJOIN" not in text


def test_two_joins_of_one_chain() -> None:
    """What the second one reads is made by the first, and lives until then."""

    def body(a: Any, c: Any, b: Any) -> tuple[Any, ...]:
        first = table["maximum"](table["add"](a, c), _full(0, a.dtype, a.shape))
        number = table["dequantise"](b, _full(0.05, dt.float32), _full(2, dt.int8), axis=None)
        total = table["maximum"](table["add"](number, first), _full(0, a.dtype, a.shape))
        return (table["mul"](total, table["abs"](first)),)

    rng = np.random.default_rng(5)
    a, c = (_of_floats(np.float32, rng) for _ in range(2))
    values = [a, c, rng.integers(-128, 128, SHAPE).astype(np.int8)]
    assert _on_chip(body, values).count("VJOIN") == 2
