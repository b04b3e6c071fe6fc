"""Reductions: sums, products, extremes, means, variances, and whether all or any are true."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.base.dtypes import DType, as_dtype
from trilobite.base.errors import ShapeError
from trilobite.base.locations import user_location
from trilobite.base.quiet import begin, end
from trilobite.framework.autocast import nobody_looks
from trilobite.framework.ops.arithmetic import equal
from trilobite.framework.ops.axes import axes_in
from trilobite.framework.ops.meeting import (
    INEXACTS,
    ORDERED,
    accepted,
    as_value,
    astype,
    broadcast_to,
    measured,
    scalar,
)
from trilobite.framework.ops.pointwise import isclose, like, truth
from trilobite.framework.ops.registry import alias, op, read, tensor_op
from trilobite.framework.replay.keys import SMALL
from trilobite.framework.tensor import wrap
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.primitives.reduction import spread
from trilobite.ir.types import Affine, Dim

G = "reduction"
_sum_of = table["reduce_sum"].evaluate
_WIDE = frozenset({dt.float32, dt.float64})  # they add up in themselves
_add_up, _asarray = np.add.reduce, np.asarray


def axes_of(axis: Any, ndim: int, what: str) -> tuple[int, ...]:
    """`axis` as the sorted tuple of axes it means; None means all."""
    if axis is None:
        return tuple(range(ndim))
    if type(axis) is int and -ndim <= axis < ndim:
        return (axis % ndim,)
    if ndim == 0 and type(axis) is int and -1 <= axis <= 0:
        return ()  # as in PyTorch, a number may be reduced along its only place
    return tuple(sorted(axes_in(axis, ndim, what)))


def kept(x: Value, out: Value, axes: tuple[int, ...], keepdims: bool) -> Value:
    if not keepdims:
        return out
    return table["reshape"](out, shape=tuple(1 if i in axes else d for i, d in enumerate(x.shape)))


def accumulated(x: Value, dtype: Any) -> Value:
    """x in the dtype that its sum or product has: small integers add up in int64 or uint64."""
    return astype(x, as_dtype(dtype) if dtype is not None else accumulates_in(x.dtype))


def accumulates_in(dtype: DType) -> DType:
    if dtype in dt.INEXACT:
        return dtype
    return dt.uint64 if dtype in dt.UNSIGNED else dt.int64


# -- sums and products -----------------------------------------------------------------------------------


def _whole(x: Any) -> Value | None:
    """The sum of all numbers of what is just an array of floats."""
    if x.dtype not in _WIDE or not nobody_looks():
        return None
    token = begin()
    try:
        return _asarray(_add_up(x if x.flags.c_contiguous else x.copy("C"), None, x.dtype))
    finally:
        end(token)


@op(G, short=_whole, plan=True)
def sum(x: Any, /, axis: Any = None, *, dtype: Any = None, keepdims: bool = False) -> Value:
    """Sum over axes. Integers add up in int64 (uint64), small floats in float32 before they are rounded
    back.
    """
    x = accumulated(as_value(x), dtype)
    axes = axes_of(axis, x.ndim, "sum")
    return kept(x, table["reduce_sum"](x, axes=axes), axes, keepdims)


@op(G, plan=True)
def prod(x: Any, /, axis: Any = None, *, dtype: Any = None, keepdims: bool = False) -> Value:
    """Product over axes. Integers multiply in int64 (uint64), small floats in float32 before they are
    rounded back.
    """
    x = accumulated(as_value(x), dtype)
    axes = axes_of(axis, x.ndim, "prod")
    return kept(x, table["reduce_prod"](x, axes=axes), axes, keepdims)


@op(G, plan=True)
def nansum(x: Any, /, axis: Any = None, *, dtype: Any = None, keepdims: bool = False) -> Value:
    """Sum over axes of what is not NaN."""
    x = as_value(x)
    if x.dtype in dt.INEXACT:
        x = table["select"](table["is_nan"](x), table["full"](shape=x.shape, dtype=x.dtype, value=0), x)
    return sum(x, axis, dtype=dtype, keepdims=keepdims)


# -- extremes --------------------------------------------------------------------------------------------


def not_empty(x: Value, axes: tuple[int, ...], what: str) -> None:
    """There is no largest of no elements."""
    if builtins.any(x.shape[a] == 0 for a in axes):
        raise ShapeError(
            f"{what} of no elements: shape {tuple(x.shape)} over axes {axes}", where=user_location(),
            expected="at least one element", remedy="reduce over axes that are not empty",
        )  # fmt: skip


def _extreme(x: Any, axis: Any, keepdims: bool, what: str) -> Value:
    x = as_value(x)
    accepted(what, ORDERED, x.dtype)
    axes = axes_of(axis, x.ndim, what)
    not_empty(x, axes, what)
    return kept(x, table[f"reduce_{what}"](x, axes=axes), axes, keepdims)


def _extreme_of_all(evaluate: Any) -> Any:
    def short(x: Any) -> Value | None:
        """Of all numbers of what is just an array, and too large for a plan."""
        if x.size <= SMALL or x.dtype.kind not in "iuf" or not nobody_looks():
            return None
        return evaluate(x, axes=tuple(range(x.ndim)))

    return short


@op(G, short=_extreme_of_all(table["reduce_max"].evaluate), plan=True)
def max(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Value:
    """The largest element over axes; NaN wins."""
    return _extreme(x, axis, keepdims, "max")


@op(G, short=_extreme_of_all(table["reduce_min"].evaluate), plan=True)
def min(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Value:
    """The smallest element over axes; NaN wins."""
    return _extreme(x, axis, keepdims, "min")


# -- means and variances ---------------------------------------------------------------------------------


def average(wide: Value, axes: tuple[int, ...], correction: float = 0.0) -> Value:
    """The sum over axes divided by the number of elements (less a correction), in the dtype it is computed
    in.
    """
    total = table["reduce_sum"](wide, axes=axes)
    return table["div"](total, _number([wide.shape[a] for a in axes], correction, total))


def _number(sizes: list[Dim], correction: float, like: Value) -> Value:
    """How many elements there are, less a correction but not below 0, in the shape of `like`."""
    known = [d for d in sizes if not isinstance(d, Affine)]
    n = math.prod(known)
    if len(known) == len(sizes):
        # A variance of too few elements is not a number; its sum of squares over zero says so.
        return broadcast_to(scalar(float(builtins.max(n - correction, 0)), like.dtype), like.shape)
    number = measured(n)
    for size in sizes:
        if isinstance(size, Affine):
            number = table["mul"](number, measured(size))
    less = table["sub"](astype(number, like.dtype), scalar(float(correction), like.dtype))
    return broadcast_to(table["maximum"](less, scalar(0.0, like.dtype)), like.shape)


def widened(x: Any, what: str) -> tuple[Value, DType]:
    """x as means compute with it, and the dtype they have: small floats are rounded once."""
    x = as_value(x)
    dtype = accepted(what, INEXACTS, x.dtype)
    return astype(x, dt.accumulator(dtype)), dtype


def _plain_mean(x: Any) -> Value | None:
    """The mean of what is just an array of wide floats, by the steps of the long way."""
    if x.dtype not in _WIDE or not x.size or not nobody_looks():
        return None
    total = _sum_of(x, axes=tuple(range(x.ndim)))
    return np.asarray(total / x.dtype.type(x.size))


@op(G, short=_plain_mean, plan=True)
def mean(x: Any, /, axis: Any = None, *, dtype: Any = None, keepdims: bool = False) -> Value:
    """The arithmetic mean over axes, of the numbers in `dtype` if it is given."""
    wide, dtype = widened(x if dtype is None else astype(as_value(x), as_dtype(dtype)), "mean")
    axes = axes_of(axis, wide.ndim, "mean")
    return kept(wide, astype(average(wide, axes), dtype), axes, keepdims)


def _variance(wide: Value, axes: tuple[int, ...], correction: float) -> Value:
    """Two passes: squares of what remains after the mean is taken away do not cancel."""
    centre = table["sub"](wide, spread(average(wide, axes), wide.shape, axes))
    if wide.dtype in dt.COMPLEX:
        re, im = table["real"](centre), table["imag"](centre)
        squares = table["add"](table["mul"](re, re), table["mul"](im, im))
    else:
        squares = table["mul"](centre, centre)
    return average(squares, axes, correction)


@op(G, plan=True)
def var(x: Any, /, axis: Any = None, *, correction: float = 0.0, keepdims: bool = False) -> Value:
    """The variance over axes: squared distances from the mean, over the number of elements less
    `correction`.
    """
    wide, dtype = widened(x, "var")
    axes = axes_of(axis, wide.ndim, "var")
    return kept(wide, astype(_variance(wide, axes, correction), dt.real_of(dtype)), axes, keepdims)


@op(G, plan=True)
def std(x: Any, /, axis: Any = None, *, correction: float = 0.0, keepdims: bool = False) -> Value:
    """The standard deviation over axes: the square root of the variance."""
    wide, dtype = widened(x, "std")
    axes = axes_of(axis, wide.ndim, "std")
    spread_out = root(_variance(wide, axes, correction))
    return kept(wide, astype(spread_out, dt.real_of(dtype)), axes, keepdims)


# -- truth -----------------------------------------------------------------------------------------------


def _quantified(x: Any, axis: Any, keepdims: bool, what: str, primitive: str) -> Value:
    x = truth(x)
    axes = axes_of(axis, x.ndim, what)
    return kept(x, table[primitive](x, axes=axes), axes, keepdims)


@op(G, plan=True)
def all(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Value:
    """Are all elements over axes true (not zero)?"""
    return _quantified(x, axis, keepdims, "all", "reduce_and")


@op(G, plan=True)
def any(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Value:
    """Is any element over axes true (not zero)?"""
    return _quantified(x, axis, keepdims, "any", "reduce_or")


@op(G, plan=True)
def count_nonzero(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Value:
    """How many elements over axes are not zero."""
    return sum(truth(x), axis, keepdims=keepdims)


@tensor_op(G)
def allclose(x1: Any, x2: Any, /, *, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Is every |x1 - x2| <= atol + rtol * |x2|? A Python bool."""
    near = isclose(read(x1), read(x2), rtol=rtol, atol=atol, equal_nan=equal_nan)
    return bool(wrap(all(near)))


@tensor_op(G)
def array_equal(x1: Any, x2: Any, /) -> bool:
    """Have the two the same shape and the same elements? A Python bool."""
    x, y = as_value(read(x1)), as_value(read(x2))
    return x.shape == y.shape and bool(wrap(all(equal(x, y))))


# -- norms -----------------------------------------------------------------------------------------------


@op(G, plan=True)
def norm(x: Any, /, p: Any = 2.0, axis: Any = None, *, keepdims: bool = False) -> Value:
    """The p-norm of the elements over axes: 2 is the Euclidean one, inf the largest magnitude, 0 counts.
    PyTorch's "fro" is 2, "nuc" the sum of a matrix's singular values.
    """
    if p == "nuc":
        from trilobite.framework.ops.linalg_norms import linalg_norm

        return linalg_norm(x, "nuc", axis, keepdims=keepdims)
    p = 2.0 if p == "fro" or p is None else p
    wide, dtype = widened(x, "norm")
    axes = axes_of(axis, wide.ndim, "norm")
    return kept(wide, astype(norm_of(wide, p, axes), dt.real_of(dtype)), axes, keepdims)


def norm_of(x: Value, p: float, axes: tuple[int, ...]) -> Value:
    """The p-norm of numbers, for every p. Where a norm has a corner or a pole its slope is 0, as elsewhere
    in the field: backward() never turns a vector of zeros into NaN.
    """
    if p == 2 and x.dtype not in dt.COMPLEX:  # |x| would lose the curvature of x² at 0
        return root(table["reduce_sum"](table["mul"](x, x), axes=axes))
    sizes = table["abs"](x)
    if math.isinf(p):
        return table["reduce_max" if p > 0 else "reduce_min"](sizes, axes=axes)
    if p == 0:  # what is 0 counts as itself: the slope is that of |x| at 0, which is 0
        return table["reduce_sum"](table["select"](truth(sizes), like(sizes, 1), sizes), axes=axes)
    if p == 1:
        return table["reduce_sum"](sizes, axes=axes)
    if p == 2:
        return root(table["reduce_sum"](table["mul"](sizes, sizes), axes=axes))
    total = table["reduce_sum"](_powered(sizes, p), axes=axes)
    return _powered(total, 1 / p)


def root(x: Value) -> Value:
    """The square root, with slope 0 at 0: the choice of norms and deviations where they have a corner."""
    zero, one = (table["full"](shape=x.shape, dtype=x.dtype, value=v) for v in (0, 1))
    still = table["eq"](x, zero)
    return table["select"](still, zero, table["sqrt"](table["select"](still, one, x)))


def _powered(x: Value, p: float) -> Value:
    """x^p of what is not negative, with slope 0 at 0."""
    still = table["eq"](x, like(x, 0))
    safe = table["pow"](table["select"](still, like(x, 1), x), like(x, p))
    return table["select"](still, like(x, 0.0 if p > 0 else math.inf), safe)


alias("amax", "max", methods=("amax",))
alias("amin", "min", methods=("amin",))
