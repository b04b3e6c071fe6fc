"""Multi-head attention as a layer, with masks, causality, shared key heads and rotary positions."""

from __future__ import annotations

from typing import Any

from trilobite.base import dtypes as dt
from trilobite.base.errors import ArgumentError, ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.nn import functional as F
from trilobite.framework.nn import init
from trilobite.framework.nn.composites import attention as c
from trilobite.framework.nn.composites.arithmetic import add, average, both, join, reshape, transpose, where
from trilobite.framework.nn.functional.attention import _dropout_key
from trilobite.framework.nn.functional.linear import linear_of
from trilobite.framework.nn.layers.linear import Linear
from trilobite.framework.nn.module import Module
from trilobite.framework.nn.parameter import Parameter
from trilobite.framework.nn.settings import check_sizes
from trilobite.framework.ops.creation import zeros
from trilobite.framework.ops.meeting import astype, broadcast_to
from trilobite.framework.ops.registry import read
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table


class RotaryEmbedding(Module):
    """Positions as angles: pairs of features of (..., length, features) turn with the position."""

    def __init__(self, base: float = 10000.0, interleaved: bool = False) -> None:
        self.base, self.interleaved = base, interleaved

    def forward(self, input: Tensor, positions: Tensor | None = None) -> Tensor:
        return F.rotary_embedding(input, positions, self.base, self.interleaved)

    def extra_repr(self) -> str:
        return f"base={self.base}, interleaved={self.interleaved}"


class MultiheadAttention(Module):
    """Queries attend to keys in several heads at once. Names of weights and meaning of masks are PyTorch's.

    Beyond it: num_kv_heads < num_heads lets query heads share key and value heads, rotary=True turns queries
    and keys by their positions. In masks True means "may not attend"; float masks are added.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        num_kv_heads: int | None = None,
        rotary: bool = False,
        rotary_base: float = 10000.0,
        dtype: Any = None,
    ) -> None:
        check_sizes("MultiheadAttention", embed_dim=embed_dim, num_heads=num_heads)
        kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        if embed_dim % num_heads or kv_heads < 1 or num_heads % kv_heads:
            raise ArgumentError(
                f"MultiheadAttention of {embed_dim} features, {num_heads} heads, {kv_heads} key heads",
                where=user_location(),
                expected="heads that divide the features, and key heads that divide the heads",
            )
        self.embed_dim, self.num_heads, self.num_kv_heads = embed_dim, num_heads, kv_heads
        self.head_dim, self.dropout, self.batch_first = embed_dim // num_heads, dropout, batch_first
        self.kdim, self.vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        self.add_zero_attn = add_zero_attn
        self.rotary = RotaryEmbedding(rotary_base) if rotary else None
        self._make(bias, add_bias_kv, dtype)
        self.out_proj = Linear(embed_dim, embed_dim, bias, dtype=dtype)
        self.reset_parameters()

    in_proj_weight: Parameter | None
    q_proj_weight: Parameter | None
    k_proj_weight: Parameter | None
    v_proj_weight: Parameter | None
    in_proj_bias: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None

    def _make(self, bias: bool, add_bias_kv: bool, dtype: Any) -> None:
        e, kv = self.embed_dim, self.num_kv_heads * self.head_dim
        together = self.kdim == e and self.vdim == e
        sizes: dict[str, tuple[int, ...] | None] = {
            "in_proj_weight": (e + 2 * kv, e) if together else None,
            "q_proj_weight": None if together else (e, e),
            "k_proj_weight": None if together else (kv, self.kdim),
            "v_proj_weight": None if together else (kv, self.vdim),
            "in_proj_bias": (e + 2 * kv,) if bias else None,
            "bias_k": (1, 1, kv) if add_bias_kv else None,
            "bias_v": (1, 1, kv) if add_bias_kv else None,
        }
        for name, size in sizes.items():
            self.register_parameter(name, None if size is None else Parameter(zeros(size, dtype=dtype)))

    def _reset_parameters(self) -> None:
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Projections by Xavier, biases 0."""
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                init.xavier_normal_(extra)

    # -- running ---------------------------------------------------------------------------------------------

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """What the queries attend to, and how much, if need_weights (averaged over heads, or per head)."""
        single = query.ndim == 2
        q, k, v = (self._with_batch(read(x), single) for x in (query, key, value))
        self._check(q, k, v)
        shapes = (q.shape[0], q.shape[1], k.shape[1])
        q, k, v = self._project(q, k, v)
        mask = self._mask(attn_mask, key_padding_mask, shapes, query._peek().dtype)
        k, v, mask = self._extended(k, v, mask)
        heads = [
            self._heads(x, n)
            for x, n in ((q, self.num_heads), (k, self.num_kv_heads), (v, self.num_kv_heads))
        ]
        if self.rotary is not None:
            heads[:2] = [self.rotary(wrap(x))._read() for x in heads[:2]]
        out, weights = self._attend(heads, mask, is_causal and attn_mask is None, need_weights)
        out = reshape(transpose(out, axes=(0, 2, 1, 3)), shape=(*shapes[:2], self.embed_dim))
        result = self.out_proj(wrap(self._without_batch(out, single)))
        if weights is not None:
            weights = average(weights, (1,)) if average_attn_weights else weights
            weights = reshape(weights, shape=weights.shape[1:]) if single else weights
        return result, None if weights is None else wrap(weights)

    def _with_batch(self, x: Value, single: bool) -> Value:
        """(batch, length, features), whatever order the user has."""
        if x.ndim != (2 if single else 3):
            raise ShapeError(
                f"MultiheadAttention of an input of shape {tuple(x.shape)}",
                where=user_location(),
                expected="query, key and value all with a batch (3 axes) or all without (2 axes)",
            )
        if single:
            return reshape(x, shape=(1, *x.shape))
        return x if self.batch_first else transpose(x, axes=(1, 0, 2))

    def _without_batch(self, x: Value, single: bool) -> Value:
        if single:
            return reshape(x, shape=x.shape[1:])
        return x if self.batch_first else transpose(x, axes=(1, 0, 2))

    def _check(self, q: Value, k: Value, v: Value) -> None:
        features = (q.shape[2], k.shape[2], v.shape[2])
        if (
            features != (self.embed_dim, self.kdim, self.vdim)
            or k.shape[1] != v.shape[1]
            or q.shape[0] != k.shape[0]
        ):
            raise ShapeError(
                f"MultiheadAttention of {features} features, {k.shape[1]} keys and {v.shape[1]} values",
                where=user_location(),
                expected=f"{(self.embed_dim, self.kdim, self.vdim)} features, one batch, a value per key",
            )

    def _project(self, q: Value, k: Value, v: Value) -> list[Value]:
        e, kv = self.embed_dim, self.num_kv_heads * self.head_dim
        ends = (0, e, e + kv, e + 2 * kv)
        if self.in_proj_weight is not None:
            whole = read(self.in_proj_weight)
            weights = [_rows(whole, ends[i], ends[i + 1]) for i in range(3)]
        else:
            weights = [read(w) for w in (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)]
        biases: list[Any] = [None] * 3
        if self.in_proj_bias is not None:
            biases = [_rows(read(self.in_proj_bias), ends[i], ends[i + 1]) for i in range(3)]
        return [linear_of(x, w, b) for x, w, b in zip((q, k, v), weights, biases, strict=True)]

    def _heads(self, x: Value, count: int) -> Value:
        """(batch, heads, length, features of a head)."""
        return transpose(reshape(x, shape=(*x.shape[:2], count, self.head_dim)), axes=(0, 2, 1, 3))

    def _extended(self, k: Value, v: Value, mask: Value | None) -> tuple[Value, Value, Value | None]:
        """Keys and values that are learnt, or zeros, behind the others; every query may attend to them."""
        for extra in ([(self.bias_k, self.bias_v)] if self.bias_k is not None else []) + (
            [(None, None)] if self.add_zero_attn else []
        ):
            size = (k.shape[0], 1, k.shape[2])
            k, v = (
                join(
                    [
                        x,
                        table["full"](shape=size, dtype=x.dtype, value=0.0)
                        if b is None
                        else broadcast_to(read(b), size),
                    ],
                    1,
                )
                for x, b in zip((k, v), extra, strict=True)
            )
            if mask is not None:
                edges = ((0,) * mask.ndim, (*(0,) * (mask.ndim - 1), 1), (0,) * mask.ndim)
                mask = table["pad"](
                    mask, low=edges[0], high=edges[1], between=edges[2], value=mask.dtype == dt.bool_
                )
        return k, v, mask

    def _mask(self, attn: Any, padding: Any, shapes: tuple[Any, ...], dtype: dt.DType) -> Value | None:
        """One mask, True where attending is allowed, that broadcasts to (batch, heads, queries, keys)."""
        n, queries, keys = shapes
        found: list[Value] = []
        if attn is not None:
            m = read(attn)
            _check_mask("attn_mask", m, ((queries, keys), (n * self.num_heads, queries, keys)))
            per_head = m.ndim == 3
            found.append(
                reshape(m, shape=(n, self.num_heads, queries, keys)) if per_head else _placed(m, (2, 3))
            )
        if padding is not None:
            m = read(padding)
            _check_mask("key_padding_mask", m, ((n, keys), (keys,)))
            found.append(_placed(m, (0, 3) if m.ndim == 2 else (3,)))
        return _merged(found, dtype)

    def _attend(
        self, heads: list[Value], mask: Value | None, causal: bool, need_weights: bool
    ) -> tuple[Value, Any]:
        q, k, v = heads
        p = self.dropout if self.training else 0.0
        extra = [*([] if mask is None else [mask]), *(t._read() for t in _dropout_key(p))]
        settings = {"scale": self.head_dim**-0.5, "causal": causal, "masked": mask is not None, "p": float(p)}
        if not need_weights:
            return c.attention(q, k, v, *extra, **settings), None
        weights = c.attention_weights(q, k, *extra, **settings)
        return c.weighted(weights, v), weights

    def extra_repr(self) -> str:
        text = f"{self.embed_dim}, {self.num_heads}"
        return text if self.num_kv_heads == self.num_heads else f"{text}, num_kv_heads={self.num_kv_heads}"


def _rows(x: Value, start: int, stop: int) -> Value:
    rest = x.ndim - 1
    return table["slice"](x, start=(start, *[0] * rest), stop=(stop, *x.shape[1:]), step=(1,) * x.ndim)


def _placed(mask: Value, axes: tuple[int, ...]) -> Value:
    """A mask with its axes where they stand among (batch, heads, queries, keys)."""
    shape: list[Any] = [1] * 4
    for a, d in zip(axes, mask.shape, strict=True):
        shape[a] = d
    return table["broadcast"](mask, shape=tuple(shape), axes=axes)


def _check_mask(what: str, mask: Value, shapes: tuple[tuple[Any, ...], ...]) -> None:
    if mask.shape not in shapes or not (mask.dtype == dt.bool_ or dt.is_float(mask.dtype)):
        raise ShapeError(
            f"{what} {mask.dtype}{list(mask.shape)}",
            where=user_location(),
            expected=f"booleans or floats of shape {' or '.join(map(str, shapes))}",
        )


def _merged(masks: list[Value], dtype: dt.DType) -> Value | None:
    """Masks that say where not to attend, as one that says where to; a float among them makes all add."""
    if not masks:
        return None
    if all(m.dtype == dt.bool_ for m in masks):
        allowed = [table["not"](m) for m in masks]
        return allowed[0] if len(allowed) == 1 else both(*allowed)
    floats = [
        where(m, float("-inf"), table["full"](shape=(), dtype=dtype, value=0.0))
        if m.dtype == dt.bool_
        else astype(m, dtype)
        for m in masks
    ]
    return floats[0] if len(floats) == 1 else add(*floats)
