"""Losses between tensors of one shape. What small floats lose is summed in float32."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.base.errors import ArgumentError, ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.autocast import operands
from trilobite.framework.nn.composites.activation import logsigmoid
from trilobite.framework.nn.composites.arithmetic import (
    absolute,
    add,
    average,
    check_real,
    div,
    eq,
    exp,
    floating,
    gt,
    log,
    lt,
    maximum,
    mul,
    neg,
    reshape,
    stop_gradient,
    sub,
    total,
    where,
    wide,
)
from trilobite.framework.nn.functional.calling import run
from trilobite.framework.ops.meeting import astype, common, together
from trilobite.framework.tensor import Tensor
from trilobite.ir.primitive import Value
from trilobite.ir.transforms.cells import bottom

REDUCTIONS = ("none", "mean", "sum")


def reduced(losses: Value, reduction: str, dtype: dt.DType) -> Value:
    """One loss per element, their mean, or their sum."""
    check_reduction(reduction)
    axes = tuple(range(losses.ndim))
    if reduction == "none":
        return astype(losses, dtype)
    return astype(average(losses, axes) if reduction == "mean" else total(losses, axes), dtype)


def check_reduction(reduction: str, *more: str) -> None:
    if reduction not in (*REDUCTIONS, *more):
        raise ArgumentError(
            f"reduction {reduction!r}",
            where=user_location(),
            expected=f"one of {', '.join((*REDUCTIONS, *more))}",
        )


def paired(what: str, x: Value, y: Value, ordered: bool = True) -> tuple[Value, Value, dt.DType]:
    """Both wide and in one dtype, of floats; shapes must agree, since a target that broadcasts is mostly a
    mistake. Complex numbers only where the loss is made of moduli, not `ordered` itself.
    """
    x, y = (floating(v) for v in common(*operands("loss", x, y)))
    if ordered:
        check_real(what, x)
    if x.shape != y.shape and y.ndim:
        raise ShapeError(
            f"{what} of shapes {tuple(x.shape)} and {tuple(y.shape)}",
            where=user_location(),
            expected="equal shapes",
            remedy="reshape the target, or broadcast it explicitly",
        )
    return wide(x), wide(y), x.dtype


# -- distances -----------------------------------------------------------------------------------------------


def mse_loss(input: Tensor, target: Tensor, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """(x - y)²; with weights their mean is the weighted one."""
    return run(_mse, input, target, weight, reduction=reduction)


def _mse(x: Value, y: Value, weight: Value | None = None, *, reduction: str) -> Value:
    a, b, dtype = paired("mse_loss", x, y)
    d = sub(a, b)
    return _weighed("mse_loss", mul(d, d), weight, reduction, dtype)


def l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """|x - y|; with weights their mean is the weighted one."""
    return run(_l1, input, target, weight, reduction=reduction)


def _l1(x: Value, y: Value, weight: Value | None = None, *, reduction: str) -> Value:
    a, b, dtype = paired("l1_loss", x, y, ordered=False)
    return _weighed("l1_loss", absolute(sub(a, b)), weight, reduction, dt.real_of(dtype))


def _weighed(what: str, losses: Value, weight: Value | None, reduction: str, dtype: dt.DType) -> Value:
    if weight is None:
        return reduced(losses, reduction, dtype)
    w = _weights(what, losses, weight)
    if reduction != "mean":
        return reduced(mul(losses, w), reduction, dtype)
    axes = tuple(range(losses.ndim))
    return astype(div(total(mul(losses, w), axes), total(w, axes)), dtype)


def _weights(what: str, losses: Value, weight: Value) -> Value:
    if weight.shape != losses.shape:
        raise ShapeError(
            f"{what} of shape {tuple(losses.shape)} with weights of shape {tuple(weight.shape)}",
            where=user_location(),
            expected="equal shapes",
            remedy="one weight per element, or weigh the losses yourself with reduction='none'",
        )
    return astype(weight, losses.dtype)


def smooth_l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """d²/(2·beta) for distances d below beta, d - beta/2 above."""
    if beta < 0:
        raise ArgumentError(f"smooth_l1_loss(beta={beta})", where=user_location(), expected="beta >= 0")
    return run(_smooth_l1, input, target, reduction=reduction, beta=float(beta))


def _smooth_l1(x: Value, y: Value, reduction: str, beta: float) -> Value:
    a, b, dtype = paired("smooth_l1_loss", x, y)
    gap = sub(a, b)
    d = absolute(gap)
    if beta == 0:
        return reduced(d, reduction, dtype)
    return reduced(where(lt(d, beta), div(mul(gap, gap), 2.0 * beta), sub(d, 0.5 * beta)), reduction, dtype)


def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """d²/2 for distances d up to delta, delta·(d - delta/2) above; weights multiply each loss."""
    if delta <= 0:
        raise ArgumentError(f"huber_loss(delta={delta})", where=user_location(), expected="delta > 0")
    return run(_huber, input, target, weight, reduction=reduction, delta=float(delta))


def _huber(x: Value, y: Value, weight: Value | None = None, *, reduction: str, delta: float) -> Value:
    a, b, dtype = paired("huber_loss", x, y)
    gap = sub(a, b)
    d = absolute(gap)
    losses = where(gt(d, delta), mul(sub(d, 0.5 * delta), delta), mul(mul(gap, gap), 0.5))
    if weight is not None:
        losses = mul(losses, _weights("huber_loss", losses, weight))
    return reduced(losses, reduction, dtype)


# -- probabilities -------------------------------------------------------------------------------------------


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """-(y·log p + (1-y)·log(1-p)); logarithms are kept above -100."""
    _check_probabilities(input)
    return run(_bce, input, target, weight, reduction=reduction)


def _check_probabilities(input: Any) -> None:
    """Where the numbers are known: logits would give NaN, and nobody would know why."""
    found = bottom(input._read()) if isinstance(input, Tensor) else None
    if isinstance(found, np.ndarray) and found.size and ((found < 0) | (found > 1)).any():
        raise ArgumentError(
            f"binary_cross_entropy of numbers from {found.min():g} to {found.max():g}",
            where=user_location(),
            expected="probabilities, from 0 to 1",
            remedy="put a sigmoid before it, or take binary_cross_entropy_with_logits",
        )


def _bce(p: Value, y: Value, weight: Value | None = None, *, reduction: str) -> Value:
    a, b, dtype = paired("binary_cross_entropy", p, y)
    terms = add(mul(b, _bounded_log(a)), mul(sub(1.0, b), _bounded_log(sub(1.0, a))))
    return reduced(_weighted(neg(terms), weight), reduction, dtype)


def _bounded_log(x: Value) -> Value:
    """log x, but not below -100. Its slope stays finite: below 1e-12 it is 1e12, so that a probability of
    exactly 0 can be learnt from.
    """
    small = lt(x, 1e-12)
    value = stop_gradient(maximum(log(x), -100.0))
    line = add(value, mul(sub(x, stop_gradient(x)), 1e12))
    return where(small, line, log(where(small, 1.0, x)))


def _weighted(losses: Value, weight: Value | None) -> Value:
    return losses if weight is None else mul(losses, wide(weight))


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """binary_cross_entropy of sigmoid(x), within logarithms; pos_weight counts positives more."""
    has = (weight is not None, pos_weight is not None)
    return run(_bce_logits, input, target, weight, pos_weight, has=has, reduction=reduction)


def _bce_logits(x: Value, y: Value, *weights: Value, has: tuple[bool, bool], reduction: str) -> Value:
    a, b, dtype = paired("binary_cross_entropy_with_logits", x, y)
    rest = list(weights)
    weight = rest.pop(0) if has[0] else None
    logs = neg(logsigmoid(a))
    if has[1]:
        logs = mul(logs, add(mul(b, sub(wide(rest[0]), 1.0)), 1.0))
    return reduced(_weighted(add(mul(sub(1.0, b), a), logs), weight), reduction, dtype)


def kl_div(input: Tensor, target: Tensor, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """y·(log y - x), with x (and y, if log_target) as logarithms; "batchmean" divides the sum by the first
    axis.
    """
    check_reduction(reduction, "batchmean")
    return run(_kl, input, target, reduction=reduction, log_target=log_target)


def _kl(x: Value, y: Value, reduction: str, log_target: bool) -> Value:
    a, b, dtype = paired("kl_div", x, y)
    if log_target:
        losses = mul(exp(b), sub(b, a))
    else:
        still = eq(b, 0.0)  # below 0 there is no logarithm
        losses = sub(where(still, 0.0, mul(b, log(where(still, 1.0, b)))), mul(b, a))
    if reduction == "batchmean":
        summed = total(losses, tuple(range(losses.ndim)))
        return astype(div(summed, float(x.shape[0]) if x.ndim else 1.0), dtype)
    return reduced(losses, reduction, dtype)


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:
    """-log of the Poisson probability of y at the rate e^x (or x), without the term log y! unless full (by
    Stirling).
    """
    return run(_poisson, input, target, log_input=log_input, full=full, eps=eps, reduction=reduction)


def _poisson(x: Value, y: Value, log_input: bool, full: bool, eps: float, reduction: str) -> Value:
    a, b, dtype = paired("poisson_nll_loss", x, y)
    losses = sub(exp(a), mul(b, a)) if log_input else sub(a, mul(b, log(add(a, eps))))
    if full:
        many = gt(b, 1.0)
        safe = where(many, b, 2.0)
        stirling = add(sub(mul(safe, log(safe)), safe), mul(log(mul(safe, 2 * math.pi)), 0.5))
        losses = add(losses, where(many, stirling, 0.0))
    return reduced(losses, reduction, dtype)


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """(log var + (x - y)²/var)/2; variances are kept above eps."""
    return run(_gaussian, input, target, var, full=full, eps=eps, reduction=reduction)


def _gaussian(x: Value, y: Value, var: Value, full: bool, eps: float, reduction: str) -> Value:
    a, b, dtype = paired("gaussian_nll_loss", *together(x, y))
    v = wide(astype(var, dtype))
    if v.shape != a.shape and v.shape in (a.shape[:-1], (*a.shape[:-1], 1)):
        v = reshape(v, shape=(*a.shape[:-1], 1))
    elif v.shape != a.shape and v.ndim:
        raise ShapeError(
            f"gaussian_nll_loss of shape {tuple(a.shape)} with variances of shape {tuple(v.shape)}",
            where=user_location(),
            expected="equal shapes, or one variance per row",
        )
    v = add(v, stop_gradient(sub(maximum(v, eps), v)))  # the bound moves the value, not the slope
    d = sub(a, b)
    losses = mul(add(log(v), div(mul(d, d), v)), 0.5)
    return reduced(add(losses, 0.5 * math.log(2 * math.pi)) if full else losses, reduction, dtype)
