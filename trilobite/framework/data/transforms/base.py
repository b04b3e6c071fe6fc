"""What a transform is, and how it meets an item.

In: an item (an array, a tuple of fields, a dict of fields) and a generator. Out: the item with some fields
replaced. A plain function gets the field alone; a `Transform` gets the field and the generator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from trilobite.base.errors import ArgumentError, DataError, DTypeError, ShapeError

if TYPE_CHECKING:
    from numpy.random import Generator  # importing it costs 15 ms


class Transform(ABC):
    """A function of one field; `rng` is the generator of this item in this epoch, good for this call only."""

    @abstractmethod
    def __call__(self, x: Any, rng: Generator | None = None) -> Any: ...

    def __repr__(self) -> str:
        told = ", ".join(
            f"{name}={value!r}" for name, value in vars(self).items() if not name.startswith("_")
        )
        return f"{type(self).__name__}({told})"


def apply(transform: Callable[..., Any], x: Any, rng: Generator | None) -> Any:
    """Call a transform with the generator, a plain function without."""
    return transform(x, rng) if isinstance(transform, Transform) else transform(x)


class Compose(Transform):
    """Transforms one after the other."""

    def __init__(self, *transforms: Callable[..., Any]) -> None:
        self.transforms = transforms

    def __call__(self, x: Any, rng: Generator | None = None) -> Any:
        for transform in self.transforms:
            x = apply(transform, x, rng)
        return x


class Lambda(Transform):
    """Any function `f(x)`, or `f(x, rng)` if it is random."""

    def __init__(self, function: Callable[..., Any], *, random: bool = False) -> None:
        self.function, self.random = function, random

    def __call__(self, x: Any, rng: Generator | None = None) -> Any:
        return self.function(x, demand(rng, "Lambda")) if self.random else self.function(x)


class Item(Transform):
    """Marks a transform that takes the whole item, not its first field: for images with boxes or masks."""

    def __init__(self, transform: Callable[..., Any]) -> None:
        self.transform = transform

    def __call__(self, x: Any, rng: Generator | None = None) -> Any:
        return apply(self.transform, x, rng)


def apply_to_item(transform: Any, item: Any, rng: Generator | None) -> Any:
    """What a loader's `transform=` means.

    A tuple holds one transform per field and a dict one per key (None leaves a field alone). A single
    transform is for the first field of a tuple, which is the input by custom, and for the whole of any other
    item.
    """
    if isinstance(transform, Mapping):
        return _by_key(transform, item, rng)
    if isinstance(transform, tuple | list):
        return _by_place(tuple(transform), item, rng)
    if isinstance(item, tuple) and item and not isinstance(transform, Item):
        return _by_place((transform,), item, rng)
    return apply(transform, item, rng)


def _by_key(transforms: Mapping[Any, Any], item: Any, rng: Generator | None) -> dict[Any, Any]:
    if not isinstance(item, Mapping) or not transforms.keys() <= item.keys():
        held = list(item) if isinstance(item, Mapping) else type(item).__name__
        raise DataError(
            f"transforms for keys {list(transforms)} do not fit the item",
            where=f"item with {held}",
            expected="a dict with these keys",
        )
    done = {key: apply(t, item[key], rng) for key, t in transforms.items() if t is not None}
    return {**item, **done}


def _by_place(transforms: tuple[Any, ...], item: Any, rng: Generator | None) -> tuple[Any, ...]:
    if not isinstance(item, tuple | list) or len(transforms) > len(item):
        raise DataError(
            f"{len(transforms)} transforms do not fit an item of type {type(item).__name__}",
            expected=f"a tuple of at least {len(transforms)} fields",
        )
    done = [x if t is None else apply(t, x, rng) for t, x in zip(transforms, item, strict=False)]
    fields = (*done, *item[len(done) :])
    return tuple.__new__(type(item), fields) if isinstance(item, tuple) else fields


def demand(rng: Generator | None, name: str) -> Generator:
    """The generator of a random transform, which must be there."""
    if rng is None:
        raise ArgumentError(
            f"{name} is random and was called without a generator",
            expected=f"{name}(...)(x, rng)",
            remedy="let a Loader call it, or pass np.random.default_rng(seed)",
        )
    return rng


def as_image(x: Any, name: str) -> npt.NDArray[Any]:
    """An array that can be an image: height × width, or height × width × channels."""
    if isinstance(x, tuple | list | Mapping):
        raise DTypeError(
            f"{name} works on an image, got a {type(x).__name__}",
            expected="an array",
            remedy=f"give the loader a transform per field: transform=({name}(...), None)",
        )
    image = np.asarray(x)
    if image.ndim not in (2, 3) or 0 in image.shape:
        raise ShapeError(
            f"{name}: shape {image.shape} is not an image",
            expected="(height, width) or (height, width, channels), none of them 0",
        )
    return image


def pair(size: Any, name: str) -> tuple[int, int]:
    """(height, width) from one number or two."""
    both = (size, size) if isinstance(size, int | np.integer) else tuple(size)
    if len(both) != 2 or any(
        isinstance(s, bool) or not isinstance(s, int | np.integer) or s < 1 for s in both
    ):
        raise ArgumentError(f"{name}: size {size!r}", expected="one or two integers >= 1: height, width")
    return int(both[0]), int(both[1])


def probability(p: float, name: str) -> float:
    if not 0 <= p <= 1:
        raise ArgumentError(f"{name}: probability {p!r}", expected="0 <= p <= 1")
    return float(p)
