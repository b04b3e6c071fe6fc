"""Numbers as keys: integers that rise as the numbers do.

Enters: a value in register form. Leaves: its key in an i64. Equal numbers have equal keys: both zeros, and
all NaN, which are above everything. Bytes of unsigned keys are sorted by one after the other, 32 bits at a
time; signed keys are compared.
"""

from __future__ import annotations

from typing import Literal

from trilobite.base.dtypes import DType, bool_, is_float, is_unsigned
from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import REGISTER, constant, width

Half = Literal["whole", "low", "high"]
MASK = (1 << 32) - 1


def halves(dtype: DType) -> tuple[Half, ...]:
    """The parts of a number that are sorted by, the least one first."""
    return ("low", "high") if _bits(dtype) == 64 else ("whole",)


def key_bytes(dtype: DType) -> int:
    """Of one part."""
    return min(_bits(dtype), 32) // 8


def key(t: Text, value: Value, dtype: DType, half: Half, falling: bool) -> Value:
    """Not negative, at most 32 bits."""
    found = _unsigned(t, value, dtype, falling)
    if half == "whole":
        return found
    return t.and_(found, MASK) if half == "low" else t.lshr(found, 32)


def compared_bits(dtype: DType) -> int:
    """Of signed keys: 32 or 64."""
    return 64 if _bits(dtype) == 64 else 32


def signed_key(t: Text, value: Value, dtype: DType, falling: bool) -> Value:
    """All of it at once, to be compared as a signed number of `compared_bits`; of vectors, lane by lane."""
    bits = compared_bits(dtype)
    found = _signed_float(t, value) if is_float(dtype) else _signed_integer(t, value, dtype, bits)
    return t.not_(found) if falling else found


def _bits(dtype: DType) -> int:
    return max(width(REGISTER[dtype]), 8)


def _unsigned(t: Text, value: Value, dtype: DType, falling: bool) -> Value:
    bits = width(value.type)
    found = _float_key(t, value, bits) if is_float(dtype) else _integer_key(t, value, dtype, bits)
    wide = t.convert("zext", found, "i64")
    return t.xor(wide, constant("i64", (1 << _bits(dtype)) - 1)) if falling else wide


def _integer_key(t: Text, value: Value, dtype: DType, bits: int) -> Value:
    if is_unsigned(dtype) or dtype == bool_:
        return value
    return t.xor(value, constant(value.type, 1 << (bits - 1)))


def _signed_integer(t: Text, value: Value, dtype: DType, bits: int) -> Value:
    if not is_unsigned(dtype) and dtype != bool_:
        return t.convert("sext", value, f"i{bits}")
    wide = t.convert("zext", value, f"i{bits}")
    return t.xor(wide, -(1 << (bits - 1))) if width(value.type) == bits else wide


def _signed_float(t: Text, value: Value) -> Value:
    """Negative numbers with all bits but the first turned round."""
    raw = t.bits(value)
    highest = (1 << (width(raw.type) - 1)) - 1
    raw = t.select(t.fcmp("oeq", value, 0.0), 0, raw)
    turned = t.xor(raw, t.and_(t.ashr(raw, width(raw.type) - 1), highest))
    return t.select(t.fcmp("uno", value, value), highest, turned)


def _float_key(t: Text, value: Value, bits: int) -> Value:
    """Negative numbers with all bits turned round, others with the first."""
    raw = t.bits(value)
    raw = t.select(t.fcmp("oeq", value, 0.0), constant(raw.type, 0), raw)
    turned = t.or_(t.ashr(raw, bits - 1), constant(raw.type, 1 << (bits - 1)))
    return t.select(t.fcmp("uno", value, value), constant(raw.type, -1), t.xor(raw, turned))
