"""Rules of what moves elements: slices, pads, joins, reversals, reshapes, and windows at computed places."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from trilobite.base.dtypes import int64
from trilobite.compiler.graph.bounded.scope import (
    OneByOne,
    Rule,
    Scope,
    again,
    at_bounds,
    grown,
    is_symbolic,
    loose,
    top,
)
from trilobite.ir.graph import Equation
from trilobite.ir.primitive import Value, table
from trilobite.ir.types import Affine, Dim, TensorType, size_of


def _full(s: Scope, e: Equation, values: Sequence[Value]) -> Value:
    a, shape = e.attributes, at_bounds(e.attributes["shape"])
    if not isinstance(a["value"], Affine):
        return table["full"](shape=shape, dtype=a["dtype"], value=a["value"])
    number = table["cast"](s.live(a["value"]), dtype=a["dtype"])
    return table["broadcast"](number, shape=shape, axes=())


def _sized(s: Scope, e: Equation, values: Sequence[Value]) -> Value:
    """What is the same at any size, in the attributes' own words."""
    return again(e, *values)


def _reshape(s: Scope, e: Equation, values: Sequence[Value]) -> Value:
    """Runs of axes that only their first one may lengthen keep their places; the others are gathered."""
    (x,), old, new = values, e.inputs[0].type.shape, e.outputs[0].type.shape
    if 0 in (*x.shape, *map(top, new)):
        return table["full"](shape=at_bounds(new), dtype=x.dtype, value=0)
    ready: list[int] = []  # axes of the result so far
    rest = list(x.shape)
    for before, after in _groups(list(old), list(new)):
        rest = rest[len(before) :]
        bounds = [top(n) for n in after]
        if any(_moves(side) for side in (before, after)):
            x = table["reshape"](x, shape=(*ready, prod(map(top, before)), *rest))
            x = table["gather"](x, _places(s, before, after), axis=len(ready))
        ready += bounds
        x = table["reshape"](x, shape=(*ready, *rest))
    return x


def _moves(sizes: Sequence[Dim]) -> bool:
    """Do elements move when a size changes? Not where it is the first of more than one place."""
    return is_symbolic(tuple([n for n in sizes if n != 1][1:]))


def _places(s: Scope, before: Sequence[Dim], after: Sequence[Dim]) -> Value:
    """Of each place of axes at their bounds, where its element lies among other axes at theirs."""
    shape = tuple(map(top, after))
    total = prod(shape)
    zero = table["full"](shape=shape, dtype=int64, value=0)

    def times(x: Value, n: Value, name: str = "mul") -> Value:
        return table[name](x, table["broadcast"](n, shape=shape, axes=()))

    real = zero  # the number of the element among all there are
    for a, step in enumerate(_strides(s, after)):
        real = table["add"](real, times(table["iota"](shape=shape, dtype=int64, axis=a), step))
    found, inner = zero, 1
    for n, step in reversed(list(zip(before, _strides(s, before), strict=True))):
        size = table["maximum"](s.live(n), s.number(1))
        index = times(times(real, step, "floor_div"), size, "rem")
        found = table["add"](found, times(index, s.number(inner)))
        inner *= top(n)
    return table["reshape"](found, shape=(total,))


def _strides(s: Scope, sizes: Sequence[Dim]) -> list[Value]:
    """Elements between neighbours of each axis, at least one."""
    found = [s.number(1)]
    for n in reversed(sizes[1:]):
        found.append(table["mul"](found[-1], table["maximum"](s.live(n), s.number(1))))
    return found[::-1]


def _groups(old: list[Dim], new: list[Dim]) -> list[tuple[list[Dim], list[Dim]]]:
    """Runs of axes with as many elements on both sides, as short as can be."""
    found: list[tuple[list[Dim], list[Dim]]] = []
    while old or new:
        a, b = [old.pop(0)] if old else [], [new.pop(0)] if new else []
        while (x := size_of(a)) != (y := size_of(b)):
            if not old and not new:
                raise OneByOne("a reshape whose sizes cannot be compared")
            if new and (not old or top(x) > top(y)):
                b.append(new.pop(0))
            else:
                a.append(old.pop(0))
        found.append((a, b))
    return found


def _slice(s: Scope, e: Equation, values: Sequence[Value]) -> Value:
    (x,), shape = values, e.outputs[0].type.shape
    start, step = e.attributes["start"], e.attributes["step"]
    reach = [(max(top(n), 1) - 1) * k + 1 if top(n) else 0 for n, k in zip(shape, step, strict=True)]
    for a, (begin, size) in enumerate(zip(start, reach, strict=True)):
        x = grown(x, a, max(top(begin) + size - x.shape[a], 0))
    x = _window(s, x, start, reach)
    if all(k == 1 for k in step):
        return x
    return table["slice"](x, start=(0,) * len(shape), stop=tuple(x.shape), step=step)


def _window(s: Scope, x: Value, start: Sequence[Dim], sizes: Sequence[int]) -> Value:
    if is_symbolic(tuple(start)):
        return table["dynamic_slice"](x, *map(s.live, start), sizes=tuple(sizes))
    stop = tuple(int(b) + n for b, n in zip(start, sizes, strict=True))
    return table["slice"](x, start=tuple(start), stop=stop, step=(1,) * len(stop))


def _update_slice(s: Scope, e: Equation, values: Sequence[Value]) -> Value:
    start, step = e.attributes["start"], e.attributes["step"]
    y = e.inputs[1].type
    if any(k != 1 for k in step):
        steps = [k for a, k in enumerate(step) if isinstance(y.shape[a], Affine) or is_symbolic(start[a])]
        if any(k != 1 for k in steps):
            raise OneByOne("an update of every so many places where a size changes")
        stop = tuple(
            int(b) + max((top(n) - 1) * k + 1, 0) for b, n, k in zip(start, y.shape, step, strict=True)
        )
        return table["update_slice"](*values, start=start, stop=stop, step=step)
    return _written(s, values[0], values[1], y, [s.live(b) for b in start])


def _written(s: Scope, x: Value, y: Value, t: TensorType, starts: Sequence[Value]) -> Value:
    """x with the real part of y at places that lie inside."""
    shape, free = tuple(x.shape), loose(t)
    for a in free:
        x = grown(x, a, y.shape[a])
    where = s.inside(y.shape, t, free)
    if where is not None:
        y = table["select"](where, y, table["dynamic_slice"](x, *starts, sizes=tuple(y.shape)))
    out = table["dynamic_update_slice"](x, y, *starts)
    for a in free:
        out = grown(out, a, shape[a] - out.shape[a])
    return out


def _starts(s: Scope, starts: Sequence[Value], shape: Sequence[Dim], sizes: Sequence[Dim]) -> list[Value]:
    """Clamped so that the window lies inside the real sizes."""
    found = []
    for start, n, size in zip(starts, shape, sizes, strict=True):
        if is_symbolic((n, size)):
            wide = table["cast"](start, dtype=int64) if start.dtype != int64 else start
            room = table["sub"](s.live(n), s.live(size))
            start = table["maximum"](table["minimum"](wide, room), s.number(0))
        found.append(start)
    return found


def _dynamic_slice(s: Scope, e: Equation, values: Sequence[Value]) -> Value:
    sizes, t = e.attributes["sizes"], e.inputs[0].type
    starts, x = _starts(s, values[1:], t.shape, sizes), values[0]
    for a, n in enumerate(sizes):
        if isinstance(n, Affine) and n != t.shape[a]:
            x = grown(x, a, top(n))
    return table["dynamic_slice"](x, *starts, sizes=at_bounds(sizes))


def _dynamic_update(s: Scope, e: Equation, values: Sequence[Value]) -> Value:
    x, y = (v.type for v in e.inputs[:2])
    return _written(s, values[0], values[1], y, _starts(s, values[2:], x.shape, y.shape))


def _pad(s: Scope, e: Equation, values: Sequence[Value]) -> Value:
    a, t, shape = e.attributes, e.inputs[0].type, at_bounds(e.outputs[0].type).shape
    if is_symbolic(a["low"]):
        raise OneByOne("padding in front whose width the run decides")
    x = s.clean(values[0], t, None, a["value"])
    spread = [max(n - 1, 0) * (k + 1) + min(n, 1) for n, k in zip(x.shape, a["between"], strict=True)]
    high = tuple(n - low - size for n, low, size in zip(shape, a["low"], spread, strict=True))
    return table["pad"](x, low=a["low"], high=high, between=a["between"], value=a["value"])


def _concatenate(s: Scope, e: Equation, values: Sequence[Value]) -> Value:
    axis, types = e.attributes["axis"], [v.type for v in e.inputs]
    if not any(isinstance(t.shape[axis], Affine) for t in types[:-1]):
        return table["concatenate"](*values, axis=axis)
    out = table["concatenate"](*values, axis=axis)  # as large as all parts can be together
    at: Dim = 0
    for x, t in zip(values, types, strict=True):
        starts = [s.live(at) if a == axis else s.number(0) for a in range(t.ndim)]
        out = table["dynamic_update_slice"](out, x, *starts)
        at = at + t.shape[axis]
    return out


def _reverse(s: Scope, e: Equation, values: Sequence[Value]) -> Value:
    t, x = e.inputs[0].type, table["reverse"](values[0], axes=e.attributes["axes"])
    free, shape = loose(t, e.attributes["axes"]), tuple(values[0].shape)
    if not free:
        return x
    for a in free:
        x = grown(x, a, shape[a])
    behind = [table["sub"](s.number(shape[a]), s.live(t.shape[a])) for a in free]
    starts = [behind[free.index(a)] if a in free else s.number(0) for a in range(t.ndim)]
    return table["dynamic_slice"](x, *starts, sizes=shape)


def _random_bits(s: Scope, e: Equation, values: Sequence[Value]) -> Value:
    if is_symbolic(e.attributes["shape"][1:]):
        raise OneByOne("random bits whose order follows a size that is not the first")
    return _sized(s, e, values)


RULES: dict[str, Rule] = {
    "full": _full,
    "iota": _sized,
    "broadcast": _sized,
    "transpose": _sized,
    "reshape": _reshape,
    "slice": _slice,
    "update_slice": _update_slice,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update,
    "pad": _pad,
    "concatenate": _concatenate,
    "reverse": _reverse,
    "random_bits": _random_bits,
}
