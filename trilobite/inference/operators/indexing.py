"""Taking and putting: slices, gathers, scatters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import trilobite as tb
from trilobite.base.errors import ShapeError
from trilobite.framework.tensor import Tensor, wrap
from trilobite.inference.model import Node
from trilobite.inference.operators.primitives import primitive
from trilobite.inference.operators.registry import operator
from trilobite.inference.operators.shaping import ints
from trilobite.inference.program.symbolic import as_number, sizes_array, tensor_of
from trilobite.ir.types import Affine

Array = np.ndarray[Any, Any]
_FAR = 2**31 - 1  # how exporters write "to the end"


@operator("Slice")
def slice_by_attributes(node: Node, x: Tensor) -> Tensor:
    starts, ends = node.attributes["starts"], node.attributes["ends"]
    return _sliced(x, starts, ends, node.attribute("axes") or range(len(starts)), (1,) * len(starts))


@operator("Slice", since=10, known=(1, 2, 3, 4))
def slice_(
    node: Node, x: Tensor, starts: Array, ends: Array, axes: Array | None = None, steps: Array | None = None
) -> Tensor:
    which = range(starts.size) if axes is None else ints(axes)
    return _sliced(x, ints(starts), ints(ends), which, (1,) * starts.size if steps is None else ints(steps))


def _sliced(
    x: Tensor, starts: Sequence[Any], ends: Sequence[Any], axes: Sequence[int], steps: Sequence[int]
) -> Tensor:
    """Counted from the end where negative, cut off at the ends, back to front where the step is negative."""
    first, last, by = [0] * x.ndim, list(x.shape), [1] * x.ndim
    backwards: list[int] = []
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        a = axis % x.ndim
        size = x.shape[a]
        if any(isinstance(v, Affine) for v in (start, end, size)):
            first[a], last[a], by[a] = _symbolic_range(start, end, size, step)
            continue
        found = range(*slice(start, end, step).indices(size))
        if step < 0:
            found = found[::-1]
            backwards.append(a)
        empty = not len(found)
        first[a], by[a] = 0 if empty else found.start, 1 if empty else found.step
        last[a] = 0 if empty else found[-1] + 1
    out = primitive("slice", x, start=tuple(first), stop=tuple(last), step=tuple(by))
    return tb.flip(out, axis=tuple(backwards)) if backwards else out


def _symbolic_range(start: Any, end: Any, size: Any, step: int) -> tuple[Any, Any, int]:
    """Where a slice begins and ends if sizes are symbols; an error if that depends on their values."""
    if step < 1:
        raise ShapeError(f"a slice in steps of {step} of an axis of the symbolic size {size}")
    low, high = (_counted(v, size) for v in (start, end))
    return low, high if high >= low else low, step


def _counted(place: Any, size: Any) -> Any:
    if not isinstance(place, Affine):
        if place >= _FAR:
            return size
        if place <= -_FAR:
            return 0
        if place < 0:
            place = size + place
    held = place if place <= size else size
    return held if held >= 0 else 0


def _inside(indices: Tensor, size: Any) -> Tensor:
    """Indices that count from the end, from the front."""
    there = indices._read()
    if isinstance(there, np.ndarray) and isinstance(size, int):
        wide = there.astype(np.int64)
        return wrap(np.where(wide < 0, wide + size, wide))
    wide = indices.astype(tb.int64)
    return tb.where(wide < 0, wide + as_number(size), wide)


@operator("Gather")
def gather(node: Node, x: Tensor, indices: Tensor) -> Tensor:
    axis = node.attribute("axis", 0) % x.ndim
    return primitive("gather", x, _inside(indices, x.shape[axis]), axis=axis)


@operator("GatherElements", since=11)
def gather_elements(node: Node, x: Tensor, indices: Tensor) -> Tensor:
    axis = node.attribute("axis", 0) % x.ndim
    places = _inside(indices, x.shape[axis])
    kept = tuple(slice(0, n) if a != axis else slice(None) for a, n in enumerate(indices.shape))
    return primitive("take_along", x[kept], places, axis=axis)


@operator("GatherND", since=11)
def gather_nd(node: Node, x: Tensor, indices: Tensor) -> Tensor:
    batch, depth = node.attribute("batch_dims", 0), indices.shape[-1]
    sizes = tensor_of(sizes_array(x.shape[batch : batch + depth]))
    places = tb.where(indices < 0, indices + sizes, indices.astype(tb.int64))
    if batch:
        lead = indices.shape[:batch]
        own = []
        for a in range(batch):
            column = tb.reshape(tb.arange(x.shape[a]), [-1 if i == a else 1 for i in range(indices.ndim)])
            own.append(tb.broadcast_to(column, (*indices.shape[:-1], 1)))
        places = tb.concat([*own, places], axis=-1)
        assert tuple(lead) == tuple(x.shape[:batch])
    return primitive("gather_nd", x, places, axes=tuple(range(batch + depth)))


_KINDS = {"none": "set", "add": "add", "mul": "mul", "max": "max", "min": "min"}


def _put(suffix: str, x: Tensor, places: Tensor, updates: Tensor, reduction: str, **where: Any) -> Tensor:
    kind = _KINDS[reduction]
    name = f"scatter{suffix}" if kind in ("set", "add") else f"scatter_reduce{suffix}"
    return primitive(name, x, places, updates, kind=kind, **where)


@operator("Scatter", since=9)
@operator("ScatterElements", since=11)
def scatter_elements(node: Node, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    axis, reduction = node.attribute("axis", 0) % x.ndim, node.attribute("reduction", "none")
    places = _inside(indices, x.shape[axis])
    full = all(n == m for a, (n, m) in enumerate(zip(places.shape, x.shape, strict=True)) if a != axis)
    if full:
        return _put("_along", x, places, updates, reduction, axis=axis)
    grid = [places if a == axis else _coordinates(places.shape, a) for a in range(x.ndim)]
    points = tb.stack(grid, axis=-1)
    return _put("", x, points, updates, reduction, axes=tuple(range(x.ndim)))


def _coordinates(shape: Sequence[Any], axis: int) -> Tensor:
    return primitive("iota", shape=tuple(shape), dtype=tb.int64, axis=axis)


@operator("ScatterND", since=11)
def scatter_nd(node: Node, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    depth = indices.shape[-1]
    sizes = tensor_of(sizes_array(x.shape[:depth]))
    places = tb.where(indices < 0, indices + sizes, indices.astype(tb.int64))
    return _put("", x, places, updates, node.attribute("reduction", "none"), axes=tuple(range(depth)))


@operator("OneHot", since=9, known=(1,))
def one_hot(node: Node, indices: Tensor, depth: Array, values: Tensor) -> Tensor:
    n = int(depth.reshape(()))
    rank = indices.ndim + 1
    axis = node.attribute("axis", -1) % rank
    places = _inside(indices, n) if tb.isdtype(indices.dtype, "integral") else indices % n
    shape = [*indices.shape[:axis], 1, *indices.shape[axis:]]
    classes = tb.reshape(tb.arange(n), [-1 if a == axis else 1 for a in range(rank)]).astype(places.dtype)
    return tb.where(tb.equal(tb.reshape(places, shape), classes), values[1], values[0])


@operator("TensorScatter", since=24)
def tensor_scatter(node: Node, past: Tensor, update: Tensor, starts: Tensor | None = None) -> Tensor:
    """A cache with rows of an update written behind what it holds, per batch; round and round if circular."""
    axis = node.attribute("axis", -2) % past.ndim
    count, room = update.shape[axis], past.shape[axis]
    first = tb.zeros((past.shape[0],), dtype=tb.int64) if starts is None else starts.astype(tb.int64)
    along = tb.reshape(tb.arange(count), [-1 if a == axis else 1 for a in range(past.ndim)])
    places = tb.reshape(first, [-1 if a == 0 else 1 for a in range(past.ndim)]) + along
    if node.attribute("mode", "linear") == "circular":
        places = places % room
    return primitive(
        "scatter_along", past, tb.broadcast_to(places, update.shape), update, axis=axis, kind="set"
    )
