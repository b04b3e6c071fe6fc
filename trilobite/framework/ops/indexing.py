"""`x[key]` and `x[key] = value`.

A key of integers, slices, None and Ellipsis gives a view: a write through it is a write to the tensor. A key
with index arrays or masks gives a copy. Writing works for all of them, also inside recorded functions, where
a mask chooses between old and new and indices that are out of range are clamped. Outside, an index out of
range is an error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.base.errors import DTypeError, IndexingError, ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.ops import keys
from trilobite.framework.ops.conversion import to_array
from trilobite.framework.ops.meeting import astype, broadcast_shapes, broadcast_to, plain, scalar
from trilobite.framework.ops.registry import method
from trilobite.framework.replay.known_views import MOST, handle
from trilobite.framework.replay.plans import planned
from trilobite.framework.tensor import Tensor, wrap
from trilobite.framework.writing import is_checked
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms import bind as entry
from trilobite.ir.transforms import cells
from trilobite.ir.transforms.bind import Traced
from trilobite.ir.transforms.tape import Taped
from trilobite.ir.types import Shape

_RANK = ("bool", "int", "float", "complex")
_slice, _reshape = table["slice"], table["reshape"]


@method("__getitem__")
def getitem(x: Tensor, key: Any) -> Tensor:
    """Part of the tensor: a view for integers, slices, None and Ellipsis; else a copy."""
    if type(key) is int:
        row = _known_row(x, key)
        return _row(x, key) if row is None else row
    basic = keys.basic(key)
    if basic is not None:
        return _seen(x, x._through(*keys.basic_steps(basic, x.shape)), key)
    entries = keys.entries_of(key)
    if not any(map(keys.is_array, entries)):
        return _seen(x, x._through(*keys.plan(entries, x.shape).steps), tuple(entries))
    value = x._read()
    if type(value) is np.ndarray and _direct(entries):
        return wrap(_taken(value, entries))
    done: Tensor | None = None
    if type(value) is Taped and isinstance(key, Tensor) and not keys.is_mask(entries[0]):
        done = planned(_picked, (x, key), {})
    return wrap(_gathered(value, entries)) if done is None else done


def _picked(x: Value, index: Value) -> Value:
    return _gathered(x, [index])


_rows: dict[Any, tuple[Any, ...]] = {}
"""The steps of x[i] by the shape of x and i."""


def _known_row(x: Tensor, index: int) -> Tensor | None:
    """x[i] of a plain tensor, if its steps are known."""
    if x._view is not None:
        return None
    cell = x._cell
    held = cell.value
    if type(held) is not np.ndarray and type(held) is not Taped:
        return None
    steps = _rows.get((held.shape, index))
    if steps is None:
        return None
    out = handle(cell, steps)
    if type(held) is np.ndarray and cell.owner is None and entry.threads.context.recorder is None:
        part = held[index]
        if type(part) is not np.ndarray:
            part = held[index, ...]
        out._extra = {"seen": (held, part, None)}
    return out


def _row(x: Tensor, index: int) -> Tensor:
    """x[i]: the commonest key, by the shortest way."""
    shape = x.shape
    if not shape:
        keys.expanded([index], 0)
    at = keys.in_range(index, shape[0], 0)
    rest = shape[1:]
    blank = (0,) * len(rest)
    out = x._through(
        (_slice, {"start": (at, *blank), "stop": (at + 1, *rest), "step": (1,) * len(shape)}),
        (_reshape, {"shape": rest}),
    )
    if x._view is None and type(index) is int and type(x._cell.value) is np.ndarray:
        if len(_rows) > MOST:
            _rows.clear()
        _rows[x._cell.value.shape, index] = out._view or ()
    return _seen(x, out, at)


def _seen(x: Tensor, out: Tensor, key: Any) -> Tensor:
    """Plain memory is looked at at once: NumPy does in one step what the steps say."""
    base = x._cell.value
    if type(base) is np.ndarray and x._cell.owner is None and entry.threads.context.recorder is None:
        shown = base if x._view is None else x._look(base)
        if shown is base or np.may_share_memory(shown, base):
            part = shown[key]
            if type(part) is not np.ndarray:  # a single element: with an Ellipsis it shares the memory
                part = shown[(*key, Ellipsis) if isinstance(key, tuple) else (key, Ellipsis)]
            out._note("seen", (base, part, None))
    return out


def _direct(entries: list[Any]) -> bool:
    """Are all index arrays known, and nobody watching?"""
    return entry.threads.context.watch is None and not any(isinstance(e, Traced) for e in entries)


def _taken(value: np.ndarray[Any, Any], entries: list[Any]) -> np.ndarray[Any, Any]:
    """By NumPy itself. What it refuses is refused again by name."""
    try:
        out = value[tuple(entries)]
    except IndexError:
        _index_shape(keys.plan(entries, value.shape))
        raise
    return out if type(out) is np.ndarray and out.base is None else np.array(out)


def _gathered(value: Value, entries: list[Any]) -> Value:
    """By primitives: the basic part, then one gather, then the new axes moved to their place."""
    key = keys.plan(entries, value.shape)
    for primitive, attributes in key.steps:
        value = primitive(value, **attributes)
    axes, lines = [a for a, _ in key.arrays], _lines(key)
    if len(axes) == 1:
        return table["gather"](value, lines[0], axis=axes[0])
    out = table["gather_nd"](value, _points(lines), axes=tuple(axes))
    return _moved(out, lines[0].ndim, key.place)


def _lines(key: keys.Key) -> list[Value]:
    """The index arrays in their common shape."""
    shape = _index_shape(key)
    return [broadcast_to(v, shape) for _, v in key.arrays]


def _index_shape(key: keys.Key) -> Shape:
    try:
        return broadcast_shapes(*(v.shape for _, v in key.arrays))
    except ShapeError as error:
        raise IndexingError(
            f"index arrays of shapes {[tuple(v.shape) for _, v in key.arrays]} do not broadcast",
            where=user_location(),
            expected=error.expected,
        ) from None


def _points(lines: list[Value]) -> Value:
    """One point per place: its index on every axis along a new last axis."""
    columns = [table["reshape"](v, shape=(*v.shape, 1)) for v in lines]
    return table["concatenate"](*columns, axis=lines[0].ndim)


def _moved(x: Value, count: int, place: int) -> Value:
    """The first `count` axes moved behind `place` others."""
    if place == 0 or count == 0:
        return x
    order = (*range(count, count + place), *range(count), *range(count + place, x.ndim))
    return table["transpose"](x, axes=order)


# -- writing ---------------------------------------------------------------------------------------------


@method("__setitem__")
def setitem(x: Tensor, key: Any, value: Any) -> None:
    """Write to part of the tensor; the value is broadcast to it and cast to its dtype."""
    entries = [key] if type(key) is int else keys.entries_of(key)
    new = _cast(value, x._peek().dtype)
    if _set_memory(x, entries, new):
        return
    if not any(map(keys.is_array, entries)):
        part = x._through(*keys.plan(entries, x.shape).steps)
        part._store(_fitted(new, part.shape))
    elif len(entries) == 1 and _chooses(entries[0], new, x.shape):
        _set_mask(x, entries[0], new)
    else:
        _scattered(x, entries, new)


def _cast(value: Any, dtype: dt.DType) -> Value:
    """The value in the tensor's dtype. A value of a higher kind would be cut off, which is an error."""
    if isinstance(value, Tensor):
        v = value._read()
    elif isinstance(value, (np.ndarray, list, tuple)):
        v = to_array(value)
    else:
        number = plain(value)
        if dtype == dt.bool_ and number in (0, 1) and type(number) is int:
            number = bool(number)
        _check_kind(_RANK[(bool, int, float, complex).index(type(number))], type(number).__name__, dtype)
        return scalar(number, dtype)
    _check_kind(dt.kind(v.dtype), str(v.dtype), dtype)
    return astype(v, dtype)


def _check_kind(kind: str, name: str, dtype: dt.DType) -> None:
    if _RANK.index(kind) > _RANK.index(dt.kind(dtype)):
        raise DTypeError(
            f"a value of {name} written to a tensor of {dtype}",
            where=user_location(),
            expected=f"a value that {dtype} can hold",
            remedy="cast the value first, or the tensor",
        )


def _fitted(new: Value, shape: Shape) -> Value:
    """The value in the shape of what it replaces; leading axes of size 1 too many do not matter."""
    extra = new.ndim - len(shape)
    if extra > 0 and all(d == 1 for d in new.shape[:extra]):
        new = table["reshape"](new, shape=new.shape[extra:])
    if new.ndim > len(shape) or any(
        d not in (1, s) for d, s in zip(new.shape[::-1], shape[::-1], strict=False)
    ):
        raise ShapeError(
            f"a value of shape {tuple(new.shape)} written to a part of shape {tuple(shape)}",
            where=user_location(),
            expected="a value that broadcasts to that shape",
            remedy="reshape the value, or write to a part of its shape",
        )
    return broadcast_to(new, shape)


def _set_memory(x: Tensor, entries: list[Any], new: Value) -> bool:
    """Write into plain memory, where that is all there is to do."""
    cell, ctx = x._cell, entry.threads.context
    base = cell.value
    if (
        type(base) is not np.ndarray
        or cell.owner is not None
        or ctx.recorder is not None
        or type(new) is not np.ndarray
    ):
        return False
    if (
        (cell.leaf is not None and ctx.ambient.level > ctx.grad_off)
        or not base.flags.writeable
        or not _direct(entries)
    ):
        return False
    target = base if x._view is None else x._look(base)
    if not target.flags.writeable or not (target is base or np.may_share_memory(target, base)):
        return False
    if np.may_share_memory(target, new):
        new = new.copy()
    try:
        target[tuple(entries)] = new
    except (IndexError, ValueError):
        return False  # the long way says what is wrong
    cells.stamp(base, is_checked(x))
    return True


def _chooses(mask: Any, new: Value, shape: Shape) -> bool:
    """Can a mask's write be a choice between old and new? Yes, unless the value has one entry per place."""
    if not keys.is_mask(mask) or isinstance(mask, bool) or mask.ndim == 0:
        return False
    rest = len(shape) - mask.ndim
    return bool(new.ndim <= rest or (new.ndim == rest + 1 and new.shape[0] == 1))


def _set_mask(x: Tensor, mask: Value, new: Value) -> None:
    shape = x.shape
    keys.check_mask(mask, shape[: mask.ndim], 0)
    if mask.shape != shape[: mask.ndim]:
        return  # a mask without elements chooses nothing
    rest = shape[mask.ndim :]
    chosen = table["broadcast"](mask, shape=shape, axes=tuple(range(mask.ndim)))
    x._store(table["select"](chosen, broadcast_to(_fitted(new, rest), shape), x._read()))


def _scattered(x: Tensor, entries: list[Any], new: Value) -> None:
    """Index arrays: the basic part is a view, and the value is scattered into it."""
    key = keys.plan(entries, x.shape)
    part = x._through(*key.steps) if key.steps else x
    lines, axes = _lines(key), tuple(a for a, _ in key.arrays)
    value = part._read()
    others = [d for i, d in enumerate(value.shape) if i not in axes]
    points = lines[0].shape
    updates = _fitted(new, (*others[: key.place], *points, *others[key.place :]))
    if key.place:
        n = len(points)
        order = (*range(key.place, key.place + n), *range(key.place), *range(key.place + n, updates.ndim))
        updates = table["transpose"](updates, axes=order)
    part._store(table["scatter"](value, _points(lines), updates, axes=axes, kind="set"))
