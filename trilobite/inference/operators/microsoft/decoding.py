"""Attention of one new token over a cache, as decoders with beams write it; and repeated words."""

from __future__ import annotations

from typing import Any

import numpy as np

import trilobite as tb
from trilobite.framework.tensor import Tensor
from trilobite.inference.model import Node
from trilobite.inference.operators.attention import heads_apart, heads_joined
from trilobite.inference.operators.microsoft.fused import MS
from trilobite.inference.operators.microsoft.masks import attended, both, head_scale, padding, scores
from trilobite.inference.operators.primitives import primitive
from trilobite.inference.operators.registry import operator
from trilobite.inference.operators.shaping import fixed

Array = np.ndarray[Any, Any]


@operator("DecoderMaskedMultiHeadAttention", domain=MS, known=(7, 8))
def decoder_masked_attention(
    node: Node, q: Tensor, k: Tensor | None = None, v: Tensor | None = None, mask: Tensor | None = None,
    added: Tensor | None = None, past_k: Tensor | None = None, past_v: Tensor | None = None,
    filled: Array | None = None, beams: Array | None = None, came_from: Tensor | None = None,
    bias: Tensor | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """Keys and values of other attention (4 axes), or of this token behind those of the cache."""
    heads = node.attributes["num_heads"]
    q, k, v = _operands(q, k, v, bias, heads)
    shared = bool(node.attribute("past_present_share_buffer", 0))
    if past_k is not None and past_v is not None:
        length = fixed(past_k.shape)[2] if filled is None or not shared else int(filled.reshape(()))
        k, v = (_behind(p, x, length, shared) for p, x in ((past_k, k), (past_v, v)))
        seen_k, seen_v = k[:, :, : length + 1], v[:, :, : length + 1]
    else:
        seen_k, seen_v = k, v
    if came_from is not None:
        width = 1 if beams is None else int(beams.reshape(()))
        seen_k, seen_v = (_of_beams(x, came_from, width) for x in (seen_k, seen_v))
    limits = both(padding(node, mask, q, seen_k.shape[2]), added)
    scale = head_scale(node, q.shape[-1])
    wanted = len(node.outputs) > 3 and bool(node.outputs[3])
    shown = scores(q, seen_k, limits, scale).astype(q.dtype) if wanted else None
    return heads_joined(attended(q, seen_k, seen_v, limits, scale)), k, v, shown


def _operands(
    q: Tensor, k: Tensor | None, v: Tensor | None, bias: Tensor | None, heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """(batch, heads, length, features) each; packed ones side by side."""
    if k is None or v is None:
        each = fixed(q.shape)[2] // 3
        q = q if bias is None else q + bias
        parts = [heads_apart(q[..., i * each : (i + 1) * each], heads) for i in range(3)]
        return parts[0], parts[1], parts[2]
    width = fixed(q.shape)[2]
    if bias is not None:
        q = q + bias[:width]
    if k.ndim == 4:
        return heads_apart(q, heads), k, v
    if bias is not None:
        split = width + fixed(k.shape)[2]
        k, v = k + bias[width:split], v + bias[split:]
    return heads_apart(q, heads), heads_apart(k, heads), heads_apart(v, heads)


def _behind(past: Tensor, new: Tensor, length: int, shared: bool) -> Tensor:
    """The cache with the new token: one place longer, or written into its room."""
    if not shared:
        return tb.concat([past, new], axis=2)
    at = tb.full(tuple(new.shape), length, dtype=tb.int64)
    return primitive("scatter_along", past, at, new, axis=2, kind="set")


def _of_beams(cache: Tensor, came_from: Tensor, width: int) -> Tensor:
    """Each token's row from the beam that it came from; (batch, beams, places) says which."""
    rows, length = fixed(cache.shape)[0], fixed(cache.shape)[2]
    beam = tb.reshape(came_from[:, :, : length - 1].astype(tb.int64), (rows, length - 1))
    first = tb.reshape(tb.arange(rows) // width * width, (-1, 1))
    own = tb.reshape(tb.arange(rows), (-1, 1))
    at = tb.reshape(tb.concat([first + beam, own], axis=1), (rows, 1, length, 1))
    return primitive("take_along", cache, tb.broadcast_to(at, cache.shape), axis=0)


@operator("NGramRepeatBlock", domain=MS, host=True, gives="numbers")
def ngram_repeat_block(node: Node, ids: Array, scores: Array) -> Array:
    """Words that would repeat a run of `ngram_size` words get the score -inf."""
    size, out = node.attributes["ngram_size"], scores.copy()
    for row, sentence in zip(out, ids.tolist(), strict=True):
        last = sentence[len(sentence) - size + 1 :]
        for i in range(len(sentence) - size + 1):
            if sentence[i : i + size - 1] == last:
                row[sentence[i + size - 1]] = -np.inf
    return out
