"""Attention over values: scores, a softmax that is 0 where everything is masked, a weighted sum.

Scores are kept wide. Axes are (..., heads, length, features). Several query heads may share one key and value
head: they count as further rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trilobite.base import dtypes as dt
from trilobite.framework.nn.composites.arithmetic import (
    add,
    div,
    eq,
    exp,
    ge,
    largest,
    log,
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
    """The last axis of x with axis `at` of y's matrices; all axes of y before these are mapped over."""
    lead = tuple(range(y.ndim - 2))
    return table["dot"](x, y, contract=((x.ndim - 1,), (y.ndim - 2 + at,)), batch=(lead, lead), dtype=dtype)


def _grouped(x: Value, heads: Any) -> Value:
    """Heads that share a key head on an axis of their own behind it; x itself if none do."""
    *lead, n, rows, columns = x.shape
    return x if n == heads else reshape(x, shape=(*lead, heads, n // heads, rows, columns))


def _grouped_mask(mask: Value, heads: Any, grouped: bool) -> Value:
    if not grouped or mask.ndim < 3:
        return mask
    if mask.shape[-3] != 1:
        return _grouped(mask, heads)
    shape, at = (*mask.shape[:-2], 1, *mask.shape[-2:]), mask.ndim - 2
    return table["broadcast"](mask, shape=shape, axes=(*range(at), at + 1, at + 2))


def _scores(q: Value, k: Value, mask: Value | None, scale: float, causal: bool) -> Value:
    """q·kᵀ·scale + mask, (..., heads, queries, keys), -inf where nothing may be attended to.

    Query heads that share a key head stay apart from it, as `_grouped` has them.
    """
    wide_dtype, heads = dt.accumulator(q.dtype), k.shape[-3]
    scores = mul(_product(_grouped(q, heads), k, 1, wide_dtype), scale)
    if causal:
        plane = {"shape": (q.shape[-2], k.shape[-2]), "dtype": dt.int64}
        reached = ge(table["iota"](axis=0, **plane), table["iota"](axis=1, **plane))
        scores = where(reached, scores, float("-inf"))
    if mask is not None:
        mask = _grouped_mask(mask, heads, q.shape[-3] != heads)
        is_choice = mask.dtype == dt.bool_
        scores = where(mask, scores, float("-inf")) if is_choice else add(scores, astype(mask, wide_dtype))
    return scores


def _softmax(scores: Value) -> tuple[Value, Value]:
    """Weights along the last axis, 0 in rows where all is masked; and log(sum(exp)), inf in those rows."""
    axis = scores.ndim - 1
    top = stop_gradient(largest(scores, (axis,), keepdims=True))
    top = where(table["is_finite"](top), top, 0.0)
    e = exp(sub(scores, top))
    below = total(e, (axis,), keepdims=True)
    nothing = eq(below, 0.0)
    below = where(nothing, 1.0, below)
    return div(e, below), where(nothing, float("inf"), add(top, log(below)))


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
    """How much each query attends to each key. `extra`: the mask if any, then the key for dropout if any."""
    mask, key = _split(extra, masked)
    weights = astype(_dropped(_softmax(_scores(q, k, mask, scale, causal))[0], key, p), q.dtype)
    return weights if weights.ndim == q.ndim else reshape(weights, shape=(*q.shape[:-1], k.shape[-2]))


def _attention(
    q: Value, k: Value, v: Value, *extra: Value, scale: float, causal: bool, masked: bool, p: float
) -> Value:
    """The values that queries attend to."""
    return _forward(q, k, v, *extra, scale=scale, causal=causal, masked=masked, p=p)[0]


def _forward(
    q: Value, k: Value, v: Value, *extra: Value, scale: float, causal: bool, masked: bool, p: float
) -> tuple[Value, tuple[Value, ...]]:
    """What is kept is as long as the queries: the weights are computed again."""
    mask, key = _split(extra, masked)
    weights, below = _softmax(_scores(q, k, mask, scale, causal))
    out = _product(astype(_dropped(weights, key, p), v.dtype), v, 0, v.dtype)
    out = out if out.ndim == q.ndim else reshape(out, shape=(*q.shape[:-1], v.shape[-1]))
    return out, (q, k, v, *extra, out, below)


def _backward(
    kept: Sequence[Value], cts: Sequence[Value], *, scale: float, causal: bool, masked: bool, p: float
) -> list[Value | None]:
    q, k, v, *extra, out, below = kept
    mask, key = _split(tuple(extra), masked)
    heads, wide_dtype = k.shape[-3], dt.accumulator(q.dtype)
    g = _grouped(cts[0], heads)
    scores = _scores(q, k, mask, scale, causal)
    weights = exp(sub(scores, below))
    to_weights = _dropped(_product(g, v, 1, wide_dtype), key, p)
    mean = total(mul(wide(g), wide(_grouped(out, heads))), (g.ndim - 1,), keepdims=True)
    to_scores = mul(weights, sub(to_weights, mean))
    slopes: list[Value | None] = []
    if mask is not None:
        slopes.append(_summed_like(to_scores, mask, q) if dt.is_inexact(mask.dtype) else None)
    slopes += [None] * (len(extra) - len(slopes))
    to_products = astype(mul(to_scores, scale), q.dtype)
    dq = _product(to_products, k, 0, q.dtype)
    dq = dq if dq.ndim == q.ndim else reshape(dq, shape=q.shape)
    shared = q.shape[-3] != heads
    dk = _over_queries(to_products, _grouped(q, heads), shared, k.dtype)
    dv = _over_queries(astype(_dropped(weights, key, p), v.dtype), g, shared, v.dtype)
    return [dq, dk, dv, *slopes]


def _over_queries(x: Value, y: Value, shared: bool, dtype: dt.DType) -> Value:
    """x[..., queries, keys] with y[..., queries, features] to (..., keys, features); query heads that share a
    key head are summed over with the queries.
    """
    summed = (x.ndim - 3, x.ndim - 2) if shared else (x.ndim - 2,)
    lead = tuple(range(x.ndim - 1 - len(summed)))
    return table["dot"](x, y, contract=(summed, summed), batch=(lead, lead), dtype=dtype)


def _summed_like(x: Value, mask: Value, q: Value) -> Value:
    """Slopes of scores, summed over the axes that the mask repeats along."""
    if x.ndim != q.ndim:
        x = reshape(x, shape=(*q.shape[:-1], x.shape[-1]))
    lead = x.ndim - mask.ndim
    axes = [*range(lead), *(lead + a for a, d in enumerate(mask.shape) if d == 1 and x.shape[lead + a] != 1)]
    return astype(reshape(total(x, tuple(axes)) if axes else x, shape=mask.shape), mask.dtype)


attention = composite("attention", _forward, _backward)(_attention)


def weighted(weights: Value, v: Value) -> Value:
    """Sums of values by weights (..., query heads, queries, keys)."""
    out = _product(_grouped(weights, v.shape[-3]), v, 0, v.dtype)
    return out if out.ndim == weights.ndim else reshape(out, shape=(*weights.shape[:-1], v.shape[-1]))


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
