"""A small PNG encoder. In: height × width × channels of uint8. Out: the bytes of a PNG file."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import numpy.typing as npt

_COLOR = {1: 0, 2: 4, 3: 2, 4: 6}  # channels -> grey, grey and alpha, RGB, RGBA


def encode(pixels: npt.NDArray[np.uint8]) -> bytes:
    """The PNG file of an image that has 1 to 4 channels."""
    height, width, channels = pixels.shape
    rows = np.zeros((height, 1 + width * channels), np.uint8)  # each row starts with its filter: 0, none
    rows[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">2I5B", width, height, 8, _COLOR[channels], 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
