"""The wire format of protocol buffers, as far as event files need it: each function writes one field.

In: a field's number and value. Out: bytes. Concatenated fields are a message; a message within another is
`data`.
"""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt


def varint(value: int) -> bytes:
    """Seven bits a byte, lowest first; negative numbers as 64-bit two's complement."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def integer(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def double(field: int, value: float) -> bytes:
    return varint(field << 3 | 1) + struct.pack("<d", value)


def single(field: int, value: float) -> bytes:
    """A float32; what is too large becomes infinite."""
    with np.errstate(over="ignore"):
        return varint(field << 3 | 5) + struct.pack("<f", np.float32(value))


def data(field: int, value: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(value)) + value


def text(field: int, value: str) -> bytes:
    return data(field, value.encode("utf-8"))


def doubles(field: int, values: npt.NDArray[np.float64]) -> bytes:
    """A packed list."""
    return data(field, values.astype("<f8").tobytes())
