"""Rules of reading and writing at computed places: indices are held inside the real sizes, and what lies
behind is written to a place that nobody reads.
"""

from __future__ import annotations

from collections.abc import Sequence

from trilobite.base.dtypes import int64
from trilobite.compiler.graph.bounded.scope import Rule, Scope, grown, loose
from trilobite.ir.graph import Equation
from trilobite.ir.primitive import Value, table
from trilobite.ir.types import Dim


def _gather(s: Scope, e: Equation, values: Sequence[Value]) -> Value:
    x, indices = values
    axis = e.attributes["axis"]
    return e.primitive(x, s.at_most(indices, e.inputs[0].type.shape[axis]), **e.attributes)


def _points(s: Scope, indices: Value, sizes: Sequence[Dim]) -> Value:
    """Points with each coordinate inside its axis."""
    if all(isinstance(n, int) for n in sizes):
        return indices
    columns = []
    for k, n in enumerate(sizes):
        start = (*(0,) * (len(indices.shape) - 1), k)
        stop = (*indices.shape[:-1], k + 1)
        column = table["slice"](indices, start=start, stop=stop, step=(1,) * len(start))
        column = table["cast"](column, dtype=int64) if column.dtype != int64 else column
        columns.append(s.at_most(column, n))
    return table["concatenate"](*columns, axis=len(indices.shape) - 1)


def _gather_nd(s: Scope, e: Equation, values: Sequence[Value]) -> Value:
    sizes = [e.inputs[0].type.shape[a] for a in e.attributes["axes"]]
    return e.primitive(values[0], _points(s, values[1], sizes), **e.attributes)


def _scatter(s: Scope, e: Equation, values: Sequence[Value]) -> Value:
    """Updates that are not there go to one more place of the first axis that points name."""
    x, indices, updates = values
    axes, t, points = e.attributes["axes"], e.inputs[0].type, e.inputs[1].type
    indices = _points(s, indices, [t.shape[a] for a in axes])
    where = s.inside(indices.shape, points, range(points.ndim - 1))
    if where is None:
        return e.primitive(x, indices, updates, **e.attributes)
    indices = table["cast"](indices, dtype=int64) if indices.dtype != int64 else indices
    last = table["full"](shape=indices.shape, dtype=int64, value=max(x.shape[a] for a in axes) - 1)
    aside = table["full"](shape=indices.shape, dtype=int64, value=max(x.shape[a] for a in axes))
    places = table["select"](where, table["minimum"](indices, _last(x, axes, indices, last)), aside)
    out = e.primitive(grown(x, axes[0], 1), places, updates, **e.attributes)
    return grown(out, axes[0], -1)


def _last(x: Value, axes: Sequence[int], indices: Value, last: Value) -> Value:
    """The last place of each axis that points name, beside each point."""
    sizes = [x.shape[a] - 1 for a in axes]
    if len(set(sizes)) == 1:
        return last
    columns = [table["full"](shape=(*indices.shape[:-1], 1), dtype=int64, value=n) for n in sizes]
    return table["concatenate"](*columns, axis=len(indices.shape) - 1)


def _take_along(s: Scope, e: Equation, values: Sequence[Value]) -> Value:
    axis = e.attributes["axis"]
    return e.primitive(values[0], s.at_most(values[1], e.inputs[0].type.shape[axis]), **e.attributes)


def _scatter_along(s: Scope, e: Equation, values: Sequence[Value]) -> Value:
    x, indices, updates = values
    axis, t = e.attributes["axis"], e.inputs[1].type
    indices = s.at_most(indices, e.inputs[0].type.shape[axis])
    if not loose(t, (axis,)):
        return e.primitive(x, indices, updates, **e.attributes)
    indices = table["cast"](indices, dtype=int64) if indices.dtype != int64 else indices
    last = table["full"](shape=indices.shape, dtype=int64, value=x.shape[axis] - 1)
    inside = s.clean(table["minimum"](indices, last), t, (axis,), x.shape[axis])
    return grown(e.primitive(grown(x, axis, 1), inside, updates, **e.attributes), axis, -1)


RULES: dict[str, Rule] = {
    "gather": _gather,
    "gather_nd": _gather_nd,
    "take_along": _take_along,
    "scatter": _scatter,
    "scatter_reduce": _scatter,
    "scatter_along": _scatter_along,
    "scatter_reduce_along": _scatter_along,
}
