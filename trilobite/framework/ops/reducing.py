"""Reductions."""

from __future__ import annotations

from typing import Any

from trilobite.base import dtypes as dt
from trilobite.base.dtypes import as_dtype
from trilobite.framework.ops.meeting import as_value, astype, scalar, broadcast_to
from trilobite.framework.ops.registry import op
from trilobite.framework.ops.shaping import axis_in
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.primitives.common import normal_axes
from trilobite.ir.types import Affine, size_of

G = "reduction"


def axes_of(axis: Any, ndim: int, what: str) -> tuple[int, ...]:
    """`axis` as the sorted tuple of axes it means; None means all."""
    if axis is None:
        return tuple(range(ndim))
    each = axis if isinstance(axis, (tuple, list)) else (axis,)
    return normal_axes(what, tuple(axis_in(a, ndim, what) for a in each), ndim)


def kept(x: Value, out: Value, axes: tuple[int, ...], keepdims: bool) -> Value:
    if not keepdims:
        return out
    return table["reshape"](out, shape=tuple(1 if i in axes else d for i, d in enumerate(x.shape)))


@op(G)
def sum(x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Value:
    """Sum over axes. Integers add up in int64 (uint64), small floats in float32 before they are rounded back."""
    x = as_value(x)
    if dtype is not None:
        x = astype(x, as_dtype(dtype))
    elif dt.kind(x.dtype) in ("bool", "int") and dt.bits(x.dtype) < 64:
        x = astype(x, dt.uint64 if dt.is_unsigned(x.dtype) else dt.int64)
    axes = axes_of(axis, x.ndim, "sum")
    return kept(x, table["reduce_sum"](x, axes=axes), axes, keepdims)


@op(G)
def max(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Value:
    """The largest element over axes; NaN wins."""
    x = as_value(x)
    axes = axes_of(axis, x.ndim, "max")
    return kept(x, table["reduce_max"](x, axes=axes), axes, keepdims)


@op(G)
def mean(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Value:
    """The arithmetic mean over axes."""
    x = as_value(x)
    if not dt.is_inexact(x.dtype):
        x = astype(x, dt.default_float)
    axes = axes_of(axis, x.ndim, "mean")
    n = size_of([x.shape[a] for a in axes])
    if isinstance(n, Affine):
        total = table["reduce_sum"](x, axes=axes)
        ones = table["full"](shape=tuple(x.shape[a] for a in axes), dtype=x.dtype, value=1.0)
        number = table["reduce_sum"](ones, axes=tuple(range(ones.ndim)))
        return kept(x, table["div"](total, broadcast_to(number, total.shape)), axes, keepdims)
    # Sum and division stay in the accumulator's precision: small floats are rounded once.
    wide = astype(x, dt.accumulator(x.dtype))
    total = table["reduce_sum"](wide, axes=axes)
    out = table["div"](total, broadcast_to(scalar(float(n), wide.dtype), total.shape))
    return kept(x, astype(out, x.dtype), axes, keepdims)
