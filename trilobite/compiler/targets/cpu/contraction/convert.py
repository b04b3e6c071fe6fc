"""Numbers on their way into and out of the accumulator.

Enters: values in register form and the dtypes they have and get. Leaves: converted values. Meaning: `dot`'s
rule, which casts both operands to the accumulator's dtype and the sum to the result's.
"""

from __future__ import annotations

import numpy as np

from trilobite.base.dtypes import (
    SMALL_FLOATS,
    DType,
    accumulator,
    bfloat16,
    bits,
    float16,
    float32,
    float64,
    int4,
    int32,
    int64,
    is_complex,
    is_integer,
    is_unsigned,
    uint4,
)
from trilobite.native.llvm import formats
from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import element_of, register_type, width

NARROW = frozenset(np.dtype(n) for n in ("int8", "uint8", "int16")) | {int4, uint4}
"""Integers that 16 signed bits hold: their products are added in pairs."""


def accumulator_of(operand: DType, result: DType) -> DType:
    """What products of `operand`s are added in for this result. Integers wrap, so all that fit in 32 bits are
    added there and cut at the end.
    """
    if not is_integer(result):
        return np.promote_types(accumulator(operand), accumulator(result))
    return int64 if bits(result) > 32 else int32


def widens(source: DType, to: DType) -> bool:
    """Whether a cast changes no number, so that a product may read the smaller ones itself."""
    if is_integer(source) and is_integer(to):
        more = bits(to) > bits(source)
        return more and (is_unsigned(source) or not is_unsigned(to))
    if is_integer(source):
        return source in NARROW and to in (float32, float64)
    return (source in SMALL_FLOATS and to in (float32, float64)) or (source, to) == (float32, float64)


def refused(operand: DType, result: DType) -> str | None:
    """Why products of these dtypes cannot be lowered, if so."""
    if is_complex(operand) or is_complex(result):
        return "complex products run on the host"
    if is_integer(result) and not is_integer(operand):
        return "floats that are cast to integers before they are multiplied"
    return None


def widen(t: Text, value: Value, dtype: DType, to: DType) -> Value:
    """An operand in the dtype that is multiplied."""
    element = register_type(to)
    if element_of(value.type) == element:
        return value
    if is_integer(dtype):
        if is_integer(to):
            if width(value.type) > width(element):
                return t.convert("trunc", value, element)
            return t.convert("zext" if is_unsigned(dtype) else "sext", value, element)
        return t.convert("uitofp" if is_unsigned(dtype) else "sitofp", value, element)
    return t.convert("fpext", value, element)


def narrow(t: Text, value: Value, dtype: DType, to: DType) -> Value:
    """An accumulator as a value of the product's dtype, in register form."""
    if is_integer(to):
        out = t.convert("trunc", value, register_type(to)) if is_integer(dtype) else value
        if to in (int4, uint4):
            return formats.rounded(t, to, out)
        return out
    value = t.convert("fptrunc", value, register_type(to))
    # 16-bit floats stay wide until they are stored; those of 8 and 4 bits are rounded at once.
    return formats.rounded(t, to, value) if to in SMALL_FLOATS - {float16, bfloat16} else value
