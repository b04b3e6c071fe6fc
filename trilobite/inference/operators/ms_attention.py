"""Attention as com.microsoft writes it: packed weights, lengths instead of masks, caches, grouped heads."""

from __future__ import annotations

from typing import Any

import numpy as np

import trilobite as tb
from trilobite.framework.nn import functional as F
from trilobite.framework.tensor import Tensor
from trilobite.inference.model import Node
from trilobite.inference.operators.attention import heads_apart, heads_joined, turned
from trilobite.inference.operators.ms_fused import MS, head_scale
from trilobite.inference.operators.primitives import primitive
from trilobite.inference.operators.registry import operator
from trilobite.inference.operators.shaping import fixed

Array = np.ndarray[Any, Any]


def _both(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """Two masks as one."""
    if a is None or b is None:
        return b if a is None else a
    if a.dtype == tb.bool and b.dtype == tb.bool:
        return tb.logical_and(a, b)
    number = [tb.where(m, 0.0, -np.inf) if m.dtype == tb.bool else m for m in (a, b)]
    return number[0] + number[1]


def _causal(rows: Any, columns: Any) -> Tensor:
    """The last query sees all keys."""
    query = tb.reshape(tb.arange(rows), (-1, 1)) + (columns - rows)
    return tb.reshape(tb.arange(columns), (1, -1)) <= query


def _padding(mask: Tensor | None, batch: Any, columns: Any) -> Tensor | None:
    """What a mask of any of the accepted shapes lets queries see, as a choice or as numbers to add."""
    if mask is None:
        return None
    if mask.ndim == 1:
        key = tb.reshape(tb.arange(columns), (1, -1))
        ends = tb.reshape(mask[:batch].astype(tb.int64), (-1, 1))
        seen = key < ends
        if mask.shape[0] == 2 * batch:
            seen = tb.logical_and(seen, key >= tb.reshape(mask[batch:].astype(tb.int64), (-1, 1)))
        return tb.reshape(seen, (batch, 1, 1, columns))
    chosen = tb.not_equal(mask, 0)
    if mask.ndim == 2:
        return tb.reshape(chosen, (mask.shape[0], 1, 1, mask.shape[1]))
    if mask.ndim == 3:
        return tb.expand_dims(chosen, axis=1)
    return chosen[:, :, :, :columns]


@operator("Attention", domain=MS)
def attention(
    node: Node, x: Tensor, w: Tensor, bias: Tensor | None = None, mask: Tensor | None = None,
    past: Tensor | None = None, added: Tensor | None = None, *_: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """Queries, keys and values by one product, then attention per head."""
    heads = node.attributes["num_heads"]
    sizes = node.attribute("qkv_hidden_sizes") or (fixed(w.shape)[1] // 3,) * 3
    joined = tb.matmul(x, w)
    joined = joined if bias is None else joined + bias
    ends = np.cumsum((0, *sizes)).tolist()
    q, k, v = (heads_apart(joined[..., ends[i] : ends[i + 1]], heads) for i in range(3))
    if past is not None:
        k, v = tb.concat([past[0], k], axis=2), tb.concat([past[1], v], axis=2)
    limits = _both(_padding(mask, x.shape[0], k.shape[2]), added)
    if node.attribute("unidirectional", 0):
        limits = _both(limits, _causal(q.shape[2], k.shape[2]))
    out = F.scaled_dot_product_attention(q, k, v, limits, scale=head_scale(node, q.shape[-1]))
    present = tb.stack([k, v], axis=0) if len(node.outputs) > 1 and node.outputs[1] else None
    return heads_joined(out), present


@operator("MultiHeadAttention", domain=MS)
def multi_head_attention(
    node: Node, q: Tensor, k: Tensor | None = None, v: Tensor | None = None, bias: Tensor | None = None,
    mask: Tensor | None = None, added: Tensor | None = None, past_k: Tensor | None = None,
    past_v: Tensor | None = None, *_: Any,
) -> tuple[Any, ...]:  # fmt: skip
    heads = node.attributes["num_heads"]
    q, k, v = _projected(q, k, v, bias, heads)
    if past_k is not None and past_v is not None:
        k, v = tb.concat([past_k, k], axis=2), tb.concat([past_v, v], axis=2)
    limits = _both(_padding(mask, q.shape[0], k.shape[2]), added)
    if node.attribute("unidirectional", 0):
        limits = _both(limits, _causal(q.shape[2], k.shape[2]))
    out = F.scaled_dot_product_attention(q, k, v, limits, scale=head_scale(node, q.shape[-1]))
    return heads_joined(out), k, v


def _projected(
    q: Tensor, k: Tensor | None, v: Tensor | None, bias: Tensor | None, heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """(batch, heads, length, features) each, out of packed or separate operands."""
    if k is None:  # (batch, length, heads, 3, features)
        parts = [tb.permute_dims(q[:, :, :, i], (0, 2, 1, 3)) for i in range(3)]
        return parts[0], parts[1], parts[2]
    width = q.shape[2]
    q = heads_apart(q if bias is None else q + bias[:width], heads)
    if v is None:  # keys and values together: (batch, length, heads, 2, features)
        return q, *(tb.permute_dims(k[:, :, :, i], (0, 2, 1, 3)) for i in range(2))
    if k.ndim == 4:
        return q, k, v
    if bias is not None:
        split = width + k.shape[2]
        k, v = k + bias[width:split], v + bias[split:]
    return q, heads_apart(k, heads), heads_apart(v, heads)


@operator("RotaryEmbedding", domain=MS)
def rotary_embedding(node: Node, x: Tensor, positions: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    size = node.attribute("rotary_embedding_dim", 0)
    heads = node.attribute("num_heads", 0)
    if x.ndim == 3:
        features = 2 * fixed(cos.shape)[1] if not size else fixed(x.shape)[2] // heads
        split = tb.reshape(x, (x.shape[0], x.shape[1], fixed(x.shape)[2] // features, features))
    else:
        split = tb.permute_dims(x, (0, 2, 1, 3))
    at = _positions(positions, split.shape[0], split.shape[1])
    out = turned(split, cos, sin, at, size, node)
    return tb.reshape(out, x.shape) if x.ndim == 3 else tb.permute_dims(out, (0, 2, 1, 3))


def _positions(positions: Tensor, batch: Any, length: Any) -> Tensor:
    """One per token, or counted on from one number."""
    if positions.ndim == 2:
        return positions
    counted = tb.reshape(positions, (-1, 1)).astype(tb.int64) + tb.reshape(tb.arange(length), (1, -1))
    return tb.broadcast_to(counted, (batch, length))


@operator("GroupQueryAttention", domain=MS, known=(6,))
def group_query_attention(
    node: Node, q: Tensor, k: Tensor | None, v: Tensor | None, past_k: Tensor | None, past_v: Tensor | None,
    lengths: Tensor, total: Array, cos: Tensor | None = None, sin: Tensor | None = None,
    positions: Tensor | None = None, added: Tensor | None = None, *_: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """Causal attention with a cache: new keys and values stand behind those of each row so far."""
    heads, shared = node.attributes["num_heads"], node.attributes["kv_num_heads"]
    q, k, v = _grouped(q, k, v, heads, shared)
    new = q.shape[2]
    ends = tb.reshape(lengths.astype(tb.int64), (-1, 1)) + 1
    before = ends - new
    if node.attribute("do_rotary", 0) and cos is not None and sin is not None:
        at = before + tb.reshape(tb.arange(new), (1, -1)) if positions is None else positions
        turn = {"interleaved": node.attribute("rotary_interleaved", 0)}
        how = Node("RotaryEmbedding", (), (), turn)
        q, k = (_turned(x, cos, sin, at, how) for x in (q, k))
    room = max(int(total.reshape(())), 0 if past_k is None else fixed(past_k.shape)[2])
    keys, values = (_appended(p, n, before, room) for p, n in ((past_k, k), (past_v, v)))
    query = tb.reshape(before, (-1, 1, 1, 1)) + tb.reshape(tb.arange(new), (-1, 1))
    key = tb.arange(room)
    seen = key <= query
    window = node.attribute("local_window_size", -1)
    if window > 0:
        seen = tb.logical_and(seen, key > query - window)
    limits = _both(seen, added)
    out = F.scaled_dot_product_attention(
        q, keys, values, limits, scale=head_scale(node, q.shape[-1]), enable_gqa=heads != shared
    )
    return heads_joined(out), keys, values


def _grouped(q: Tensor, k: Any, v: Any, heads: int, shared: int) -> tuple[Tensor, Tensor, Tensor]:
    if k is not None:
        return heads_apart(q, heads), heads_apart(k, shared), heads_apart(v, shared)
    each = fixed(q.shape)[2] // (heads + 2 * shared)
    a, b = heads * each, (heads + shared) * each
    return heads_apart(q[..., :a], heads), heads_apart(q[..., a:b], shared), heads_apart(q[..., b:], shared)


def _turned(x: Tensor, cos: Tensor, sin: Tensor, at: Tensor, node: Node) -> Tensor:
    moved = tb.permute_dims(x, (0, 2, 1, 3))
    return tb.permute_dims(turned(moved, cos, sin, at, 2 * fixed(cos.shape)[1], node), (0, 2, 1, 3))


def _appended(past: Tensor | None, new: Tensor, before: Tensor, room: int) -> Tensor:
    """The cache in a length of `room`, with new rows written where each row of the batch has its end."""
    if past is None:
        missing = room - fixed(new.shape)[2]
        past = tb.zeros((*new.shape[:2], room, new.shape[3]), dtype=new.dtype)
        if missing == 0:
            return new
    else:
        more = (0, 0, room - fixed(past.shape)[2], 0)
        past = primitive("pad", past, low=(0,) * 4, high=more, between=(0,) * 4, value=0.0)
    at = tb.reshape(before, (-1, 1, 1, 1)) + tb.reshape(tb.arange(new.shape[2]), (1, 1, -1, 1))
    return primitive("scatter_along", past, tb.broadcast_to(at, new.shape), new, axis=2, kind="set")
