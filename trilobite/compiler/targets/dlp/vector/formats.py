"""Which number format of the processor holds a dtype of the framework.

A dtype that has no format of its own (4-bit integers, most 8-bit floats) lies in memory as bytes; `expand`
computes in a wider one before anything gets here, so that only casts meet such dtypes.
"""

from __future__ import annotations

import numpy as np

from trilobite.base import dtypes as d
from trilobite.base.dtypes import DType
from trilobite.ir.primitives.cast import by_value
from trilobite.processor.isa.formats import (
    BF16,
    E4M3,
    E5M2,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    Format,
)

FORMATS: dict[DType, Format] = {
    d.float32: F32, d.float16: F16, d.bfloat16: BF16, d.float64: F64,
    d.int8: I8, d.int16: I16, d.int32: I32, d.int64: I64,
    d.uint8: U8, d.uint16: U16, d.uint32: U32, d.uint64: U64,
    d.bool_: U8,
}  # fmt: skip
CONVERTED: dict[DType, Format] = {d.float8_e4m3fn: E4M3, d.float8_e5m2: E5M2}
WORDS = {1: U8, 2: U16, 4: U32, 8: U64}
SIGNED_WORDS = {1: I8, 2: I16, 4: I32, 8: I64}


def format_of(dtype: DType) -> Format:
    """The format that computes a dtype; of those without one, the bytes they lie in."""
    return FORMATS.get(dtype) or WORDS[dtype.itemsize]


def computes(dtype: DType) -> bool:
    """Has the vector unit arithmetic for it?"""
    return dtype in FORMATS


def scalar_of(dtype: DType, value: object) -> int | float:
    """An element as the number that a constant of its format holds; of a dtype without one, its bits."""
    element = np.asarray(value)
    if dtype not in FORMATS:
        with np.errstate(all="ignore"):
            return int.from_bytes(np.asarray(by_value(element, dtype)).tobytes(), "little")
    if dtype == d.bool_:
        return int(bool(element))
    if d.is_integer(dtype):
        return int(element)
    return float(element.astype(np.float64))
