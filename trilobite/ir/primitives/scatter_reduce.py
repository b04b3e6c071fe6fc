"""Scatter that multiplies or keeps extremes: `scatter_reduce` at points, `scatter_reduce_along` lane by
lane.

They stand apart from `scatter` because their derivatives need the values, not only the places: the product of
all other updates to a place, or which of them were the extreme (equal ones share the slope evenly).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from trilobite.base.dtypes import int64
from trilobite.base.quiet import array_rule
from trilobite.ir.primitive import Attributes, Primitive, Value, table
from trilobite.ir.primitives.common import conj, count
from trilobite.ir.primitives.cumulative import shifted
from trilobite.ir.primitives.gather import gather_nd, take_along
from trilobite.ir.primitives.scatter import (
    cost,
    lane_batch,
    lane_type,
    point_batch,
    point_type,
    scatter,
    scatter_along,
    scatter_lanes,
    scatter_points,
)
from trilobite.ir.types import size_of

KINDS = ("mul", "max", "min")


class Places(NamedTuple):
    """Where the updates go: read there, add there, and the number of each place (one per row of updates)."""

    take: Callable[[Value], Value]
    add: Callable[[Value, Value], Value]
    numbers: Callable[[], Value]


def _points(x: Value, indices: Value, attrs: Attributes) -> Places:
    axes = attrs["axes"]

    def numbers() -> Value:
        total = table["full"](shape=(*indices.shape[:-1], 1), dtype=int64, value=0)
        for k, a in enumerate(axes):
            start = (0,) * (indices.ndim - 1) + (k,)
            stop = (*indices.shape[:-1], k + 1)
            column = table["slice"](indices, start=start, stop=stop, step=(1,) * indices.ndim)
            total = _mixed(total, x.shape[a], _inside(column, x.shape[a]))
        return table["reshape"](total, shape=indices.shape[:-1])

    return Places(
        lambda v: gather_nd(v, indices, axes=axes),
        lambda v, u: scatter(v, indices, u, axes=axes, kind="add"),
        numbers,
    )


def _lanes(x: Value, indices: Value, attrs: Attributes) -> Places:
    axis = attrs["axis"]

    def numbers() -> Value:
        total = table["full"](shape=indices.shape, dtype=int64, value=0)
        for a, size in enumerate(x.shape):
            own = table["iota"](shape=indices.shape, dtype=int64, axis=a)
            total = _mixed(total, size, _inside(indices, size) if a == axis else own)
        return total

    return Places(
        lambda v: take_along(v, indices, axis=axis),
        lambda v, u: scatter_along(v, indices, u, axis=axis, kind="add"),
        numbers,
    )


def _mixed(total: Value, size: Any, digit: Value) -> Value:
    """total·size + digit"""
    return table["add"](table["mul"](total, table["full"](shape=total.shape, dtype=int64, value=size)), digit)


def _inside(indices: Value, size: Any) -> Value:
    i = table["cast"](indices, dtype=int64)
    low, high = (table["full"](shape=i.shape, dtype=int64, value=v) for v in (0, size - 1))
    return table["minimum"](table["maximum"](i, low), high)


# -- products ----------------------------------------------------------------------------------------------


def _run_product(rows: Value, joined: Value, reverse: bool) -> Value:
    """Along axis 0, the product of the earlier rows of the same run; joined[i]: row i continues the run of
    its predecessor (its successor, if reverse). By doubling, so without division and right for zeros to
    every order.
    """
    one = table["full"](shape=rows.shape, dtype=rows.dtype, value=1.0)
    product, flow, reach = rows, joined, 1
    while reach < count(rows.shape[0]):
        product = table["mul"](product, table["select"](flow, shifted(product, 0, reach, reverse, 1.0), one))
        flow = table["and"](flow, shifted(flow, 0, reach, reverse, False))
        reach *= 2
    return table["select"](joined, shifted(product, 0, 1, reverse, 1.0), one)


def _other_products(updates: Value, places: Places) -> Value:
    """For each update the product of the other updates to its place: sorted by place they form runs."""
    numbers = places.numbers()
    n = size_of(numbers.shape)
    ids = table["reshape"](numbers, shape=(n,))
    rows = table["reshape"](updates, shape=(n, size_of(updates.shape[numbers.ndim :])))
    own = table["iota"](shape=(n,), dtype=int64, axis=0)
    ids, order = table["sort"](ids, own, axis=0, keys=1)
    rows = table["gather"](rows, order, axis=0)
    same = [_spread(table["eq"](ids, shifted(ids, 0, 1, r, -1)), rows) for r in (False, True)]
    others = table["mul"](_run_product(rows, same[0], False), _run_product(rows, same[1], True))
    _, back = table["sort"](order, own, axis=0, keys=1)
    return table["reshape"](table["gather"](others, back, axis=0), shape=updates.shape)


def _spread(flags: Value, rows: Value) -> Value:
    return table["broadcast"](flags, shape=rows.shape, axes=(0,))


def _empty(updates: Value) -> bool:
    return any(d == 0 for d in updates.shape)


# -- rules -------------------------------------------------------------------------------------------------


def _zeros(x: Value) -> Value:
    return table["full"](shape=x.shape, dtype=x.dtype, value=0.0)


def _shares(x: Value, updates: Value, out: Value, places: Places) -> tuple[Value, Value, Value]:
    """Which elements of x and which updates are the extreme of their place, and how many there are."""
    in_x = table["cast"](table["eq"](x, out), dtype=x.dtype)
    in_updates = table["cast"](table["eq"](updates, places.take(out)), dtype=x.dtype)
    return in_x, in_updates, places.add(in_x, in_updates)


def _define(
    name: str, made: Callable[..., Places], type: Any, evaluate: Any, batch: Any, doc: str
) -> Primitive:
    def jvp(primals: Sequence[Value], tangents: Sequence[Any], attrs: Attributes) -> tuple[Value, Any]:
        x, indices, updates = primals
        tx, _, tu = tangents
        out = primitive(x, indices, updates, **attrs)
        if tx is None and tu is None:
            return out, None
        tx, tu = (_zeros(p) if t is None else t for p, t in ((x, tx), (updates, tu)))
        places = made(x, indices, attrs)
        if attrs["kind"] != "mul":
            in_x, in_updates, ties = _shares(x, updates, out, places)
            total = places.add(table["mul"](tx, in_x), table["mul"](tu, in_updates))
            return out, table["div"](total, ties)
        t = primitive(tx, indices, updates, **attrs)
        if _empty(updates):
            return out, t
        factor = table["mul"](_other_products(updates, places), places.take(x))
        return out, places.add(t, table["mul"](tu, factor))

    def vjp(
        cts: Sequence[Value], inputs: Sequence[Value], outs: Any, wanted: Sequence[bool], attrs: Attributes
    ) -> list[Any]:
        (x, indices, updates), ct = inputs, cts[0]
        places = made(x, indices, attrs)
        if attrs["kind"] != "mul":
            in_x, in_updates, ties = _shares(x, updates, outs[0], places)
            share = table["div"](ct, ties)
            return [table["mul"](share, in_x), None, table["mul"](places.take(share), in_updates)]
        ct_x = primitive(ct, indices, conj(updates), **attrs) if wanted[0] else None
        if not wanted[2] or _empty(updates):
            return [ct_x, None, _zeros(updates) if wanted[2] else None]
        others = _other_products(updates, places)
        return [ct_x, None, table["mul"](places.take(table["mul"](ct, conj(x))), conj(others))]

    primitive = Primitive(
        name, "x indices updates", type=type, evaluate=array_rule(evaluate), whole_jvp=jvp, whole_vjp=vjp,
        batch=batch, cost=cost, doc=doc,
    )  # fmt: skip
    return primitive


scatter_reduce = _define(
    "scatter_reduce", _points, point_type("scatter_reduce", KINDS), scatter_points,
    point_batch("scatter_reduce"),
    "x with updates multiplied into, or compared with, the places indices[..., k] on axes[k]",
)  # fmt: skip
scatter_reduce_along = _define(
    "scatter_reduce_along", _lanes, lane_type("scatter_reduce_along", KINDS), scatter_lanes,
    lane_batch("scatter_reduce_along"),
    "the same lane by lane: out[..., indices[..., i, ...], ...] on the axis",
)  # fmt: skip
