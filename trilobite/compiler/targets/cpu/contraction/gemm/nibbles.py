"""4-bit numbers, two to a byte: the even one in the low half.

Enters: where a row of them begins and which one is wanted. Leaves: 32-bit integers. Eight neighbours are one
32-bit word in every lane, shifted by lane: no shuffle is needed. Rows are filled up to whole groups of 16
(`nibble_pack` does), so a vector may be read wherever its first element exists.
"""

from __future__ import annotations

from trilobite.base.dtypes import DType, int4
from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import lanes_constant, vector

_AT_ONCE = 8  # that one 32-bit word holds


def load_nibbles(t: Text, dtype: DType, row: Value, index: Value, lanes: int) -> Value:
    """Elements index, index+1, ... of a row; for vectors the index is a multiple of their lanes."""
    if lanes > _AT_ONCE:
        half = lanes // 2
        return t.join(
            load_nibbles(t, dtype, row, index, half), load_nibbles(t, dtype, row, t.add(index, half), half)
        )
    at = t.address(row, t.lshr(index, 1))
    if not lanes:
        byte = t.convert("zext", t.load_type("i8", at), "i32")
        return _number(t, dtype, t.lshr(byte, t.convert("trunc", t.shl(t.and_(index, 1), 2), "i32")))
    word = t.splat(t.convert("zext", t.load_type(f"i{4 * lanes}", at, 1), "i32"), lanes)
    if dtype == int4:  # up to the sign, and down again
        return t.ashr(t.shl(word, _by_lane(lanes, 28, -4)), 28)
    return t.and_(t.lshr(word, _by_lane(lanes, 0, 4)), 15)


def load_codes(t: Text, dtype: DType, at: Value, lanes: int) -> Value:
    """The same of numbers that have a byte each: shifted as 32 bits, for vectors of bytes have no shifts."""
    return _number(t, dtype, t.convert("zext", t.load_type(vector("i8", lanes), at), "i32"))


def _by_lane(lanes: int, first: int, step: int) -> Value:
    return lanes_constant(vector("i32", lanes), tuple(first + step * i for i in range(lanes)))


def _number(t: Text, dtype: DType, word: Value) -> Value:
    """The lowest four bits, signed or not."""
    return t.ashr(t.shl(word, 28), 28) if dtype == int4 else t.and_(word, 15)
