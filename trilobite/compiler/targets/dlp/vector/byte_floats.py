"""8-bit and 4-bit floats that the unit does not convert: looked up in tables.

A byte becomes float32 by a table of 256 numbers. A float32 becomes a byte by a search among the numbers from
which on each byte is the nearest: the tables come from the dtype's own rounding, so every format is exact.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from trilobite.base.dtypes import DType, bits
from trilobite.processor.isa.formats import F32, I32, U8, Format
from trilobite.processor.lang.ir import Constant, Value

if TYPE_CHECKING:
    from trilobite.compiler.targets.dlp.vector.chain import Emission

Array = np.ndarray[Any, Any]


@lru_cache(maxsize=16)
def decoded(dtype: DType) -> bytes:
    """What each byte means, as float32."""
    codes = np.arange(256, dtype=np.uint8)
    if bits(dtype) == 4:
        codes &= 15
    return codes.view(dtype).astype(np.float32).tobytes()


def _rounded(x: Array, dtype: DType) -> tuple[Array, Array]:
    """The bytes of rounded numbers, and what they mean."""
    with np.errstate(all="ignore"):
        codes = x.astype(np.float32).astype(dtype)
    value = codes.astype(np.float64)
    return codes.view(np.uint8), value


@lru_cache(maxsize=16)
def encoded(dtype: DType) -> tuple[bytes, bytes, bytes, int, int]:
    """Where each next byte begins (float32, filled up with NaN), bytes of positive and of negative numbers,
    the byte of NaN, and how many bits a place among them has.
    """
    steps: list[int] = []  # bits of the float32 from which on another byte is meant
    low, end = 0, 0x7F800000
    codes = [int(_code(0, dtype))]
    if _code(1, dtype) != codes[0]:  # a format without zero, whose byte for it is that beyond its range
        low = 1
        steps.append(low)
        codes.append(int(_code(low, dtype)))
    while _code(low, dtype) != _code(end, dtype):
        low = _next_change(low, end, dtype)
        steps.append(low)
        codes.append(int(_code(low, dtype)))
    width = max(len(steps).bit_length(), 1)
    starts = np.full(1 << width, np.nan, np.float32)
    starts[1 : 1 + len(steps)] = np.array(steps, np.uint32).view(np.float32)
    places = np.array([0, *steps], np.uint32).view(np.float32)
    negative = _rounded(-places, dtype)[0]
    nan = int(_rounded(np.array([np.nan]), dtype)[0][0])

    def table(values: Array) -> bytes:
        return np.pad(np.asarray(values, np.uint8), (0, (1 << width) - len(values)), mode="edge").tobytes()

    return starts.tobytes(), table(np.array(codes)), table(negative), nan, width


def _code(word: int, dtype: DType) -> int:
    return int(_rounded(np.array([word], np.uint32).view(np.float32), dtype)[0][0])


def _next_change(low: int, high: int, dtype: DType) -> int:
    """The first float32 behind `low`, by its bits, with another byte."""
    here = _code(low, dtype)
    while high - low > 1:
        middle = (low + high) // 2
        if _code(middle, dtype) == here:
            low = middle
        else:
            high = middle
    return high


# -- instructions --------------------------------------------------------------------------------------------


def _loaded(c: Emission, name: str, content: bytes) -> Value:
    """A table in NRAM."""
    place = c.w.buffer(name, len(content))
    c.w.copy(place, c.w.b.table(content, name), len(content))
    return place


def decode(c: Emission, pointer: Value, dtype: DType) -> Value:
    """Bytes as float32."""
    out = c.temporary(F32)
    table = _loaded(c, "meaning", decoded(dtype))
    _gather(c, F32, U8, out, table, pointer, 256)
    return out


def _gather(
    c: Emission, fmt: Format, index: Format, out: Value, table: Value, places: Value, size: int
) -> None:
    c.w.vector("VGATH", (fmt, index), out, c.count, table, places, size)


def encode(c: Emission, pointer: Value, dtype: DType, out: Value) -> None:
    """float32 as bytes."""
    starts, positive, negative, nan, width = encoded(dtype)
    table, size = _loaded(c, "starts", starts), 1 << width
    length, place, here, reached = (c.temporary(f) for f in (F32, I32, F32, I32))
    c.put("VABS", F32, length, pointer)
    c.put("VSET", I32, place, Constant(I32, 0))
    for step in (1 << k for k in range(width - 1, -1, -1)):
        c.put("VAS", I32, reached, place, Constant(I32, step))
        _gather(c, F32, I32, here, table, reached, size)
        c.put("VGE", F32, here, length, here)
        c.convert(reached, I32, here, F32)
        c.put("VMS", I32, reached, reached, Constant(I32, step))
        c.put("VAV", I32, place, place, reached)
    plus, minus, mask = (c.temporary(U8) for _ in range(3))
    _gather(c, U8, I32, plus, _loaded(c, "positive", positive), place, size)
    _gather(c, U8, I32, minus, _loaded(c, "negative", negative), place, size)
    c.put("VSHRS", I32, reached, pointer, Constant(I32, 31))
    c.put("VBANDS", I32, reached, reached, Constant(I32, 1))
    c.convert(mask, U8, reached, I32)
    c.put("VSEL", U8, plus, mask, minus, plus)
    c.put("VNE", F32, here, pointer, pointer)
    c.convert(mask, U8, here, F32)
    c.put("VSET", U8, minus, Constant(U8, nan))
    c.put("VSEL", U8, out, mask, minus, plus)
