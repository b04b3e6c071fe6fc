"""Rows of inner loops for windows: pooling, small convolutions and their gradients, running sums. Order and
blocks are those of the rules (`ir/primitives/window.py`, `conv_blocks.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from trilobite.base.dtypes import accumulator
from trilobite.framework.replay.loop_rows import NoLoop, Rows, Seen, needed, strides_of
from trilobite.framework.replay.place_rules import lanes, taken_along
from trilobite.ir.graph import Equation
from trilobite.ir.primitives import conv_blocks as blocks
from trilobite.ir.primitives.conv import input_geometry, weight_geometry
from trilobite.ir.primitives.conv_geometry import Geometry, geometry
from trilobite.ir.primitives.cumulative import UFUNCS as RUNNING
from trilobite.ir.primitives.window import UFUNCS, taps_of
from trilobite.native.ufunc_loops import Row, loop_of

Array = np.ndarray[Any, Any]
_INT64 = np.dtype(np.int64)


def part(x: Seen, slices: Sequence[slice]) -> Seen:
    """x[slices], with slices that lie within."""
    ends = [s.indices(d) for s, d in zip(slices, x.shape, strict=True)]
    offset = sum(begin * st for (begin, _, _), st in zip(ends, x.strides, strict=True))
    shape = [len(range(*e)) for e in ends]
    return x.through(shape, [st * e[2] for st, e in zip(x.strides, ends, strict=True)], offset)


def _filled(rows: Rows, shape: Sequence[int], value: Any, dtype: Any) -> Seen:
    out = rows.fresh(None, tuple(shape), dtype)
    return rows.copied(rows.constant(np.asarray(value, dtype)).through(shape, (0,) * len(shape)), out)


def _floats(x: Seen) -> None:
    """Dtypes that are computed in themselves, by BLAS."""
    if x.dtype.char not in "fd":
        raise NoLoop


# -- pooling ---------------------------------------------------------------------------------------------


def _window_reduce(rows: Rows, xs: Sequence[Seen], e: Equation) -> Seen:
    (x,), v, a = xs, e.outputs[0], e.attributes
    if a["kind"] == "sum" and accumulator(x.dtype) is not x.dtype:
        raise NoLoop
    rank = len(a["size"])
    lead = len(x.shape) - rank
    for i in range(rank):
        window = (a["size"][i], a["stride"][i], a["low"][i], a["dilation"][i])
        x = _along(rows, x, lead + i, int(v.type.shape[lead + i]), window, a["kind"])
    return x


def _along(
    rows: Rows, x: Seen, axis: int, windows: int, window: tuple[int, int, int, int], kind: Any
) -> Seen:
    if window == (1, 1, 0, 1) and windows == x.shape[axis]:
        return x
    ufunc, identity = UFUNCS[kind]
    loop = needed(loop_of(ufunc, f"{x.dtype.char}{x.dtype.char}->{x.dtype.char}"))
    every = [slice(None)] * len(x.shape)
    found = taps_of(x.shape[axis], windows, *window)
    shape = (*x.shape[:axis], windows, *x.shape[axis + 1 :])

    def at(s: slice) -> list[slice]:
        return [*every[:axis], s, *every[axis + 1 :]]

    if found[0].windows == slice(0, windows):
        out = rows.copied(part(x, at(found.pop(0).elements)), rows.fresh(None, shape, x.dtype))
    else:
        out = _filled(rows, shape, identity(x.dtype), x.dtype)
    for t in found:
        if t.windows.start < t.windows.stop:
            place = part(out, at(t.windows))
            rows.each(loop, place, part(x, at(t.elements)), place)
    return out


def _window_argmax(rows: Rows, xs: Sequence[Seen], e: Equation) -> Seen:
    (x,), v, a = xs, e.outputs[0], e.attributes
    size, stride, dilation = a["size"], a["stride"], a["dilation"]
    if any(a["low"]) or any(n > 0 for n in a["high"]):
        raise NoLoop  # a tap in the padding is no place
    rank, shape = len(size), v.type.shape
    lead = len(x.shape) - rank
    plane, windows = x.shape[lead:], tuple(map(int, shape[lead:]))
    own = x.strides[lead:]
    moves = [s * n for s, n in zip(own, stride, strict=True)]
    steps = [s * n for s, n in zip(own, dilation, strict=True)]
    seen = x.through((*x.shape[:lead], *windows, *size), (*x.strides[:lead], *moves, *steps))
    seen = rows.row_major(seen)
    planes, count, each = math.prod(x.shape[:lead]), math.prod(windows), math.prod(size)
    lines = seen.through((planes * count,), (each * x.dtype.itemsize,))
    tap = rows.fresh(None, (planes * count,), _INT64)
    lanes(rows, "most", x.dtype, (each, 0, 0), (lines, tap), (x.dtype.itemsize, 0))
    known = rows.constant(_plane_indices(plane, windows, size, stride, dilation))
    out = rows.fresh(v, shape, _INT64)
    spread = known.through((planes, count, each), (0, *known.strides))
    taken = tap.through((planes, count, 1), (count * 8, 8, 8))
    taken_along(rows, spread, taken, 2, out.through((planes, count, 1), (count * 8, 8, 8)))
    return out


def _plane_indices(
    plane: Sequence[int],
    windows: Sequence[int],
    size: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> Array:
    """(windows, taps): where in the plane each stands."""
    axes = [
        np.arange(p)[:, None] * s + np.arange(n) * d
        for p, n, s, d in zip(windows, size, stride, dilation, strict=True)
    ]
    total: Array = np.zeros((1, 1), np.int64)
    for n, line in zip(plane, axes, strict=True):
        both = total[:, None, :, None] * n + line[None, :, None, :]
        total = both.reshape(both.shape[0] * both.shape[1], -1)
    return total


def _window_scatter(rows: Rows, xs: Sequence[Seen], e: Equation) -> Seen:
    (y, at), v, plane = xs, e.outputs[0], e.attributes["plane"]
    out = rows.fresh(v, v.type.shape, v.type.dtype)
    rows.copied(rows.constant(np.zeros((), y.dtype)).through(out.shape, (0,) * len(out.shape)), out)
    y, at, size = rows.row_major(y), rows.row_major(at), y.dtype.itemsize
    planes, room = math.prod(y.shape[: len(y.shape) - len(plane)]), math.prod(plane)
    of: Any = size
    if e.attributes["disjoint"]:
        loop = "put"
    elif accumulator(y.dtype) is y.dtype:
        loop, of = "add", y.dtype
    else:
        raise NoLoop
    count = math.prod(y.shape) // max(planes, 1)
    each = [s.through((planes,), (n * s.dtype.itemsize,)) for s, n in ((at, count), (y, count), (out, room))]
    lanes(rows, loop, of, (count, room, 1), each, (8, size, size))
    return out


# -- convolutions ----------------------------------------------------------------------------------------


def _matmul(rows: Rows, x: Seen, y: Seen, out: Seen) -> None:
    """One product of matrices, with the strides that NumPy would pass."""
    loop = needed(loop_of(np.matmul, f"{x.dtype.char}{x.dtype.char}->{x.dtype.char}"))
    (m, k), n = x.shape, y.shape[1]
    steps = (0, 0, 0, *x.strides, *y.strides, *out.strides)
    rows.rows.append(Row(loop, (x.place, y.place, out.place), (1, m, k, n), steps))


def _matrix(x: Seen, at: Sequence[int]) -> Seen:
    """The last two axes at a place of the others."""
    offset = sum(n * s for n, s in zip(at, x.strides, strict=False))
    return x.through(x.shape[-2:], x.strides[-2:], offset)


def _reshaped(rows: Rows, x: Seen, shape: Sequence[int]) -> Seen:
    x = rows.row_major(x)
    return x.through(shape, strides_of(Seen(x.place, tuple(shape), (), x.dtype)))


def _whole(g: Geometry, itemsize: int, size: int, least: int = 1) -> None:
    """Only geometries that the rule does not cut."""
    cut = blocks.Blocks(g, itemsize, size, least)
    if cut.cut != cut.rows or cut.images < cut.batch:
        raise NoLoop


def _columns(rows: Rows, x: Seen, g: Geometry, joined: bool) -> Seen:
    """(image, group, channel*taps, position); `joined`: (group, channel*taps, image*position)."""
    depth = g.channels * math.prod(g.kernel)
    if g.pointwise and not joined:
        return _reshaped(rows, x, (g.batch, g.groups, g.channels, math.prod(g.space)))
    if not g.direct:
        inside, taken = blocks.interior(g)
        padded = _filled(rows, (g.batch, g.groups * g.channels, *g.padded), 0, x.dtype)
        both = slice(None), slice(None)
        rows.copied(part(x, (*both, *taken)), part(padded, (*both, *inside)))
        x = padded
    steps = x.strides[2:]
    spread = [s * d for s, d in zip(steps, g.w_dilation, strict=True)]
    moves = [s * d for s, d in zip(steps, g.stride, strict=True)]
    view = x.through((*x.shape[:2], *g.kernel, *g.out), (*x.strides[:2], *spread, *moves))
    rank = len(g.out)
    if joined:
        order = (1, *range(2, 2 + rank), 0, *range(2 + rank, 2 + 2 * rank))
        view = view.through([view.shape[i] for i in order], [view.strides[i] for i in order])
        return _reshaped(rows, view, (g.groups, depth, g.batch * math.prod(g.out)))
    return _reshaped(rows, view, (g.batch, g.groups, depth, math.prod(g.out)))


def _conv(rows: Rows, xs: Sequence[Seen], e: Equation) -> Seen:
    (x, w), v = xs, e.outputs[0]
    _floats(x)
    g = geometry("conv", x.shape, w.shape, **{k: n for k, n in e.attributes.items() if k != "dtype"})
    if v.type.dtype != x.dtype:
        raise NoLoop
    _whole(g, x.dtype.itemsize, blocks.BLOCK)
    return _convolved(rows, x, w, g, rows.fresh(v, v.type.shape, v.type.dtype))


def _convolved(rows: Rows, x: Seen, w: Seen, g: Geometry, out: Seen) -> Seen:
    depth, positions = g.channels * math.prod(g.kernel), math.prod(g.out)
    weight = _reshaped(rows, w, (g.groups, g.filters, depth))
    columns = _columns(rows, x, g, joined=False)
    flat = _reshaped(rows, out, (g.batch, g.groups, g.filters, positions))
    for n, group in product(range(g.batch), range(g.groups)):
        _matmul(rows, _matrix(weight, (group,)), _matrix(columns, (n, group)), _matrix(flat, (n, group)))
    return out


def _conv_input_grad(rows: Rows, xs: Sequence[Seen], e: Equation) -> Seen:
    (y, w), v = xs, e.outputs[0]
    _floats(y)
    g = input_geometry(y.shape, w.shape, **{k: n for k, n in e.attributes.items() if k != "dtype"})
    if v.type.dtype != y.dtype or blocks.turns(g):
        raise NoLoop
    depth, positions, groups = g.channels * math.prod(g.kernel), math.prod(g.out), g.groups
    weight = _reshaped(rows, w, (groups, g.filters, depth))
    weight = weight.through((groups, depth, g.filters), [weight.strides[i] for i in (0, 2, 1)])
    y = _reshaped(rows, y, (g.batch, groups, g.filters, positions))
    if g.pointwise:
        out = rows.fresh(v, v.type.shape, v.type.dtype)
        flat = _reshaped(rows, out, (g.batch, groups, depth, positions))
        for n, group in product(range(g.batch), range(groups)):
            _matmul(rows, _matrix(weight, (group,)), _matrix(y, (n, group)), _matrix(flat, (n, group)))
        return out
    _whole(g, y.dtype.itemsize, blocks.SPREAD)
    last = y.through([y.shape[i] for i in (1, 2, 3, 0)], [y.strides[i] for i in (1, 2, 3, 0)])
    last = _reshaped(rows, last, (groups, g.filters, positions * g.batch))
    columns = rows.fresh(None, (groups, depth, positions * g.batch), y.dtype)
    for group in range(groups):
        _matmul(rows, _matrix(weight, (group,)), _matrix(last, (group,)), _matrix(columns, (group,)))
    return _added(rows, columns, g, rows.fresh(v, v.type.shape, v.type.dtype))


def _added(rows: Rows, columns: Seen, g: Geometry, out: Seen) -> Seen:
    """Columns of products, added tap by tap."""
    channels, loop = (
        g.groups * g.channels,
        needed(loop_of(np.add, columns.dtype.char * 2 + "->" + columns.dtype.char)),
    )
    padded = _filled(rows, (channels, *g.padded, g.batch), 0, columns.dtype)
    columns = _reshaped(rows, columns, (channels, *g.kernel, *g.out, g.batch))
    rank = len(g.out)
    for tap in product(*map(range, g.kernel)):
        where = [slice(None)]
        for r, d, n, s in zip(tap, g.w_dilation, g.out, g.stride, strict=True):
            where.append(slice(r * d, r * d + (n - 1) * s + 1, s))
        place = part(padded, (*where, slice(None)))
        offset = sum(r * s for r, s in zip(tap, columns.strides[1:], strict=False))
        keep = (0, *range(1 + rank, 2 + 2 * rank))
        column = columns.through([columns.shape[i] for i in keep], [columns.strides[i] for i in keep], offset)
        rows.each(loop, place, column, place)
    inside, taken = blocks.interior(g)
    if any(t != slice(0, n) for t, n in zip(taken, g.space, strict=True)):
        rows.copied(rows.constant(np.zeros((), out.dtype)).through(out.shape, (0,) * len(out.shape)), out)
    found = part(padded, (slice(None), *inside, slice(None)))
    order = (rank + 1, *range(rank + 1))
    found = found.through([found.shape[i] for i in order], [found.strides[i] for i in order])
    rows.copied(found, part(out, (slice(None), slice(None), *taken)))
    return out


def _conv_weight_grad(rows: Rows, xs: Sequence[Seen], e: Equation) -> Seen:
    (x, y), v = xs, e.outputs[0]
    _floats(x)
    g = weight_geometry(x.shape, y.shape, **{k: n for k, n in e.attributes.items() if k != "dtype"})
    positions = math.prod(g.out)
    if v.type.dtype != x.dtype or positions >= blocks.FEW:
        raise NoLoop
    _whole(g, x.dtype.itemsize, blocks.BLOCK, blocks.JOINED)
    depth = g.channels * math.prod(g.kernel)
    columns = _columns(rows, x, g, joined=True)
    y = _reshaped(rows, y, (g.batch, g.groups, g.filters, positions))
    order = (1, 2, 0, 3)
    y = y.through([y.shape[i] for i in order], [y.strides[i] for i in order])
    y = _reshaped(rows, y, (g.groups, g.filters, g.batch * positions))
    turned = columns.through([columns.shape[i] for i in (0, 2, 1)], [columns.strides[i] for i in (0, 2, 1)])
    found = rows.fresh(None, (g.groups, g.filters, depth), x.dtype)
    for group in range(g.groups):
        _matmul(rows, _matrix(y, (group,)), _matrix(turned, (group,)), _matrix(found, (group,)))
    zero = rows.constant(np.zeros((), x.dtype)).through(found.shape, (0,) * 3)
    out = rows.fresh(v, v.type.shape, v.type.dtype)
    flat = _reshaped(rows, out, found.shape)
    rows.each(needed(loop_of(np.add, x.dtype.char * 2 + "->" + x.dtype.char)), zero, found, flat)
    return out


# -- running sums ----------------------------------------------------------------------------------------


def _cumulative(rows: Rows, xs: Sequence[Seen], e: Equation) -> Seen:
    (x,), v, a = xs, e.outputs[0], e.attributes
    axis, ufunc = a["axis"], RUNNING[a["kind"]]
    if a["kind"] not in ("max", "min") and accumulator(x.dtype) is not x.dtype:
        raise NoLoop
    loop = needed(loop_of(ufunc, f"{x.dtype.char}{x.dtype.char}->{x.dtype.char}"))
    out = rows.fresh(v, x.shape, x.dtype)
    turn = slice(None, None, -1 if a["reverse"] else 1)
    every = [slice(None)] * len(x.shape)
    every[axis] = turn
    x, to = part(x, every), part(out, every)

    def at(s: Seen, ends: slice) -> Seen:
        return part(s, [ends if i == axis else slice(None) for i in range(len(s.shape))])

    n = x.shape[axis]
    rows.copied(at(x, slice(0, 1)), at(to, slice(0, 1)))
    if n > 1:  # in whatever order of axes: an element is written after the one before it on its axis
        rows.each(loop, at(to, slice(0, n - 1)), at(x, slice(1, n)), at(to, slice(1, n)))
    return out


RULES: dict[str, Callable[[Rows, Sequence[Seen], Equation], Any]] = {
    "window_reduce": _window_reduce, "window_argmax": _window_argmax, "window_scatter": _window_scatter,
    "conv": _conv, "conv_input_grad": _conv_input_grad, "conv_weight_grad": _conv_weight_grad,
    "cumulative": _cumulative,
}  # fmt: skip
