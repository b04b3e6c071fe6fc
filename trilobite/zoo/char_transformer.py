"""A small transformer over characters: (batch, length) to scores of the next, (batch, length, characters).

The blocks are GPT-2's; the last layer is not tied to the first.
"""

from __future__ import annotations

from trilobite.framework import nn
from trilobite.framework.ops.creation import zeros
from trilobite.framework.tensor import Tensor
from trilobite.zoo.gpt2 import Block


class CharTransformer(nn.Module):
    def __init__(
        self, characters: int = 96, context: int = 128, width: int = 256, heads: int = 4, layers: int = 4
    ) -> None:
        self.embed = nn.Embedding(characters, width)
        self.position = nn.Parameter(zeros((context, width)))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, characters)

    def forward(self, text: Tensor) -> Tensor:
        x = self.embed(text) + self.position[: text.shape[1]]
        for layer, block in enumerate(self.blocks):
            x = block(x, layer)
        scores: Tensor = self.head(self.norm(x))
        return scores
