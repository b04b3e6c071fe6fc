"""Losses that ask for a margin: between pairs, rankings and triplets."""

from __future__ import annotations

from typing import Any

from trilobite.base.errors import ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.nn.composites.activation import logsigmoid
from trilobite.framework.nn.composites.arithmetic import (
    add,
    div,
    eq,
    floating,
    lt,
    mul,
    neg,
    sqrt,
    sub,
    total,
    where,
    wide,
)
from trilobite.framework.nn.functional.calling import run
from trilobite.framework.nn.functional.loss import paired, reduced
from trilobite.framework.ops.meeting import astype, together
from trilobite.framework.ops.reducing import kept, norm_of
from trilobite.framework.tensor import Tensor
from trilobite.ir.primitive import Value


def at_least_zero(x: Value) -> Value:
    """max(x, 0), with the slope 1 at 0."""
    return where(lt(x, 0.0), 0.0, x)


def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, reduction: str = "mean"
) -> Tensor:
    """x where y is 1, max(0, margin - x) where y is -1, and the sum of both elsewhere."""
    return run(_hinge_embedding, input, target, margin=float(margin), reduction=reduction)


def _hinge_embedding(x: Value, y: Value, margin: float, reduction: str) -> Value:
    a, b, dtype = paired("hinge_embedding_loss", x, y)
    near, far = where(eq(b, -1.0), 0.0, a), where(eq(b, 1.0), 0.0, at_least_zero(sub(margin, a)))
    return reduced(add(near, far), reduction, dtype)


def soft_margin_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """log(1 + e^(-y·x))."""
    return run(_soft_margin, input, target, reduction=reduction)


def _soft_margin(x: Value, y: Value, reduction: str) -> Value:
    a, b, dtype = paired("soft_margin_loss", x, y)
    return reduced(neg(logsigmoid(mul(a, b))), reduction, dtype)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """max(0, -y·(x1 - x2) + margin)."""
    return run(_margin_ranking, input1, input2, target, margin=float(margin), reduction=reduction)


def _margin_ranking(x1: Value, x2: Value, y: Value, margin: float, reduction: str) -> Value:
    x1, x2, y = map(floating, together(x1, x2, y))
    z = add(mul(neg(wide(y)), sub(wide(x1), wide(x2))), margin)
    return reduced(at_least_zero(z), reduction, x1.dtype)


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """1 - cos where y is 1, max(0, cos - margin) where y is -1; over the last axis of (N, D) or (D,)."""
    return run(_cosine_embedding, input1, input2, target, margin=float(margin), reduction=reduction)


def _cosine_embedding(x1: Value, x2: Value, y: Value, margin: float, reduction: str) -> Value:
    x1, x2 = map(floating, together(x1, x2))
    if x1.ndim not in (1, 2) or y.shape != x1.shape[:-1]:
        raise ShapeError(
            f"cosine_embedding_loss of shape {tuple(x1.shape)} with a target of shape {tuple(y.shape)}",
            where=user_location(),
            expected="(N, D) with (N,), or (D,) with ()",
        )
    a, b, axis = wide(x1), wide(x2), (x1.ndim - 1,)
    lengths = mul(add(total(mul(a, a), axis), 1e-12), add(total(mul(b, b), axis), 1e-12))
    cos = div(total(mul(a, b), axis), sqrt(lengths))
    t = wide(astype(y, x1.dtype))
    losses = add(
        where(eq(t, 1.0), sub(1.0, cos), 0.0), where(eq(t, -1.0), at_least_zero(sub(cos, margin)), 0.0)
    )
    return reduced(losses, reduction, x1.dtype)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """max(0, d(anchor, positive) - d(anchor, negative) + margin); with swap the nearer of two negatives'
    distances.
    """
    return run(
        _triplet,
        anchor,
        positive,
        negative,
        margin=float(margin),
        p=float(p),
        eps=eps,
        swap=swap,
        reduction=reduction,
    )


def _triplet(
    anchor: Value,
    positive: Value,
    negative: Value,
    margin: float,
    p: float,
    eps: float,
    swap: bool,
    reduction: str,
) -> Value:
    anchor, positive, negative = map(floating, together(anchor, positive, negative))
    near, far = distance(anchor, positive, p, eps), distance(anchor, negative, p, eps)
    if swap:
        other = distance(positive, negative, p, eps)
        far = where(lt(other, far), other, far)
    return reduced(at_least_zero(add(sub(near, far), margin)), reduction, anchor.dtype)


def distance(x: Value, y: Value, p: float, eps: float, keepdims: bool = False) -> Value:
    """The p-norm of x - y + eps along the last axis, wide."""
    d = add(sub(wide(x), wide(y)), eps)
    axis = (d.ndim - 1,)
    return kept(d, norm_of(d, p, axis), axis, keepdims)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    distance_function: Any = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """triplet_margin_loss by a distance of one's own."""
    if distance_function is None:
        return triplet_margin_loss(anchor, positive, negative, margin, swap=swap, reduction=reduction)
    near, far = distance_function(anchor, positive), distance_function(anchor, negative)
    if swap:
        far = run(lambda a, b: where(lt(a, b), a, b), distance_function(positive, negative), far)
    return run(
        lambda a, b: reduced(at_least_zero(add(sub(wide(a), wide(b)), margin)), reduction, a.dtype), near, far
    )
