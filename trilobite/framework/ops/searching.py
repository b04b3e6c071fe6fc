"""Searching: where, the places of extremes and of what is not zero, and places in sorted lines.

Results whose shape depends on values exist only once the values do: inside a recorded function they need
`size=`.
"""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.base.errors import ArgumentError, ShapeError, TraceError
from trilobite.base.locations import user_location
from trilobite.framework.autocast import nobody_looks
from trilobite.framework.ops.axes import axis_in
from trilobite.framework.ops.meeting import (
    ORDERED,
    accepted,
    as_value,
    astype,
    broadcast_shapes,
    broadcast_to,
    common,
    scalar,
    together,
)  # fmt: skip
from trilobite.framework.ops.numbers import number_as_line
from trilobite.framework.ops.pointwise import full, like, truth
from trilobite.framework.ops.reducing import kept, not_empty
from trilobite.framework.ops.registry import op
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.primitives.common import OWN
from trilobite.ir.types import Shape, size_of

G = "searching"


@op(G, methods=(), plan=True)
def where(condition: Any, x1: Any = None, x2: Any = None, /) -> Value:
    """x1 where the condition is true, else x2; with the condition alone, the places where it is (as
    `nonzero`).
    """
    if x1 is None and x2 is None:
        return nonzero(condition)
    condition = as_value(condition)
    if condition.dtype != dt.bool_:
        condition = truth(condition)
    x, y = together(x1, x2)
    shape = broadcast_shapes(condition.shape, x.shape)
    return table["select"](broadcast_to(condition, shape), broadcast_to(x, shape), broadcast_to(y, shape))


# -- places of extremes ----------------------------------------------------------------------------------


def _place(x: Any, axis: Any, keepdims: bool, what: str) -> Value:
    x = as_value(x)
    accepted(what, ORDERED, x.dtype)
    axes = tuple(range(x.ndim)) if axis is None else (axis_in(axis, x.ndim, what),)
    not_empty(x, axes, what)
    line = table["reshape"](x, shape=(size_of(x.shape),)) if axis is None else x
    return kept(x, table[what](line, axis=0 if axis is None else axes[0]), axes, keepdims)


@op(G, plan=True)
@number_as_line
def argmax(x: Any, /, axis: int | None = None, *, keepdims: bool = False) -> Value:
    """The place of the largest element along an axis (of the flattened tensor by default); of equal ones the
    first.
    """
    return _place(x, axis, keepdims, "argmax")


@op(G, plan=True)
@number_as_line
def argmin(x: Any, /, axis: int | None = None, *, keepdims: bool = False) -> Value:
    """The place of the smallest element along an axis (of the flattened tensor by default); of equal ones
    the first.
    """
    return _place(x, axis, keepdims, "argmin")


# -- places of what is not zero --------------------------------------------------------------------------


def known(mask: Value, what: str, remedy: str) -> np.ndarray[Any, Any]:
    """The values that decide a shape; inside a recorded function or vmap they are not there yet."""
    if isinstance(mask, np.ndarray):
        return mask
    inside = {"Recorded": "jit, cond or scan", "Batched": "vmap"}.get(type(mask).__name__, "a transform")
    raise TraceError(
        f"{what} inside {inside}: the shape of its result depends on values that only a run knows",
        where=user_location(), expected="a result of a fixed size", remedy=remedy,
    )  # fmt: skip


def flat_places(mask: Value, size: int | None, fill: int, what: str) -> Value:
    """Places in the flattened mask of what is true: all, or `size` of them filled up with `fill`."""
    if size is None:
        found = known(mask, what, f"say how many at most: {what}(..., size=n)")
        return np.flatnonzero(found).astype(np.int64)
    flat = table["reshape"](mask, shape=(size_of(mask.shape),))
    n = flat.shape[0]
    counter = table["iota"](shape=(n,), dtype=dt.int64, axis=0)
    _, order = table["sort"](table["not"](flat), counter, axis=0, keys=1)
    total = table["reduce_sum"](table["cast"](flat, dtype=dt.int64), axes=(0,))
    order = table["pad"](order, low=(0,), high=(size - n,), between=(0,), value=0)
    there = table["lt"](table["iota"](shape=(size,), dtype=dt.int64, axis=0), broadcast_to(total, (size,)))
    return table["select"](there, order, full((size,), dt.int64, fill))


def unravelled(flat: Value, shape: Shape) -> tuple[Value, ...]:
    """Places in the flattened tensor as one index per axis."""
    out: list[Value] = []
    for d in reversed(shape):
        size = broadcast_to(scalar(builtins.max(d, 1), dt.int64), flat.shape)
        out.append(table["rem"](flat, size))
        flat = table["floor_div"](flat, size)
    return tuple(reversed(out))


@op(G)
def nonzero(x: Any, /, *, size: int | None = None, fill_value: int = 0) -> tuple[Value, ...]:
    """The places of what is not zero: one line of indices per axis. With `size`, that many, filled up with a
    number.
    """
    mask = truth(x)
    if mask.ndim == 0:
        raise ShapeError(
            "nonzero of a tensor without dimensions",
            where=user_location(),
            expected="at least one dimension",
            remedy="x.reshape(1)",
        )
    flat = flat_places(mask, size, -1, "nonzero")
    lines = unravelled(flat, mask.shape)
    if size is None:
        return lines
    empty = table["lt"](flat, like(flat, 0))
    return tuple(table["select"](empty, like(line, fill_value), line) for line in lines)


def _plain_places(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """By NumPy itself, of what is just an array."""
    if x.ndim == 0 or x.dtype.num >= OWN or not nobody_looks():
        return None
    return np.array(x.nonzero()).T.copy()


@op(G, short=_plain_places)
def argwhere(x: Any, /, *, size: int | None = None, fill_value: int = 0) -> Value:
    """The places of what is not zero, one per row; a number has one place, or none, without coordinates."""
    if as_value(x).ndim == 0:
        places = flat_places(table["reshape"](truth(x), shape=(1,)), size, -1, "argwhere")
        return full((places.shape[0], 0), dt.int64, 0)
    lines = nonzero(x, size=size, fill_value=fill_value)
    return table["concatenate"](*(table["reshape"](v, shape=(*v.shape, 1)) for v in lines), axis=1)


# -- places in sorted lines ------------------------------------------------------------------------------


def _before(a: Value, b: Value, equal_too: bool) -> Value:
    """Does a stand before b in sorted order, NaN after everything?"""
    out = table["le" if equal_too else "lt"](a, b)
    if a.dtype not in dt.INEXACT:
        return out
    last = table["is_nan"](b)
    return table["or"](out, last if equal_too else table["and"](last, table["not"](table["is_nan"](a))))


def place_in(line: Value, values: Value, right: bool) -> Value:
    """Where each value would have to be put into the sorted line, before (or after) what is equal: by
    bisection.
    """
    n = line.shape[0]
    low, high = full(values.shape, dt.int64, 0), full(values.shape, dt.int64, n)
    one = full(values.shape, dt.int64, 1)
    for _ in range(int(n).bit_length()):
        middle = table["shift_right"](table["add"](low, high), one)
        passed = _before(table["gather"](line, middle, axis=0), values, equal_too=right)
        open_ = table["lt"](low, high)
        up, down = table["and"](open_, passed), table["and"](open_, table["not"](passed))
        low = table["select"](up, table["add"](middle, one), low)
        high = table["select"](down, middle, high)
    return low


@op(G, plan=True)
def searchsorted(
    x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None, right: bool = False,
    out_int32: bool = False,
) -> Value:  # fmt: skip
    """Where each element of x2 would have to be put into the sorted line x1 to keep it sorted. Lines in the
    last axis of x1 belong to those of x2, if both have the same other axes.
    """
    side = "right" if right else side
    if side not in ("left", "right"):
        raise ArgumentError(
            f"searchsorted(side={side!r})", where=user_location(), expected="'left' or 'right'"
        )
    line, values = common(x1, x2)
    if line.ndim > 1 and values.shape[:-1] == line.shape[:-1]:
        return _searched_lines(line, values, side == "right", sorter, out_int32)
    if line.ndim != 1:
        raise ShapeError(
            f"searchsorted in a tensor of shape {tuple(line.shape)}",
            where=user_location(),
            expected="one dimension, or as many lines as there are of values",
        )
    accepted("searchsorted", ORDERED, line.dtype)
    if sorter is not None:
        line = table["gather"](line, astype(as_value(sorter), dt.int64), axis=0)
    found = place_in(line, values, right=side == "right")
    return astype(found, dt.int32) if out_int32 else found


def _searched_lines(lines: Value, values: Value, right: bool, sorter: Any, out_int32: bool) -> Value:
    """Each line of values in its own sorted line: how many stand before."""
    accepted("searchsorted", ORDERED, lines.dtype)
    if sorter is not None:
        lines = table["take_along"](lines, astype(as_value(sorter), dt.int64), axis=lines.ndim - 1)
    shape = (*values.shape, lines.shape[-1])
    rows = table["reshape"](lines, shape=(*lines.shape[:-1], 1, lines.shape[-1]))
    columns = table["reshape"](values, shape=(*values.shape, 1))
    before = _before(broadcast_to(rows, shape), broadcast_to(columns, shape), equal_too=right)
    kind = dt.int32 if out_int32 else dt.int64
    return table["reduce_sum"](astype(before, kind), axes=(len(shape) - 1,))


@op(G, methods=("bucketize",), plan=True)
def bucketize(x: Any, boundaries: Any, /, *, right: bool = False, out_int32: bool = False) -> Value:
    """Which of the intervals between sorted boundaries each element lies in."""
    return searchsorted(boundaries, x, side="right" if right else "left", out_int32=out_int32)
