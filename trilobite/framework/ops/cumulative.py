"""Running sums, products and extremes along an axis, and differences, their inverse."""

from __future__ import annotations

from typing import Any

from trilobite.base import dtypes as dt
from trilobite.base.errors import ArgumentError, ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.ops.axes import axis_in
from trilobite.framework.ops.joining import slice_step
from trilobite.framework.ops.meeting import (
    NUMERIC,
    ORDERED,
    REAL_FLOATS,
    accepted,
    as_value,
    astype,
    broadcast_to,
    common,
)
from trilobite.framework.ops.numbers import number_as_line
from trilobite.framework.ops.pointwise import full
from trilobite.framework.ops.reducing import accumulated
from trilobite.framework.ops.registry import op
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table

G = "cumulative"


def _line(x: Value, axis: Any, what: str) -> int:
    if axis is not None:
        return axis_in(axis, x.ndim, what)
    if x.ndim != 1:
        raise ArgumentError(
            f"{what} of a tensor with {x.ndim} dimensions without an axis",
            where=user_location(),
            expected="an axis",
            remedy="pass axis=..., or flatten the tensor first",
        )
    return 0


def _running(x: Value, axis: int, kind: str) -> Value:
    return table["cumulative"](x, axis=axis, kind=kind, reverse=False)


def _with_initial(x: Value, axis: int, number: int) -> Value:
    """The running result with its beginning, the value of nothing, in front."""
    first = full(tuple(1 if i == axis else d for i, d in enumerate(x.shape)), x.dtype, number)
    return table["concatenate"](first, x, axis=axis)


@op(G, plan=True)
def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Value:
    """The sum of the elements so far, along an axis; with `include_initial` from 0 on."""
    x = accumulated(as_value(x), dtype)
    a = _line(x, axis, "cumulative_sum")
    out = _running(x, a, "sum")
    return _with_initial(out, a, 0) if include_initial else out


@op(G, plan=True)
def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Value:
    """The product of the elements so far, along an axis; with `include_initial` from 1 on."""
    x = accumulated(as_value(x), dtype)
    a = _line(x, axis, "cumulative_prod")
    out = _running(x, a, "prod")
    return _with_initial(out, a, 1) if include_initial else out


@op(G, plan=True)
@number_as_line
def cumsum(x: Any, /, axis: int | None = None, *, dtype: Any = None) -> Value:
    """The sum of the elements so far, along an axis."""
    return cumulative_sum(x, axis=axis, dtype=dtype)


@op(G, plan=True)
@number_as_line
def cumprod(x: Any, /, axis: int | None = None, *, dtype: Any = None) -> Value:
    """The product of the elements so far, along an axis."""
    return cumulative_prod(x, axis=axis, dtype=dtype)


@op(G, plan=True)
@number_as_line
def cummax(x: Any, /, axis: int | None = None) -> Value:
    """The largest element so far, along an axis."""
    x = as_value(x)
    accepted("cummax", ORDERED, x.dtype)
    return _running(x, _line(x, axis, "cummax"), "max")


@op(G, plan=True)
@number_as_line
def cummin(x: Any, /, axis: int | None = None) -> Value:
    """The smallest element so far, along an axis."""
    x = as_value(x)
    accepted("cummin", ORDERED, x.dtype)
    return _running(x, _line(x, axis, "cummin"), "min")


@op(G, plan=True)
@number_as_line
def logcumsumexp(x: Any, /, axis: int | None = None) -> Value:
    """The logarithm of the sum of the exponentials so far, along an axis."""
    x = as_value(x)
    x = astype(x, accepted("logcumsumexp", REAL_FLOATS, x.dtype))
    return _running(x, _line(x, axis, "logcumsumexp"), "logsumexp")


# -- differences -----------------------------------------------------------------------------------------


@op(G, plan=True)
def diff(x: Any, /, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Value:
    """Each element less the one before it, along an axis, n times over."""
    x = as_value(x)
    if x.ndim == 0:
        raise ShapeError(
            "diff of a tensor without dimensions", where=user_location(), expected="at least one dimension"
        )
    a = axis_in(axis, x.ndim, "diff")
    if n < 0:
        raise ArgumentError(f"diff with n={n}", where=user_location(), expected="n >= 0")
    if n == 0:
        return x
    parts = [p for p in (prepend, x, append) if p is not None]
    if len(parts) > 1:
        x = table["concatenate"](*(_end(p, x, a) for p in common(*parts)), axis=a)
    if x.dtype != dt.bool_:
        accepted("diff", NUMERIC, x.dtype)
    for _ in range(n):
        x = _less_previous(x, a)
    return x


def _end(part: Value, x: Value, a: int) -> Value:
    """What is put in front or behind: a number is one element."""
    if part.ndim:
        return part
    return broadcast_to(part, tuple(1 if i == a else d for i, d in enumerate(x.shape)))


def _less_previous(x: Value, a: int) -> Value:
    size = x.shape[a]
    last = size if size == 0 else size - 1
    (take, later), (_, earlier) = slice_step(x.shape, a, size - last, size), slice_step(x.shape, a, 0, last)
    minus = table["xor"] if x.dtype == dt.bool_ else table["sub"]
    return minus(take(x, **later), take(x, **earlier))
