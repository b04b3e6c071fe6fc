"""Attention over values: scores, a softmax that is 0 where everything is masked, a weighted sum.

Scores are kept wide. Axes are (..., heads, length, features). Several query heads may share one key and value
head: they count as further rows.
"""

from __future__ import annotations

from typing import Any

from trilobite.base import dtypes as dt
from trilobite.framework.nn.composites.arithmetic import (
    add,
    div,
    eq,
    exp,
    ge,
    largest,
    mul,
    reshape,
    stop_gradient,
    sub,
    total,
    where,
    wide,
    window,
)
from trilobite.framework.nn.composites.dropout import kept
from trilobite.framework.ops.meeting import astype
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms.composite import composite


def _product(x: Value, y: Value, at: int, dtype: dt.DType) -> Value:
    """Matrices over the leading axes: the last axis of x with axis `at` of y's matrices."""
    lead = tuple(range(x.ndim - 2))
    return table["dot"](x, y, contract=((x.ndim - 1,), (x.ndim - 2 + at,)), batch=(lead, lead), dtype=dtype)


def _grouped(x: Value, heads: Any) -> Value:
    """Query heads that share a key head, as rows of one matrix."""
    *lead, n, length, features = x.shape
    return x if n == heads else reshape(x, shape=(*lead, heads, n // heads * length, features))


def _weights(q: Value, k: Value, mask: Value | None, scale: float, causal: bool) -> Value:
    """softmax(q·kᵀ·scale + mask), (..., query heads, queries, keys); rows in which all is masked are 0."""
    wide_dtype = dt.accumulator(q.dtype)
    scores = _product(_grouped(q, k.shape[-3]), k, 1, wide_dtype)
    scores = mul(reshape(scores, shape=(*q.shape[:-1], k.shape[-2])), scale)
    if causal:
        plane = {"shape": (q.shape[-2], k.shape[-2]), "dtype": dt.int64}
        scores = where(
            ge(table["iota"](axis=0, **plane), table["iota"](axis=1, **plane)), scores, float("-inf")
        )
    if mask is not None:
        masked = mask.dtype == dt.bool_
        scores = where(mask, scores, float("-inf")) if masked else add(scores, astype(mask, wide_dtype))
    axis = scores.ndim - 1
    top = stop_gradient(largest(scores, (axis,), keepdims=True))
    e = exp(sub(scores, where(table["is_finite"](top), top, 0.0)))
    below = total(e, (axis,), keepdims=True)
    return div(e, where(eq(below, 0.0), 1.0, below))


def _dropped(weights: Value, key: Value | None, p: float) -> Value:
    if key is None:
        return weights
    return (
        where(kept(key, weights.shape, p), mul(weights, 1.0 / (1.0 - p)), 0.0) if p < 1 else mul(weights, 0.0)
    )


def _split(extra: tuple[Value, ...], masked: bool) -> tuple[Value | None, Value | None]:
    mask = extra[0] if masked else None
    key = extra[-1] if len(extra) > masked else None
    return mask, key


@composite("attention_weights")
def attention_weights(
    q: Value, k: Value, *extra: Value, scale: float, causal: bool, masked: bool, p: float
) -> Value:
    """How much each query attends to each key. `extra`: the mask if there is one, then the key for dropout if
    any.
    """
    mask, key = _split(extra, masked)
    return astype(_dropped(_weights(q, k, mask, scale, causal), key, p), q.dtype)


@composite("attention")
def attention(
    q: Value, k: Value, v: Value, *extra: Value, scale: float, causal: bool, masked: bool, p: float
) -> Value:
    """The values that queries attend to."""
    mask, key = _split(extra, masked)
    weights = _dropped(_weights(q, k, mask, scale, causal), key, p)
    return weighted(astype(weights, v.dtype), v)


def weighted(weights: Value, v: Value) -> Value:
    """Sums of values by weights."""
    out = _product(_grouped(weights, v.shape[-3]), v, 0, v.dtype)
    return reshape(out, shape=(*weights.shape[:-1], v.shape[-1]))


@composite("rotary")
def rotary(x: Value, cos: Value, sin: Value, interleaved: bool) -> Value:
    """Pairs of features turned by an angle per position: (i, i + half), or neighbours if interleaved."""
    w, last = wide(x), x.ndim - 1
    half = x.shape[-1] // 2
    c, s = wide(cos), wide(sin)
    if interleaved:
        pairs = reshape(w, shape=(*x.shape[:-1], half, 2))
        a, b = (reshape(window(pairs, last + 1, i, i + 1), shape=(*x.shape[:-1], half)) for i in (0, 1))
        turned = [
            reshape(t, shape=(*t.shape, 1)) for t in (sub(mul(a, c), mul(b, s)), add(mul(b, c), mul(a, s)))
        ]
        return astype(reshape(table["concatenate"](*turned, axis=last + 1), shape=x.shape), x.dtype)
    a, b = window(w, last, 0, half), window(w, last, half, x.shape[-1])
    return astype(
        table["concatenate"](sub(mul(a, c), mul(b, s)), add(mul(b, c), mul(a, s)), axis=last), x.dtype
    )
