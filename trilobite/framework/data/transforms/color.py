"""Transforms of colours. In: images of uint8 or floats in 0..1, channels last. Out: the same dtype.

Brightness and contrast also take grey images; saturation and hue need three channels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from trilobite.base.errors import ArgumentError, DTypeError, ShapeError
from trilobite.framework.data.transforms.base import Transform, as_image, demand
from trilobite.framework.data.transforms.resample import Array

if TYPE_CHECKING:
    from numpy.random import Generator

_LUMA = np.array([0.299, 0.587, 0.114], np.float32)  # ITU-R BT.601, as in JPEG


class ColorJitter(Transform):
    """Brightness, contrast, saturation and hue changed by random amounts, in random order.

    The first three multiply by a factor from [max(0, 1 - a), 1 + a]; hue turns by up to `hue` of a full
    circle (≤ 0.5).
    """

    def __init__(
        self, brightness: float = 0, contrast: float = 0, saturation: float = 0, hue: float = 0
    ) -> None:
        self.brightness, self.contrast, self.saturation, self.hue = brightness, contrast, saturation, hue
        if not all(0 <= a < np.inf for a in (brightness, contrast, saturation, hue)) or not hue <= 0.5:
            raise ArgumentError(f"{self!r}", expected="finite amounts >= 0, hue <= 0.5")

    def __call__(self, x: Any, rng: Generator | None = None) -> Array:
        source, rng = as_image(x, "ColorJitter"), demand(rng, "ColorJitter")
        image = self._to_float(source)
        amounts = (self.brightness, self.contrast, self.saturation)
        factors = [rng.uniform(max(0.0, 1 - a), 1 + a) for a in amounts]
        turn = rng.uniform(-self.hue, self.hue)
        changes = (
            (self.brightness, lambda i: i * np.float32(factors[0])),
            (self.contrast, lambda i: _blend(i, _grey(i).mean(), factors[1])),
            (self.saturation, lambda i: _blend(i, _grey(i)[..., None], factors[2])),
            (self.hue, lambda i: turn_hue(i, turn)),
        )
        for k in rng.permutation(4):
            amount, change = changes[k]
            if amount:
                image = np.clip(change(image), 0, 1)
        return (
            np.rint(image * 255).astype(np.uint8) if source.dtype == np.uint8 else image.astype(source.dtype)
        )

    def _to_float(self, source: Array) -> npt.NDArray[np.float32]:
        if source.dtype != np.uint8 and source.dtype.kind != "f":
            raise DTypeError(f"ColorJitter: got {source.dtype}", expected="uint8, or floats in 0..1")
        if (self.saturation or self.hue) and source.shape[2:] != (3,):
            raise ShapeError(
                f"ColorJitter: shape {source.shape} has no colours",
                expected="(height, width, 3) for saturation and hue",
            )
        return source.astype(np.float32) / np.float32(255 if source.dtype == np.uint8 else 1)


def _grey(image: Array) -> Array:
    if image.shape[2:] == (3,):
        return np.asarray(image @ _LUMA)
    return image if image.ndim == 2 else image.mean(axis=2)


def _blend(image: Array, other: Any, factor: float) -> Array:
    return np.asarray(other + (image - other) * np.float32(factor), np.float32)


def turn_hue(image: Array, turn: float) -> Array:
    """RGB in 0..1 with its hue turned by a part of the circle; value and saturation stay."""
    value, low = image.max(axis=2), image.min(axis=2)
    chroma = value - low
    hue = _hue(image, value, chroma) + 6 * turn
    # The way back to RGB, channel by channel: value - chroma * trapezium of the hue.
    k = (np.array([5.0, 3.0, 1.0]) + hue[..., None]) % 6
    trapezium = np.clip(np.minimum(k, 4 - k), 0, 1)
    return np.asarray(value[..., None] - chroma[..., None] * trapezium, image.dtype)


def _hue(image: Array, value: Array, chroma: Array) -> Array:
    """Hue in sixths of the circle; 0 where there is no colour."""
    r, g, b = (image[..., c].astype(np.float64) for c in range(3))
    safe = np.where(chroma > 0, chroma, 1).astype(np.float64)
    hue = np.where(value == r, (g - b) / safe, np.where(value == g, 2 + (b - r) / safe, 4 + (r - g) / safe))
    return np.asarray(np.where(chroma > 0, hue % 6, 0.0))
