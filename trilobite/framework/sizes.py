"""Shapes and sizes as PyTorch and the array API standard both spell them.

`x.shape` is a tuple that also counts (`x.shape.numel()`). `x.size` is the number of elements, as the standard
has it, and can be called: `x.size()` is the shape, `x.size(0)` one extent, as PyTorch has it.
"""

from __future__ import annotations

from typing import Any, SupportsIndex

from trilobite.base import pytree
from trilobite.base.errors import ShapeError
from trilobite.base.locations import user_location
from trilobite.ir.types import Affine, size_of


class Size(tuple[Any, ...]):
    """The extents of a tensor."""

    __slots__ = ()

    def numel(self) -> Any:
        """How many elements a tensor of this shape has."""
        return size_of(self)

    def __getitem__(self, key: SupportsIndex | slice) -> Any:
        found = tuple.__getitem__(self, key)
        return Size(found) if type(key) is slice else found

    def __add__(self, other: Any) -> Size:
        return Size(tuple.__add__(self, tuple(other)))

    def __mul__(self, times: Any) -> Size:
        return Size(tuple.__mul__(self, times))

    __rmul__ = __mul__

    def __radd__(self, other: Any) -> Size:
        """A tuple before it; also `sum(shapes, ())`. A list takes its extents: `sizes += x.shape`."""
        return Size((*other, *self)) if isinstance(other, tuple) else NotImplemented


pytree.register(Size, lambda x: (x, None), lambda _, children: Size(children))


def _extent(shape: tuple[Any, ...], dim: Any) -> Any:
    if dim is None:
        return Size(shape)
    at = dim.__index__()
    if not -len(shape) <= at < len(shape):
        raise _NoSuchExtent(
            f"size({at}) of a tensor with {len(shape)} dimensions",
            where=user_location(),
            expected=f"{-len(shape)} <= dim < {len(shape)}",
        )
    return shape[at]


class _NoSuchExtent(ShapeError, IndexError):
    """An axis that the tensor does not have."""


class Count(int):
    """The number of elements; called, the shape or one of its extents."""

    shape: tuple[Any, ...]

    def __call__(self, dim: Any = None) -> Any:
        return _extent(self.shape, dim)

    def __reduce__(self) -> Any:
        return int, (int(self),)


class SymbolicCount(Affine):
    """The same where a run decides."""

    __slots__ = ("shape",)
    shape: tuple[Any, ...]

    def __call__(self, dim: Any = None) -> Any:
        return _extent(self.shape, dim)


class Uncounted:
    """The size of a shape whose product is no size that a graph can have: it can only be called."""

    def __init__(self, shape: tuple[Any, ...]) -> None:
        self.shape = shape

    def __call__(self, dim: Any = None) -> Any:
        return _extent(self.shape, dim)

    def __index__(self) -> int:
        return size_of(self.shape)  # type: ignore[return-value]  # says what is wrong


def counted(shape: tuple[Any, ...]) -> Any:
    """The number of elements of a shape, in a form that can be called."""
    try:
        total = size_of(shape)
    except ShapeError:
        return Uncounted(shape)
    if isinstance(total, Affine):
        out = SymbolicCount(total.constant, total.terms)
        out.shape = shape
        return out
    number = Count(total)
    number.shape = shape
    return number
