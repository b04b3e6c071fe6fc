"""Attention whose query heads share keys, over a cache that rows of a batch fill to different lengths."""

from __future__ import annotations

from typing import Any

import numpy as np

import trilobite as tb
from trilobite.framework.tensor import Tensor
from trilobite.inference.model import Node
from trilobite.inference.operators.attention import heads_apart, heads_joined, turned
from trilobite.inference.operators.microsoft.fused import MS
from trilobite.inference.operators.microsoft.masks import attended, both, head_scale, scores, weights
from trilobite.inference.operators.normalising import rms
from trilobite.inference.operators.primitives import primitive
from trilobite.inference.operators.registry import only, operator
from trilobite.inference.operators.shaping import fixed

Array = np.ndarray[Any, Any]
_LIMIT = only(
    12, 13, k_quant_type="NONE", v_quant_type="NONE", sliding_window_cache=0
)  # caches of less than 16 bits, and those that forget


@operator("GroupQueryAttention", domain=MS, known=(6,), limit=_LIMIT)
def group_query_attention(
    node: Node, q: Tensor, k: Tensor | None, v: Tensor | None, past_k: Tensor | None, past_v: Tensor | None,
    lengths: Tensor, total: Array, cos: Tensor | None = None, sin: Tensor | None = None,
    positions: Tensor | None = None, added: Tensor | None = None, sink: Tensor | None = None,
    k_scale: Any = None, v_scale: Any = None, q_norm: Tensor | None = None, k_norm: Tensor | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """Causal attention with a cache: new keys and values stand behind those of each row so far."""
    heads, shared = node.attributes["num_heads"], node.attributes["kv_num_heads"]
    q, k, v = _grouped(q, k, v, heads, shared)
    new, whole = q.shape[2], int(total.reshape(()))
    ends = tb.reshape(lengths.astype(tb.int64), (-1, 1)) + 1
    before = tb.zeros_like(ends) if new == whole else ends - new  # of a prompt, short rows are padded behind
    if q_norm is not None and k_norm is not None:
        epsilon = node.attribute("qk_norm_epsilon", 1e-6)
        q, k = rms(q, q_norm, epsilon)[0], rms(k, k_norm, epsilon)[0]
    if node.attribute("do_rotary", 0) and cos is not None and sin is not None:
        at = _places(before, new, positions, new == whole)
        how = Node("RotaryEmbedding", (), (), {"interleaved": node.attribute("rotary_interleaved", 0)})
        q, k = (_turned(x, cos, sin, at, how) for x in (q, k))
    room = max(whole, 0 if past_k is None else fixed(past_k.shape)[2])
    keys, values = (_appended(p, n, before, room) for p, n in ((past_k, k), (past_v, v)))
    limits = both(_seen(node, before, ends, new, room), _wide(added, room))
    if sink is None and node.attribute("smooth_softmax", 0) == 1:
        sink = tb.zeros((heads,), dtype=q.dtype)
    scale, cap = head_scale(node, q.shape[-1]), node.attribute("softcap", 0.0)
    out = attended(q, keys, values, limits, scale, cap, sink)
    return heads_joined(out), keys, values, _shown(node, q, keys, limits, sink, whole)


def _places(before: Tensor, new: Any, positions: Tensor | None, prompt: bool) -> Tensor:
    """One per token; those of a prompt are counted on from the first that is given."""
    along = tb.reshape(tb.arange(new), (1, -1))
    if positions is None:
        return before + along
    if prompt:
        return tb.zeros_like(before) + tb.reshape(positions, (-1,))[0] + along
    return positions


def _shown(
    node: Node, q: Tensor, keys: Tensor, limits: Tensor | None, sink: Tensor | None, whole: int
) -> Tensor | None:
    """The scores that a fourth output asks for, before the softmax or after it."""
    kind = node.attribute("qk_output", 0)
    if not kind or len(node.outputs) < 4 or not node.outputs[3]:
        return None
    found = scores(q, keys, limits, head_scale(node, q.shape[-1]), node.attribute("softcap", 0.0))
    if kind == 2 and sink is not None:
        last = tb.broadcast_to(tb.reshape(sink, (1, -1, 1, 1)), (*found.shape[:3], 1)).astype(found.dtype)
        found = tb.concat([found, last], axis=-1)
    shown = weights(found) if kind == 2 else tb.where(tb.isfinite(found), found, 0.0)
    return shown[..., :whole].astype(q.dtype)


def _seen(node: Node, before: Tensor, ends: Tensor, new: Any, room: int) -> Tensor:
    """Which keys a query may see: those that are there, not behind it, and within its window."""
    key = tb.arange(room)
    seen = key < tb.reshape(ends, (-1, 1, 1, 1))
    query = tb.reshape(before, (-1, 1, 1, 1)) + tb.reshape(tb.arange(new), (-1, 1))
    if node.attribute("causal", 1):
        seen = tb.logical_and(seen, key <= query)
    window = node.attribute("local_window_size", -1)
    return tb.logical_and(seen, key > query - window) if window > 0 else seen


def _wide(added: Tensor | None, room: int) -> Tensor | None:
    """Numbers for all places of the cache."""
    if added is None or added.shape[-1] == room:
        return added
    high = (0, 0, 0, room - fixed(added.shape)[3])
    return primitive("pad", added, low=(0,) * 4, high=high, between=(0,) * 4, value=0.0)


def _grouped(q: Tensor, k: Any, v: Any, heads: int, shared: int) -> tuple[Tensor, Tensor, Tensor]:
    if k is not None:
        return heads_apart(q, heads), heads_apart(k, shared), heads_apart(v, shared)
    each = fixed(q.shape)[2] // (heads + 2 * shared)
    a, b = heads * each, (heads + shared) * each
    return heads_apart(q[..., :a], heads), heads_apart(q[..., a:b], shared), heads_apart(q[..., b:], shared)


def _turned(x: Tensor, cos: Tensor, sin: Tensor, at: Tensor, node: Node) -> Tensor:
    return turned(x, cos, sin, at, 2 * fixed(cos.shape)[1], node, heads=1)


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
