"""Scores of attention apart from it: biases of relative positions, softmax and dropout with a bias."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import trilobite as tb
from trilobite.framework.tensor import Tensor
from trilobite.inference.model import Node
from trilobite.inference.operators.attention import heads_apart
from trilobite.inference.operators.microsoft.fused import MS
from trilobite.inference.operators.primitives import primitive
from trilobite.inference.operators.registry import only, operator
from trilobite.inference.operators.shaping import fixed

Array = np.ndarray[Any, Any]


@operator("RelativePositionBias", domain=MS, known=(1, 2))
def relative_position_bias(node: Node, table: Tensor, rows: Array, columns: Array) -> Tensor:
    """(1, heads, queries, keys): a number per bucket of distances, which grow with the distance."""
    count = fixed(table.shape)[0]
    away = np.arange(int(columns.reshape(()))) - np.arange(int(rows.reshape(())))[:, None]
    bucket = np.zeros(away.shape, np.int64)
    if node.attribute("is_bidirectional", 0):
        count //= 2
        bucket += np.where(away > 0, count, 0)
        far = np.abs(away)
    else:
        far = np.maximum(-away, 0)
    exact = count // 2
    grown = np.log(np.maximum(far, 1).astype(np.float32) / exact)
    grown = grown / np.float32(math.log(node.attributes["max_distance"] / exact)) * (count - exact)
    bucket += np.where(far < exact, far, np.minimum(exact + grown.astype(np.int64), count - 1))
    found = primitive("gather", table, tb.asarray(bucket), axis=0)
    return tb.expand_dims(tb.permute_dims(found, (2, 0, 1)), axis=0)


@operator("GatedRelativePositionBias", domain=MS, limit=only(6))
def gated_relative_position_bias(
    node: Node, q: Tensor, q_bias: Tensor, places: Tensor, w: Tensor, bias: Tensor, eco: Tensor
) -> Tensor:
    """Biases of positions, scaled by two gates per query and head."""
    gates = tb.matmul(heads_apart(q + q_bias, node.attributes["num_heads"]), w) + bias
    half = fixed(gates.shape)[-1] // 2
    update, reset = (
        tb.sigmoid(tb.sum(part, -1, keepdims=True)) for part in (gates[..., :half], gates[..., half:])
    )
    return (update * (reset * eco - 1.0) + 2.0) * places


@operator("BiasSoftmax", domain=MS)
def bias_softmax(node: Node, x: Tensor, bias: Tensor) -> Tensor:
    """Over all axes from one on; the bias is repeated over the axes before it, or over those inside."""
    axis = node.attribute("axis", 1) % x.ndim
    if not node.attributes["is_inner_broadcast"]:
        own = [n for n in bias.shape if n != 1] if bias.ndim < x.ndim - axis else list(bias.shape)
        bias = tb.reshape(bias, own[-(x.ndim - axis) :]) if bias.ndim != x.ndim else bias
    total = x + bias
    flat = tb.reshape(total, (*total.shape[:axis], -1))
    return tb.reshape(tb.softmax(flat, -1), x.shape)


@operator("BiasDropout", domain=MS)
def bias_dropout(
    node: Node, x: Tensor, bias: Tensor, residual: Tensor | None = None, *_: Any
) -> tuple[Tensor, Tensor]:
    """Of inference: nothing is dropped."""
    out = x + bias
    return (out if residual is None else out + residual), tb.ones(tuple(x.shape), dtype=tb.bool)
