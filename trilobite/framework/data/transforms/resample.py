"""Resampling of images: resize by nearest neighbour, bilinear or area, and rotation.

In: height × width (× channels) of any real dtype. Out: the same dtype. Pixels are unit squares with their
centres at halves, so the corners of input and output coincide. Sums run in float32 (float64 for float64 and
wide integers), tap by tap, which fixes their order; integers are rounded to the nearest, ties to even, and
clipped.

Antialiasing: shrinking with a filter of fixed width skips pixels and makes patterns that are not there. With
`antialias=True`, bilinear widens its filter by the factor of shrinking, as Pillow does; area always covers
all pixels.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from trilobite.base.errors import ArgumentError, DTypeError

Array = npt.NDArray[Any]
Taps = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]
METHODS = ("bilinear", "nearest", "area")


def check_method(method: str, allowed: tuple[str, ...], name: str) -> str:
    if method not in allowed:
        raise ArgumentError(f"{name}: method {method!r}", expected=f"one of {', '.join(allowed)}")
    return method


def resize(image: Array, size: tuple[int, int], method: str = "bilinear", *, antialias: bool = True) -> Array:
    """The image at another size (height, width)."""
    check_method(method, METHODS, "resize")
    if method == "nearest":
        rows, columns = (_nearest(n, m) for n, m in zip(image.shape[:2], size, strict=True))
        return image[rows[:, None], columns]
    work = _to_work(image, "resize")
    for n, m in zip(image.shape[:2], size, strict=True):
        if n != m:
            work = _weigh(work, _taps(n, m, method, antialias))
        work = np.ascontiguousarray(work.swapaxes(0, 1))  # rows of pixels lie together; twice is the identity
    return _from_work(work, image.dtype)


def _to_work(image: Array, name: str) -> Array:
    if image.dtype.kind in "bcOSU":
        raise DTypeError(
            f"{name}: {image.dtype} cannot be averaged", expected="real numbers", remedy="method='nearest'"
        )
    wide = image.dtype == np.float64 or (image.dtype.kind in "iu" and image.dtype.itemsize > 2)
    return image.astype(np.float64 if wide else np.float32)


def _from_work(work: Array, dtype: np.dtype[Any]) -> Array:
    if dtype.kind not in "iu":
        return work.astype(dtype)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    rounded = np.rint(work)
    inside = np.clip(rounded, low, high).astype(np.float64)
    if dtype.itemsize < 8:
        return inside.astype(dtype)
    # 2**63 and 2**64 are floats, the largest integers below them are not: clip once more in integers.
    top = inside >= float(high)
    return np.where(top, high, np.where(top, 0, inside).astype(dtype)).astype(dtype)


def _nearest(n: int, m: int) -> npt.NDArray[np.int64]:
    """The pixel that holds the centre of each of `m` output pixels, in integers: no rounding to depend on."""
    return (2 * np.arange(m, dtype=np.int64) + 1) * n // (2 * m)


@lru_cache(maxsize=128)
def _taps(n: int, m: int, method: str, antialias: bool) -> Taps:
    """For each of `m` outputs: which of `n` inputs count, and how much. Weights sum to one."""
    scale = n / m
    radius = scale / 2 if method == "area" else max(scale, 1.0) if antialias else 1.0
    centre = (np.arange(m) + 0.5) * scale
    first = np.floor(centre - radius).astype(np.int64)
    index = first[:, None] + np.arange(math.floor(2 * radius) + 2)
    if method == "area":  # how much of each pixel the output's square covers
        right = np.minimum(index + 1, (centre + radius)[:, None])
        weight = np.maximum(right - np.maximum(index, (centre - radius)[:, None]), 0.0)
    else:
        weight = np.maximum(1 - np.abs(index + 0.5 - centre[:, None]) / radius, 0.0)
    weight[(index < 0) | (index >= n)] = 0.0
    weight /= weight.sum(axis=1, keepdims=True)
    used = weight.any(axis=0)
    return np.clip(index[:, used], 0, n - 1), weight[:, used]


def _weigh(work: Array, taps: Taps) -> Array:
    """Weighted sums of rows: the new first axis has one entry per row of taps."""
    index, weight = taps
    total = np.zeros((index.shape[0], *work.shape[1:]), work.dtype)
    part = np.empty_like(total)
    spread = weight.astype(work.dtype).reshape(*weight.shape, *[1] * (work.ndim - 1))
    for k in range(index.shape[1]):
        np.take(work, index[:, k], axis=0, out=part, mode="clip")
        total += np.multiply(part, spread[:, k], out=part)
    return total


def rotate(image: Array, degrees: float, method: str = "bilinear", fill: float = 0) -> Array:
    """The image turned counter-clockwise about its centre; what comes from outside is `fill`."""
    check_method(method, ("bilinear", "nearest"), "rotate")
    height, width = image.shape[:2]
    angle = math.radians(degrees)
    sin, cos = math.sin(angle), math.cos(angle)
    y = np.arange(height)[:, None] - (height - 1) / 2
    x = np.arange(width)[None, :] - (width - 1) / 2
    source_y = cos * y + sin * x + (height - 1) / 2
    source_x = cos * x - sin * y + (width - 1) / 2
    if method == "nearest":
        return _pick(image, np.rint(source_y), np.rint(source_x), fill)
    work = _to_work(image, "rotate")
    top, left = np.floor(source_y), np.floor(source_x)
    down, right = source_y - top, source_x - left
    corners = (
        (0, 0, (1 - down) * (1 - right)),
        (0, 1, (1 - down) * right),
        (1, 0, down * (1 - right)),
        (1, 1, down * right),
    )
    out = np.zeros_like(work)
    for dy, dx, weight in corners:
        spread = weight.astype(work.dtype).reshape(height, width, *[1] * (image.ndim - 2))
        out += _pick(work, top + dy, left + dx, fill) * spread
    return _from_work(out, image.dtype)


def _pick(image: Array, y: npt.NDArray[np.float64], x: npt.NDArray[np.float64], fill: float) -> Array:
    """The pixels at whole places (y, x); those outside are the one that stands after the last."""
    height, width = image.shape[:2]
    pixels = np.concatenate(
        [image.reshape(height * width, -1), np.full((1, image[0, 0].size), fill, image.dtype)]
    )
    inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
    place = np.where(inside, y * width + x, height * width).astype(np.int64)
    picked: Array = np.take(pixels, place, axis=0)
    return picked.reshape(image.shape)
