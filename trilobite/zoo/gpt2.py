"""GPT-2: tokens (batch, length) to scores of the next token (batch, length, vocabulary).

Radford et al., "Language models are unsupervised multitask learners", 2019; the defaults are GPT-2 small.
Parameters have the published names, but linear weights stand (outputs, inputs), as in all of `tb.nn`.

Text is written token by token with a `Cache` of keys and values, whose memory is made once: a compiled
`decode` serves every position.
"""

from __future__ import annotations

import math

from trilobite.framework import nn
from trilobite.framework.nn import functional as F
from trilobite.framework.ops.creation import arange, zeros
from trilobite.framework.tensor import Tensor


class Cache:
    """Keys and values of all positions so far, (batch, heads, capacity, features) a layer."""

    def __init__(self, layers: int, batch: int, heads: int, capacity: int, features: int) -> None:
        shape = (batch, heads, capacity, features)
        self.keys = [zeros(shape) for _ in range(layers)]
        self.values = [zeros(shape) for _ in range(layers)]

    def write(self, layer: int, positions: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Enter keys and values of these positions; all of them, with those from before."""
        self.keys[layer][:, :, positions] = k
        self.values[layer][:, :, positions] = v
        return self.keys[layer], self.values[layer]


class Attention(nn.Module):
    """Every position attends to itself and to those before."""

    def __init__(self, width: int, heads: int) -> None:
        self.heads = heads
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(
        self, x: Tensor, layer: int, cache: Cache | None = None, positions: Tensor | None = None
    ) -> Tensor:
        batch, length, width = x.shape
        qkv = self.c_attn(x).reshape(batch, length, 3, self.heads, width // self.heads)
        q, k, v = (qkv[:, :, i].transpose(1, 2) for i in range(3))
        if cache is None or positions is None:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            k, v = cache.write(layer, positions, k, v)
            seen = arange(k.shape[2]) <= positions[:, None]
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        out: Tensor = self.c_proj(y.transpose(1, 2).reshape(batch, length, width))
        return out


class MLP(nn.Module):
    """Four times wider, GELU, back."""

    def __init__(self, width: int) -> None:
        self.c_fc, self.c_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))
        return out


class Block(nn.Module):
    """Attention and MLP, each normalised before and added after."""

    def __init__(self, width: int, heads: int) -> None:
        self.ln_1, self.attn = nn.LayerNorm(width), Attention(width, heads)
        self.ln_2, self.mlp = nn.LayerNorm(width), MLP(width)

    def forward(
        self, x: Tensor, layer: int, cache: Cache | None = None, positions: Tensor | None = None
    ) -> Tensor:
        x = x + self.attn(self.ln_1(x), layer, cache, positions)
        out: Tensor = x + self.mlp(self.ln_2(x))
        return out


class GPT2(nn.Module):
    """The decoder; the table of tokens is also the last layer."""

    def __init__(
        self,
        vocabulary: int = 50257,
        context: int = 1024,
        width: int = 768,
        heads: int = 12,
        layers: int = 12,
    ) -> None:
        self.heads, self.context = heads, context
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.h = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        for name, p in self.named_parameters():
            if p.ndim == 2:  # the ways back into the sum are as many as they are, so each starts smaller
                back = name.endswith("c_proj.weight")
                nn.init.normal_(p, 0.0, 0.02 / math.sqrt(2 * layers) if back else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores at every position, for training."""
        return F.linear(self._features(tokens, arange(tokens.shape[1]), None), self.wte.weight)

    def cache(self, batch: int = 1, capacity: int | None = None) -> Cache:
        """Room for as many positions; the whole context unless said otherwise."""
        width = self.wte.embedding_dim
        return Cache(len(self.h), batch, self.heads, capacity or self.context, width // self.heads)

    def prefill(self, tokens: Tensor, cache: Cache | None = None) -> Tensor:
        """Scores of the token after these, (batch, vocabulary). A cache has these positions afterwards."""
        x = self._features(tokens, arange(tokens.shape[1]), cache)
        return F.linear(x[:, -1], self.wte.weight)

    def decode(self, token: Tensor, position: Tensor, cache: Cache) -> Tensor:
        """Scores of the token after this one, (batch, vocabulary): `token` is (batch, 1), `position` (1,)."""
        return F.linear(self._features(token, position, cache)[:, -1], self.wte.weight)

    def _features(self, tokens: Tensor, positions: Tensor, cache: Cache | None) -> Tensor:
        x = self.wte(tokens) + self.wpe(positions)
        for layer, block in enumerate(self.h):
            x = block(x, layer, cache, positions)
        out: Tensor = self.ln_f(x)
        return out
