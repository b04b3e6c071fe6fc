"""What only this target has: primitives that expansions bind and chains write.

`join` is what chains make of sums (`vector/joins.py`). The others are `requantise`, `dequantise` and
`quantise` with scales and zero points spread over all places, so that they are elementwise: a chain on the
vector unit can hold them, and the drain of the matrix unit can take over the first two whole.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trilobite.base.dtypes import DType, float32, is_integer
from trilobite.base.errors import DTypeError, ShapeError
from trilobite.base.quiet import array_rule
from trilobite.ir.primitive import Primitive, TargetPrimitive
from trilobite.ir.primitives.common import count, integer_range
from trilobite.ir.types import TensorType

Array = np.ndarray[Any, Any]


def _type(name: str, of_integers: bool) -> Any:
    def rule(x: TensorType, scale: TensorType, zero_point: TensorType, dtype: DType) -> TensorType:
        if not x.shape == scale.shape == zero_point.shape:
            raise ShapeError(f"{name} of {x} by {scale} to {zero_point}", expected="equal shapes")
        grid = dtype if is_integer(dtype) else x.dtype
        if is_integer(x.dtype) != of_integers or scale.dtype != float32 or zero_point.dtype != grid:
            raise DTypeError(
                f"{name} of {x} by {scale} to {zero_point} as {dtype}",
                expected="a float32 scale, a zero point of the integers' dtype",
            )
        return TensorType(x.shape, dtype)

    return rule


def _held(found: Array, zero_point: Array, dtype: DType) -> Array:
    low, high = integer_range(dtype)
    return np.where(np.isnan(found), zero_point, np.clip(found, low, high)).astype(dtype)


def _rescale(x: Array, scale: Array, zero_point: Array, dtype: DType) -> Array:
    found = np.rint(x.astype(np.float64) * scale.astype(np.float64)) + zero_point.astype(np.float64)
    return _held(found, zero_point, dtype)


def _scaled(x: Array, scale: Array, zero_point: Array, dtype: DType) -> Array:
    found = (x.astype(np.float64) - zero_point.astype(np.float64)) * scale.astype(np.float64)
    return found.astype(dtype)


def _to_grid(x: Array, scale: Array, zero_point: Array, dtype: DType) -> Array:
    return _held(np.rint(x / scale) + zero_point.astype(np.float32), zero_point, dtype)


def _primitive(name: str, evaluate: Any, of_integers: bool, doc: str) -> Primitive:
    return TargetPrimitive(
        name, "x scale zero_point", type=_type(name, of_integers), evaluate=array_rule(evaluate),
        cost=lambda i, o, a: count(4 * o[0].size),
        doc=doc,
    )  # fmt: skip


def _join_type(
    a: TensorType, b: TensorType, b_zero: float, b_scale: float, relu: bool, out_scale: float,
    out_zero: float, dtype: DType,
) -> TensorType:  # fmt: skip
    if a.shape != b.shape:
        raise ShapeError(f"join of {a} and {b}", expected="equal shapes")
    return TensorType(a.shape, dtype)


def _join(
    a: Array, b: Array, b_zero: float, b_scale: float, relu: bool, out_scale: float, out_zero: float,
    dtype: DType,
) -> Array:  # fmt: skip
    total = a.astype(np.float32) + (b.astype(np.float32) - np.float32(b_zero)) * np.float32(b_scale)
    total = np.where((total > 0) | np.isnan(total), total, np.float32(0)) if relu else total
    steps, zero = total * np.float32(out_scale), np.float32(out_zero)
    if not is_integer(dtype):
        return np.asarray(steps + zero).astype(dtype)
    return _held(np.rint(steps) + zero, np.asarray(zero), dtype)


join = TargetPrimitive(
    "join", "a b", type=_join_type, evaluate=array_rule(_join), cost=lambda i, o, a: count(5 * o[0].size),
    doc="a + (b - b_zero) * b_scale, rectified if asked, times out_scale, rounded to integers, plus out_zero",
)  # fmt: skip
rescale = _primitive(
    "rescale", _rescale, True,
    "integers times a scale in float64, rounded once to nearest even, plus a zero point, saturated",
)  # fmt: skip
scaled = _primitive(
    "scaled", _scaled, True, "integers without their zero point times a scale in float64, as float32"
)
to_grid = _primitive(
    "to_grid", _to_grid, False,
    "floats over a scale, rounded to nearest even, plus a zero point, saturated; NaN gives the zero point",
)  # fmt: skip
