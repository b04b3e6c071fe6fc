"""Sorting: always stable, NaN after everything else."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.base.errors import ArgumentError, TraceError
from trilobite.base.locations import user_location
from trilobite.framework.ops.axes import axis_in
from trilobite.framework.ops.meeting import (
    ORDERED,
    accepted,
    as_value,
    astype,
    broadcast_to,
    measured,
    scalar,
)  # fmt: skip
from trilobite.framework.ops.numbers import number_as_line
from trilobite.framework.ops.pairs import Pair
from trilobite.framework.ops.pointwise import full
from trilobite.framework.ops.registry import lift, op
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms.bind import Traced
from trilobite.ir.transforms.cells import bottom
from trilobite.ir.transforms.tape import Taped
from trilobite.ir.types import Affine, size_of

G = "sorting"


def counter(x: Value, axis: int) -> Value:
    """0, 1, 2, ... along the axis, in the shape of x."""
    return table["iota"](shape=x.shape, dtype=dt.int64, axis=axis)


def ordered(x: Value, axis: int) -> tuple[Value, Value]:
    """Sorted values, and where each came from."""
    values, places = table["sort"](x, counter(x, axis), axis=axis, keys=1)
    return values, places


def _backwards(x: Value, axis: int) -> Value:
    return table["reverse"](x, axes=(axis,))


def _places(x: Value, axis: int, descending: bool) -> Value:
    """Descending is sorted back to front and turned round: equal elements stay in their own order."""
    if not descending:
        return ordered(x, axis)[1]
    numbers = _backwards(counter(x, axis), axis)
    return _backwards(table["sort"](_backwards(x, axis), numbers, axis=axis, keys=1)[1], axis)


def _operand(x: Any, axis: int, what: str) -> tuple[Value, int]:
    x = as_value(x)
    accepted(what, ORDERED, x.dtype)
    if x.ndim == 0:
        x = table["reshape"](x, shape=(1,))
        return x, axis_in(axis, 1, what)
    return x, axis_in(axis, x.ndim, what)


def _shaped(out: Value, like: Any) -> Value:
    shape = as_value(like).shape
    return out if out.shape == shape else table["reshape"](out, shape=shape)


@op(G, plan=True)
def sort(x: Any, /, axis: int = -1, descending: bool = False, *, stable: bool = True) -> Value:
    """Sorted along an axis, NaN last (first when descending). Equal elements always keep their order."""
    v, a = _operand(x, axis, "sort")
    if descending:
        return _shaped(_backwards(table["sort"](_backwards(v, a), axis=a, keys=1)[0], a), x)
    return _shaped(table["sort"](v, axis=a, keys=1)[0], x)


@op(G, plan=True)
def argsort(x: Any, /, axis: int = -1, descending: bool = False, *, stable: bool = True) -> Value:
    """The places that sort along an axis. Equal elements always keep their order."""
    v, a = _operand(x, axis, "argsort")
    return _shaped(_places(v, a, descending), x)


@op(G, plan=True)
def topk(x: Any, /, k: int, axis: int = -1, *, largest: bool = True, sorted: bool = True) -> Pair:
    """The k largest (or smallest) elements along an axis, best first, and their places; of equal ones the
    first.
    """
    v, a = _operand(x, axis, "topk")
    if as_value(x).ndim == 0:  # a number is the one element it has, as in PyTorch
        if k not in (0, 1):
            raise ArgumentError(f"topk with k={k} of a number", where=user_location(), expected="k=1")
        return Pair(as_value(x), full((), dt.int64, 0))
    if not 0 <= k <= v.shape[a]:
        raise ArgumentError(
            f"topk with k={k} along an axis of size {v.shape[a]}",
            where=user_location(),
            expected=f"0 <= k <= {v.shape[a]}",
            remedy="take min(k, x.shape[axis]), or name another axis",
        )
    if largest and type(v) is Taped:
        # values that are taken by their places may be changed in place: no gradient needs them
        places = table["top_k"](v, k=k, axis=a)[1]
        return Pair(table["take_along"](v, places, axis=a), places)
    if largest:
        return Pair(*table["top_k"](v, k=k, axis=a))
    values, places = ordered(v, a)
    stop = tuple(k if i == a else d for i, d in enumerate(v.shape))
    ends = {"start": (0,) * v.ndim, "stop": stop, "step": (1,) * v.ndim}
    return Pair(table["slice"](values, **ends), table["slice"](places, **ends))


def _values_and_places(x: Value, axis: int, descending: bool) -> Pair:
    v, a = _operand(x, axis, "sort")
    at = _places(v, a, descending)
    return Pair(table["take_along"](v, at, axis=a), at)


def one_each(x: Value, axis: int, keepdim: bool, place: str) -> Pair:
    """PyTorch's max and min along an axis: values and where they stand (`place`: argmax or argmin)."""
    axis = axis_in(axis, x.ndim, place)
    at = table[place](x, axis=axis)
    column = table["reshape"](at, shape=(*at.shape[:axis], 1, *at.shape[axis:]))
    values = table["take_along"](x, column, axis=axis)
    return Pair(values, column) if keepdim else Pair(table["reshape"](values, shape=at.shape), at)


in_order = lift(_values_and_places, plan=True)
"""PyTorch's sort of a tensor that has axes: values and where they stood."""
extremes = lift(one_each, plan=True)


@op(G, methods=("median",), plan=True)
def median(x: Any, /, axis: int | None = None, *, keepdims: bool = False) -> Value:
    """The middle of the sorted elements; of an even number, the mean of the two in the middle."""
    return quantile(x, 0.5, axis, keepdims=keepdims)


_BETWEEN = ("linear", "lower", "higher", "nearest", "midpoint")


@op(G, methods=("quantile",), plan=True)
@number_as_line
def quantile(
    x: Any, q: Any, /, axis: int | None = None, *, keepdims: bool = False, interpolation: str = "linear"
) -> Value:
    """The value below which the fraction q of the sorted elements lies; NaN if any is. Several q give a new
    first axis. Between neighbours it is "linear", or the "lower", "higher", "nearest" or "midpoint" of them.
    """
    from trilobite.framework.ops.reducing import widened

    fractions = _fractions(q)
    if interpolation not in _BETWEEN:
        raise ArgumentError(
            f"quantile(interpolation={interpolation!r})",
            where=user_location(),
            expected=f"one of {', '.join(_BETWEEN)}",
        )
    wide, dtype = widened(x, "quantile")
    axes = tuple(range(wide.ndim)) if axis is None else (axis_in(axis, wide.ndim, "quantile"),)
    line = table["reshape"](wide, shape=(size_of(wide.shape),)) if axis is None else wide
    a = 0 if axis is None else axes[0]
    if line.shape[a] == 0:
        raise ArgumentError("quantile of no elements", where=user_location(), expected="at least one element")
    values = ordered(line, a)[0]
    out = [_at(values, a, f, interpolation, wide, axes, keepdims) for f in fractions.reshape(-1).tolist()]
    found = [table["cast"](v, dtype=dtype) if v.dtype != dtype else v for v in out]
    if fractions.ndim == 0:
        return found[0]
    rows = [table["reshape"](v, shape=(1, *v.shape)) for v in found]
    return table["concatenate"](*rows, axis=0) if rows else full((0, *wide.shape[1:]), dtype, 0)


def _fractions(q: Any) -> np.ndarray[Any, Any]:
    """The fractions asked for: a number, or a line of them, known before the run."""
    found = q if isinstance(q, (np.ndarray, list, tuple)) else bottom(q) if isinstance(q, Traced) else q
    if isinstance(found, Traced):
        raise TraceError(
            "quantile with fractions that only a run knows",
            where=user_location(),
            expected="numbers",
            remedy="pass q as a float or a list of floats",
        )
    fractions = np.asarray(found, np.float64)
    if fractions.ndim > 1 or not ((fractions >= 0) & (fractions <= 1)).all():
        raise ArgumentError(
            f"quantile {fractions.tolist()}",
            where=user_location(),
            expected="0 <= q <= 1, one or several",
        )
    return fractions


def _at(
    values: Value, a: int, q: float, interpolation: str, like_: Value, axes: tuple[int, ...], keepdims: bool
) -> Value:
    from trilobite.framework.ops.reducing import kept

    n = values.shape[a]
    if isinstance(n, Affine):
        if interpolation != "linear":
            raise ArgumentError(
                f"quantile(interpolation={interpolation!r}) along the symbolic size {n}",
                where=user_location(),
                expected="'linear'",
            )
        out, top = _between(values, a, q, n)
    else:
        out, top = _between_known(values, a, q, n, interpolation)
    return kept(like_, table["select"](table["is_nan"](top), top, out), axes, keepdims)


def _between_known(values: Value, axis: int, q: float, n: int, interpolation: str) -> tuple[Value, Value]:
    """The quantile of sorted values, and the last of them."""
    at = q * (n - 1)
    whole = {"lower": math.floor(at), "higher": math.ceil(at), "nearest": round(at)}
    at = whole.get(interpolation, at)
    low = int(at)
    part = 0.5 if interpolation == "midpoint" and at != low else at - low
    below, above, top = (_picked(values, axis, i) for i in (low, min(low + 1, n - 1), n - 1))
    share = table["full"](shape=below.shape, dtype=below.dtype, value=part)
    return (below if part == 0 else _mixed(below, above, share)), top


def _between(values: Value, axis: int, q: float, n: Affine) -> tuple[Value, Value]:
    """The same where a run decides how many there are."""
    last = measured(n - 1)
    place = table["mul"](astype(last, dt.float64), scalar(q, dt.float64))
    low = astype(table["floor"](place), dt.int64)
    high = table["minimum"](table["add"](low, scalar(1, dt.int64)), last)
    below, above, top = (table["gather"](values, i, axis=axis) for i in (low, high, last))
    part = astype(table["sub"](place, astype(low, dt.float64)), values.dtype)
    exact = broadcast_to(table["eq"](part, scalar(0.0, values.dtype)), below.shape)
    mixed = _mixed(below, above, broadcast_to(part, below.shape))
    return table["select"](exact, below, mixed), top  # infinity less infinity is no number


def _mixed(below: Value, above: Value, share: Value) -> Value:
    return table["add"](below, table["mul"](table["sub"](above, below), share))


def _picked(x: Value, axis: int, index: int) -> Value:
    """One element along an axis, without the axis."""
    start = tuple(index if i == axis else 0 for i in range(x.ndim))
    stop = tuple(index + 1 if i == axis else d for i, d in enumerate(x.shape))
    row = table["slice"](x, start=start, stop=stop, step=(1,) * x.ndim)
    return table["reshape"](row, shape=(*x.shape[:axis], *x.shape[axis + 1 :]))
