"""GGUF's K-quants: super-blocks of 256 numbers in runs of 16 or 32, each run with a small integer scale.

Enters: an array of records. Leaves: float32, one row of 256 a record.
"""

from __future__ import annotations

import numpy as np

from trilobite.inference.formats.gguf.plain import column
from trilobite.inference.formats.mapped import Array


def _pairs_of_bits(qs: Array) -> Array:
    """64 bytes of four 2-bit numbers: of each half of 32 bytes first all lowest pairs, then the next."""
    halves = qs.reshape(-1, 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[:, None]
    return (halves & 3).reshape(-1, 256)


def _runs(scale: Array, q: Array) -> Array:
    """Numbers times the scale of their run."""
    n, runs = scale.shape
    found: Array = (scale[:, :, None] * q.reshape(n, runs, -1).astype(np.float32)).reshape(n, 256)
    return found


def _less(x: Array, minimum: Array) -> Array:
    n, runs = minimum.shape
    found: Array = (x.reshape(n, runs, -1) - minimum[:, :, None]).reshape(n, 256)
    return found


def q2(b: Array) -> Array:
    scale, minimum = column(b["d"]) * (b["scales"] & 15), column(b["dmin"]) * (b["scales"] >> 4)
    return _less(_runs(scale.astype(np.float32), _pairs_of_bits(b["qs"])), minimum.astype(np.float32))


def q3(b: Array) -> Array:
    """The third bit stands in `hmask`, one bit plane a run of 32, and is a 4 missing where it is 0."""
    planes = (b["hmask"][:, None, :] >> np.arange(8, dtype=np.uint8)[:, None]) & 1
    q = _pairs_of_bits(b["qs"]).astype(np.int8) - 4 * (1 - planes.reshape(-1, 256).astype(np.int8))
    low, high = b["scales"][:, :8], b["scales"][:, 8:]
    fours = np.concatenate([low & 15, low >> 4], axis=1)
    twos = (high[:, None, :] >> np.array([0, 2, 4, 6], np.uint8)[:, None]) & 3
    scale = (fours | twos.reshape(-1, 16) << 4).astype(np.float32) - 32
    return _runs(column(b["d"]) * scale, q)


def _six_bits(s: Array) -> tuple[Array, Array]:
    """Eight scales and eight minima of 6 bits in 12 bytes: four of each whole, of the others the low halves
    in the last four bytes and the top pairs above the first ones."""
    first, second, third = s[:, :4], s[:, 4:8], s[:, 8:]
    scale = np.concatenate([first & 63, (third & 15) | (first >> 6) << 4], axis=1)
    minimum = np.concatenate([second & 63, (third >> 4) | (second >> 6) << 4], axis=1)
    return scale.astype(np.float32), minimum.astype(np.float32)


def _nibbles_of_32(qs: Array) -> Array:
    """Of each 32 bytes first all low halves, then all high ones."""
    rows = qs.reshape(len(qs), -1, 1, 32) >> np.array([0, 4], np.uint8)[:, None]
    return rows & 15


def q4(b: Array) -> Array:
    scale, minimum = _six_bits(b["scales"])
    return _less(_runs(column(b["d"]) * scale, _nibbles_of_32(b["qs"])), column(b["dmin"]) * minimum)


def q5(b: Array) -> Array:
    scale, minimum = _six_bits(b["scales"])
    fifth = (b["qh"][:, None, :] >> np.arange(8, dtype=np.uint8)[:, None]) & 1
    q = _nibbles_of_32(b["qs"]).reshape(-1, 256) | fifth.reshape(-1, 256) << 4
    return _less(_runs(column(b["d"]) * scale, q), column(b["dmin"]) * minimum)


def q6(b: Array) -> Array:
    """Of each half: 64 bytes of low halves, 32 bytes of top pairs."""
    low = (b["ql"].reshape(-1, 2, 1, 64) >> np.array([0, 4], np.uint8)[:, None]) & 15
    top = (b["qh"].reshape(-1, 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[:, None]) & 3
    q = (low.reshape(-1, 256) | top.reshape(-1, 256) << 4).astype(np.int8) - 32
    return _runs(column(b["d"]) * b["scales"].astype(np.float32), q)
