"""Multi-head attention as one function of its weights, as PyTorch's layer calls it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from trilobite.base import dtypes as dt
from trilobite.base.errors import ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.nn.functional.attention import scaled_dot_product_attention
from trilobite.framework.nn.functional.dropout import dropout
from trilobite.framework.nn.functional.linear import linear
from trilobite.framework.nn.functional.padding import pad
from trilobite.framework.ops.registry import operators
from trilobite.framework.tensor import Tensor


def _op(name: str) -> Any:
    return operators[name].public


def multi_head_attention_forward(
    query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int,
    in_proj_weight: Tensor | None, in_proj_bias: Tensor | None, bias_k: Tensor | None, bias_v: Tensor | None,
    add_zero_attn: bool, dropout_p: float, out_proj_weight: Tensor, out_proj_bias: Tensor | None,
    training: bool = True, key_padding_mask: Tensor | None = None, need_weights: bool = True,
    attn_mask: Tensor | None = None, use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None, k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None, static_k: Tensor | None = None, static_v: Tensor | None = None,
    average_attn_weights: bool = True, is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Queries (length, batch, features) attend to keys in several heads; and how much, if need_weights.

    In masks True means "may not attend"; float masks are added. Without a batch axis everywhere, there is
    none in the result.
    """
    single = query.ndim == 2
    if single:
        query, key, value = (x.unsqueeze(1) for x in (query, key, value))
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    shape: Any = query.shape
    length, batch, features = shape
    if features != embed_dim_to_check or features % num_heads:
        raise ShapeError(
            f"multi_head_attention_forward of {features} features in {num_heads} heads",
            where=user_location(),
            expected=f"{embed_dim_to_check} features, a multiple of the heads",
        )
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else in_proj_weight
    q, k, v = _projected((query, key, value), weights, in_proj_bias)
    if bias_k is not None and bias_v is not None:
        k, v = (_op("concat")([x, _op("tile")(b, (1, batch, 1))]) for x, b in ((k, bias_k), (v, bias_v)))
    q, k, v = (_in_heads(x, batch, num_heads) for x in (q, k, v))
    k = k if static_k is None else _kept(static_k, batch)
    v = v if static_v is None else _kept(static_v, batch)
    mask = _mask(attn_mask, key_padding_mask, (batch, num_heads, length, key.shape[0]), query.dtype)
    if add_zero_attn:
        k, v = (_op("concat")([x, x.new_zeros((batch, num_heads, 1, x.shape[-1]))], axis=2) for x in (k, v))
    p, causal = dropout_p if training else 0.0, is_causal and attn_mask is None
    out, how = _attend(q, k, v, _grown(mask, k.shape[2]), p, causal, need_weights)
    out = linear(out.permute(2, 0, 1, 3).reshape(length, batch, features), out_proj_weight, out_proj_bias)
    how = how.mean(axis=1) if how is not None and average_attn_weights else how
    if not single:
        return out, how
    return out.squeeze(1), None if how is None else how.squeeze(0)


def _projected(operands: Sequence[Any], weights: Any, bias: Any) -> list[Any]:
    """Queries, keys and values by their weights: three, or one for all in parts."""
    parts = weights.chunk(3) if isinstance(weights, Tensor) else weights
    biases = (None, None, None) if bias is None else bias.chunk(3)
    return [linear(x, w, b) for x, w, b in zip(operands, parts, biases, strict=True)]


def _grown(mask: Any, keys: int) -> Any:
    """Nothing hides keys that were added."""
    if mask is None or mask.shape[-1] == keys:
        return mask
    return pad(mask, (0, keys - mask.shape[-1]))


def _attend(q: Any, k: Any, v: Any, mask: Any, p: float, causal: bool, need_weights: bool) -> tuple[Any, Any]:
    if not need_weights:
        return scaled_dot_product_attention(q, k, v, mask, p, is_causal=causal), None
    scores = q / math.sqrt(q.shape[-1]) @ k.mT
    if causal:
        ahead = _op("ones")((q.shape[2], k.shape[2]), dtype=dt.bool_)
        scores = scores.masked_fill(_op("triu")(ahead, k=1), -math.inf)
    how = _op("softmax")(scores if mask is None else scores + mask, axis=-1)
    how = dropout(how, p) if p else how
    return how @ v, how


def _in_heads(x: Any, batch: int, heads: int) -> Any:
    """(length, batch, features) as (batch, heads, length, features of a head)."""
    return x.reshape(x.shape[0], batch, heads, -1).permute(1, 2, 0, 3)


def _kept(x: Any, batch: int) -> Any:
    """Keys or values that are given: (batch x heads, length, features of a head)."""
    return x.reshape(batch, -1, *x.shape[1:])


def _mask(mask: Any, padding: Any, sizes: tuple[Any, ...], dtype: Any) -> Any:
    """What is added to scores of shape (batch, heads, length, keys), for both masks together."""
    batch, heads, length, keys = sizes
    found = None if mask is None else _added(mask, dtype)
    if found is not None and found.ndim == 3:
        found = found.reshape(batch, heads, length, keys)
    if padding is None:
        return found
    rows = _added(padding, dtype).reshape(batch, 1, 1, keys)
    rows = _op("broadcast_to")(rows, (batch, 1, length, keys))
    return rows if found is None else found + rows


def _added(mask: Any, dtype: Any) -> Any:
    if mask.dtype != dt.bool_:
        return mask.to(dtype)
    return _op("zeros")(tuple(mask.shape), dtype=dtype).masked_fill(mask, -math.inf)
