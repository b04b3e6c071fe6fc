"""Running sums, products, extremes and logarithms of sums along one axis.

Derivatives of products and log-sums need the recurrence h[i] = a[i]·h[i-1] + b[i]. It is solved here by
doubling: after round r every h[i] covers 2^r terms. No division, so zeros are exact to every order, and log₂
n primitives instead of n.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base.dtypes import ALL, COMPLEX, FLOATS, accumulator, bool_, int64, is_complex
from trilobite.base.errors import IRError, ShapeError
from trilobite.base.locations import user_location
from trilobite.base.quiet import array_rule
from trilobite.ir.primitive import Attributes, Primitive, Value, table
from trilobite.ir.primitives.common import count, elements, same_types, sortable
from trilobite.ir.types import Dim, TensorType

Array = np.ndarray[Any, Any]
ACCEPTS = {
    "sum": ALL - {bool_}, "prod": ALL - {bool_}, "max": ALL - COMPLEX, "min": ALL - COMPLEX,
    "logsumexp": FLOATS,
}  # fmt: skip
UFUNCS: dict[str, np.ufunc] = {
    "sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum, "logsumexp": np.logaddexp,
}  # fmt: skip


def _type(x: TensorType, axis: int, kind: str, reverse: bool) -> TensorType:
    if kind not in ACCEPTS:
        raise IRError(
            f"cumulative has no kind {kind!r}", where=user_location(), expected=f"one of {', '.join(ACCEPTS)}"
        )
    same_types(f"cumulative {kind}", (x,), ACCEPTS[kind])
    if not 0 <= axis < len(x.shape):
        raise ShapeError(
            f"cumulative {kind} of {x} along axis {axis}",
            where=user_location(),
            expected=f"0 <= axis < {len(x.shape)}",
        )
    return x


def _evaluate(x: Array, axis: int, kind: str, reverse: bool) -> Array:
    wide = sortable(x) if kind in ("max", "min") else x.astype(accumulator(x.dtype), copy=False)
    line = np.flip(wide, axis) if reverse else wide
    out = UFUNCS[kind].accumulate(line, axis=axis, dtype=line.dtype)
    return (np.flip(out, axis) if reverse else out).astype(x.dtype, copy=False)


# -- shifts and recurrences --------------------------------------------------------------------------------


def shifted(x: Value, axis: int, by: int, reverse: bool, fill: float) -> Value:
    """Each element moved `by` places onwards along the axis (backwards if reverse); `fill` moves in."""
    blank = [0] * x.ndim
    on = tuple(by if i == axis else 0 for i in range(x.ndim))
    off = tuple(-by if i == axis else 0 for i in range(x.ndim))
    low, high = (off, on) if reverse else (on, off)
    return table["pad"](x, low=low, high=high, between=tuple(blank), value=fill)


def recurrence(a: Value, b: Value, axis: int, reverse: bool) -> Value:
    """h[i] = a[i]·h[i-1] + b[i] along the axis, from h = 0 (from the other end if reverse)."""
    reach, length = 1, count(a.shape[axis])
    while reach < length:
        earlier = shifted(b, axis, reach, reverse, 0.0)
        b = table["add"](table["mul"](a, earlier), b)
        a = table["mul"](a, shifted(a, axis, reach, reverse, 0.0))
        reach *= 2
    return b


def exclusive_product(x: Value, *, reverse: bool) -> Value:
    """Along the last axis, the product of all elements before each one (after, if reverse)."""
    axis = x.ndim - 1
    return shifted(cumulative(x, axis=axis, kind="prod", reverse=reverse), axis, 1, reverse, 1.0)


# -- derivatives -------------------------------------------------------------------------------------------


def _jvp(t: Value, x: Value, out: Value, *, axis: int, kind: str, reverse: bool) -> Value:
    if kind == "sum":
        return cumulative(t, axis=axis, kind="sum", reverse=reverse)
    if kind in ("max", "min"):
        return table["take_along"](t, _places(x, out, axis, reverse), axis=axis)
    if kind == "prod":
        before = shifted(out, axis, 1, reverse, 1.0)
        return recurrence(x, table["mul"](before, t), axis, reverse)
    keep, weight = _log_weights(x, out, axis, reverse)
    return recurrence(keep, table["mul"](weight, t), axis, reverse)


def _vjp(t: Value, x: Value, out: Value, *, axis: int, kind: str, reverse: bool) -> Value:
    if kind == "sum":
        return cumulative(t, axis=axis, kind="sum", reverse=not reverse)
    if kind in ("max", "min"):
        blank = table["full"](shape=x.shape, dtype=x.dtype, value=0.0)
        return table["scatter_along"](blank, _places(x, out, axis, reverse), t, axis=axis, kind="add")
    if kind == "prod":
        x, out = (table["conj"](x), table["conj"](out)) if is_complex(x.dtype) else (x, out)
        after = shifted(x, axis, 1, not reverse, 0.0)
        return table["mul"](shifted(out, axis, 1, reverse, 1.0), recurrence(after, t, axis, not reverse))
    keep, weight = _log_weights(x, out, axis, reverse)
    return table["mul"](weight, recurrence(shifted(keep, axis, 1, not reverse, 0.0), t, axis, not reverse))


def _places(x: Value, out: Value, axis: int, reverse: bool) -> Value:
    """Where each running extreme was found: the latest element that equals it (NaN equals NaN here)."""
    here = table["or"](table["eq"](x, out), table["ne"](x, x))
    step = table["iota"](shape=x.shape, dtype=int64, axis=axis)
    if not reverse:
        none = table["full"](shape=x.shape, dtype=int64, value=0)
        return cumulative(table["select"](here, step, none), axis=axis, kind="max", reverse=False)
    none = table["full"](shape=x.shape, dtype=int64, value=np.iinfo(np.int64).max)
    return cumulative(table["select"](here, step, none), axis=axis, kind="min", reverse=True)


def _log_weights(x: Value, out: Value, axis: int, reverse: bool) -> tuple[Value, Value]:
    """exp(out[i-1] - out[i]) and exp(x[i] - out[i]): both at most 1; 0 where nothing but -inf has come
    yet.
    """
    nothing = table["full"](shape=x.shape, dtype=x.dtype, value=-np.inf)
    zero = table["full"](shape=x.shape, dtype=x.dtype, value=0.0)
    empty = table["eq"](out, nothing)
    floor = table["select"](empty, zero, out)
    before = shifted(out, axis, 1, reverse, -np.inf)
    keep = table["exp"](table["sub"](before, floor))
    return keep, table["exp"](table["sub"](x, floor))


def _batch(size: Dim, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes) -> Value:
    return cumulative(values[0], **{**attrs, "axis": attrs["axis"] + 1})


cumulative: Primitive = Primitive(
    "cumulative", "x", type=_type, evaluate=array_rule(_evaluate), jvp=(_jvp,), vjp=(_vjp,), batch=_batch,
    cost=lambda inputs, outputs, attrs: elements(inputs),
    doc="element i is the sum (product, extreme, log of the sum of exponentials) of elements 0..i; from the "
    "end if reverse",
)  # fmt: skip
