"""Which of the unit's number formats serve a dtype, and what a sum is kept in.

Enters: dtypes of a problem. Leaves: formats, or None where the matrix unit has none. Four-bit integers lie
one a byte in device memory, so they are multiplied as bytes: the values are the same.
"""

from __future__ import annotations

from trilobite.base.dtypes import (
    DType,
    bfloat16,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    int4,
    int8,
    int16,
    int32,
    int64,
)
from trilobite.processor.isa.formats import BF16, E4M3, E5M2, F16, F32, I8, I16, I32, I64, Format
from trilobite.processor.isa.rows.matrix import PRODUCTS

OPERANDS: dict[DType, Format] = {
    float32: F32, float16: F16, bfloat16: BF16, float8_e4m3fn: E4M3, float8_e5m2: E5M2,
    int4: I8, int8: I8, int16: I16,
}  # fmt: skip
RESULTS: dict[DType, Format] = {**OPERANDS, int32: I32, int64: I64}


def accumulator(left: Format, accumulate: DType) -> Format | None:
    """What partial sums are kept in: fp32 of floats; int32, or int64 where it is asked for."""
    if left.kind == "float":
        return F32 if accumulate == float32 else None
    return {int64: I64}.get(accumulate, I32) if accumulate.kind == "i" else None


def is_product(result: Format, left: Format, right: Format) -> bool:
    return (result, left, right) in PRODUCTS
