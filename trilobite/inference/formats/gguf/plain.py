"""GGUF blocks of 32 numbers with one scale: Q4_0 to Q8_1, MXFP4, NVFP4; and Q8_K, which has that form too.

Enters: an array of records. Leaves: float32, one row a record. Nibbles: the low halves of a block's bytes
first, then the high ones.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from trilobite.inference.formats.mapped import Array

_E2M1 = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.float32)  # doubled


def column(x: Array) -> Array:
    """One number a record as float32, to be multiplied with its row."""
    found: Array = x.astype(np.float32)[:, None]
    return found


def nibbles(qs: Array) -> Array:
    return np.concatenate([qs & 15, qs >> 4], axis=-1)


def _fifth_bits(qh: Array) -> Array:
    found: Array = ((qh[:, None] >> np.arange(32, dtype=np.uint32)) & 1).astype(np.uint8) << 4
    return found


def q4_0(b: Array) -> Array:
    return column(b["d"]) * (nibbles(b["qs"]).astype(np.float32) - 8)


def q4_1(b: Array) -> Array:
    return column(b["d"]) * nibbles(b["qs"]).astype(np.float32) + column(b["m"])


def q5_0(b: Array) -> Array:
    return column(b["d"]) * ((nibbles(b["qs"]) | _fifth_bits(b["qh"])).astype(np.float32) - 16)


def q5_1(b: Array) -> Array:
    return column(b["d"]) * (nibbles(b["qs"]) | _fifth_bits(b["qh"])).astype(np.float32) + column(b["m"])


def q8(b: Array) -> Array:
    return column(b["d"]) * b["qs"].astype(np.float32)


def mxfp4(b: Array) -> Array:
    """The scale is a power of two, halved since the table is doubled."""
    scale = np.ldexp(np.float32(1), b["e"].astype(np.int32) - 128).astype(np.float32)
    return scale[:, None] * _E2M1[nibbles(b["qs"])]


def nvfp4(b: Array) -> Array:
    """Four runs of 16, each with a float8 scale without sign, of which 127 stands for 0; halved as well."""
    codes = np.where(b["d"] == 127, 0, b["d"] & 127).astype(np.uint8)
    scale = codes.view(ml_dtypes.float8_e4m3fn).astype(np.float32) * np.float32(0.5)
    found: Array = scale[:, :, None] * _E2M1[nibbles(b["qs"].reshape(-1, 4, 8))]
    return found.reshape(-1, 64)
