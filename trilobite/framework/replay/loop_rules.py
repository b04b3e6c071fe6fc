"""How primitives that are no ufunc of NumPy's become rows of inner loops (`loop_rows.py`): those that look
at memory in another way, those that copy, choose and convert, reductions, products of matrices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trilobite.base.dtypes import accumulator
from trilobite.framework.replay.loop_rows import NoLoop, Rows, Seen, needed, strides_of
from trilobite.ir.graph import Equation
from trilobite.ir.primitives.dot import small_layouts
from trilobite.native.ufunc_loops import Loop, Place, Row, choosing, converting, loop_of

Array = np.ndarray[Any, Any]

# -- other ways to look at memory ------------------------------------------------------------------------


def _reshape(rows: Rows, xs: Sequence[Seen], e: Equation) -> Seen:
    x = rows.row_major(xs[0])
    return rows.memory(x.place.base, e.outputs[0].type.shape, x.dtype)._replace(place=x.place)


def _transpose(rows: Rows, xs: Sequence[Seen], e: Equation) -> Seen:
    (x,) = xs
    axes = e.attributes["axes"]
    return x.through([x.shape[a] for a in axes], [x.strides[a] for a in axes])


def _broadcast(rows: Rows, xs: Sequence[Seen], e: Equation) -> Seen:
    (x,) = xs
    shape, at = e.attributes["shape"], dict(zip(e.attributes["axes"], range(len(x.shape)), strict=True))
    strides = [x.strides[at[i]] if i in at and x.shape[at[i]] == d else 0 for i, d in enumerate(shape)]
    return x.through(shape, strides)


def _slice(rows: Rows, xs: Sequence[Seen], e: Equation) -> Seen:
    (x,) = xs
    start, step = e.attributes["start"], e.attributes["step"]
    offset = sum(n * s for n, s in zip(start, x.strides, strict=True))
    return x.through(e.outputs[0].type.shape, [n * s for n, s in zip(step, x.strides, strict=True)], offset)


def _reverse(rows: Rows, xs: Sequence[Seen], e: Equation) -> Seen:
    (x,) = xs
    axes = {a % len(x.shape) for a in e.attributes["axes"]}
    offset = sum((x.shape[a] - 1) * x.strides[a] for a in axes)
    return x.through(x.shape, [-s if i in axes else s for i, s in enumerate(x.strides)], offset)


# -- what is no ufunc of its own -------------------------------------------------------------------------


def _select(rows: Rows, xs: Sequence[Seen], e: Equation) -> Seen:
    v = e.outputs[0]
    out = rows.fresh(v, v.type.shape, v.type.dtype)
    rows.each(needed(choosing(out.dtype.itemsize)), *xs, out)
    return out


def _cast(rows: Rows, xs: Sequence[Seen], e: Equation) -> Seen:
    (x,), v = xs, e.outputs[0]
    if x.dtype == v.type.dtype:
        return x
    out = rows.fresh(v, v.type.shape, v.type.dtype)
    rows.each(needed(converting(x.dtype, out.dtype)), x, out)
    return out


def _concatenate(rows: Rows, xs: Sequence[Seen], e: Equation) -> Seen:
    v, axis, at = e.outputs[0], e.attributes["axis"], 0
    out = rows.fresh(v, v.type.shape, v.type.dtype)
    for x in xs:
        rows.copied(x, out.through(x.shape, out.strides, at * out.strides[axis]))
        at += x.shape[axis]
    return out


def _pad(rows: Rows, xs: Sequence[Seen], e: Equation) -> Seen:
    (x,), v, a = xs, e.outputs[0], e.attributes
    low, between = a["low"], a["between"]
    if any(n < 0 for n in (*low, *a["high"])):
        return _cropped(x, e)
    filling = rows.constant(np.full((), a["value"], x.dtype))
    out = rows.fresh(v, v.type.shape, v.type.dtype)
    rows.copied(filling.through(out.shape, (0,) * len(out.shape)), out)
    offset = sum(n * s for n, s in zip(low, out.strides, strict=True))
    rows.copied(
        x, out.through(x.shape, [(b + 1) * s for b, s in zip(between, out.strides, strict=True)], offset)
    )
    return out


def _cropped(x: Seen, e: Equation) -> Seen:
    low, high, between = (e.attributes[k] for k in ("low", "high", "between"))
    if any(between) or any(n > 0 for n in (*low, *high)):
        raise NoLoop
    offset = sum(-n * s for n, s in zip(low, x.strides, strict=True))
    return x.through(e.outputs[0].type.shape, x.strides, offset)


def _rsqrt(rows: Rows, xs: Sequence[Seen], e: Equation) -> Seen:
    (x,), v = xs, e.outputs[0]
    if accumulator(x.dtype) is not x.dtype:
        raise NoLoop
    root = rows.ufunc(np.sqrt, [x], None, v.type)
    one = rows.constant(np.ones((), x.dtype)).through(x.shape, (0,) * len(x.shape))
    return rows.ufunc(np.divide, [one, root], v)


def _float_ufunc(ufunc: np.ufunc) -> Callable[[Rows, Sequence[Seen], Equation], Seen]:
    def rule(rows: Rows, xs: Sequence[Seen], e: Equation) -> Seen:
        if xs[0].dtype.kind != "f":
            raise NoLoop
        return rows.ufunc(ufunc, xs, e.outputs[0])

    return rule


def _reduction(ufunc: np.ufunc, starts: bool) -> Callable[[Rows, Sequence[Seen], Equation], Seen]:
    """As NumPy reduces row-major memory: `starts` with a value of the ufunc's own, or with the first element;
    along the innermost axis in one loop, over others by rows.
    """

    def rule(rows: Rows, xs: Sequence[Seen], e: Equation) -> Seen:
        (x,), v = xs, e.outputs[0]
        if starts and accumulator(x.dtype) is not x.dtype:
            raise NoLoop
        if not x.is_row_major:
            if not starts:
                raise NoLoop  # which of 0 and -0 is the larger depends on the order
            x = rows.row_major(x)
        loop = needed(loop_of(ufunc, f"{x.dtype.char}{x.dtype.char}->{x.dtype.char}"))
        before, along, after = _split(x.shape, e.attributes["axes"])
        out = rows.fresh(v, v.type.shape, v.type.dtype)
        x, flat = x.through(*_lines(x, (before, along, after))), out.through(*_lines(out, (before, after)))
        if starts:
            first = rows.constant(_start(ufunc, x.dtype)).through((before, after), (0, 0))
        else:
            first = x.through((before, after), (x.strides[0], x.strides[2]))
        rows.copied(first, flat)
        _accumulate(rows, loop, x, flat, 0 if starts else 1)
        return out

    return rule


def _accumulate(rows: Rows, loop: Loop, x: Seen, out: Seen, begin: int) -> None:
    before, along, after = x.shape
    size = x.dtype.itemsize
    for b in range(before):
        start = Place(x.place.base, x.place.offset + b * x.strides[0] + begin * x.strides[1])
        at = Place(out.place.base, out.place.offset + b * out.strides[0])
        if after == 1:
            if along > begin:
                rows.rows.append(Row(loop, (at, start, at), (along - begin,), (0, size, 0)))
            continue
        for k in range(along - begin):
            line = Place(start.base, start.offset + k * x.strides[1])
            rows.rows.append(Row(loop, (at, line, at), (after,), (size, size, size)))


def _lines(x: Seen, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return shape, strides_of(Seen(x.place, shape, (), x.dtype))


def _split(shape: tuple[int, ...], axes: Sequence[int]) -> tuple[int, int, int]:
    """Sizes before, along and behind reduced axes that stand together."""
    reduced = sorted({a % len(shape) for a in axes if shape[a] != 1} if shape else ())
    if not reduced:
        return math.prod(shape), 1, 1
    kept = [i for i, d in enumerate(shape) if d != 1 and reduced[0] < i < reduced[-1] and i not in reduced]
    if kept:
        raise NoLoop
    first, last = reduced[0], reduced[-1]
    return math.prod(shape[:first]), math.prod(shape[first : last + 1]), math.prod(shape[last + 1 :])


def _bits(ufunc: np.ufunc) -> Callable[[Rows, Sequence[Seen], Equation], Seen]:
    """Of whole words: the order says nothing, and the first element begins."""
    whole = _reduction(ufunc, False)

    def rule(rows: Rows, xs: Sequence[Seen], e: Equation) -> Seen:
        return whole(rows, [rows.row_major(xs[0])], e)

    return rule


def _start(ufunc: np.ufunc, dtype: Any) -> Array:
    """What NumPy begins with: the identity, for sums perhaps as -0."""
    found = ufunc.reduce(np.full((1,), -0.0 if ufunc is np.add else 1, dtype))
    if ufunc is np.add and dtype.kind in "fc":
        return np.asarray(-0.0 if np.signbit(np.real(found)) else 0.0, dtype)
    return np.asarray(ufunc.identity, dtype)


def _dot(rows: Rows, xs: Sequence[Seen], e: Equation) -> Seen:
    v, (x, y) = e.outputs[0], xs
    layout = small_layouts(e.inputs[0].type, e.inputs[1].type, **e.attributes)
    if layout is None or v.type.dtype != x.dtype:
        raise NoLoop
    order, sizes, other, more = layout
    a = rows.row_major(x.through([x.shape[i] for i in order], [x.strides[i] for i in order]))
    b = rows.row_major(y.through([y.shape[i] for i in other], [y.strides[i] for i in other]))
    out = rows.fresh(v, v.type.shape, v.type.dtype)
    loop = needed(loop_of(np.matmul, f"{x.dtype.char}{x.dtype.char}->{x.dtype.char}"))
    (batch, m, k), n, size = sizes, more[2], x.dtype.itemsize
    steps = (0, 0, 0, k * size, size, n * size, size, n * size, size)
    for i in range(batch):
        places = [(a, i * m * k), (b, i * k * n), (out, i * m * n)]
        at = tuple(Place(s.place.base, s.place.offset + far * size) for s, far in places)
        rows.rows.append(Row(loop, at, (1, m, k, n), steps))
    return out


RULES: dict[str, Callable[[Rows, Sequence[Seen], Equation], Seen]] = {
    "reshape": _reshape, "transpose": _transpose, "broadcast": _broadcast, "slice": _slice,
    "reverse": _reverse, "stop_gradient": lambda rows, xs, e: xs[0],
    "select": _select, "cast": _cast, "concatenate": _concatenate, "pad": _pad, "rsqrt": _rsqrt,
    "pow": _float_ufunc(np.power), "round": _float_ufunc(np.rint), "dot": _dot,
    "reduce_sum": _reduction(np.add, True), "reduce_prod": _reduction(np.multiply, True),
    "reduce_and": _bits(np.bitwise_and), "reduce_or": _bits(np.bitwise_or),
    "reduce_max": _reduction(np.maximum, False), "reduce_min": _reduction(np.minimum, False),
}  # fmt: skip
