"""Sequences of a batch without their padding, one behind the other, and attention within each."""

from __future__ import annotations

from typing import Any

import numpy as np

import trilobite as tb
from trilobite.framework.tensor import Tensor
from trilobite.inference.model import Node
from trilobite.inference.operators.attention import heads_apart, heads_joined
from trilobite.inference.operators.microsoft.fused import MS
from trilobite.inference.operators.microsoft.masks import attended, head_scale
from trilobite.inference.operators.primitives import primitive
from trilobite.inference.operators.registry import operator
from trilobite.inference.operators.shaping import fixed

Array = np.ndarray[Any, Any]


@operator("RemovePadding", domain=MS, host=True, gives="numbers")
def remove_padding(node: Node, x: Array, counts: Array) -> Any:
    """Real tokens, where they and the padding were, where each sequence ends, and the longest."""
    batch, length = x.shape[:2]
    real = np.arange(length) < counts.reshape(-1, 1)
    places = np.arange(batch * length).reshape(batch, length)
    offsets = np.concatenate([places[real], places[~real]]).astype(np.int32).reshape(batch, length)
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    longest = np.asarray([counts.max(initial=0)], np.int32)
    return np.ascontiguousarray(x[real]), offsets, ends, longest


@operator("RestorePadding", domain=MS)
def restore_padding(node: Node, x: Tensor, offsets: Tensor) -> Tensor:
    batch, length = fixed(offsets.shape)
    return tb.reshape(_restored(x, offsets), (batch, length, x.shape[1]))


def _restored(x: Tensor, offsets: Tensor) -> Tensor:
    """Rows at their places among all; 0 where padding is."""
    at = _places(x, offsets)
    whole = tb.zeros((fixed(offsets.shape)[0] * fixed(offsets.shape)[1], *x.shape[1:]), dtype=x.dtype)
    return primitive("scatter", whole, tb.expand_dims(at, axis=-1), x, axes=(0,), kind="set")


def _places(x: Tensor, offsets: Tensor) -> Tensor:
    return tb.reshape(offsets, (-1,))[: fixed(x.shape)[0]].astype(tb.int64)


@operator("PackedAttention", domain=MS)
def packed_attention(
    node: Node, x: Tensor, w: Tensor, bias: Tensor, offsets: Tensor, ends: Tensor,
    added: Tensor | None = None,
) -> Tensor:  # fmt: skip
    joined = tb.matmul(x, w) + bias
    sizes = node.attribute("qkv_hidden_sizes") or (fixed(joined.shape)[1] // 3,) * 3
    edges = np.cumsum((0, *sizes)).tolist()
    q, k, v = (joined[:, edges[i] : edges[i + 1]] for i in range(3))
    return _within(node, q, k, v, offsets, ends, added)


@operator("PackedMultiHeadAttention", domain=MS)
def packed_multi_head_attention(
    node: Node, q: Tensor, k: Tensor | None, v: Tensor | None, bias: Tensor | None, offsets: Tensor,
    ends: Tensor, added: Tensor | None = None,
) -> Tensor:  # fmt: skip
    if k is None or v is None:  # (tokens, heads, 3, features)
        q, k, v = (tb.reshape(q[:, :, i], (q.shape[0], -1)) for i in range(3))
    if bias is not None:
        a, b = fixed(q.shape)[1], fixed(q.shape)[1] + fixed(k.shape)[1]
        q, k, v = q + bias[:a], k + bias[a:b], v + bias[b:]
    return _within(node, q, k, v, offsets, ends, added)


def _within(
    node: Node, q: Tensor, k: Tensor, v: Tensor, offsets: Tensor, ends: Tensor, added: Tensor | None
) -> Tensor:
    """Attention of each sequence, which begins its row: keys of padding are not seen."""
    batch, length = fixed(offsets.shape)
    heads = node.attributes["num_heads"]
    whole = [tb.reshape(_restored(x, offsets), (batch, length, x.shape[1])) for x in (q, k, v)]
    apart = [heads_apart(x, heads) for x in whole]
    counts = tb.reshape(ends[1:] - ends[:-1], (-1, 1, 1, 1)).astype(tb.int64)
    limits = tb.arange(length) < counts
    mask = limits if added is None else tb.where(limits, added, -np.inf).astype(q.dtype)
    out = heads_joined(attended(apart[0], apart[1], apart[2], mask, head_scale(node, apart[0].shape[-1])))
    flat = tb.reshape(out, (batch * length, out.shape[2]))
    return primitive("gather", flat, _places(q, offsets), axis=0)
