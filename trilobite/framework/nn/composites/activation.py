"""Activations over values. Small floats are computed in float32 and rounded once.

Where a formula overflows on one side, the side not chosen is fed a harmless number, so that no derivative of
any order becomes 0·∞. Slopes at corners are those that PyTorch chose: 0 at relu's, the lower bound's at a
clamp.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from trilobite.base import dtypes as dt
from trilobite.framework.nn.composites.arithmetic import (
    absolute,
    add,
    div,
    either,
    erf,
    exp,
    expm1,
    floating,
    ge,
    gt,
    le,
    log1p,
    lt,
    mul,
    neg,
    sub,
    tanh,
    where,
    wide,
)
from trilobite.framework.ops.meeting import as_value, astype
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms.composite import Composite, composite

Body = Callable[..., Value]


def activation(name: str, slope: Body | None = None) -> Callable[[Body], Composite]:
    """A composite of one operand whose body is computed in the wide dtype; integers become floats first.

    `slope` is its derivative, stated where the derived one would take many more passes.
    """

    def make(body: Body) -> Composite:
        def rounded(x: Value, **attrs: Any) -> Value:
            x = floating(x)
            return astype(body(wide(x), **attrs), x.dtype)

        def forward(x: Value, **attrs: Any) -> tuple[Value, tuple[Value]]:
            return rounded(x, **attrs), (x,)

        def backward(kept: tuple[Value], cts: tuple[Value], **attrs: Any) -> list[Value]:
            assert slope is not None
            return [astype(mul(wide(cts[0]), slope(wide(kept[0]), **attrs)), kept[0].dtype)]

        rounded.__doc__ = body.__doc__
        return composite(name, *((forward, backward) if slope else ()))(rounded)

    return make


# -- made of comparisons: exact in any dtype, integers included --------------------------------------------
# The most common ones state their slope: one pass back instead of one per operation.


def _relu(x: Value) -> Value:
    """max(x, 0); NaN stays."""
    return where(le(x, 0), 0, x)


def _relu_forward(x: Value) -> tuple[Value, tuple[Value]]:
    out = _relu(x)
    return out, (out,)


relu = composite("relu", _relu_forward, lambda kept, cts: [where(le(kept[0], 0), 0, cts[0])])(_relu)


def _beside(x: Value, bound: float) -> float:
    """A whole number stays one beside integers, so that they stay integers."""
    return int(bound) if bound.is_integer() and not dt.is_inexact(x.dtype) else bound


def _hardtanh(x: Value, low: float, high: float) -> Value:
    """x between two bounds."""
    x = as_value(x)
    low, high = _beside(x, low), _beside(x, high)
    return where(le(x, low), low, where(ge(x, high), high, x))


def _hardtanh_forward(x: Value, low: float, high: float) -> tuple[Value, tuple[Value]]:
    return _hardtanh(x, low, high), (x,)


def _hardtanh_backward(kept: tuple[Value], cts: tuple[Value], low: float, high: float) -> list[Value]:
    return [where(either(le(kept[0], low), ge(kept[0], high)), 0, cts[0])]


hardtanh = composite("hardtanh", _hardtanh_forward, _hardtanh_backward)(_hardtanh)


@composite("threshold")
def threshold(x: Value, threshold: float, value: float) -> Value:
    """x above the threshold, else a value."""
    x = as_value(x)
    return where(le(x, threshold), _beside(x, value), x)


@composite("leaky_relu")
def leaky_relu(x: Value, slope: float) -> Value:
    """x, or slope·x below 0."""
    return where(gt(x, 0), x, mul(x, slope))


@composite("prelu")
def prelu(x: Value, slope: Value) -> Value:
    """x, or slope·x below 0, with a slope that is learnt."""
    return where(gt(x, 0), x, mul(x, slope))


@composite("hardshrink")
def hardshrink(x: Value, lambd: float) -> Value:
    """x, and 0 within ±lambd."""
    return where(_within(x, lambd), 0, x)


@composite("softshrink")
def softshrink(x: Value, lambd: float) -> Value:
    """x moved towards 0 by lambd."""
    return where(_within(x, lambd), 0, where(gt(x, 0), sub(x, lambd), add(x, lambd)))


def _within(x: Value, bound: float) -> Value:
    return le(absolute(x), bound)


# -- sigmoids ------------------------------------------------------------------------------------------------


def logistic(x: Value) -> Value:
    """1/(1+e^-x), to full relative accuracy on both sides."""
    positive = ge(table["real"](x) if x.dtype in dt.COMPLEX else x, 0)
    small = exp(where(positive, neg(x), x))
    one = add(small, 1.0)
    return where(positive, div(1.0, one), div(small, one))


@activation("logsigmoid")
def logsigmoid(x: Value) -> Value:
    """log(1/(1+e^-x))."""
    below = lt(x, 0.0)  # a choice, not |x|: at 0 the curvature is that of either side
    return sub(where(below, x, 0.0), log1p(exp(where(below, x, neg(x)))))


def _silu_slope(x: Value) -> Value:
    s = logistic(x)
    return mul(s, add(mul(x, sub(1.0, s)), 1.0))


@activation("silu", _silu_slope)
def silu(x: Value) -> Value:
    """x·sigmoid(x)."""
    return mul(x, logistic(x))


@activation("hardsigmoid")
def hardsigmoid(x: Value) -> Value:
    """x/6 + 1/2 between 0 and 1."""
    return div(where(le(x, -3.0), 0.0, where(ge(x, 3.0), 6.0, add(x, 3.0))), 6.0)


@activation("hardswish")
def hardswish(x: Value) -> Value:
    """x·hardsigmoid(x)."""
    return where(le(x, -3.0), 0.0, where(ge(x, 3.0), x, div(mul(x, add(x, 3.0)), 6.0)))


# -- exponential units ---------------------------------------------------------------------------------------


def _below_zero(x: Value) -> Value:
    return where(gt(x, 0), 0.0, x)


@activation("elu")
def elu(x: Value, alpha: float) -> Value:
    """x, or alpha·(e^x - 1) below 0."""
    return where(gt(x, 0), x, mul(expm1(_below_zero(x)), alpha))


@activation("selu")
def selu(x: Value) -> Value:
    """elu scaled so that activations keep mean 0 and variance 1."""
    alpha, scale = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
    return where(gt(x, 0), mul(x, scale), mul(expm1(_below_zero(x)), scale * alpha))


@activation("celu")
def celu(x: Value, alpha: float) -> Value:
    """x, or alpha·(e^(x/alpha) - 1) below 0."""
    return where(gt(x, 0), x, mul(expm1(div(_below_zero(x), alpha)), alpha))


def softplus_of(x: Value, beta: float, threshold: float) -> Value:
    scaled = mul(x, beta)
    large = gt(scaled, threshold)
    return where(large, x, div(log1p(exp(where(large, 0.0, scaled))), beta))


@activation("softplus")
def softplus(x: Value, beta: float, threshold: float) -> Value:
    """log(1 + e^(beta·x))/beta; x itself above the threshold."""
    return softplus_of(x, beta, threshold)


@activation("mish")
def mish(x: Value) -> Value:
    """x·tanh(softplus(x))."""
    return mul(x, tanh(softplus_of(x, 1.0, 20.0)))


# -- error function and others -------------------------------------------------------------------------------


def _gelu_slope(x: Value) -> Value:
    density = mul(exp(mul(mul(x, x), -0.5)), 1 / math.sqrt(2 * math.pi))
    return add(mul(add(erf(mul(x, 1 / math.sqrt(2))), 1.0), 0.5), mul(x, density))


@activation("gelu", _gelu_slope)
def gelu(x: Value) -> Value:
    """x·Φ(x), with the normal distribution's Φ."""
    return mul(mul(x, 0.5), add(erf(mul(x, 1 / math.sqrt(2))), 1.0))


_GELU = 0.044715, math.sqrt(2 / math.pi)


def _gelu_tanh_slope(x: Value) -> Value:
    square = mul(x, x)
    t = tanh(mul(mul(x, add(mul(square, _GELU[0]), 1.0)), _GELU[1]))
    inner = mul(add(mul(square, 3 * _GELU[0]), 1.0), _GELU[1])
    return add(mul(add(t, 1.0), 0.5), mul(mul(mul(x, 0.5), sub(1.0, mul(t, t))), inner))


@activation("gelu_tanh", _gelu_tanh_slope)
def gelu_tanh(x: Value) -> Value:
    """gelu with tanh in place of the error function."""
    inner = mul(mul(x, add(mul(mul(x, x), _GELU[0]), 1.0)), _GELU[1])
    return mul(mul(x, 0.5), add(tanh(inner), 1.0))


@activation("tanhshrink")
def tanhshrink(x: Value) -> Value:
    """x - tanh(x)."""
    return sub(x, tanh(x))


@activation("softsign")
def softsign(x: Value) -> Value:
    """x/(1+|x|)."""
    return div(x, add(absolute(x), 1.0))
