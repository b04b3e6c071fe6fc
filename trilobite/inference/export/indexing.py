"""Reading and writing at computed places as ONNX nodes.

An index outside means the nearest place inside here, and an error (or one counted from the end) in ONNX; so
indices are clamped by nodes, unless they are known and lie inside.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trilobite.base.dtypes import bool_, int32, int64, uint64
from trilobite.inference.export.movement import reshaped, transposed
from trilobite.inference.export.scope import Refused, Scope, onnx_type
from trilobite.ir.graph import Equation, Var
from trilobite.ir.primitives.shape import inverse
from trilobite.ir.types import Dim


def _places(s: Scope, indices: Var, sizes: Sequence[Dim]) -> str:
    """Indices as int64, clamped; with several sizes, one for each column."""
    known = s.known.get(indices)
    if known is not None and all(isinstance(n, int) for n in sizes):
        return _known_places(s, indices, np.asarray(known), [int(n) for n in sizes if isinstance(n, int)])
    name = _signed(s, indices)
    last = s.emit("Sub", s.model.sizes(sizes), s.ints(1))
    return s.emit("Min", s.emit("Max", name, s.ints(0)), last)


def _signed(s: Scope, indices: Var) -> str:
    """Indices as int64; what is too large for it stays merely too large."""
    name = s.name(indices)
    if indices.type.dtype == uint64:
        name = s.emit("Min", name, s.constant(2**62, uint64))
    return s.cast(name, indices.type.dtype, int64)


def _known_places(s: Scope, indices: Var, known: np.ndarray, sizes: list[int]) -> str:
    shape = tuple(int(d) for d in indices.type.shape if isinstance(d, int))
    found = np.clip(np.broadcast_to(known, shape).astype(np.int64), 0, np.array(sizes) - 1)
    return s.model.constant(found.reshape(shape))


def _gather(s: Scope, e: Equation) -> None:
    (x, indices), axis = e.inputs, e.attributes["axis"]
    places = _places(s, indices, [x.type.shape[axis]])
    if not indices.type.shape:
        places = s.emit("Squeeze", places, s.ints(0)) if indices not in s.known else places
    s.set(e.outputs[0], s.emit("Gather", s.name(x), places, axis=axis))


def _front(ndim: int, axes: Sequence[int]) -> tuple[int, ...]:
    return (*axes, *(i for i in range(ndim) if i not in axes))


def _gather_nd(s: Scope, e: Equation) -> None:
    (x, indices), axes = e.inputs, e.attributes["axes"]
    places = _places(s, indices, [x.type.shape[a] for a in axes])
    s.set(e.outputs[0], s.emit("GatherND", transposed(s, s.name(x), _front(x.type.ndim, axes)), places))


def _take_along(s: Scope, e: Equation) -> None:
    (x, indices), axis = e.inputs, e.attributes["axis"]
    places = _places(s, indices, [x.type.shape[axis]])
    s.set(e.outputs[0], s.emit("GatherElements", s.name(x), places, axis=axis))


_KINDS = {"set": "none", "add": "add", "mul": "mul", "max": "max", "min": "min"}


def _kind(e: Equation) -> str:
    kind = e.attributes["kind"]
    if kind not in _KINDS:
        raise Refused(f"ONNX scatters by none, add, mul, max and min, not by {kind}")
    return _KINDS[kind]


def _scatter(s: Scope, e: Equation) -> None:
    (x, indices, updates), axes = e.inputs, e.attributes["axes"]
    order = _front(x.type.ndim, axes)
    places = _places(s, indices, [x.type.shape[a] for a in axes])
    base = transposed(s, s.name(x), order)
    out = s.emit("ScatterND", base, places, s.name(updates), reduction=_kind(e))
    s.set(e.outputs[0], transposed(s, out, inverse(order)))


def _scatter_along(s: Scope, e: Equation) -> None:
    (x, indices, updates), axis = e.inputs, e.attributes["axis"]
    places = _places(s, indices, [x.type.shape[axis]])
    out = s.emit("ScatterElements", s.name(x), places, s.name(updates), axis=axis, reduction=_kind(e))
    s.set(e.outputs[0], out)


def _starts(s: Scope, starts: Sequence[Var], shape: Sequence[Dim], sizes: Sequence[Dim]) -> str:
    """Where a window begins: one int64 an axis, clamped so that it lies inside."""
    columns = [reshaped(s, _signed(s, v), (1,)) for v in starts]
    room = s.model.sizes([d - n for d, n in zip(shape, sizes, strict=True)])
    return s.emit("Min", s.emit("Max", s.emit("Concat", *columns, axis=0), s.ints(0)), room)


def _dynamic_slice(s: Scope, e: Equation) -> None:
    (x, *starts), sizes = e.inputs, e.attributes["sizes"]
    if not starts:
        return s.alias(e.outputs[0], x)
    first = _starts(s, starts, x.type.shape, sizes)
    last = s.emit("Add", first, s.model.sizes(sizes))
    return s.set(e.outputs[0], s.emit("Slice", s.name(x), first, last, s.ints(*range(len(starts)))))


def _dynamic_update_slice(s: Scope, e: Equation) -> None:
    """y padded to the shape of x, chosen where a mask padded alike says so."""
    x, y, *starts = e.inputs
    if not starts:
        return s.alias(e.outputs[0], y)
    first = _starts(s, starts, x.type.shape, y.type.shape)
    room = s.model.sizes([d - n for d, n in zip(x.type.shape, y.type.shape, strict=True)])
    pads = s.emit("Concat", first, s.emit("Sub", room, first), axis=0)
    ones = s.emit("Expand", s.constant(1, np.int32), s.model.sizes(y.type.shape))
    mask = s.emit("Cast", s.emit("Pad", ones, pads), to=onnx_type(bool_))
    kind = int32 if y.type.dtype == bool_ else y.type.dtype
    moved = s.emit("Pad", s.cast(s.name(y), y.type.dtype, kind), pads)
    return s.set(e.outputs[0], s.emit("Where", mask, s.cast(moved, kind, y.type.dtype), s.name(x)))


ROWS = {
    "gather": _gather,
    "gather_nd": _gather_nd,
    "take_along": _take_along,
    "scatter": _scatter,
    "scatter_along": _scatter_along,
    "scatter_reduce": _scatter,
    "scatter_reduce_along": _scatter_along,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
}
