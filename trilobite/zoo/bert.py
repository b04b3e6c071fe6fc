"""BERT: tokens (batch, length) to features of each token and of the whole text.

Devlin et al., "BERT: pre-training of deep bidirectional transformers", 2018; the defaults are BERT-base,
uncased. Parameters have the published names.
"""

from __future__ import annotations

from trilobite.framework import nn
from trilobite.framework.nn import functional as F
from trilobite.framework.ops.creation import arange, zeros_like
from trilobite.framework.tensor import Tensor

EPSILON = 1e-12


class Embeddings(nn.Module):
    """The sum of what a token is, where it stands and which sentence it belongs to."""

    def __init__(self, vocabulary: int, context: int, width: int) -> None:
        self.word_embeddings = nn.Embedding(vocabulary, width)
        self.position_embeddings = nn.Embedding(context, width)
        self.token_type_embeddings = nn.Embedding(2, width)
        self.LayerNorm = nn.LayerNorm(width, eps=EPSILON)

    def forward(self, tokens: Tensor, sentences: Tensor) -> Tensor:
        where = self.position_embeddings(arange(tokens.shape[1]))
        x = self.word_embeddings(tokens) + self.token_type_embeddings(sentences) + where
        out: Tensor = self.LayerNorm(x)
        return out


class SelfAttention(nn.Module):
    """Every token attends to all that the mask leaves."""

    def __init__(self, width: int, heads: int) -> None:
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (
            project(x).reshape(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for project in (self.query, self.key, self.value)
        )
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        out: Tensor = y.transpose(1, 2).reshape(batch, length, width)
        return out


class Output(nn.Module):
    """A linear layer, added to what came before it and normalised."""

    def __init__(self, inputs: int, width: int) -> None:
        self.dense, self.LayerNorm = nn.Linear(inputs, width), nn.LayerNorm(width, eps=EPSILON)

    def forward(self, y: Tensor, before: Tensor) -> Tensor:
        out: Tensor = self.LayerNorm(self.dense(y) + before)
        return out


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        self.self, self.output = SelfAttention(width, heads), Output(width, width)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        out: Tensor = self.output(self.self(x, mask), x)
        return out


class Dense(nn.Module):
    """A linear layer under the name that published weights have for it."""

    def __init__(self, inputs: int, outputs: int) -> None:
        self.dense = nn.Linear(inputs, outputs)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.dense(x)
        return out


class Layer(nn.Module):
    """Attention, then four times wider, GELU, back."""

    def __init__(self, width: int, heads: int) -> None:
        self.attention = Attention(width, heads)
        self.intermediate, self.output = Dense(width, 4 * width), Output(4 * width, width)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = self.attention(x, mask)
        out: Tensor = self.output(F.gelu(self.intermediate(x)), x)
        return out


class Encoder(nn.Module):
    def __init__(self, width: int, heads: int, layers: int) -> None:
        self.layer = nn.ModuleList(Layer(width, heads) for _ in range(layers))

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        for layer in self.layer:
            x = layer(x, mask)
        return x


class BERT(nn.Module):
    """The encoder, and the pooler that turns the first token's features into those of the text."""

    def __init__(
        self, vocabulary: int = 30522, context: int = 512, width: int = 768, heads: int = 12, layers: int = 12
    ) -> None:
        self.embeddings = Embeddings(vocabulary, context, width)
        self.encoder = Encoder(width, heads, layers)
        self.pooler = Dense(width, width)
        for name, p in self.named_parameters():
            if p.ndim == 2:
                nn.init.normal_(p, 0.0, 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(
        self, tokens: Tensor, sentences: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """(batch, length, width) and (batch, width). `mask` is (batch, length), True at tokens that count."""
        sentences = zeros_like(tokens) if sentences is None else sentences
        seen = None if mask is None else mask[:, None, None, :]
        x = self.encoder(self.embeddings(tokens, sentences), seen)
        return x, F.tanh(self.pooler(x[:, 0]))
