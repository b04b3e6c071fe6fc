"""Transforms of places: resize, crop, flip, rotate, cut out. Images are height × width (× channels)."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from trilobite.base.errors import ArgumentError, ShapeError
from trilobite.framework.data.samplers import count
from trilobite.framework.data.transforms.base import (
    Transform,
    as_image,
    demand,
    pair,
    probability,
)
from trilobite.framework.data.transforms.resample import METHODS, Array, check_method, resize, rotate

if TYPE_CHECKING:
    from numpy.random import Generator


class Resize(Transform):
    """To (height, width); one number sets the shorter side. See `resample` on antialiasing."""

    def __init__(
        self, size: int | tuple[int, int], method: str = "bilinear", *, antialias: bool = True
    ) -> None:
        pair(size, "Resize")
        self.size, self.antialias = size, antialias
        self.method = check_method(method, METHODS, "Resize")

    def __call__(self, x: Any, rng: Generator | None = None) -> Array:
        image = as_image(x, "Resize")
        return resize(image, self._target(*image.shape[:2]), self.method, antialias=self.antialias)

    def _target(self, height: int, width: int) -> tuple[int, int]:
        if isinstance(self.size, tuple | list):
            return pair(self.size, "Resize")
        short = min(height, width)
        return tuple(max(1, (2 * side * self.size + short) // (2 * short)) for side in (height, width))  # type: ignore[return-value]


def _crop(image: Array, size: tuple[int, int], top: int, left: int) -> Array:
    return image[top : top + size[0], left : left + size[1]].copy()


def _fits(shape: tuple[int, ...], size: tuple[int, int], name: str) -> tuple[int, int]:
    """How much room there is beside a crop."""
    room = shape[0] - size[0], shape[1] - size[1]
    if min(room) < 0:
        raise ShapeError(
            f"{name}: cannot cut {size[0]}×{size[1]} from {shape[0]}×{shape[1]}",
            expected="a crop that fits",
            remedy="Resize first, or give RandomCrop a padding",
        )
    return room


class CenterCrop(Transform):
    """The middle of an image."""

    def __init__(self, size: int | tuple[int, int]) -> None:
        self.size = pair(size, "CenterCrop")

    def __call__(self, x: Any, rng: Generator | None = None) -> Array:
        image = as_image(x, "CenterCrop")
        room = _fits(image.shape, self.size, "CenterCrop")
        return _crop(image, self.size, room[0] // 2, room[1] // 2)


class RandomCrop(Transform):
    """A window at a random place, after padding by (height, width) on each side.

    `mode` is NumPy's: "constant" (with `fill`), "edge", "reflect", "symmetric" or "wrap".
    """

    def __init__(
        self,
        size: int | tuple[int, int],
        padding: int | tuple[int, int] = 0,
        fill: float = 0,
        mode: str = "constant",
    ) -> None:
        self.size, self.fill, self.mode = pair(size, "RandomCrop"), fill, mode
        both = (padding, padding) if isinstance(padding, int) else padding
        self.padding = count("RandomCrop: padding", both[0]), count("RandomCrop: padding", both[1])
        check_method(mode, ("constant", "edge", "reflect", "symmetric", "wrap"), "RandomCrop")

    def __call__(self, x: Any, rng: Generator | None = None) -> Array:
        image, rng = as_image(x, "RandomCrop"), demand(rng, "RandomCrop")
        padded = image.shape[0] + 2 * self.padding[0], image.shape[1] + 2 * self.padding[1]
        room = _fits(padded, self.size, "RandomCrop")
        top, left = (int(rng.integers(0, r + 1)) for r in room)
        return self._window(image, top - self.padding[0], left - self.padding[1])

    def _window(self, image: Array, top: int, left: int) -> Array:
        """The window as if the image had been padded, which would cost more than all the rest."""
        (height, width), (h, w) = self.size, image.shape[:2]
        if self.mode == "constant":
            out = np.full((height, width, *image.shape[2:]), self.fill, image.dtype)
            inside = image[max(0, top) : max(0, top + height), max(0, left) : max(0, left + width)]
            out[max(0, -top) : max(0, h - top), max(0, -left) : max(0, w - left)] = inside
            return out
        rows = _padded(h, self.padding[0], self.mode)[top + self.padding[0] :][:height]
        columns = _padded(w, self.padding[1], self.mode)[left + self.padding[1] :][:width]
        return image[rows[:, None], columns]


@lru_cache(maxsize=64)
def _padded(n: int, padding: int, mode: str) -> npt.NDArray[np.int64]:
    """Which of `n` rows stands at each place of the padded axis."""
    return np.pad(np.arange(n), padding, mode=mode)  # type: ignore[call-overload,no-any-return]


class HorizontalFlip(Transform):
    """Left and right exchanged, with probability `p`."""

    def __init__(self, p: float = 0.5) -> None:
        self.p = probability(p, "HorizontalFlip")

    def __call__(self, x: Any, rng: Generator | None = None) -> Array:
        image = as_image(x, "HorizontalFlip")
        return image[:, ::-1].copy() if demand(rng, "HorizontalFlip").random() < self.p else image


class Rotate(Transform):
    """Turned counter-clockwise by a random angle, from -`degrees` to `degrees` or from a pair."""

    def __init__(
        self, degrees: float | tuple[float, float], method: str = "bilinear", fill: float = 0
    ) -> None:
        low, high = degrees if isinstance(degrees, tuple) else (-degrees, degrees)
        if not -np.inf < low <= high < np.inf:
            raise ArgumentError(f"Rotate: angles from {low} to {high}", expected="finite, low <= high")
        self.low, self.high, self.fill = float(low), float(high), fill
        self.method = check_method(method, ("bilinear", "nearest"), "Rotate")

    def __call__(self, x: Any, rng: Generator | None = None) -> Array:
        image = as_image(x, "Rotate")
        return rotate(image, demand(rng, "Rotate").uniform(self.low, self.high), self.method, self.fill)


class Cutout(Transform):
    """Squares of `fill` at random centres; they may hang over the edge (DeVries and Taylor, 2017)."""

    def __init__(self, size: int | tuple[int, int], fill: float = 0, holes: int = 1) -> None:
        self.size, self.fill, self.holes = pair(size, "Cutout"), fill, count("Cutout: holes", holes)

    def __call__(self, x: Any, rng: Generator | None = None) -> Array:
        image, rng = as_image(x, "Cutout").copy(), demand(rng, "Cutout")
        for _ in range(self.holes):
            places = (
                int(rng.integers(0, n)) - s // 2 for n, s in zip(image.shape[:2], self.size, strict=True)
            )
            top, left = places
            image[max(0, top) : max(0, top + self.size[0]), max(0, left) : max(0, left + self.size[1])] = (
                self.fill
            )
        return image
