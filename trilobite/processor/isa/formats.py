"""The number formats an instruction can name, and how their values lie in memory.

Enters: bytes or arrays. Leaves: arrays of the format's element type, or bytes. int4 is two values a byte, the
lower nibble first; tf32 lies in memory as fp32 and is rounded where a matrix unit reads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Format:
    """`rate` is the name under which a machine states the matrix unit's rate; "" where it has none."""

    name: str
    code: int
    bits: int
    kind: str
    dtype: np.dtype[Any]
    rate: str = ""

    def bytes(self, count: int) -> int:
        return (count * self.bits + 7) // 8

    @property
    def align(self) -> int:
        return max(1, self.bits // 8)

    def __repr__(self) -> str:
        return self.name

    def __hash__(self) -> int:
        return self.code

    def __reduce__(self) -> tuple[object, ...]:
        return (_named, (self.name,))  # formats are compared by identity, also behind a pickle


def _named(name: str) -> Format:
    return BY_NAME[name]


def _format(name: str, code: int, bits: int, kind: str, dtype: Any, rate: str = "") -> Format:
    return Format(name, code, bits, kind, np.dtype(dtype), rate)


I4 = _format("i4", 1, 4, "int", np.int8, "int4")
I8 = _format("i8", 2, 8, "int", np.int8, "int8")
I16 = _format("i16", 3, 16, "int", np.int16, "int16")
I32 = _format("i32", 4, 32, "int", np.int32)
I64 = _format("i64", 5, 64, "int", np.int64)
U8 = _format("u8", 6, 8, "uint", np.uint8)
U16 = _format("u16", 7, 16, "uint", np.uint16)
U32 = _format("u32", 8, 32, "uint", np.uint32)
U64 = _format("u64", 9, 64, "uint", np.uint64)
E4M3 = _format("e4m3", 10, 8, "float", ml_dtypes.float8_e4m3fn, "fp8")
E5M2 = _format("e5m2", 11, 8, "float", ml_dtypes.float8_e5m2, "fp8")
F16 = _format("f16", 12, 16, "float", np.float16, "fp16")
BF16 = _format("bf16", 13, 16, "float", ml_dtypes.bfloat16, "bf16")
TF32 = _format("tf32", 14, 32, "float", np.float32, "tf32")
F32 = _format("f32", 15, 32, "float", np.float32, "fp32")
F64 = _format("f64", 16, 64, "float", np.float64)

FORMATS = (I4, I8, I16, I32, I64, U8, U16, U32, U64, E4M3, E5M2, F16, BF16, TF32, F32, F64)
BY_NAME = {fmt.name: fmt for fmt in FORMATS}
BY_CODE = {fmt.code: fmt for fmt in FORMATS}
SIGNED = (I8, I16, I32, I64)
UNSIGNED = (U8, U16, U32, U64)
INTEGERS = SIGNED + UNSIGNED
FLOATS = (F32, F16, BF16, F64)


def unpack(fmt: Format, raw: Array, count: int) -> Array:
    """`count` elements from contiguous bytes; a view where the format allows one."""
    if fmt is not I4:
        return raw.view(fmt.dtype)
    low = (raw << 4).astype(np.int8) >> 4
    high = raw.astype(np.int8) >> 4
    return np.stack([low, high], axis=-1).reshape(-1)[:count]


def pack(fmt: Format, values: Array) -> Array:
    """The bytes of contiguous elements; an odd int4 count leaves the last upper nibble 0."""
    if fmt is not I4:
        return np.ascontiguousarray(values, fmt.dtype).reshape(-1).view(np.uint8)
    flat = values.reshape(-1).astype(np.uint8) & 15
    if flat.size % 2:
        flat = np.append(flat, np.uint8(0))
    return np.asarray(flat[0::2] | (flat[1::2] << 4), np.uint8)
