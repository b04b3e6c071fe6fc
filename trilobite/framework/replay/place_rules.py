"""Rows of inner loops for primitives that work with places: reading and writing at indices, where the largest
stands, order, and for random words, which are numbered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from trilobite.base.axes import merged
from trilobite.base.dtypes import accumulator
from trilobite.framework.replay.loop_rows import NoLoop, Rows, Seen, needed, strides_of
from trilobite.ir.graph import Equation
from trilobite.native.ufunc_loops import Place, Row, by_lanes, converting

_FAR = 1 << 62  # as many places as there can be: nothing is clamped
_LONGEST = 64  # elements of a lane that are ordered by insertion


def _moved(x: Seen, far: int) -> Place:
    return Place(x.place.base, x.place.offset + far)


def _indices(rows: Rows, x: Seen) -> Seen:
    """Indices as int64."""
    if x.dtype == np.int64:
        return x
    out = rows.fresh(None, x.shape, np.dtype(np.int64))
    rows.each(needed(converting(x.dtype, out.dtype)), x, out)
    return out


def _without(x: Seen, axis: int) -> Seen:
    shape, strides = list(x.shape), list(x.strides)
    del shape[axis], strides[axis]
    return x.through(shape, strides)


def lanes(
    rows: Rows,
    loop: str,
    of: Any,
    sizes: tuple[int, int, int],
    operands: Sequence[Seen],
    steps: Sequence[int],
) -> None:
    """A loop of two levels over lanes: `operands` have the shape of the lanes alone, `steps` are those along
    a lane, `sizes` the elements of a lane, its places and what the loop is told besides.
    """
    code = needed(by_lanes(loop, of))
    shape, strides = merged(operands[0].shape, [x.strides for x in operands])
    if not shape:
        shape, strides = [1], [[0] for _ in operands]
    inner = max(range(len(shape)), key=shape.__getitem__)
    outer = [i for i in range(len(shape)) if i != inner]
    dims = (sizes[0], sizes[1], shape[inner], sizes[2])
    by_lane = [s[inner] for s in strides]
    for at in product(*(range(shape[i]) for i in outer)):
        far = [sum(n * s[i] for n, i in zip(at, outer, strict=True)) for s in strides]
        places = tuple(_moved(x, f) for x, f in zip(operands, far, strict=True))
        rows.rows.append(Row(code, places, dims, (*steps, *by_lane)))


# -- reading ---------------------------------------------------------------------------------------------


def _gather(rows: Rows, xs: Sequence[Seen], e: Equation) -> Seen:
    (x, at), v, axis = xs, e.outputs[0], e.attributes["axis"]
    at = rows.row_major(_indices(rows, at))
    n, out = math.prod(at.shape), rows.fresh(v, v.type.shape, v.type.dtype)
    rest = _without(x, axis)
    behind = math.prod(x.shape[axis + 1 :]) * out.dtype.itemsize
    to = [s for i, s in enumerate(out.strides) if not axis <= i < axis + len(at.shape)]
    still = at.through(rest.shape, (0,) * len(rest.shape))
    lanes(
        rows, "take", out.dtype.itemsize, (n, x.shape[axis], 0), (rest, still, out.through(rest.shape, to)),
        (x.strides[axis], 8, behind),
    )  # fmt: skip
    return out


def _take_along(rows: Rows, xs: Sequence[Seen], e: Equation) -> Seen:
    (x, at), v = xs, e.outputs[0]
    return taken_along(
        rows, x, _indices(rows, at), e.attributes["axis"], rows.fresh(v, v.type.shape, v.type.dtype)
    )


def taken_along(rows: Rows, x: Seen, at: Seen, axis: int, out: Seen) -> Seen:
    steps = x.strides[axis], at.strides[axis], out.strides[axis]
    each = [_without(s, axis) for s in (x, at, out)]
    lanes(rows, "take", out.dtype.itemsize, (at.shape[axis], x.shape[axis], 0), each, steps)
    return out


def _points(rows: Rows, at: Seen, x: Seen, axes: Sequence[int]) -> Seen:
    """Points of several indices as bytes from the start of x."""
    at = _indices(rows, at)
    lead, step = at.shape[:-1], at.strides[-1]
    found = rows.constant(np.zeros((), np.int64)).through(lead, (0,) * len(lead))
    for k, a in enumerate(axes):
        index = at.through(lead, at.strides[:-1], k * step)
        out = rows.fresh(None, lead, np.dtype(np.int64))
        _placed(rows, (index, found, out), x.shape[a], x.strides[a])
        found = out
    return found


def _placed(rows: Rows, xs: Sequence[Seen], size: int, stride: int) -> None:
    loop = needed(by_lanes("place"))
    shape, strides = merged(xs[0].shape, [x.strides for x in xs])
    if not shape:
        shape, strides = [1], [[0] for _ in xs]
    for at in product(*(range(n) for n in shape[:-1])):
        far = [sum(n * s for n, s in zip(at, st, strict=False)) for st in strides]
        places = tuple(_moved(x, f) for x, f in zip(xs, far, strict=True))
        steps = (*(s[-1] for s in strides), 0, 0, 0)
        rows.rows.append(Row(loop, places, (shape[-1], size, 1, stride), steps))


def _gather_nd(rows: Rows, xs: Sequence[Seen], e: Equation) -> Seen:
    (x, at), v, axes = xs, e.outputs[0], e.attributes["axes"]
    found = _points(rows, at, x, axes)
    out = rows.fresh(v, v.type.shape, v.type.dtype)
    n, lead = math.prod(found.shape), len(found.shape)
    kept = [i for i in range(len(x.shape)) if i not in axes]
    rest = x.through([x.shape[i] for i in kept], [x.strides[i] for i in kept])
    size = out.dtype.itemsize
    step = math.prod(rest.shape) * size
    still = found.through(rest.shape, (0,) * len(rest.shape))
    lanes(
        rows,
        "take",
        size,
        (n, _FAR, 0),
        (rest, still, out.through(rest.shape, out.strides[lead:])),
        (1, 8, step),
    )
    return out


# -- writing ---------------------------------------------------------------------------------------------


def _put(dtype: Any, kind: str) -> tuple[str, Any]:
    if kind == "set":
        return "put", dtype.itemsize
    if kind != "add" or accumulator(dtype) is not dtype:
        raise NoLoop
    return "add", dtype


def _scatter(rows: Rows, xs: Sequence[Seen], e: Equation) -> Seen:
    (x, at, new), v, axes = xs, e.outputs[0], e.attributes["axes"]
    loop, of = _put(x.dtype, e.attributes["kind"])
    out = rows.copied(x, rows.fresh(v, x.shape, x.dtype))
    found = _points(rows, at, out, axes)
    lead, kept = len(found.shape), [i for i in range(len(x.shape)) if i not in axes]
    new = rows.row_major(new)
    rest = out.through([out.shape[i] for i in kept], [out.strides[i] for i in kept])
    still = found.through(rest.shape, (0,) * len(rest.shape))
    step = math.prod(rest.shape) * x.dtype.itemsize
    each = (still, new.through(rest.shape, new.strides[lead:]), rest)
    lanes(rows, loop, of, (math.prod(found.shape), _FAR, 0), each, (8, step, 1))
    return out


def _scatter_along(rows: Rows, xs: Sequence[Seen], e: Equation) -> Seen:
    (x, at, new), v, axis = xs, e.outputs[0], e.attributes["axis"]
    loop, of = _put(x.dtype, e.attributes["kind"])
    out, at = rows.copied(x, rows.fresh(v, x.shape, x.dtype)), _indices(rows, at)
    steps = at.strides[axis], new.strides[axis], out.strides[axis]
    each = [_without(s, axis) for s in (at, new, out)]
    lanes(rows, loop, of, (at.shape[axis], x.shape[axis], 0), each, steps)
    return out


def _update_slice(rows: Rows, xs: Sequence[Seen], e: Equation) -> Seen:
    (x, new), v = xs, e.outputs[0]
    start, step = e.attributes["start"], e.attributes["step"]
    out = rows.copied(x, rows.fresh(v, x.shape, x.dtype))
    offset = sum(n * s for n, s in zip(start, out.strides, strict=True))
    rows.copied(new, out.through(new.shape, [n * s for n, s in zip(step, out.strides, strict=True)], offset))
    return out


# -- order -----------------------------------------------------------------------------------------------


def _extreme(loop: str) -> Callable[[Rows, Sequence[Seen], Equation], Seen]:
    def rule(rows: Rows, xs: Sequence[Seen], e: Equation) -> Seen:
        (x,), v, axis = xs, e.outputs[0], e.attributes["axis"]
        out = rows.fresh(v, v.type.shape, v.type.dtype)
        lanes(rows, loop, x.dtype, (x.shape[axis], 0, 0), (_without(x, axis), out), (x.strides[axis], 0))
        return out

    return rule


def _order(rows: Rows, x: Seen, axis: int, loop: str) -> Seen:
    """The places of elements in order."""
    if x.shape[axis] > _LONGEST:
        raise NoLoop
    out = rows.fresh(None, x.shape, np.dtype(np.int64))
    each = (_without(x, axis), _without(out, axis))
    lanes(rows, loop, x.dtype, (x.shape[axis], 0, 0), each, (x.strides[axis], out.strides[axis]))
    return out


def _sort(rows: Rows, xs: Sequence[Seen], e: Equation) -> tuple[Seen, ...]:
    axis = e.attributes["axis"]
    if e.attributes["keys"] != 1:
        raise NoLoop
    order = _order(rows, xs[0], axis, "rise")
    return tuple(
        taken_along(rows, x, order, axis, rows.fresh(v, v.type.shape, v.type.dtype))
        for x, v in zip(xs, e.outputs, strict=True)
    )


def _top_k(rows: Rows, xs: Sequence[Seen], e: Equation) -> tuple[Seen, Seen]:
    (x,), (values, places) = xs, e.outputs
    axis = e.attributes.get("axis", -1) % len(x.shape)
    order = _order(rows, x, axis, "fall")
    shape = places.type.shape
    found = rows.placed(places, order.through(shape, order.strides))
    out = rows.fresh(values, shape, x.dtype)
    return taken_along(rows, x, found, axis, out), found


# -- numbered words --------------------------------------------------------------------------------------


def _random_bits(rows: Rows, xs: Sequence[Seen], e: Equation) -> Seen:
    (key, counter), v = xs, e.outputs[0]
    if len(key.shape) != 1:
        raise NoLoop
    total = math.prod(e.attributes["shape"])
    blocks = -(-total // 4)
    out = rows.fresh(None, (blocks * 4,), v.type.dtype)
    at = tuple(rows.row_major(x).place for x in (key, counter, out))
    sizes = (blocks, e.attributes["stream"], 1, 0)
    rows.rows.append(Row(needed(by_lanes("random")), at, sizes, (0,) * 6))
    return out.through(v.type.shape, strides_of(v.type))


RULES: dict[str, Callable[[Rows, Sequence[Seen], Equation], Any]] = {
    "gather": _gather, "gather_nd": _gather_nd, "take_along": _take_along, "scatter": _scatter,
    "scatter_along": _scatter_along, "update_slice": _update_slice, "argmax": _extreme("most"),
    "argmin": _extreme("least"), "sort": _sort, "top_k": _top_k, "random_bits": _random_bits,
}  # fmt: skip
