"""GGUF's ternary types: 256 numbers of -1, 0 or 1 times one scale.

Enters: an array of records. Leaves: float32, one row of 256 a record. TQ1_0 keeps five digits a byte, as a
fraction in base 3 of which each multiplication by 3 brings up the next; TQ2_0 keeps four pairs of bits.
"""

from __future__ import annotations

import numpy as np

from trilobite.inference.formats.gguf.plain import column
from trilobite.inference.formats.mapped import Array


def _digits(qs: Array, number: int) -> Array:
    """Digit after digit of all bytes, as 0, 1, 2."""
    powers = np.array([1, 3, 9, 27, 81][:number], np.uint8)
    fraction = (qs[:, None, :] * powers[:, None]).astype(np.uint8)
    found: Array = ((fraction.astype(np.uint16) * 3) >> 8).reshape(len(qs), -1)
    return found


def tq1_0(b: Array) -> Array:
    qs = b["qs"]
    parts = [_digits(qs[:, :32], 5), _digits(qs[:, 32:], 5), _digits(b["qh"], 4)]
    return column(b["d"]) * (np.concatenate(parts, axis=1).astype(np.float32) - 1)


def tq2_0(b: Array) -> Array:
    pairs = (b["qs"].reshape(-1, 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[:, None]) & 3
    return column(b["d"]) * (pairs.reshape(-1, 256).astype(np.float32) - 1)
