"""The messages of event files: TensorFlow's `Event`, `Summary` and what they hold, written field by field.

In: times, steps and values. Out: encoded messages. `Histogram` and `Image` mark values that are more than a
number.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from trilobite.base.errors import DataError, DTypeError, ShapeError
from trilobite.base.records import dataclass
from trilobite.framework.logs import png, wire
from trilobite.framework.logs.logger import scalar

_DT_STRING, _SESSION_START = 7, 1


@dataclass(frozen=True, eq=False)
class Histogram:
    """The distribution of all numbers in an array, in buckets that grow by a tenth each."""

    values: Any


@dataclass(frozen=True, eq=False)
class Image:
    """A picture: height × width or height × width × 1 to 4 channels, uint8 or floats in 0..1."""

    pixels: Any


def event(time: float, step: int, *parts: bytes) -> bytes:
    return b"".join((wire.double(1, time), wire.integer(2, step), *parts))


def file_version() -> bytes:
    return wire.text(3, "brain.Event:2")


def session_start() -> bytes:
    """Tells readers that what earlier files say of this step and later ones is void."""
    return wire.data(7, wire.integer(1, _SESSION_START))


def summary(*values: bytes) -> bytes:
    return wire.data(5, b"".join(wire.data(1, v) for v in values))


def value(name: str, content: Any) -> bytes:
    """One named value of a summary, in the form its type asks for."""
    tag = wire.text(1, name)
    if isinstance(content, str):
        return tag + _text(content)
    if isinstance(content, Histogram):
        return tag + wire.data(5, _histogram(content, name))
    if isinstance(content, Image):
        return tag + wire.data(4, _image(content, name))
    return tag + wire.single(2, float(scalar(content, name)))


def _text(content: str) -> bytes:
    shape = wire.data(2, wire.integer(1, 1))  # one axis of extent 1
    tensor = wire.integer(1, _DT_STRING) + wire.data(2, shape) + wire.text(8, content)
    return wire.data(8, tensor) + wire.data(9, wire.data(1, wire.text(1, "text")))


@lru_cache(maxsize=1)
def _limits() -> npt.NDArray[np.float64]:
    """Upper ends of the buckets: 0, and ±1e-12 · 1.1**k up to 1e20, and the largest double."""
    positive = 1e-12 * 1.1 ** np.arange(774)
    return np.concatenate([-positive[::-1], [0.0], positive, [np.finfo(np.float64).max]])


def _histogram(content: Histogram, name: str) -> bytes:
    array = np.asarray(content.values)
    if array.dtype.kind in "OSUcMm":
        raise DTypeError(f"histogram {name!r} of {array.dtype}", expected="real numbers")
    values = array.astype(np.float64).ravel()
    if not values.size or not np.isfinite(values).all():
        what = "is empty" if not values.size else "has NaN or infinite values"
        raise DataError(f"histogram {name!r} {what}", expected="finite numbers, at least one")
    limits = _limits()
    counts = np.bincount(np.searchsorted(limits, values, side="left"), minlength=limits.size).astype(
        np.float64
    )
    used = np.flatnonzero(counts)
    span = slice(max(0, used[0] - 1), used[-1] + 1)  # one empty bucket first: it gives the lower end
    with np.errstate(over="ignore"):
        moments = (values.min(), values.max(), float(values.size), values.sum(), np.square(values).sum())
    numbers = b"".join(wire.double(i, float(m)) for i, m in enumerate(moments, start=1))
    return numbers + wire.doubles(6, limits[span]) + wire.doubles(7, counts[span])


def _image(content: Image, name: str) -> bytes:
    pixels = np.asarray(content.pixels)
    pixels = pixels[:, :, None] if pixels.ndim == 2 else pixels
    if pixels.ndim != 3 or not 1 <= pixels.shape[2] <= 4 or 0 in pixels.shape:
        raise ShapeError(
            f"image {name!r} has shape {np.shape(content.pixels)}",
            expected="(height, width) or (height, width, 1 to 4 channels)",
            remedy="channels-first arrays: image.transpose(1, 2, 0)",
        )
    if pixels.dtype != np.uint8:
        pixels = _to_bytes(pixels, name)
    height, width, channels = pixels.shape
    size = wire.integer(1, height) + wire.integer(2, width) + wire.integer(3, channels)
    return size + wire.data(4, png.encode(pixels))


def _to_bytes(pixels: npt.NDArray[Any], name: str) -> npt.NDArray[np.uint8]:
    if pixels.dtype.kind in "biucOSUMm":
        raise DTypeError(f"image {name!r} of {pixels.dtype}", expected="uint8, or floats in 0..1")
    real = pixels.astype(np.float64)
    if np.isnan(real).any():
        raise DataError(f"image {name!r} has NaN pixels", expected="floats in 0..1")
    return np.rint(np.clip(real, 0, 1) * 255).astype(np.uint8)
