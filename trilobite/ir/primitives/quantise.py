"""Quantise to a grid and back: q = x/scale rounded to nearest even, plus zero point, held inside the dtype's
range. `requantise` takes sums of integers to such a grid.

`scale` and `zero_point` are scalars, or one number per place on `axis`. `zero_point` has the quantised dtype.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base.dtypes import (
    FLOATS,
    FP8,
    DType,
    float4_e2m1fn,
    float32,
    float64,
    int4,
    int8,
    int16,
    int32,
    int64,
    is_integer,
    uint4,
    uint8,
    uint16,
)
from trilobite.base.errors import DTypeError, ShapeError
from trilobite.base.locations import user_location
from trilobite.base.quiet import array_rule
from trilobite.ir.primitive import Absent, Attributes, Primitive, Value, table
from trilobite.ir.primitives.common import float_range, flops_per_element, integer_range, names
from trilobite.ir.primitives.reduction import spread
from trilobite.ir.transforms.batch import lead
from trilobite.ir.types import Dim, Shape, TensorType

Array = np.ndarray[Any, Any]
GRIDS = frozenset({int4, uint4, int8, uint8, int16, uint16, int32, float4_e2m1fn, *FP8})


def _check(name: str, x: TensorType, scale: TensorType, zero: TensorType, axis: int | None) -> None:
    if axis is not None and not 0 <= axis < len(x.shape):
        raise ShapeError(
            f"{name} of {x} per axis {axis}",
            where=user_location(),
            expected=f"0 <= axis < {len(x.shape)}, or None",
        )
    shape: Shape = () if axis is None else (x.shape[axis],)
    if scale.shape != shape or zero.shape != shape:
        raise ShapeError(
            f"{name} of {x} with scale {scale} and zero point {zero}",
            where=user_location(),
            expected=f"both of shape {list(shape)}",
        )
    if scale.dtype not in FLOATS:
        raise DTypeError(f"{name} with scale {scale}", where=user_location(), expected=names(FLOATS))


def _along(v: Array, ndim: int, axis: int | None) -> Array:
    return v if axis is None else v.reshape([-1 if i == axis else 1 for i in range(ndim)])


def _width(*dtypes: DType) -> DType:
    return float64 if float64 in dtypes or int32 in dtypes else float32


# -- quantise ----------------------------------------------------------------------------------------------


def _quantise_type(
    x: TensorType, scale: TensorType, zero_point: TensorType, axis: int | None, dtype: DType
) -> TensorType:
    _check("quantise", x, scale, zero_point, axis)
    if dtype not in GRIDS or zero_point.dtype != dtype or x.dtype != scale.dtype:
        raise DTypeError(
            f"quantise of {x} with scale {scale} and zero point {zero_point} to {dtype}",
            where=user_location(),
            expected=f"x and scale of one float dtype, the zero point of the result's, one of {names(GRIDS)}",
        )
    return TensorType(x.shape, dtype)


def _quantise(x: Array, scale: Array, zero_point: Array, axis: int | None, dtype: DType) -> Array:
    wide = _width(x.dtype, dtype)
    scale, zero = (_along(v.astype(wide), x.ndim, axis) for v in (scale, zero_point))
    steps = x.astype(wide) / scale
    if not is_integer(dtype):
        low, high = map(wide.type, float_range(dtype))
        return np.clip(steps + zero, low, high).astype(dtype)
    found = np.rint(steps) + zero
    held = np.clip(np.where(found == found, found, zero), *integer_range(dtype))
    return held.astype(int32).astype(dtype)


def _batch(name: str, size: Dim, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes) -> Value:
    """With scales of their own, the elements of a batch are quantised through the formula itself."""
    axis = attrs["axis"]
    x = values[0] if mapped[0] else lead(values[0], size)
    if not any(mapped[1:]):
        return table[name](x, *values[1:], **{**attrs, "axis": None if axis is None else axis + 1})
    # One axis for batch and channel together: put the channel second, and join the two.
    scale, zero = (v if m else lead(v, size) for v, m in zip(values[1:], mapped[1:], strict=True))
    if axis is None:
        return table[name](x, scale, zero, **{**attrs, "axis": 0})
    order = (0, axis + 1, *(i for i in range(1, x.ndim) if i != axis + 1))
    moved = table["transpose"](x, axes=order)
    joined = table["reshape"](moved, shape=(size * moved.shape[1], *moved.shape[2:]))
    flat = [table["reshape"](v, shape=(size * v.shape[1],)) for v in (scale, zero)]
    out = table["reshape"](table[name](joined, *flat, **{**attrs, "axis": 0}), shape=moved.shape)
    back = (0, *range(2, axis + 2), 1, *range(axis + 2, x.ndim))
    return table["transpose"](out, axes=back)


_STEPS = Absent(
    "a staircase is flat between its steps; a straight-through estimator states a rule of its own"
)
quantise: Primitive = Primitive(
    "quantise", "x scale zero_point", type=_quantise_type, evaluate=array_rule(_quantise), jvp=_STEPS,
    vjp=_STEPS,
    batch=lambda *rule: _batch("quantise", *rule), cost=flops_per_element(4),
    doc="x/scale, rounded to nearest even, plus zero_point, saturated to the dtype; NaN gives zero_point",
)  # fmt: skip

# -- requantise ---------------------------------------------------------------------------------------------


def _requantise_type(
    x: TensorType, scale: TensorType, zero_point: TensorType, axis: int | None, dtype: DType
) -> TensorType:
    _check("requantise", x, scale, zero_point, axis)
    narrow = dtype in GRIDS and is_integer(dtype) and dtype != int32
    if x.dtype not in (int32, int64) or scale.dtype != float32 or zero_point.dtype != dtype or not narrow:
        raise DTypeError(
            f"requantise of {x} with scale {scale} and zero point {zero_point} to {dtype}",
            where=user_location(),
            expected="x of int32 or int64, scale of float32, the zero point of the result's 4 to 16 bits",
        )
    return TensorType(x.shape, dtype)


def _requantise(x: Array, scale: Array, zero_point: Array, axis: int | None, dtype: DType) -> Array:
    by, zero = (_along(v.astype(float64), x.ndim, axis) for v in (scale, zero_point))
    found = np.rint(x.astype(float64) * by) + zero
    held = np.clip(np.where(found == found, found, zero), *integer_range(dtype))
    return held.astype(int32).astype(dtype)


requantise: Primitive = Primitive(
    "requantise", "x scale zero_point", type=_requantise_type, evaluate=array_rule(_requantise), jvp=_STEPS,
    vjp=_STEPS,
    batch=lambda *rule: _batch("requantise", *rule), cost=flops_per_element(4),
    doc="x·scale in float64, rounded once to nearest even, plus zero_point, saturated: as a unit drains",
)  # fmt: skip

# -- dequantise ---------------------------------------------------------------------------------------------


def _dequantise_type(
    q: TensorType, scale: TensorType, zero_point: TensorType, axis: int | None
) -> TensorType:
    _check("dequantise", q, scale, zero_point, axis)
    if q.dtype not in GRIDS or zero_point.dtype != q.dtype:
        raise DTypeError(
            f"dequantise of {q} with zero point {zero_point}",
            where=user_location(),
            expected=f"both of one dtype of {names(GRIDS)}",
        )
    return TensorType(q.shape, scale.dtype)


def _dequantise(q: Array, scale: Array, zero_point: Array, axis: int | None) -> Array:
    wide = _width(scale.dtype, q.dtype)
    by, zero = (_along(v.astype(wide), q.ndim, axis) for v in (scale, zero_point))
    return ((q.astype(wide) - zero) * by).astype(scale.dtype)


def _steps(q: Value, zero_point: Value, t: Value, axis: int | None) -> Value:
    """(q - zero_point), in the dtype of the scale."""
    unit = table["full"](shape=zero_point.shape, dtype=t.dtype, value=1.0)
    return dequantise(q, unit, zero_point, axis=axis)


def _wide(v: Value, shape: Shape, axis: int | None) -> Value:
    return spread(v, shape, [i for i in range(len(shape)) if i != axis])


def _scale_jvp(t: Value, q: Value, zero_point: Value, *, axis: int | None) -> Value:
    return dequantise(q, t, zero_point, axis=axis)


def _scale_vjp(t: Value, q: Value, zero_point: Value, *, axis: int | None) -> Value:
    product = table["mul"](t, _steps(q, zero_point, t, axis))
    return table["reduce_sum"](product, axes=tuple(i for i in range(q.ndim) if i != axis))


def _float_code(t: Value, scale: Value, q_type: TensorType, *, axis: int | None) -> Value:
    """Towards codes that are floats themselves the map is multiplication by the scale."""
    wide = table["cast"](t, dtype=scale.dtype)
    return table["mul"](wide, _wide(scale, q_type.shape, axis))


dequantise: Primitive = Primitive(
    "dequantise", "q scale zero_point", type=_dequantise_type, evaluate=array_rule(_dequantise),
    jvp=(
        _float_code, _scale_jvp,
        lambda t, scale, q_type, *, axis: table["neg"](_float_code(_wide(t, q_type.shape, axis), scale,
        q_type, axis=axis)),
    ),
    vjp=(
        lambda t, scale, q_type, *, axis: table["cast"](_float_code(t, scale, q_type, axis=axis),
        dtype=q_type.dtype),
        _scale_vjp,
        lambda t, scale, q_type, *, axis: table["cast"](
            table["neg"](table["reduce_sum"](
                _float_code(t, scale, q_type, axis=axis),
                axes=tuple(i for i in range(len(q_type.shape)) if i != axis),
            )),
            dtype=q_type.dtype,
        ),
    ),
    batch=lambda *rule: _batch("dequantise", *rule), cost=flops_per_element(2),
    doc="(q - zero_point)·scale, in scale's dtype",
)  # fmt: skip
