"""Attention as com.microsoft writes it: packed weights, lengths instead of masks, caches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import trilobite as tb
from trilobite.framework.tensor import Tensor
from trilobite.inference.model import Node
from trilobite.inference.operators.attention import heads_apart, heads_joined
from trilobite.inference.operators.microsoft.fused import MS
from trilobite.inference.operators.microsoft.masks import (
    attended,
    both,
    causal,
    head_scale,
    padding,
    scores,
)
from trilobite.inference.operators.product import lowered
from trilobite.inference.operators.registry import only, operator
from trilobite.inference.operators.shaping import fixed

Array = np.ndarray[Any, Any]


_NO_BUFFER = {"do_rotary": 0, "past_present_share_buffer": 0}


@operator("Attention", domain=MS, limit=only(6, **_NO_BUFFER))
def attention(
    node: Node, x: Tensor, w: Tensor, bias: Tensor | None = None, mask: Tensor | None = None,
    past: Tensor | None = None, added: Tensor | None = None, *_: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """Queries, keys and values by one product, then attention per head."""
    joined = tb.matmul(x, w)
    return attention_of(node, joined if bias is None else joined + bias, mask, past, added)


@operator("QAttention", domain=MS, limit=only(**_NO_BUFFER))
def q_attention(
    node: Node, x: Tensor, w: Tensor, bias: Tensor, x_scale: Tensor, w_scale: Tensor,
    mask: Tensor | None = None, x_zero: Tensor | None = None, w_zero: Tensor | None = None,
    past: Tensor | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """The product of bytes, then as before."""
    total = tb.matmul(lowered(x, x_zero, -2), lowered(w, w_zero, -1)).astype(tb.float32)
    return attention_of(node, (total * (x_scale * w_scale)).astype(bias.dtype) + bias, mask, past, None)


def attention_of(
    node: Node, joined: Tensor, mask: Tensor | None, past: Tensor | None, added: Tensor | None
) -> tuple[Any, ...]:
    """Attention of queries, keys and values that stand side by side, behind those that a cache holds."""
    heads = node.attributes["num_heads"]
    sizes = node.attribute("qkv_hidden_sizes") or (fixed(joined.shape[-1:])[0] // 3,) * 3
    ends = np.cumsum((0, *sizes)).tolist()
    q, k, v = (heads_apart(joined[..., ends[i] : ends[i + 1]], heads) for i in range(3))
    before = 0 if past is None else past.shape[3]
    if past is not None:
        k, v = tb.concat([past[0], k], axis=2), tb.concat([past[1], v], axis=2)
    limits = _limits(node, q, k, mask, added, before)
    out = attended(q, k, v, limits, head_scale(node, q.shape[-1]))
    present = tb.stack([k, v], axis=0) if len(node.outputs) > 1 and node.outputs[1] else None
    return heads_joined(out), present


@operator("MultiHeadAttention", domain=MS, limit=only(8, 9))
def multi_head_attention(
    node: Node, q: Tensor, k: Tensor | None = None, v: Tensor | None = None, bias: Tensor | None = None,
    mask: Tensor | None = None, added: Tensor | None = None, past_k: Tensor | None = None,
    past_v: Tensor | None = None, *_: Any,
) -> tuple[Any, ...]:  # fmt: skip
    heads = node.attributes["num_heads"]
    q, k, v = _projected(q, k, v, bias, heads)
    before: Any = 0
    if past_k is not None and past_v is not None:
        before = past_k.shape[2]
        k, v = tb.concat([past_k, k], axis=2), tb.concat([past_v, v], axis=2)
    limits = _limits(node, q, k, mask, added, before)
    scale = head_scale(node, q.shape[-1])
    wanted = len(node.outputs) > 3 and bool(node.outputs[3])
    shown = tb.maximum(scores(q, k, limits, scale), tb.finfo(q.dtype).min).astype(q.dtype) if wanted else None
    return heads_joined(attended(q, k, v, limits, scale)), k, v, shown


def _limits(
    node: Node, q: Tensor, k: Tensor, mask: Tensor | None, added: Tensor | None, before: Any
) -> Tensor | None:
    """What masks and direction take off the scores; `before` keys stand in front of the first query."""
    limits = both(padding(node, mask, q, k.shape[2]), added)
    if not node.attribute("unidirectional", 0):
        return limits
    return both(limits, causal(q.shape[2], k.shape[2], before))


def _projected(
    q: Tensor, k: Tensor | None, v: Tensor | None, bias: Tensor | None, heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """(batch, heads, length, features) each, out of packed or separate operands."""
    if k is None:  # (batch, length, heads, 3, features)
        parts = _parts(q, 3) if bias is None else _parts(q, 3, _pieces(bias, 3))
        return parts[0], parts[1], parts[2]
    width = q.shape[2]
    q = heads_apart(q if bias is None else q + bias[:width], heads)
    if v is None:  # keys and values together: (batch, length, heads, 2, features)
        k, v = _parts(k, 2) if bias is None else _parts(k, 2, _pieces(bias[width:], 2))
        return q, k, v
    if k.ndim == 4:
        return q, k, v
    if bias is not None:
        split = width + k.shape[2]
        k, v = k + bias[width:split], v + bias[split:]
    return q, heads_apart(k, heads), heads_apart(v, heads)


def _pieces(bias: Tensor, count: int) -> list[Tensor]:
    each = fixed(bias.shape)[0] // count
    return [bias[i * each : (i + 1) * each] for i in range(count)]


def _parts(packed: Tensor, count: int, biases: Sequence[Tensor] = ()) -> list[Tensor]:
    """(batch, length, heads, count, features) as (batch, heads, length, features) each."""
    apart = [packed[:, :, :, i] for i in range(count)]
    if biases:
        apart = [x + tb.reshape(b, x.shape[2:]) for x, b in zip(apart, biases, strict=True)]
    return [tb.permute_dims(x, (0, 2, 1, 3)) for x in apart]
