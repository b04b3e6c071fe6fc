"""softmax, log_softmax, logsumexp: composites with reverse rules of their own.

They subtract the largest element first, compute in float32 what is smaller, and keep only their result for
the gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trilobite.base import dtypes as dt
from trilobite.base.dtypes import as_dtype
from trilobite.framework.ops.meeting import REAL_FLOATS, astype
from trilobite.framework.ops.numbers import number_as_line
from trilobite.framework.ops.pointwise import in_dtype, like
from trilobite.framework.ops.reducing import axes_of, kept
from trilobite.framework.ops.registry import op
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.primitives.reduction import spread
from trilobite.ir.transforms.composite import composite

G = "reduction"
Axes = tuple[int, ...]


def _wide(x: Value) -> Value:
    return astype(x, dt.accumulator(x.dtype))


def _top(x: Value, axes: Axes) -> Value:
    """The largest element, spread out again; a constant to every derivative, since it cancels."""
    return table["stop_gradient"](spread(table["reduce_max"](x, axes=axes), x.shape, axes))


def _total(x: Value, axes: Axes) -> Value:
    return spread(table["reduce_sum"](x, axes=axes), x.shape, axes)


# -- softmax ---------------------------------------------------------------------------------------------


def _softmax_forward(x: Value, *, axes: Axes) -> tuple[Value, Sequence[Value]]:
    out = _softmax(x, axes=axes)
    return out, (out,)


def _softmax_backward(residuals: Sequence[Value], cotangents: Sequence[Value], *, axes: Axes) -> list[Value]:
    """y·(ct - Σ ct·y)."""
    y, ct = _wide(residuals[0]), _wide(cotangents[0])
    weighed = table["mul"](ct, y)
    back = table["sub"](weighed, table["mul"](y, _total(weighed, axes)))
    return [astype(back, residuals[0].dtype)]


@composite("softmax", _softmax_forward, _softmax_backward)
def _softmax(x: Value, *, axes: Axes) -> Value:
    wide = _wide(x)
    e = table["exp"](table["sub"](wide, _top(wide, axes)))
    total = table["reduce_sum"](e, axes=axes)  # at least 1, so that its inverse is a normal number
    return astype(table["mul"](e, spread(table["div"](like(total, 1), total), x.shape, axes)), x.dtype)


# -- log_softmax -----------------------------------------------------------------------------------------


def _log_softmax_forward(x: Value, *, axes: Axes) -> tuple[Value, Sequence[Value]]:
    out = _log_softmax(x, axes=axes)
    return out, (out,)


def _log_softmax_backward(
    residuals: Sequence[Value], cotangents: Sequence[Value], *, axes: Axes
) -> list[Value]:
    """ct - exp(y)·Σ ct."""
    y, ct = _wide(residuals[0]), _wide(cotangents[0])
    back = table["sub"](ct, table["mul"](table["exp"](y), _total(ct, axes)))
    return [astype(back, residuals[0].dtype)]


@composite("log_softmax", _log_softmax_forward, _log_softmax_backward)
def _log_softmax(x: Value, *, axes: Axes) -> Value:
    wide = _wide(x)
    shifted = table["sub"](wide, _top(wide, axes))
    total = table["log"](table["reduce_sum"](table["exp"](shifted), axes=axes))
    return astype(table["sub"](shifted, spread(total, x.shape, axes)), x.dtype)


# -- logsumexp -------------------------------------------------------------------------------------------


def _finite(x: Value) -> Value:
    """0 in place of what is infinite: shifting by an infinity leaves nothing."""
    return table["select"](table["is_finite"](x), x, like(x, 0))


def _logsumexp_forward(x: Value, *, axes: Axes) -> tuple[Value, Sequence[Value]]:
    out = _logsumexp(x, axes=axes)
    return out, (x, out)


def _logsumexp_backward(
    residuals: Sequence[Value], cotangents: Sequence[Value], *, axes: Axes
) -> list[Value]:
    """ct·exp(x - out)."""
    x, out, ct = (_wide(v) for v in (*residuals, cotangents[0]))
    share = table["exp"](table["sub"](x, spread(_finite(out), x.shape, axes)))
    return [astype(table["mul"](spread(ct, x.shape, axes), share), residuals[0].dtype)]


@composite("logsumexp", _logsumexp_forward, _logsumexp_backward)
def _logsumexp(x: Value, *, axes: Axes) -> Value:
    wide = _wide(x)
    top = table["stop_gradient"](_finite(table["reduce_max"](wide, axes=axes)))
    total = table["reduce_sum"](table["exp"](table["sub"](wide, spread(top, x.shape, axes))), axes=axes)
    return astype(table["add"](table["log"](total), top), x.dtype)


# -- the operations --------------------------------------------------------------------------------------


def _operand(x: Any, dtype: Any, what: str) -> Value:
    x = in_dtype(x, what, REAL_FLOATS)
    return x if dtype is None else astype(x, as_dtype(dtype))


@op(G, plan=True)
def softmax(x: Any, /, axis: Any = -1, *, dtype: Any = None) -> Value:
    """exp(x) over its sum along an axis: positive numbers that add up to 1."""
    x = _operand(x, dtype, "softmax")
    return _softmax(x, axes=axes_of(axis, x.ndim, "softmax"))


@op(G, plan=True)
def log_softmax(x: Any, /, axis: Any = -1, *, dtype: Any = None) -> Value:
    """The logarithm of softmax, accurate where softmax is tiny."""
    x = _operand(x, dtype, "log_softmax")
    return _log_softmax(x, axes=axes_of(axis, x.ndim, "log_softmax"))


@op(G, plan=True)
@number_as_line
def logsumexp(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Value:
    """The logarithm of the sum of exponentials over axes, without overflow."""
    x = _operand(x, None, "logsumexp")
    axes = axes_of(axis, x.ndim, "logsumexp")
    return kept(x, _logsumexp(x, axes=axes), axes, keepdims)
