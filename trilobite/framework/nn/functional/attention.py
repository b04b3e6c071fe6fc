"""Attention between tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.base.errors import ArgumentError, DTypeError, ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.autocast import operands
from trilobite.framework.nn.composites import attention as c
from trilobite.framework.nn.composites.arithmetic import check_real, floating, mul, reshape
from trilobite.framework.nn.functional.calling import run
from trilobite.framework.nn.functional.dropout import parts
from trilobite.framework.ops.meeting import broadcast_shapes, broadcast_to, common
from trilobite.framework.random import next_key
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query·keyᵀ·scale + mask)·value over (..., heads, length, features).

    A boolean mask says True where attending is allowed; a float mask is added. With enable_gqa, query heads
    share key heads.
    """
    if is_causal and attn_mask is not None:
        raise ArgumentError(
            "scaled_dot_product_attention with is_causal and attn_mask",
            where=user_location(),
            expected="one of them",
        )
    return run(
        _attention, query, key, value, *([] if attn_mask is None else [attn_mask]), *_dropout_key(dropout_p),
        masked=attn_mask is not None, p=float(dropout_p), causal=is_causal, scale=scale, shared=enable_gqa,
    )  # fmt: skip


def _dropout_key(p: float) -> list[Tensor]:
    if not 0 <= p <= 1:
        raise ArgumentError(
            f"attention with dropout_p = {p}", where=user_location(), expected="0 <= dropout_p <= 1"
        )
    if p > 0 and parts.get():
        raise ArgumentError(
            f"attention with dropout_p = {p} on a part of a batch",
            where=user_location(),
            expected="dropout whose mask has the shape of a tensor, of which a rank takes its part",
            remedy="softmax(q @ k.mT), nn.functional.dropout of it, and the product with v",
        )
    return [wrap(next_key())] if p > 0 else []


def _attention(
    q: Value,
    k: Value,
    v: Value,
    *extra: Value,
    masked: bool,
    p: float,
    causal: bool,
    scale: float | None,
    shared: bool,
) -> Value:
    q, k, v = map(floating, common(*operands("attention", q, k, v)))
    check_real("attention", q, k, v)
    _check(q, k, v, shared)
    if masked and extra[0].dtype != dt.bool_ and not dt.is_float(extra[0].dtype):
        raise DTypeError(
            f"an attention mask of {extra[0].dtype}", where=user_location(), expected="booleans or floats"
        )
    flat = q.ndim == 2  # no heads
    q, k, v = ((reshape(x, shape=(1, *x.shape)) if flat else x) for x in (q, k, v))
    lead = broadcast_shapes(q.shape[:-3], k.shape[:-3], v.shape[:-3])
    heads = (q.shape[-3], k.shape[-3], v.shape[-3]) if shared else broadcast_heads(q, k, v)
    q, k, v = (broadcast_to(x, (*lead, n, *x.shape[-2:])) for x, n in zip((q, k, v), heads, strict=True))
    factor = 1.0 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    out = c.attention(q, k, v, *extra, scale=factor, causal=causal, masked=masked, p=p)
    return reshape(out, shape=out.shape[1:]) if flat else out


def broadcast_heads(q: Value, k: Value, v: Value) -> tuple[Any, ...]:
    heads = broadcast_shapes((q.shape[-3],), (k.shape[-3],), (v.shape[-3],))[0]
    return (heads,) * 3


def _check(q: Value, k: Value, v: Value, shared: bool) -> None:
    shapes = f"query {tuple(q.shape)}, key {tuple(k.shape)}, value {tuple(v.shape)}"
    if min(q.ndim, k.ndim, v.ndim) < 2 or (2 in (q.ndim, k.ndim, v.ndim) and not q.ndim == k.ndim == v.ndim):
        raise ShapeError(
            f"attention of {shapes}", where=user_location(), expected="(..., heads, length, features)"
        )
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ShapeError(
            f"attention of {shapes}",
            where=user_location(),
            expected="as many features in queries as in keys, as many keys as values",
        )
    if shared and q.ndim > 2 and (k.shape[-3] != v.shape[-3] or q.shape[-3] % k.shape[-3]):
        raise ShapeError(
            f"attention of {shapes} with enable_gqa",
            where=user_location(),
            expected="as many key heads as value heads, and a multiple of them in queries",
        )


# -- positions as angles -------------------------------------------------------------------------------------


def rotary_angles(positions: Value, features: int, base: float, dtype: dt.DType) -> tuple[Value, Value]:
    """Cosines and sines of position·base^(-2i/features), (..., features/2)."""
    rates = (base ** (-np.arange(0, features, 2, dtype=np.float64) / features)).astype(dtype)
    where = reshape(table["cast"](positions, dtype=dtype), shape=(*positions.shape, 1))
    angles = mul(where, rates)
    return table["cos"](angles), table["sin"](angles)


def rotary_embedding(
    input: Tensor, positions: Tensor | None = None, base: float = 10000.0, interleaved: bool = False
) -> Tensor:
    """(..., length, features) with pairs of features turned by an angle that grows with the position.

    Positions count from 0 unless given, as integers of a shape that broadcasts to (..., length).
    """
    if input.ndim < 2 or input.shape[-1] % 2:
        raise ShapeError(
            f"rotary_embedding of shape {tuple(input.shape)}",
            where=user_location(),
            expected="(..., length, features) with an even number of features",
        )
    return run(_rotary, input, positions, base=float(base), interleaved=interleaved)


def _rotary(x: Value, positions: Value | None = None, *, base: float, interleaved: bool) -> Value:
    x = floating(x)
    if positions is None:
        positions = table["iota"](shape=(x.shape[-2],), dtype=dt.int64, axis=0)
    cos, sin = rotary_angles(positions, int(x.shape[-1]), base, dt.accumulator(x.dtype))
    return c.rotary(x, cos, sin, interleaved=interleaved)
