"""Rows by index: every gather and scatter as rows of a table, with flat int32 indices that lie inside.

The core forms that kernels take: `gather(x[rows, width], i[n], axis=0)`, where a lane fits into NRAM also
`gather(x[lanes, r], i[n], axis=1)`, and `scatter(x[rows, width], i[n, 1],
updates[n, width], axes=(0,))`; lane by lane, where a lane fits into NRAM, `take_along(x[lanes, r], i[lanes,
n], axis=1)` and `scatter_along` alike. All indices are int32 and inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from trilobite.base.dtypes import accumulator, bool_, int32, int64, is_complex, is_float, uint8, uint64
from trilobite.compiler.targets.dlp.expand import narrow
from trilobite.compiler.targets.dlp.expand import terms as t
from trilobite.compiler.targets.dlp.expand.matrices import loop
from trilobite.compiler.targets.dlp.expand.rule import Rule
from trilobite.compiler.targets.dlp.kernels.indexed import lane_room
from trilobite.compiler.targets.dlp.shapes import extents
from trilobite.compiler.targets.dlp.vector.formats import computes
from trilobite.ir.graph import Equation
from trilobite.ir.primitive import table
from trilobite.ir.primitives.shape import inverse
from trilobite.processor.machine import Machine

Body = Callable[..., Any] | None
SHORT = 256  # bytes of a row, up to which its elements are picked in NRAM instead of copied row by row


def inside(indices: Any, size: int) -> Any:
    """Indices as int32 places of an axis, the nearest one for those outside."""
    if indices.dtype == uint64:
        indices = t.minimum(indices, size)
    wide = t.cast(indices, int64)
    return t.cast(t.minimum(t.maximum(wide, 0), max(size - 1, 0)), int32)


def _is_row_gather(e: Equation) -> bool:
    x, i = e.inputs
    return (
        len(x.type.shape) == 2
        and len(i.type.shape) == 1
        and e.attributes["axis"] == 0
        and i.type.dtype == int32
    )


def _is_shared_gather(e: Equation, room: int) -> bool:
    """The same places of every lane, which NRAM holds."""
    x, i = e.inputs
    if len(x.type.shape) != 2 or len(i.type.shape) != 1 or e.attributes["axis"] != 1:
        return False
    return i.type.dtype == int32 and _fits(extents(x)[1], extents(i)[0], x.type.dtype.itemsize, room)


def _fits(size: int, count: int, item: int, room: int) -> bool:
    return max(size * item, count * max(item, 4)) <= room


def _gather(e: Equation, room: int) -> Body:
    if is_complex(e.inputs[0].type.dtype):
        return None
    axis, shape, out = e.attributes["axis"], extents(e.inputs[0]), extents(e.outputs[0])
    if 0 in out:
        return lambda x, i: t.full(out, x.dtype, 0)
    if e.attributes.get("mode") == "clip" and (_is_row_gather(e) or _is_shared_gather(e, room)):
        return None
    n, lead, after = shape[axis], prod(shape[:axis]), prod(shape[axis + 1 :])
    item, count = e.inputs[0].type.dtype.itemsize, prod(extents(e.inputs[1]))
    if after * item <= SHORT and n <= 8 * count and _fits(n * after, count * after, item, room):
        return lambda x, i: t.reshape(_by_lanes(x, i, (lead, n, after), room), *out)

    def body(x: Any, indices: Any) -> Any:
        places = inside(t.reshape(indices, count), n)
        if lead != 1:  # rows of all leading axes, one behind the other
            grid = (lead, places.shape[0])
            first = t.mul(t.iota(grid, int32, 0), n)
            places = t.reshape(t.add(first, t.broadcast(places, grid, (1,))), prod(grid))
        rows = t.reshape(x, lead * n, after)
        return t.reshape(table["gather"](rows, places, axis=0, mode="clip"), *out)

    return body


def _by_lanes(x: Any, indices: Any, sizes: tuple[int, int, int], room: int) -> Any:
    """x[lead, n, after] in NRAM, lane by lane or some together; of one lane the elements are shared out."""
    lead, n, after = sizes
    count = prod(indices.shape)
    most = room // max(n * after * x.dtype.itemsize, count * after * max(x.dtype.itemsize, 4))
    together = _divisor(lead, most)
    grid = (together, count, after)
    places = t.mul(inside(t.reshape(indices, count), n), after)
    places = t.add(t.broadcast(places, grid, (1,)), t.iota(grid, int32, 2))
    if together > 1:
        places = t.add(places, t.mul(t.iota(grid, int32, 0), n * after))
    places = t.reshape(places, prod(grid))
    if together == lead:
        return table["gather"](t.reshape(x, lead * n * after, 1), places, axis=0, mode="clip")
    lanes = t.reshape(x, lead // together, together * n * after)
    return table["gather"](lanes, places, axis=1, mode="clip")


def _divisor(n: int, most: int) -> int:
    """The largest divisor of n that is not above `most`."""
    return max((g for g in range(1, min(most, n) + 1) if n % g == 0), default=1)


def _flat(indices: Any, sizes: Sequence[int]) -> Any:
    """indices[..., k] on axes of these sizes as places of the axes together, in one line."""
    count = prod(indices.shape[:-1])
    points = t.reshape(indices, count, len(sizes))
    total: Any = None
    for k, size in enumerate(sizes):
        column = inside(t.reshape(t.part(points, 1, k, k + 1), count), size)
        total = column if total is None else t.add(t.mul(total, size), column)
    return total


def _gather_nd(e: Equation) -> Body:
    axes, shape, out = e.attributes["axes"], extents(e.inputs[0]), extents(e.outputs[0])
    if 0 in out:
        return lambda x, i: t.full(out, x.dtype, 0)

    def body(x: Any, indices: Any) -> Any:
        order = (*axes, *(a for a in range(len(shape)) if a not in axes))
        moved = t.transpose(x, order)
        rows = t.reshape(moved, prod(shape[a] for a in axes), prod(moved.shape[len(axes) :]))
        places = _flat(indices, [shape[a] for a in axes])
        return t.reshape(table["gather"](rows, places, axis=0, mode="clip"), *out)

    return body


def _lanes(indices: Any, shape: Sequence[int], axis: int) -> Any:
    """Flat places of x for indices along an axis of it."""
    total: Any = None
    for a, size in enumerate(shape):
        digit = inside(indices, size) if a == axis else t.iota(indices.shape, int32, a)
        total = digit if total is None else t.add(t.mul(total, size), digit)
    return t.reshape(total, prod(indices.shape))


def _bundles(shape: Sequence[int], axis: int, count: int, item: int, room: int) -> int:
    """How many lanes are taken together: a divisor of their number."""
    lanes = prod(shape) // shape[axis]
    return _divisor(lanes, room // max(max(shape[axis] * item, count * max(item, 4)), 1))


def _bundled(x: Any, axis: int, together: int) -> Any:
    """[bundles, elements] with the axis last."""
    order = (*(a for a in range(x.ndim) if a != axis), axis)
    lanes = prod(x.shape) // x.shape[axis]
    return t.reshape(t.transpose(x, order), lanes // together, together * x.shape[axis])


def _loosened(x: Any, shape: Sequence[int], axis: int) -> Any:
    order = [*(a for a in range(len(shape)) if a != axis), axis]
    return t.transpose(t.reshape(x, *(shape[a] for a in order)), inverse(order))


def _bundled_places(indices: Any, axis: int, size: int, together: int) -> Any:
    """Places within a bundle."""
    count, lanes = indices.shape[axis], prod(indices.shape) // indices.shape[axis]
    places = t.reshape(_bundled(inside(indices, size), axis, together), lanes // together, together, count)
    if together > 1:
        places = t.add(places, t.mul(t.iota(places.shape, int32, 1), size))
    return t.reshape(places, lanes // together, together * count)


def _is_lane_form(e: Equation, room: int) -> bool:
    x, i = e.inputs[0], e.inputs[1]
    if len(x.type.shape) != 2 or e.attributes["axis"] != 1 or i.type.dtype != int32:
        return False
    return _fits(extents(x)[1], extents(i)[1], x.type.dtype.itemsize, room)


def _take_along(e: Equation, room: int) -> Body:
    axis, shape, out = e.attributes["axis"], extents(e.inputs[0]), extents(e.outputs[0])
    if is_complex(e.inputs[0].type.dtype):
        return None
    if 0 in out:
        return lambda x, i: t.full(out, x.dtype, 0)
    item = e.inputs[0].type.dtype.itemsize
    if _is_lane_form(e, room):
        return None
    if _fits(shape[axis], out[axis], item, room):
        together = _bundles(shape, axis, out[axis], item, room)

        def lanes(x: Any, indices: Any) -> Any:
            places = _bundled_places(indices, axis, shape[axis], together)
            found = table["take_along"](_bundled(x, axis, together), places, axis=1)
            return _loosened(found, out, axis)

        return lanes

    def body(x: Any, indices: Any) -> Any:
        rows = t.reshape(x, prod(shape), 1)
        return t.reshape(table["gather"](rows, _lanes(indices, shape, axis), axis=0, mode="clip"), *out)

    return body


# -- writing -------------------------------------------------------------------------------------------------


def _is_row_scatter(e: Equation) -> bool:
    x, i, _ = e.inputs
    return (
        len(x.type.shape) == 2
        and extents(i)[1:] == (1,)
        and e.attributes["axes"] == (0,)
        and i.type.dtype == int32
    )


def _working(dtype: Any, kind: str) -> Any:
    """The dtype in which updates are combined."""
    if kind == "set" or is_complex(dtype):
        return dtype
    if dtype == bool_:
        return uint8
    wide = accumulator(dtype) if kind in ("add", "mul") else dtype
    return wide if computes(wide) else narrow.wider(wide)


def _written(x: Any, places: Any, updates: Any, kind: str) -> Any:
    """Rows written in order, in a dtype that combines."""
    name = "scatter" if kind in ("set", "add") else "scatter_reduce"
    if kind in ("max", "min") and is_float(x.dtype):
        return _with_nan(x, places, updates, kind)
    return table[name](x, t.reshape(places, places.shape[0], 1), updates, axes=(0,), kind=kind)


def _with_nan(x: Any, places: Any, updates: Any, kind: str) -> Any:
    """Floats ordered as integers, NaN at the end where it wins."""
    word = {2: "int16", 4: "int32", 8: "int64"}[x.dtype.itemsize]
    import numpy as np

    dtype = np.dtype(word)

    def key(v: Any) -> Any:
        raw = t.bitcast(v, dtype)
        low = t.like(raw, np.iinfo(dtype).min)
        ordered = t.select(t.compare("lt", raw, 0), t.sub(low, raw), raw)
        ordered = t.select(t.compare("lt", raw, 0), t.sub(ordered, 1), ordered)  # -0 below +0
        end = np.iinfo(dtype).max if kind == "max" else np.iinfo(dtype).min
        return t.select(table["is_nan"](v), t.like(raw, end), ordered)

    def back(k: Any) -> Any:
        end = np.iinfo(dtype).max if kind == "max" else np.iinfo(dtype).min
        low = t.like(k, np.iinfo(dtype).min)
        raw = t.select(t.compare("lt", k, 0), t.sub(low, t.add(k, 1)), k)
        found = t.bitcast(raw, x.dtype)
        return t.select(t.compare("eq", k, end), t.like(found, float("nan")), found)

    index = t.reshape(places, places.shape[0], 1)
    return back(table["scatter_reduce"](key(x), index, key(updates), axes=(0,), kind=kind))


def _scatter(e: Equation) -> Body:
    axes, kind, shape = e.attributes["axes"], e.attributes["kind"], extents(e.inputs[0])
    dtype = e.inputs[0].type.dtype
    if is_complex(dtype):
        return None if kind in ("set", "add") else _complex_product(e)
    if 0 in shape or 0 in extents(e.inputs[2]):
        return lambda x, i, u: x
    floats = kind in ("max", "min") and is_float(dtype)
    if _is_row_scatter(e) and _working(dtype, kind) == dtype and not floats:
        return None

    def body(x: Any, indices: Any, updates: Any) -> Any:
        wide = _working(dtype, kind)
        order = (*axes, *(a for a in range(len(shape)) if a not in axes))
        moved = t.transpose(t.cast(x, wide), order)
        rows = t.reshape(moved, prod(shape[a] for a in axes), prod(moved.shape[len(axes) :]))
        places = _flat(indices, [shape[a] for a in axes])
        values = t.reshape(t.cast(updates, wide), places.shape[0], rows.shape[1])
        found = t.reshape(_written(rows, places, values, kind), *moved.shape)
        return t.cast(t.transpose(found, inverse(order)), dtype)

    return body


def _complex_product(e: Equation) -> Body:
    """One update after the other."""
    axes, shape = e.attributes["axes"], extents(e.inputs[0])

    def body(x: Any, indices: Any, updates: Any) -> Any:
        order = (*axes, *(a for a in range(len(shape)) if a not in axes))
        moved = t.transpose(x, order)
        rows = t.reshape(moved, prod(shape[a] for a in axes), prod(moved.shape[len(axes) :]))
        places = _flat(indices, [shape[a] for a in axes])
        values = t.reshape(updates, places.shape[0], rows.shape[1])

        def step(places_: Any, values_: Any, rows_: Any, i: Any) -> list[Any]:
            zero = t.full((), int32, 0)
            at = t.reshape(table["dynamic_slice"](places_, i, sizes=(1,)))
            sizes = (1, rows_.shape[1])
            old = table["dynamic_slice"](rows_, at, zero, sizes=sizes)
            new = table["dynamic_slice"](values_, i, zero, sizes=sizes)
            return [table["dynamic_update_slice"](rows_, t.mul(old, new), at, zero)]

        found = loop(step, [places, values], [rows], places.shape[0])[0]
        return t.transpose(t.reshape(found, *moved.shape), inverse(order))

    return body


def _scatter_along(e: Equation, room: int) -> Body:
    axis, kind, shape = e.attributes["axis"], e.attributes["kind"], extents(e.inputs[0])
    dtype = e.inputs[0].type.dtype
    if 0 in shape or 0 in extents(e.inputs[2]):
        return lambda x, i, u: x
    if is_complex(dtype):
        name = "scatter" if kind in ("set", "add") else "scatter_reduce"

        def points(x: Any, indices: Any, updates: Any) -> Any:
            places = t.reshape(_lanes(indices, shape, axis), prod(indices.shape), 1)
            flat = t.reshape(x, prod(shape), 1), places, t.reshape(updates, prod(indices.shape), 1)
            return t.reshape(table[name](*flat, axes=(0,), kind=kind), *shape)

        return points
    wide = _working(dtype, kind)
    item, count = wide.itemsize, extents(e.inputs[1])[axis]
    if kind in ("set", "add") and _fits(shape[axis], count, item, room):
        if _is_lane_form(e, room) and wide == dtype:
            return None
        together = _bundles(shape, axis, count, item, room)
        return _scattered_lanes(shape, axis, together, wide, kind)

    def body(x: Any, indices: Any, updates: Any) -> Any:
        rows = t.reshape(t.cast(x, wide), prod(shape), 1)
        places = _lanes(indices, shape, axis)
        values = t.reshape(t.cast(updates, wide), places.shape[0], 1)
        return t.cast(t.reshape(_written(rows, places, values, kind), *shape), dtype)

    return body


def _scattered_lanes(shape: Sequence[int], axis: int, together: int, wide: Any, kind: str) -> Body:
    def body(x: Any, indices: Any, updates: Any) -> Any:
        places = _bundled_places(indices, axis, shape[axis], together)
        table_, values = (_bundled(t.cast(v, wide), axis, together) for v in (x, updates))
        found = table["scatter_along"](table_, places, values, axis=1, kind=kind)
        return t.cast(_loosened(found, shape, axis), x.dtype)

    return body


def rules(machine: Machine) -> dict[str, Rule]:
    room = lane_room(machine)
    return {
        "gather": lambda e: _gather(e, room),
        "gather_nd": _gather_nd,
        "take_along": lambda e: _take_along(e, room),
        "scatter": _scatter,
        "scatter_reduce": _scatter,
        "scatter_along": lambda e: _scatter_along(e, room),
        "scatter_reduce_along": lambda e: _scatter_along(e, room),
    }
