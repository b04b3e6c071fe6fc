"""Scales by which one may multiply instead of dividing, and get the same codes.

`quantise` rounds x / scale to a whole number. A product with the reciprocal is several times cheaper on a
vector unit, but rounds elsewhere: for most scales some x next to the middle of two codes goes to the other
one. Both are steps that rise with x, so they are the same function if they rise at the same float32 numbers:
that is checked here for every code. Few scales have such a reciprocal; one in some thousand neighbours does.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_AROUND = 8  # floats on either side of the middle of two codes, among which the step lies
_LEAST, _LARGEST = 1e-30, 1e30  # scales whose codes and reciprocals are far from the ends of float32
_NEIGHBOURS = 1 << 14  # floats above a scale that are looked through
_TRIED = 64  # of them, the nearest to an exact reciprocal


@lru_cache(4096)
def exact_reciprocal(scale: float, low: int, high: int) -> float | None:
    """A float32 `r` with rint(x * r) == rint(x / scale), both held between `low` and `high`, for every
    float32 x (products and quotients are rounded to float32); None if there is none next to 1 / scale."""
    step, codes = np.float32(scale), np.arange(low, high)
    if not _LEAST < step < _LARGEST:
        return None
    before, behind = _steps(scale, low, high)
    nearest = np.float32(1 / float(step))
    for r in (nearest, np.nextafter(nearest, np.float32(0)), np.nextafter(nearest, np.float32(np.inf))):
        if np.all(np.rint(before * r) <= codes) and np.all(np.rint(behind * r) > codes):
            return float(r)
    return None


@lru_cache(4096)
def reciprocal_in_two(scale: float, low: int, high: int) -> tuple[float, float] | None:
    """Two float32 `r` and `s` with rint(x * r + x * s) == rint(x / scale), both held between `low` and
    `high`, for every float32 x: x * s is rounded, then the product with r and the sum are rounded as one. `s`
    is 0 if `r` alone does it. None if even two do not.
    """
    single = exact_reciprocal(scale, low, high)
    if single is not None or not _LEAST < scale < _LARGEST:
        return None if single is None else (single, 0.0)
    step, codes = np.float32(scale), np.arange(low, high)
    r = np.float32(1 / float(step))
    if float(r) * float(step) > 1:  # so that the rest is positive, and infinity plus infinity no NaN
        r = np.nextafter(r, np.float32(0))
    s = np.float32((1 - float(r) * float(step)) / float(step))  # the product of two float32 is exact
    before, behind = (_fused(x, r, s) for x in _steps(scale, low, high))
    if before is None or behind is None:
        return None
    fits = np.all(np.rint(before) <= codes) and np.all(np.rint(behind) > codes)
    return (float(r), float(s)) if fits else None


def _fused(x: Array, r: np.float32, s: np.float32) -> Array | None:
    """x * r + x * s by one fused multiply-add; None where float64 does not tell which way that rounds."""
    product, rest = x.astype(np.float64) * float(r), (x * s).astype(np.float64)
    total = product + rest
    lost = rest - (total - product)  # the larger first: exactly what the sum left out
    out: Array = total.astype(np.float32)
    middle = np.abs(total - out) == np.abs(np.spacing(out).astype(np.float64)) / 2
    return None if np.any(middle & (lost != 0)) else out


@lru_cache(16)
def _steps(number: float, low: int, high: int) -> tuple[Array, Array]:
    """For each code the largest float32 that is rounded to it or below, and the next one."""
    scale, codes = np.float32(number), np.arange(low, high)
    middles = ((codes.astype(np.float64) + 0.5) * float(scale)).astype(np.float32)
    ordered = _ordered(middles.view(np.int32))
    places = ordered[:, None] + np.arange(-_AROUND, _AROUND + 1, dtype=np.int64)
    near = _ordered(places.astype(np.int32)).view(np.float32)
    above = np.rint(near / scale) > codes[:, None]
    assert not above[:, 0].any() and above[:, -1].all()
    first = above.argmax(1)
    rows = np.arange(len(codes))
    return near[rows, first - 1], near[rows, first]


def _ordered(bits: Array) -> Array:
    """Bits of float32 numbers as integers in the same order, and back."""
    return np.where(bits < 0, np.int32(-(2**31)) - bits, bits)


@lru_cache(4096)
def with_reciprocal(scale: float, low: int, high: int) -> float:
    """The scale, or the next larger one (by a thousandth at most) that has an exact reciprocal; the scale
    itself where none is found."""
    first = np.float32(scale)
    if not _LEAST < first < _LARGEST or exact_reciprocal(float(first), low, high) is not None:
        return float(first)
    near = (
        (first.view(np.int32) + np.arange(1, _NEIGHBOURS, dtype=np.int32)).view(np.float32).astype(np.float64)
    )
    misses = np.abs((1 / near).astype(np.float32).astype(np.float64) * near - 1)
    for at in np.sort(np.argsort(misses, kind="stable")[:_TRIED]):
        if exact_reciprocal(float(near[at]), low, high) is not None:
            return float(near[at])
    return float(first)
