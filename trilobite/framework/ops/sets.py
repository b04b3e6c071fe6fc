"""Sets: unique elements and membership. Equality decides, so every NaN is an element of its own.

One algorithm serves eager and recorded functions: sort, mark where a new element begins, number the groups.
Only the last step needs to know how many there are; inside a recorded function `size=` says it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from trilobite.base import dtypes as dt
from trilobite.framework.ops.axes import whole
from trilobite.framework.ops.joining import slice_step
from trilobite.framework.ops.meeting import as_value, broadcast_to, common
from trilobite.framework.ops.pointwise import full
from trilobite.framework.ops.reducing import accumulated
from trilobite.framework.ops.registry import op
from trilobite.framework.ops.searching import known, place_in
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.types import size_of

G = "sets"


class UniqueAll(NamedTuple):
    """Unique elements, where each stands first, which of them each element is, how often each occurs."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    """Unique elements and how often each occurs."""

    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """Unique elements and which of them each element is."""

    values: Any
    inverse_indices: Any


class Groups(NamedTuple):
    """The elements in sorted order, where they came from, and the number of the group of each."""

    values: Value
    places: Value
    number: Value
    count: Value


def _grouped(x: Value) -> Groups:
    flat = table["reshape"](x, shape=(size_of(x.shape),))
    n = flat.shape[0]
    places = table["iota"](shape=(n,), dtype=dt.int64, axis=0)
    if flat.dtype in dt.COMPLEX:
        parts = table["real"](flat), table["imag"](flat)
        *_, values, places = table["sort"](*parts, flat, places, axis=0, keys=2)
    else:
        values, places = table["sort"](flat, places, axis=0, keys=1)
    if n == 0:
        return Groups(values, places, places, full((), dt.int64, 0))
    (take, later), (_, earlier) = slice_step((n,), 0, 1, n), slice_step((n,), 0, 0, n - 1)
    begins = table["cast"](table["ne"](take(values, **later), take(values, **earlier)), dtype=dt.int64)
    number = table["cumulative"](begins, axis=0, kind="sum", reverse=False)
    number = table["concatenate"](full((1,), dt.int64, 0), number, axis=0)
    last = table["slice"](number, start=(n - 1,), stop=(n,), step=(1,))
    return Groups(
        values, places, number, table["add"](table["reshape"](last, shape=()), full((), dt.int64, 1))
    )


def _cut(per_group: Value, g: Groups, size: int | None, fill: Any, what: str) -> Value:
    """One entry per group: as many as there are, or `size` of them."""
    n = per_group.shape[0]
    if size is None:
        stop = int(known(g.count, what, f"say how many at most: {what}(x, size=n)"))
        return table["slice"](per_group, start=(0,), stop=(stop,), step=(1,))
    cut = table["pad"](per_group, low=(0,), high=(size - n,), between=(0,), value=0)
    there = table["lt"](table["iota"](shape=(size,), dtype=dt.int64, axis=0), broadcast_to(g.count, (size,)))
    return table["select"](there, cut, full((size,), per_group.dtype, fill))


def _column(number: Value) -> Value:
    return table["reshape"](number, shape=(*number.shape, 1))


def _values(g: Groups, size: int | None, fill: Any, what: str) -> Value:
    blank = full(g.values.shape, g.values.dtype, 0)
    each = table["scatter"](blank, _column(g.number), g.values, axes=(0,), kind="set")
    return _cut(each, g, size, fill, what)


def _first(g: Groups, size: int | None, what: str) -> Value:
    """Written from the last to the first, so that the first of a group stays."""
    blank = full(g.places.shape, dt.int64, 0)
    backwards = [table["reverse"](v, axes=(0,)) for v in (g.number, g.places)]
    each = table["scatter"](blank, _column(backwards[0]), backwards[1], axes=(0,), kind="set")
    return _cut(each, g, size, 0, what)


def _inverse(g: Groups, x: Value) -> Value:
    blank = full(g.number.shape, dt.int64, 0)
    return table["reshape"](
        table["scatter"](blank, _column(g.places), g.number, axes=(0,), kind="set"), shape=x.shape
    )


def _counts(g: Groups, size: int | None, what: str) -> Value:
    blank, one = full(g.number.shape, dt.int64, 0), full(g.number.shape, dt.int64, 1)
    return _cut(table["scatter"](blank, _column(g.number), one, axes=(0,), kind="add"), g, size, 0, what)


@op(G, methods=())
def unique_all(x: Any, /, *, size: int | None = None, fill_value: Any = 0) -> UniqueAll:
    """The unique elements, sorted; where each stands first; which of them each element is; how often each
    occurs.
    """
    x = as_value(x)
    g, what = _grouped(x), "unique_all"
    return UniqueAll(
        _values(g, size, fill_value, what), _first(g, size, what), _inverse(g, x), _counts(g, size, what)
    )


@op(G, methods=())
def unique_counts(x: Any, /, *, size: int | None = None, fill_value: Any = 0) -> UniqueCounts:
    """The unique elements, sorted, and how often each occurs."""
    g, what = _grouped(as_value(x)), "unique_counts"
    return UniqueCounts(_values(g, size, fill_value, what), _counts(g, size, what))


@op(G, methods=())
def unique_inverse(x: Any, /, *, size: int | None = None, fill_value: Any = 0) -> UniqueInverse:
    """The unique elements, sorted, and which of them each element is."""
    x = as_value(x)
    g = _grouped(x)
    return UniqueInverse(_values(g, size, fill_value, "unique_inverse"), _inverse(g, x))


@op(G, methods=())
def unique_values(x: Any, /, *, size: int | None = None, fill_value: Any = 0) -> Value:
    """The unique elements, sorted."""
    return _values(_grouped(as_value(x)), size, fill_value, "unique_values")


@op(G, methods=("bincount",))
def bincount(x: Any, /, *, weights: Any = None, minlength: int = 0, size: int | None = None) -> Value:
    """How often each of 0, 1, 2, ... occurs (or the sum of its weights)."""
    x = as_value(x)
    if size is None:
        found = known(x, "bincount", "say how many numbers there are: bincount(x, size=n)")
        size = max(
            whole(minlength, f"bincount with minlength={minlength!r}"),
            int(found.max()) + 1 if found.size else 0,
        )
    w = full(x.shape, dt.int64, 1) if weights is None else accumulated(as_value(weights), None)
    blank = full((size,), w.dtype, 0)
    return table["scatter"](blank, _column(x), w, axes=(0,), kind="add") if size else blank


@op(G, plan=True)
def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Value:
    """Is each element of x1 equal to some element of x2?"""
    x, elements = common(x1, x2)
    n = size_of(elements.shape)
    if n == 0:
        found = full(x.shape, dt.bool_, False)
    elif x.dtype in dt.COMPLEX:
        found = _any_equal(x, table["reshape"](elements, shape=(n,)))
    else:
        line = table["sort"](table["reshape"](elements, shape=(n,)), axis=0, keys=1)[0]
        at = place_in(line, x, right=False)
        found = table["eq"](table["gather"](line, at, axis=0), x)
    return table["not"](found) if invert else found


def _any_equal(x: Value, line: Value) -> Value:
    """Without an order there is nothing to search in: every pair is compared."""
    shape = (*x.shape, line.shape[0])
    pairs = table["eq"](
        table["broadcast"](x, shape=shape, axes=tuple(range(x.ndim))),
        table["broadcast"](line, shape=shape, axes=(x.ndim,)),
    )
    return table["reduce_or"](pairs, axes=(x.ndim,))
