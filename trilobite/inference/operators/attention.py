"""Attention and what surrounds it: rotary positions, recurrent attention, causal convolution."""

from __future__ import annotations

import math
from typing import Any

import trilobite as tb
from trilobite.framework.nn import functional as F
from trilobite.framework.tensor import Tensor
from trilobite.inference.model import Node
from trilobite.inference.operators.primitives import primitive
from trilobite.inference.operators.registry import operator
from trilobite.inference.operators.shaping import fixed, reshaped
from trilobite.inference.tensors import DTYPES


def heads_apart(x: Tensor, heads: int) -> Tensor:
    """(batch, length, heads·features) as (batch, heads, length, features)."""
    split = reshaped(x, (x.shape[0], x.shape[1], heads, x.shape[2] // heads))
    return tb.permute_dims(split, (0, 2, 1, 3))


def heads_joined(x: Tensor) -> Tensor:
    """The way back."""
    moved = tb.permute_dims(x, (0, 2, 1, 3))
    return reshaped(moved, (moved.shape[0], moved.shape[1], moved.shape[2] * moved.shape[3]))


@operator("Attention", since=23)
def attention(
    node: Node, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, past_k: Tensor | None = None,
    past_v: Tensor | None = None, lengths: Tensor | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """Scaled dot products, with a cache in front of keys and values if given."""
    packed = q.ndim == 3
    if packed:
        heads, shared = node.attributes["q_num_heads"], node.attributes["kv_num_heads"]
        q, k, v = heads_apart(q, heads), heads_apart(k, shared), heads_apart(v, shared)
    if past_k is not None and past_v is not None:
        k, v = tb.concat([past_k, k], axis=2), tb.concat([past_v, v], axis=2)
    scale = node.attribute("scale") or 1 / math.sqrt(q.shape[-1])
    scores_wanted = len(node.outputs) > 3 and bool(node.outputs[3])
    causal = bool(node.attribute("is_causal", 0)) and past_k is None and lengths is None and mask is None
    causal = (
        causal and max(node.attribute("left_window_size", -1), node.attribute("right_window_size", -1)) < 0
    )
    bias = _bias(node, q, k, mask, past_k, lengths, skip_causal=causal and not scores_wanted)
    if scores_wanted or node.attribute("softcap", 0.0):
        out, scores = _written_out(node, q, k, v, bias, scale, causal and not scores_wanted)
    else:
        grouped = q.shape[1] != k.shape[1]
        out = F.scaled_dot_product_attention(q, k, v, bias, 0.0, causal, scale, grouped)
        scores = None
    return (heads_joined(out) if packed else out), k, v, scores


def _bias(
    node: Node, q: Tensor, k: Tensor, mask: Any, past: Any, lengths: Any, skip_causal: bool
) -> Tensor | None:
    """What may be attended to: a choice if all that limits it is one, else numbers to add to the scores."""
    rows, columns = q.shape[2], k.shape[2]
    if mask is not None and mask.shape[-1] != columns:
        missing = columns - mask.shape[-1]
        fill = False if mask.dtype == tb.bool else -math.inf
        high = (*[0] * (mask.ndim - 1), missing)
        mask = primitive("pad", mask, low=(0,) * mask.ndim, high=high, between=(0,) * mask.ndim, value=fill)
    limits = _limits(node, rows, columns, past, lengths, skip_causal)
    if limits is None:
        return mask
    if mask is None:
        return limits
    if mask.dtype == tb.bool:
        return tb.logical_and(mask, limits)
    return tb.where(limits, mask, -math.inf).astype(mask.dtype)


def _limits(node: Node, rows: Any, columns: Any, past: Any, lengths: Any, skip_causal: bool) -> Tensor | None:
    """Where causality, windows and padding let a query look."""
    left, right = node.attribute("left_window_size", -1), node.attribute("right_window_size", -1)
    query, key = tb.reshape(tb.arange(rows), (-1, 1)), tb.reshape(tb.arange(columns), (1, -1))
    if past is not None:
        query = query + past.shape[2]
    elif lengths is not None:
        query = query + tb.reshape(lengths.astype(tb.int64) - rows, (-1, 1, 1, 1))
    found: list[Tensor] = []
    if node.attribute("is_causal", 0) and not skip_causal:
        found.append(key <= query)
    if left >= 0:
        found.append(key >= query - left)
    if right >= 0:
        found.append(key <= query + right)
    if lengths is not None:
        found.append(key < tb.reshape(lengths.astype(tb.int64), (-1, 1, 1, 1)))
    if not found:
        return None
    out = found[0]
    for more in found[1:]:
        out = tb.logical_and(out, more)
    return out


def _written_out(
    node: Node, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, scale: float, causal: bool
) -> tuple[Tensor, Tensor]:
    """With the scores in between, which a fourth output may show at any of four stages."""
    if q.shape[1] != k.shape[1]:
        times = fixed(q.shape)[1] // fixed(k.shape)[1]
        k, v = tb.repeat(k, times, axis=1), tb.repeat(v, times, axis=1)
    mode, cap = node.attribute("qk_matmul_output_mode", 0), node.attribute("softcap", 0.0)
    scores = tb.matmul(q * math.sqrt(scale), tb.matrix_transpose(k) * math.sqrt(scale))
    stages = [scores]
    if cap:
        scores = tb.tanh(scores / cap) * cap
    stages.append(scores)
    if causal:
        rows, columns = tb.arange(q.shape[2]), tb.arange(k.shape[2])
        reached = tb.reshape(columns, (1, -1)) <= tb.reshape(rows, (-1, 1))
        scores = tb.where(reached, scores, -math.inf).astype(scores.dtype)
    if bias is not None:
        chosen = bias.dtype == tb.bool
        scores = tb.where(bias, scores, -math.inf).astype(scores.dtype) if chosen else scores + bias
    stages.append(scores)
    wide = scores.astype(DTYPES[node.attribute("softmax_precision", 0) or 1])
    top = tb.max(wide, -1, keepdims=True)
    e = tb.exp(wide - tb.where(tb.isfinite(top), top, 0.0))
    total = tb.sum(e, -1, keepdims=True)
    weights = (e / tb.where(tb.equal(total, 0), 1.0, total)).astype(q.dtype)
    stages.append(weights)
    shown = stages[0] if mode == 0 and not cap else stages[mode if mode else 1]
    return tb.matmul(weights, v), shown.astype(q.dtype)


@operator("RotaryEmbedding", since=23)
def rotary_embedding(
    node: Node, x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None = None
) -> Tensor:
    heads, size = node.attribute("num_heads", 0), node.attribute("rotary_embedding_dim", 0)
    if x.ndim == 4:
        return turned(x, cos, sin, positions, size, node, heads=1)
    split = tb.reshape(x, (x.shape[0], x.shape[1], heads, x.shape[2] // heads))
    return tb.reshape(turned(split, cos, sin, positions, size, node), x.shape)


def turned(
    x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor | None, size: int, node: Node, heads: int = 2
) -> Tensor:
    """(batch, length, heads, features) with pairs of the first features turned by the angles of positions;
    or heads before the length.
    """
    size = size or x.shape[-1]  # type: ignore[assignment]
    if positions is not None:
        cos, sin = (primitive("gather", c, positions.astype(tb.int64), axis=0) for c in (cos, sin))
    cos, sin = (tb.expand_dims(c, axis=heads) for c in (cos, sin))
    part, rest = x[..., :size], x[..., size:]
    if node.attribute("interleaved", 0):
        a, b = part[..., 0::2], part[..., 1::2]
        both = tb.stack([cos * a - sin * b, sin * a + cos * b], axis=-1)
        out = tb.reshape(both, part.shape)
    else:
        a, b = part[..., : size // 2], part[..., size // 2 :]
        out = tb.concat([cos * a - sin * b, sin * a + cos * b], axis=-1)
    return tb.concat([out, rest], axis=-1) if rest.shape[-1] else out


@operator("LinearAttention", since=27)
def linear_attention(
    node: Node, q: Tensor, k: Tensor, v: Tensor, past: Tensor | None = None, decay: Tensor | None = None,
    beta: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """A state S of keys by values per head, carried along the sequence: written with k and v, read with q."""
    heads, shared = node.attributes["q_num_heads"], node.attributes["kv_num_heads"]
    rule = node.attribute("update_rule", "gated_delta")
    dtype, (batch, length) = q.dtype, q.shape[:2]

    def by_time(x: Tensor, n: int) -> Tensor:
        split = tb.reshape(x.astype(tb.float32), (batch, length, n, x.shape[2] // n))
        return tb.permute_dims(split, (1, 0, 2, 3))

    rows = {"q": by_time(q, heads), "k": by_time(k, shared), "v": by_time(v, shared)}
    if decay is not None and "gated" in rule:
        rows["decay"] = tb.exp(by_time(decay, shared))
    if beta is not None and "delta" in rule:
        rows["beta"] = by_time(beta, beta.shape[2])  # type: ignore[arg-type]
    if heads < shared:  # several values share a query
        rows["q"] = tb.repeat(rows["q"], shared // heads, axis=2)
    features = rows["k"].shape[-1]
    scale = node.attribute("scale", 0.0) or 1 / math.sqrt(features)
    first = tb.zeros((batch, shared, features, rows["v"].shape[-1])) if past is None else past

    def step(state: Tensor, row: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        write = row["v"]
        if "decay" in row:
            state = state * tb.expand_dims(row["decay"], axis=-1)
        if "beta" in row:
            write = row["beta"] * (write - tb.einsum("bhdm,bhd->bhm", state, row["k"]))
        state = state + tb.expand_dims(row["k"], axis=-1) * tb.expand_dims(write, axis=-2)
        seen = state if heads <= shared else tb.repeat(state, heads // shared, axis=1)
        return state, tb.einsum("bhd,bhdm->bhm", row["q"], seen) * scale

    last, out = tb.scan(step, first.astype(tb.float32), rows)
    joined = tb.reshape(
        tb.permute_dims(out, (1, 0, 2, 3)), (batch, length, max(heads, shared) * out.shape[-1])
    )
    return joined.astype(dtype), last.astype(dtype if past is None else past.dtype)


@operator("CausalConvWithState", since=27)
def causal_conv_with_state(
    node: Node, x: Tensor, w: Tensor, bias: Tensor | None = None, past: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Each channel with its own kernel, over the past and the present."""
    reach = w.shape[2] - 1
    before = tb.zeros((x.shape[0], x.shape[1], reach), dtype=x.dtype) if past is None else past
    joined = tb.concat([before, x], axis=2)
    out = F.conv1d(joined, w, bias, groups=x.shape[1])  # type: ignore[arg-type]
    if node.attribute("activation", "none") in ("silu", "swish"):
        out = F.silu(out)
    return out, joined[:, :, joined.shape[2] - reach :]


@operator("FlexAttention", domain="ai.onnx.preview")
def flex_attention(node: Node, q: Tensor, k: Tensor, v: Tensor, *outer: Tensor) -> Tensor:
    """Attention with graphs that change scores and weights."""
    from trilobite.inference.program.inline import inlined

    if q.shape[1] != k.shape[1]:
        times = fixed(q.shape)[1] // fixed(k.shape)[1]
        k, v = tb.repeat(k, times, axis=1), tb.repeat(v, times, axis=1)
    precise = DTYPES[node.attribute("softmax_precision", 0) or (11 if q.dtype == tb.float64 else 1)]
    scale = node.attribute("scale") or 1 / math.sqrt(q.shape[-1])
    scores = (tb.matmul(q, tb.matrix_transpose(k)) * scale).astype(precise)
    scores = inlined(node, "score_mod", outer, scores)
    weights = inlined(node, "prob_mod", outer, tb.softmax(scores, -1))
    return tb.matmul(weights.astype(q.dtype), v)
