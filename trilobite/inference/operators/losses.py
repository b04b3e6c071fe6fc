"""Losses of classifiers."""

from __future__ import annotations

from typing import Any

import trilobite as tb
from trilobite.framework.tensor import Tensor
from trilobite.inference.model import Node
from trilobite.inference.operators.registry import operator


def _loss(node: Node, log_p: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
    """-log p of the target class (axis 1), weighted by class, 0 where the target is ignored."""
    ignored, reduction = node.attribute("ignore_index"), node.attribute("reduction", "mean")
    place = target.astype(tb.int64)
    counts = tb.ones_like(place, dtype=tb.bool) if ignored is None else tb.not_equal(place, ignored)
    safe = tb.where(counts, place, 0)
    safe = tb.where(safe < 0, safe + log_p.shape[1], safe)
    picked = tb.squeeze(tb.gather(log_p, 1, tb.expand_dims(safe, axis=1)), 1)
    each = (
        tb.ones_like(picked)
        if weight is None
        else tb.reshape(tb.index_select(weight, 0, tb.ravel(safe)), safe.shape)
    )
    each = tb.where(counts, each, 0.0).astype(picked.dtype)
    loss = tb.where(counts, -picked * each, 0.0).astype(picked.dtype)
    if reduction == "none":
        return loss
    if reduction == "sum":
        return tb.sum(loss)
    if weight is None and ignored is None:
        return tb.mean(loss)
    return tb.sum(loss) / tb.sum(each)


@operator("NegativeLogLikelihoodLoss", since=12)
def negative_log_likelihood_loss(
    node: Node, x: Tensor, target: Tensor, weight: Tensor | None = None
) -> Tensor:
    return _loss(node, x, target, weight)


@operator("SoftmaxCrossEntropyLoss", since=12)
def softmax_cross_entropy_loss(node: Node, x: Tensor, target: Tensor, weight: Tensor | None = None) -> Any:
    log_p = tb.log_softmax(x, 1)
    return _loss(node, log_p, target, weight), log_p
