"""Bits of integers and booleans, and the bits of any value under another dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from trilobite.base.dtypes import ALL, INTEGERS, DType, bits, bool_, uint8
from trilobite.base.errors import DTypeError
from trilobite.base.locations import user_location
from trilobite.base.quiet import array_rule
from trilobite.ir.primitive import Absent, Attributes, Primitive
from trilobite.ir.primitives.common import free, in_bytes, same_types
from trilobite.ir.primitives.elementwise import elementwise
from trilobite.ir.types import TensorType

Array = np.ndarray[Any, Any]
_FLAT = Absent("bits have no slope")
WORDS = INTEGERS | {bool_}

bit_not: Primitive = elementwise(
    "not", "x", in_bytes(np.invert), _FLAT, accepts=WORDS, doc="every bit turned over; of bools, the negation"
)
bit_and: Primitive = elementwise("and", "x y", in_bytes(np.bitwise_and), _FLAT, accepts=WORDS)
bit_or: Primitive = elementwise("or", "x y", in_bytes(np.bitwise_or), _FLAT, accepts=WORDS)
bit_xor: Primitive = elementwise("xor", "x y", in_bytes(np.bitwise_xor), _FLAT, accepts=WORDS)

# NumPy defines shifts by the width or more (negative amounts are read as huge ones):
# nothing or the sign remains.
shift_left: Primitive = elementwise(
    "shift_left",
    "x n",
    in_bytes(np.left_shift),
    _FLAT,
    accepts=INTEGERS,
    doc="by the width or more (or less than 0): 0",
)
shift_right: Primitive = elementwise(
    "shift_right", "x n", in_bytes(np.right_shift), _FLAT, accepts=INTEGERS,
    doc="arithmetic for signed, logical for unsigned; by the width or more (or less than 0): 0, or -1 for "
    "negative x",
)  # fmt: skip


def _unsigned(x: Array) -> Array:
    """The bits as an unsigned integer of the same storage; a 4-bit element lies in the low half of its
    byte.
    """
    word = x.view(f"u{x.dtype.itemsize}")
    return word & 15 if bits(x.dtype) == 4 else word


def _popcount(x: Array) -> Array:
    return np.bitwise_count(_unsigned(x)).astype(x.dtype)


def _clz(x: Array) -> Array:
    """Fill every bit below the highest one; what is not filled are the leading zeros."""
    filled, width = _unsigned(x), bits(x.dtype)
    for step in (1, 2, 4, 8, 16, 32):
        if step < width:
            filled = filled | (filled >> filled.dtype.type(step))
    return (width - np.bitwise_count(filled).astype(np.int64)).astype(x.dtype)


popcount: Primitive = elementwise(
    "popcount", "x", _popcount, _FLAT, accepts=INTEGERS, flops=2, doc="how many bits are set"
)
clz: Primitive = elementwise(
    "clz",
    "x",
    _clz,
    _FLAT,
    accepts=INTEGERS,
    flops=4,
    doc="how many zero bits stand above the highest set one",
)

# -- bitcast ------------------------------------------------------------------------------------------------


def _bitcast_type(x: TensorType, dtype: DType) -> TensorType:
    same_types("bitcast", (x,), ALL - {bool_})
    if dtype not in ALL - {bool_} or bits(dtype) != bits(x.dtype):
        raise DTypeError(
            f"bitcast of {x} to {dtype}",
            where=user_location(),
            expected=f"a dtype of {bits(x.dtype)} bits that is not bool",
        )
    return TensorType(x.shape, dtype)


def _bitcast(x: Array, dtype: DType) -> Array:
    return x.view(uint8).view(dtype) if bits(dtype) == 4 else x.view(dtype)


def _bitcast_batch(size: Any, values: Any, mapped: Any, attrs: Attributes) -> Any:
    return bitcast(*values, **attrs)


bitcast: Primitive = Primitive(
    "bitcast", "x", type=_bitcast_type, evaluate=array_rule(_bitcast), jvp=_FLAT, vjp=_FLAT,
    batch=_bitcast_batch,
    cost=free, doc="the same bits read as another dtype of the same width",
)  # fmt: skip
