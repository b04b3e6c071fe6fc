"""TFRecord framing: a length, the data, and a checksum after each.

In: bytes. Out: the record. The checksum is CRC-32C, rotated and offset ("masked") so that data which holds
checksums can be checked itself. Long data is cut into lanes that are folded side by side in NumPy and then
joined: the CRC is linear.
"""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint32]

_POLYNOMIAL = 0x82F63B78  # Castagnoli's, bits reversed
_SHORT = 4096  # below this a loop over bytes is as fast


def _make_table() -> Words:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = (table >> np.uint32(1)) ^ np.where(table & 1, np.uint32(_POLYNOMIAL), np.uint32(0))
    return table


_TABLE = _make_table()
_LIST: list[int] = _TABLE.tolist()


def crc32c(data: bytes) -> int:
    """The CRC-32C (Castagnoli) of some bytes."""
    state, rest = 0xFFFFFFFF, data
    if len(data) >= _SHORT:
        lanes = 1 << (len(data).bit_length() // 2)  # about as many as each is long
        length = len(data) // lanes
        state, rest = _fold(data[: lanes * length], lanes, length), data[lanes * length :]
    for byte in rest:
        state = _LIST[(state ^ byte) & 0xFF] ^ (state >> 8)
    return state ^ 0xFFFFFFFF


def _fold(data: bytes, lanes: int, length: int) -> int:
    columns = np.ascontiguousarray(np.frombuffer(data, np.uint8).reshape(lanes, length).T)
    states = np.zeros(lanes, np.uint32)
    states[0] = 0xFFFFFFFF
    for column in columns:
        states = _TABLE[(states ^ column) & np.uint32(0xFF)] ^ (states >> np.uint32(8))
    skip = _skip(length)
    while states.size > 1:  # neighbours: the left one is moved past the right one's bytes and added to it
        states = _apply(skip, states[0::2]) ^ states[1::2]
        skip = _apply(skip, skip)
    return int(states[0])


def _skip(length: int) -> Words:
    """What `length` zero bytes do to each bit of the state: a 32 × 32 matrix, one column a word."""
    bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
    power = _TABLE[bits & np.uint32(0xFF)] ^ (bits >> np.uint32(8))
    total = bits
    while length:
        if length & 1:
            total = _apply(power, total)
        power = _apply(power, power)
        length >>= 1
    return total


def _apply(matrix: Words, vectors: Words) -> Words:
    chosen = (vectors[:, None] >> np.arange(32, dtype=np.uint32)) & np.uint32(1)
    return np.asarray(np.bitwise_xor.reduce(chosen * matrix, axis=1), np.uint32)


def masked_crc32c(data: bytes) -> int:
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def record(data: bytes) -> bytes:
    """Length, its checksum, the data, its checksum; all little-endian."""
    length = struct.pack("<Q", len(data))
    return b"".join(
        (length, struct.pack("<I", masked_crc32c(length)), data, struct.pack("<I", masked_crc32c(data)))
    )
