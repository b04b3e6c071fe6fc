"""Activations, as functions of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trilobite.base.errors import ArgumentError, ShapeError
from trilobite.base.locations import user_location
from trilobite.base.wrong_use import explains
from trilobite.framework import random
from trilobite.framework.autocast import operands
from trilobite.framework.nn.composites import activation as c
from trilobite.framework.nn.composites.arithmetic import along, floating, mul, window
from trilobite.framework.nn.functional.calling import pointwise, run
from trilobite.framework.ops import normalising
from trilobite.framework.ops import pointwise as ops_pointwise
from trilobite.framework.ops.axes import axis_in
from trilobite.framework.ops.inplace import assign
from trilobite.framework.ops.registry import bare
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0)."""
    value = None if inplace else bare(input)
    found = ops_pointwise.plain_relu(value) if type(value) is np.ndarray else None
    return pointwise(c.relu, input, inplace) if found is None else wrap(found)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """x between 0 and 6."""
    return pointwise(c.hardtanh, input, inplace, low=0.0, high=6.0)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x between two bounds."""
    if min_val > max_val:
        raise ArgumentError(
            f"hardtanh between {min_val} and {max_val}", where=user_location(), expected="min_val <= max_val"
        )
    return pointwise(c.hardtanh, input, inplace, low=float(min_val), high=float(max_val))


@explains
def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x above the threshold, else the value."""
    return pointwise(c.threshold, input, inplace, threshold=float(threshold), value=float(value))


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x, or negative_slope·x below 0."""
    return pointwise(c.leaky_relu, input, inplace, slope=float(negative_slope))


@explains
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x, or weight·x below 0; one weight for all, or one per channel (axis 1)."""
    return run(_prelu, input, weight)


def _prelu(x: Value, weight: Value) -> Value:
    count = weight.shape[0] if weight.ndim else 1
    channels = x.shape[1] if x.ndim > 1 else 1
    if weight.ndim > 1 or (count != 1 and count != channels):
        raise ShapeError(
            f"prelu of shape {tuple(x.shape)} with a weight of shape {tuple(weight.shape)}",
            where=user_location(),
            expected=f"one weight, or one per channel: {channels}",
        )
    if count == 1 or x.ndim < 2:
        return c.prelu(x, table["reshape"](weight, shape=(1,) * x.ndim))
    return c.prelu(x, along(weight, (1,), x.ndim))


def rrelu(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """leaky_relu with a slope drawn per element from [lower, upper); when not training, their mean."""
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    slope = random.uniform(input.shape, lower, upper, dtype=input.dtype)
    out = run(c.prelu, input, slope)
    return assign(input, out, "rrelu in place") if inplace else out


@explains
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x, and 0 within ±lambd."""
    return run(c.hardshrink, input, lambd=float(lambd))


@explains
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x moved towards 0 by lambd."""
    if lambd < 0:
        raise ArgumentError(f"softshrink by {lambd}", where=user_location(), expected="lambd >= 0")
    return run(c.softshrink, input, lambd=float(lambd))


def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x)."""
    return run(c.tanhshrink, input)


def sigmoid(input: Tensor) -> Tensor:
    """1/(1+e^-x)."""
    return run(ops_pointwise.sigmoid, input)


def logsigmoid(input: Tensor) -> Tensor:
    """log(sigmoid(x))."""
    return run(c.logsigmoid, input)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """x/6 + 1/2 between 0 and 1."""
    return pointwise(c.hardsigmoid, input, inplace)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x·sigmoid(x)."""
    return pointwise(c.silu, input, inplace)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x·hardsigmoid(x)."""
    return pointwise(c.hardswish, input, inplace)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x·tanh(softplus(x))."""
    return pointwise(c.mish, input, inplace)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x, or alpha·(e^x - 1) below 0."""
    return pointwise(c.elu, input, inplace, alpha=float(alpha))


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """elu scaled so that activations keep mean 0 and variance 1."""
    return pointwise(c.selu, input, inplace)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x, or alpha·(e^(x/alpha) - 1) below 0."""
    if alpha == 0:
        raise ArgumentError("celu with alpha 0", where=user_location(), expected="a number other than 0")
    return pointwise(c.celu, input, inplace, alpha=float(alpha))


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + e^(beta·x))/beta; x itself where beta·x is above the threshold."""
    return run(c.softplus, input, beta=float(beta), threshold=float(threshold))


def softsign(input: Tensor) -> Tensor:
    """x/(1+|x|)."""
    return run(c.softsign, input)


def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return run(_tanh, input)


def _tanh(x: Value) -> Value:
    return table["tanh"](floating(x))


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x·Φ(x) by the error function, or by tanh."""
    if approximate not in ("none", "tanh"):
        raise ArgumentError(
            f"gelu(approximate={approximate!r})", where=user_location(), expected="'none' or 'tanh'"
        )
    return run(c.gelu if approximate == "none" else c.gelu_tanh, input)


@explains
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half along an axis times the sigmoid of the second."""
    return run(_glu, input, axis=dim)


def _glu(x: Value, axis: int) -> Value:
    a = axis_in(axis, x.ndim, "glu")
    half = x.shape[a] // 2
    if half * 2 != x.shape[a]:
        raise ShapeError(
            f"glu along axis {axis} of shape {tuple(x.shape)}",
            where=user_location(),
            expected="an even size there",
        )
    return mul(window(x, a, 0, half), ops_pointwise.sigmoid(window(x, a, half, x.shape[a])))


def softmax(input: Tensor, dim: int | None = None, dtype: Any = None) -> Tensor:
    """e^x divided by its sum along an axis."""
    return _along(_softmax, "softmax", input, dim, dtype)


def log_softmax(input: Tensor, dim: int | None = None, dtype: Any = None) -> Tensor:
    """log(softmax(x))."""
    return _along(_log_softmax, "log_softmax", input, dim, dtype)


def _along(fn: Callable[..., Value], what: str, x: Tensor, dim: int | None, dtype: Any) -> Tensor:
    if dim is None:
        raise ArgumentError(f"{what} without an axis", where=user_location(), expected="dim=, for example -1")
    return run(fn, x, axis=dim, dtype=dtype)


def _softmax(x: Value, axis: int, dtype: Any) -> Value:
    return _over_axis(normalising.softmax, "softmax", x, axis, dtype)


def _log_softmax(x: Value, axis: int, dtype: Any) -> Value:
    return _over_axis(normalising.log_softmax, "log_softmax", x, axis, dtype)


def _over_axis(fn: Callable[..., Value], what: str, x: Value, axis: int, dtype: Any) -> Value:
    x = x if dtype is not None else operands(what, x)[0]
    if x.ndim:
        return fn(x, axis, dtype=dtype)
    return table["reshape"](fn(table["reshape"](x, shape=(1,)), axis, dtype=dtype), shape=())


@explains
def softmin(input: Tensor, dim: int | None = None, dtype: Any = None) -> Tensor:
    """softmax of -x."""
    return softmax(wrap(table["neg"](input._read())), dim, dtype)
