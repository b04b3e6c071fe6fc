"""GGUF's I-quants: runs of 4 or 8 numbers as an index into a table of points, with signs and small scales.

Enters: an array of records. Leaves: float32, one row a record. The tables are part of the format (`grids`).
IQ1 has ternary points moved by an eighth; IQ4 has a table of sixteen levels instead.
"""

from __future__ import annotations

import numpy as np

from trilobite.inference.formats.gguf.grids import grid
from trilobite.inference.formats.gguf.plain import column, nibbles
from trilobite.inference.formats.mapped import Array

_LEVELS = np.array(
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32
)  # of IQ4: denser near 0
_EIGHT = np.arange(8, dtype=np.uint8)


def _eight_signs(bits: Array) -> Array:
    """A byte as eight factors: a set bit means -1."""
    found: Array = 1 - 2 * ((bits[..., None] >> _EIGHT) & 1).astype(np.float32)
    return found


def _seven_signs(bits: Array) -> Array:
    """Seven bits of signs; the eighth makes the number of set ones even."""
    seven = bits.astype(np.uint8)
    parity = np.bitwise_xor.reduce((seven[..., None] >> _EIGHT[:7]) & 1, axis=-1)
    return _eight_signs(seven | parity << 7)


def _nibbles_in_turn(x: Array) -> Array:
    """The low half of each byte, then its high half, before the next byte."""
    found: Array = np.stack([x & 15, x >> 4], axis=-1).reshape(len(x), -1)
    return found


def _points(scale: Array, points: Array) -> Array:
    """Points (n, ...) times a scale for each run of them (n, runs), as rows."""
    n, runs = scale.shape
    found: Array = (scale[:, :, None] * points.reshape(n, runs, -1)).reshape(n, -1).astype(np.float32)
    return found


def iq2_xxs(b: Array) -> Array:
    pairs = b["qs"].reshape(-1, 8, 2)
    index = np.ascontiguousarray(pairs[..., 0]).view(np.uint8).reshape(-1, 8, 4)
    rest = pairs[..., 1]
    signs = _seven_signs((rest[..., None] >> np.array([0, 7, 14, 21], np.uint32)) & 127)
    scale = column(b["d"]) * (np.float32(0.5) + (rest >> 28)).astype(np.float32) * np.float32(0.25)
    return _points(scale, grid("iq2_xxs")[index] * signs)


def iq2_xs(b: Array) -> Array:
    points = grid("iq2_xs")[b["qs"] & 511] * _seven_signs(b["qs"] >> 9)
    scale = column(b["d"]) * (np.float32(0.5) + _nibbles_in_turn(b["scales"])) * np.float32(0.25)
    return _points(scale, points)


def iq2_s(b: Array) -> Array:
    top = (b["qh"][:, :, None] >> np.array([0, 2, 4, 6], np.uint8)) & 3
    index = b["qs"] | top.reshape(-1, 32).astype(np.uint16) << 8
    scale = column(b["d"]) * (np.float32(0.5) + _nibbles_in_turn(b["scales"])) * np.float32(0.25)
    return _points(scale, grid("iq2_s")[index] * _eight_signs(b["signs"]))


def iq3_xxs(b: Array) -> Array:
    rest = b["signs"]
    signs = _seven_signs((rest[..., None] >> np.array([0, 7, 14, 21], np.uint32)) & 127)
    scale = column(b["d"]) * (np.float32(0.5) + (rest >> 28)).astype(np.float32) * np.float32(0.5)
    return _points(scale, grid("iq3_xxs")[b["qs"]].reshape(-1, 8, 4, 8) * signs)


def iq3_s(b: Array) -> Array:
    top = (b["qh"][:, :, None] >> _EIGHT) & 1
    index = b["qs"] | top.reshape(-1, 64).astype(np.uint16) << 8
    scale = column(b["d"]) * (1 + 2 * _nibbles_in_turn(b["scales"]).astype(np.float32))
    return _points(scale, grid("iq3_s")[index].reshape(-1, 32, 8) * _eight_signs(b["signs"]))


def iq1_s(b: Array) -> Array:
    qh = b["qh"]
    top = (qh[:, :, None] >> np.array([0, 3, 6, 9], np.uint16)) & 7
    index = b["qs"] | top.reshape(-1, 32) << 8
    scale = column(b["d"]) * (2 * ((qh >> 12) & 7) + 1).astype(np.float32)
    delta = np.where(qh & 0x8000, np.float32(-0.125), np.float32(0.125))
    return _points(scale, grid("iq1")[index].reshape(-1, 8, 32) + delta[:, :, None])


def iq1_m(b: Array) -> Array:
    """The scale of the whole block is put together from the top halves of its four words."""
    words = b["scales"]
    d = np.zeros(len(b), np.uint16)
    for i in range(4):
        d |= (words[:, i] >> 12) << (4 * i)
    threes = (words[:, :, None] >> np.array([0, 3, 6, 9], np.uint16)) & 7
    scale = column(d.view(np.float16)) * (2 * threes.reshape(-1, 16) + 1).astype(np.float32)
    halves = _nibbles_in_turn(b["qh"])
    index = b["qs"] | (halves & 7).astype(np.uint16) << 8
    delta = np.where(halves & 8, np.float32(-0.125), np.float32(0.125))
    return _points(scale, grid("iq1")[index] + delta[:, :, None])


def iq4_nl(b: Array) -> Array:
    return column(b["d"]) * _LEVELS[nibbles(b["qs"])]


def iq4_xs(b: Array) -> Array:
    top = (b["scales_h"][:, None] >> np.arange(0, 16, 2, dtype=np.uint16)) & 3
    scale = (_nibbles_in_turn(b["scales_l"]) | (top << 4).astype(np.uint8)).astype(np.float32) - 32
    return _points(column(b["d"]) * scale, _LEVELS[nibbles(b["qs"].reshape(-1, 8, 16))])
