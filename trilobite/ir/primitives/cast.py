"""Another dtype, by value. What NumPy leaves to the machine is fixed here, for every pair of dtypes:

floats round to nearest even (once); a float becomes an integer by truncation, out of range the nearest
integer there is, NaN becomes 0; integers wrap around in a narrower one; a complex number becomes real by
losing its imaginary part; true is what differs from 0, NaN included.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trilobite.base.dtypes import (
    ALL,
    DType,
    bits,
    bool_,
    float8_e8m0fnu,
    float32,
    int8,
    is_complex,
    is_inexact,
    is_integer,
)
from trilobite.base.errors import DTypeError
from trilobite.base.locations import user_location
from trilobite.base.quiet import array_rule
from trilobite.ir.primitive import Attributes, Primitive, Value
from trilobite.ir.primitives.common import OWN, free, integer_range, names
from trilobite.ir.types import TensorType

Array = np.ndarray[Any, Any]


def by_value(x: Array, dtype: DType) -> Array:
    """The meaning of a cast; in a quiet context."""
    if is_complex(x.dtype) and not is_complex(dtype) and dtype != bool_:
        x = x.real
    if is_integer(dtype) and is_inexact(x.dtype):
        return _saturated(x, dtype)
    if x.dtype.num >= OWN and dtype.num >= OWN:
        return _between_small(x, dtype)
    return x.astype(dtype)


def _between_small(x: Array, dtype: DType) -> Array:
    """ml_dtypes lacks a few direct ways; the detours through float32 and int8 lose nothing."""
    if is_integer(x.dtype) and is_integer(dtype):
        return x.astype(int8).astype(dtype)
    if float8_e8m0fnu in (x.dtype, dtype):
        return x.astype(float32).astype(dtype)
    return x.astype(dtype)


def _saturated(x: Array, dtype: DType) -> Array:
    """Truncate floats to integers; beyond the range its ends, and 0 for NaN."""
    lowest, highest = integer_range(dtype)
    wide = x.astype(float32) if x.dtype.itemsize < 4 else x
    low, high = wide.dtype.type(lowest), wide.dtype.type(highest)
    # Rounded to a float, the highest integer may be one too many: from there on it saturates.
    edge = high if int(high) <= highest else np.nextafter(high, low)
    if wide.size == 0 or (wide.min() >= low and wide.max() <= edge):
        return _truncated(wide, dtype)
    inside = _truncated(np.where(wide == wide, np.clip(wide, low, edge), wide.dtype.type(0)), dtype)
    return np.where(wide > edge, np.asarray(highest).astype(dtype), inside)


def _truncated(x: Array, dtype: DType) -> Array:
    return x.astype(int8 if bits(dtype) == 4 else dtype).astype(dtype)


def _type(x: TensorType, dtype: DType) -> TensorType:
    if dtype not in ALL:
        raise DTypeError(f"cast of {x} to {dtype}", where=user_location(), expected=names(ALL))
    return TensorType(x.shape, dtype)


def _back(t: Value, x_type: TensorType) -> Value:
    """The cotangent returns in the operand's dtype (the real part of a complex one); integers have none."""
    return cast(t, dtype=x_type.dtype) if x_type.dtype != t.dtype else t


def _batch(size: Any, values: Any, mapped: Any, attrs: Attributes) -> Value:
    return cast(*values, **attrs)


cast: Primitive = Primitive(
    "cast", "x", type=_type, evaluate=array_rule(by_value), jvp=(lambda t, *, dtype: cast(t, dtype=dtype),),
    vjp=(_back,),
    batch=_batch, cost=free, doc="another dtype, by value",
)  # fmt: skip
