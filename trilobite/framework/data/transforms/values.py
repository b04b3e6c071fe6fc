"""Transforms of values: scaling, normalising, one-hot coding, and the order of axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from trilobite.base.errors import ArgumentError, DataError, DTypeError, ShapeError
from trilobite.framework.data.samplers import count
from trilobite.framework.data.transforms.base import Transform, as_image

if TYPE_CHECKING:
    from numpy.random import Generator


class ToFloat(Transform):
    """Integers divided by the largest of their type (uint8: 0..1); booleans 0 and 1; floats only cast."""

    def __init__(self, dtype: npt.DTypeLike = np.float32) -> None:
        self.dtype = np.dtype(dtype)

    def __call__(self, x: Any, rng: Generator | None = None) -> Any:
        array = np.asarray(x)
        if array.dtype.kind not in "iu":
            return array.astype(self.dtype)
        # Rounded twice, a quotient is still the nearest if the wider format has more than twice the bits.
        narrow = array.dtype.itemsize <= 2 and self.dtype.itemsize <= 4
        exact = np.dtype(np.float32 if narrow else np.float64)
        scaled: npt.NDArray[Any] = array.astype(exact) / exact.type(np.iinfo(array.dtype).max)
        return scaled.astype(self.dtype)


class Normalize(Transform):
    """(x - mean) / std: one number, or one per channel on `axis` (the last unless told)."""

    def __init__(self, mean: npt.ArrayLike, std: npt.ArrayLike, *, axis: int = -1) -> None:
        self.mean, self.std, self.axis = np.asarray(mean, np.float64), np.asarray(std, np.float64), axis
        if self.mean.ndim > 1 or self.std.ndim > 1:
            raise ShapeError(
                "Normalize: mean and std have more than one axis", expected="a number, or one per channel"
            )
        if not np.all(np.isfinite(self.std) & (self.std > 0)) or not np.all(np.isfinite(self.mean)):
            raise ArgumentError(
                f"Normalize: mean {self.mean.tolist()}, std {self.std.tolist()}", expected="finite, std > 0"
            )

    def __call__(self, x: Any, rng: Generator | None = None) -> Any:
        array = np.asarray(x)
        if array.dtype.kind in "biuc":
            raise DTypeError(
                f"Normalize: got {array.dtype}", expected="floats", remedy="put ToFloat() before it"
            )
        return (array - self._fit(self.mean, array)) / self._fit(self.std, array)

    def _fit(self, value: npt.NDArray[np.float64], array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if value.ndim == 0:
            return value.astype(array.dtype)
        if not -array.ndim <= self.axis < array.ndim or array.shape[self.axis] != value.size:
            raise ShapeError(
                f"Normalize: {value.size} channels do not fit shape {array.shape} at axis {self.axis}",
                expected="as many numbers as channels",
                remedy="axis=0 for channels-first arrays",
            )
        shape = [1] * array.ndim
        shape[self.axis] = value.size
        return value.astype(array.dtype).reshape(shape)


class ChannelsFirst(Transform):
    """height × width (× channels) to channels × height × width, contiguous."""

    def __call__(self, x: Any, rng: Generator | None = None) -> Any:
        image = as_image(x, "ChannelsFirst")
        return np.ascontiguousarray(image[None] if image.ndim == 2 else image.transpose(2, 0, 1))


class OneHot(Transform):
    """A class number (or an array of them) to a vector of zeros with a one."""

    def __init__(self, classes: int, dtype: npt.DTypeLike = np.float32) -> None:
        self.classes, self.dtype = count("OneHot: classes", classes, 1), np.dtype(dtype)

    def __call__(self, x: Any, rng: Generator | None = None) -> Any:
        labels = np.asarray(x)
        if labels.dtype.kind not in "iu":
            raise DTypeError(f"OneHot: got {labels.dtype}", expected="integers")
        if labels.size and (labels.min() < 0 or labels.max() >= self.classes):
            raise DataError(
                f"OneHot: labels from {labels.min()} to {labels.max()}",
                expected=f"0 <= label < {self.classes}",
            )
        return (labels[..., None] == np.arange(self.classes)).astype(self.dtype)
