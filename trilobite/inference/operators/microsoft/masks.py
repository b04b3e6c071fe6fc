"""Masks of attention as com.microsoft writes them: lengths, spans, choices and numbers to add."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import trilobite as tb
from trilobite.framework.nn import functional as F
from trilobite.framework.tensor import Tensor
from trilobite.inference.model import Node
from trilobite.inference.operators.shaping import fixed


def head_scale(node: Node, features: Any) -> float:
    return float(node.attribute("scale", 0.0) or 1 / math.sqrt(features))


def both(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """Two masks as one."""
    if a is None or b is None:
        return b if a is None else a
    if a.dtype == tb.bool and b.dtype == tb.bool:
        return tb.logical_and(a, b)
    number = [tb.where(m, 0.0, -np.inf) if m.dtype == tb.bool else m for m in (a, b)]
    return number[0] + number[1]


def causal(rows: Any, columns: Any, before: Any) -> Tensor:
    """The first query sees what a cache holds and one key more."""
    query = tb.reshape(tb.arange(rows), (-1, 1)) + before
    return tb.reshape(tb.arange(columns), (1, -1)) <= query


def padding(node: Node, mask: Tensor | None, q: Tensor, columns: Any) -> Tensor | None:
    """What a mask of any of the accepted shapes takes off the scores: a number that the node states and that
    is finite, so that a query which may see nothing sees all keys alike.
    """
    if mask is None:
        return None
    seen = _seen(mask, q.shape[0], q.shape[2], columns)
    return tb.where(seen, 0.0, node.attribute("mask_filter_value", -10000.0)).astype(q.dtype)


def _seen(mask: Tensor, batch: Any, rows: Any, columns: Any) -> Tensor:
    if mask.ndim == 1:
        key = tb.reshape(tb.arange(columns), (1, -1))
        ends = tb.reshape(mask[:batch].astype(tb.int64), (-1, 1))
        seen = key < ends
        if mask.shape[0] == 2 * batch:
            seen = tb.logical_and(seen, key >= tb.reshape(mask[batch:].astype(tb.int64), (-1, 1)))
        return tb.reshape(seen, (batch, 1, 1, columns))
    chosen = mask > 0
    if mask.ndim == 2:
        return tb.reshape(chosen, (mask.shape[0], 1, 1, mask.shape[1]))
    if mask.ndim == 3:
        return tb.expand_dims(chosen, axis=1)
    return chosen[:, :, columns - rows : columns, :columns]


def attended(
    q: Tensor, k: Tensor, v: Tensor, limits: Tensor | None, scale: float,
    cap: float = 0.0, sink: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Attention of (batch, heads, length, features); query heads may share keys. `cap` bends the scores, and
    `sink` is one more score per head whose weight no value gets.
    """
    if sink is not None:
        k, v, limits = _with_sink(q, k, v, limits, sink)
    if not cap:
        grouped = q.shape[1] != k.shape[1]
        return F.scaled_dot_product_attention(q, k, v, limits, scale=scale, enable_gqa=grouped)
    shown = scores(q, k, limits, scale, cap, sink is not None)
    return tb.matmul(weights(shown).astype(q.dtype), _shared(v, q))


def scores(
    q: Tensor, k: Tensor, limits: Tensor | None, scale: float, cap: float = 0.0, sink: bool = False
) -> Tensor:
    """Scores with their masks, before the softmax; the last column is not bent if it is a sink."""
    found = tb.matmul(q, tb.matrix_transpose(_shared(k, q))).astype(tb.float32) * scale
    if cap:
        bent = tb.tanh(found / cap) * cap
        found = tb.concat([bent[..., :-1], found[..., -1:]], axis=-1) if sink else bent
    if limits is None:
        return found
    return tb.where(limits, found, -np.inf) if limits.dtype == tb.bool else found + limits


def weights(found: Tensor) -> Tensor:
    """The softmax, 0 where nothing may be seen."""
    top = tb.max(found, -1, keepdims=True)
    e = tb.exp(found - tb.where(tb.isfinite(top), top, 0.0))
    total = tb.sum(e, -1, keepdims=True)
    return e / tb.where(tb.equal(total, 0), 1.0, total)


def _shared(x: Tensor, q: Tensor) -> Tensor:
    times = fixed(q.shape[1:2])[0] // fixed(x.shape[1:2])[0]
    return x if times == 1 else tb.repeat(x, times, axis=1)


def _with_sink(
    q: Tensor, k: Tensor, v: Tensor, limits: Tensor | None, sink: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """One more key of zeros whose score its mask states, and whose value is zero."""
    k, v = (tb.concat([x, tb.zeros((*x.shape[:2], 1, x.shape[3]), dtype=x.dtype)], axis=2) for x in (k, v))
    last = tb.reshape(sink.astype(q.dtype), (1, q.shape[1], 1, 1))
    lead = (q.shape[0], q.shape[1], q.shape[2])
    if limits is None:
        limits = tb.zeros((1, 1, 1, 1), dtype=q.dtype)
    elif limits.dtype == tb.bool:
        limits = tb.where(limits, 0.0, -np.inf).astype(q.dtype)
    wide = tb.broadcast_to(limits, (*lead, k.shape[2] - 1))
    return k, v, tb.concat([wide, tb.broadcast_to(last, (*lead, 1))], axis=-1)
