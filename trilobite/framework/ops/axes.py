"""Axes as users give them: any integer in range, negative ones counted from the end, one or several."""

from __future__ import annotations

from typing import Any

from trilobite.base.errors import ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.concrete import concrete
from trilobite.ir.transforms.bind import Traced
from trilobite.ir.types import Affine, Dim

_STATIC = "give a number of Python, outside of jit's arguments or as one of static_argnums"


def axis_in(axis: Any, ndim: int, what: str) -> int:
    """An axis as a number from 0."""
    if isinstance(axis, Traced):
        concrete(axis, "a tensor as an axis", remedy=_STATIC)
    try:
        a = axis.__index__()
    except (AttributeError, TypeError):
        raise _NoAxis(f"{what}: the axis {axis!r}", where=user_location(), expected="an integer") from None
    if not -ndim <= a < ndim:
        raise _NoSuchAxis(
            f"{what}: axis {a} of a tensor with {ndim} dimensions",
            where=user_location(),
            expected=f"{-ndim} <= axis < {ndim}",
            remedy="axes count from 0, or from -1 backwards",
        )
    return int(a % ndim)


def size_in(size: Any) -> Dim:
    """The size of an axis as a number, which may be a symbol's."""
    return size if isinstance(size, Affine) else whole(size, f"the size {size!r} of an axis")


def whole(number: Any, what: str) -> int:
    """A number that counts elements; half of one is an error, not the next smaller number."""
    if isinstance(number, Traced):
        concrete(number, "a tensor as a number of elements", remedy=_STATIC)
    try:
        found: int = number.__index__()
    except (AttributeError, TypeError):
        raise _NoAxis(
            what,
            where=user_location(),
            expected="an integer",
            remedy="int() makes one of other numbers and of digits",
        ) from None
    return found


class _NoSuchAxis(ShapeError, IndexError):
    """An axis that the tensor does not have: as in NumPy both a ValueError and an IndexError."""


class _NoAxis(ShapeError, TypeError):
    """An axis, its size, or a number of elements that is no integer."""


def is_number(x: Any, axes: Any) -> bool:
    """Has x no dimensions, and are these axes of the line of one element that PyTorch takes it for?"""
    each = tuple(axes) if isinstance(axes, (tuple, list)) else (axes,)
    return x.ndim == 0 and len(each) == 1 and type(each[0]) is int and each[0] in (0, -1)


def axes_in(axes: Any, ndim: int, what: str) -> tuple[int, ...]:
    """Axes as distinct numbers from 0, in the order given; None means all of them."""
    if axes is None:
        return tuple(range(ndim))
    each = tuple(axes) if isinstance(axes, (tuple, list)) else (axes,)
    out = tuple(axis_in(a, ndim, what) for a in each)
    if len(set(out)) != len(out):
        raise ShapeError(
            f"{what}: the axes {each} name one axis twice",
            where=user_location(),
            expected="distinct axes",
            remedy="name each axis once",
        )
    return out
