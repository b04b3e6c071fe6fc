"""softmax and its logarithm over values, with the reverse rules that need only the result."""

from __future__ import annotations

from trilobite.framework.nn.composites.arithmetic import (
    add,
    div,
    exp,
    floating,
    largest,
    log,
    mul,
    stop_gradient,
    sub,
    total,
    where,
    wide,
)
from trilobite.framework.ops.meeting import astype
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms.composite import composite


def shifted(x: Value, axis: int) -> Value:
    """x with its largest element along the axis moved to 0; rows without a finite one stay where they are."""
    top = stop_gradient(largest(x, (axis,), keepdims=True))
    return sub(x, where(table["is_finite"](top), top, 0.0))


def _softmax(x: Value, axis: int) -> Value:
    """e^x divided by its sum along an axis."""
    x = floating(x)
    e = exp(shifted(wide(x), axis))
    return astype(div(e, total(e, (axis,), keepdims=True)), x.dtype)


def _softmax_forward(x: Value, axis: int) -> tuple[Value, tuple[Value]]:
    out = _softmax(x, axis=axis)
    return out, (out,)


def _softmax_backward(residuals: tuple[Value], cts: tuple[Value], axis: int) -> list[Value]:
    (out,), (ct,) = residuals, cts
    y, g = wide(out), wide(ct)
    return [astype(mul(y, sub(g, total(mul(g, y), (axis,), keepdims=True))), out.dtype)]


def _log_softmax(x: Value, axis: int) -> Value:
    """x minus the logarithm of the sum of e^x along an axis."""
    x = floating(x)
    s = shifted(wide(x), axis)
    return astype(sub(s, log(total(exp(s), (axis,), keepdims=True))), x.dtype)


def _log_softmax_forward(x: Value, axis: int) -> tuple[Value, tuple[Value]]:
    out = _log_softmax(x, axis=axis)
    return out, (out,)


def _log_softmax_backward(residuals: tuple[Value], cts: tuple[Value], axis: int) -> list[Value]:
    (out,), (ct,) = residuals, cts
    g = wide(ct)
    return [astype(sub(g, mul(exp(wide(out)), total(g, (axis,), keepdims=True))), out.dtype)]


softmax = composite("softmax", _softmax_forward, _softmax_backward)(_softmax)
log_softmax = composite("log_softmax", _log_softmax_forward, _log_softmax_backward)(_log_softmax)


def logsumexp(x: Value, axis: int) -> Value:
    """The logarithm of the sum of e^x along an axis; -inf where all are."""
    top = largest(x, (axis,), keepdims=True)
    base = stop_gradient(where(table["is_finite"](top), top, 0.0))
    summed = log(total(exp(sub(x, base)), (axis,)))
    return add(summed, table["reshape"](base, shape=summed.shape))
