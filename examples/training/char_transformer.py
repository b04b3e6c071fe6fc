"""A character transformer that learns the notes of `corpus`: `python
examples/training/char_transformer.py`.

It prints the loss on notes of another writer, beside the bound that no bigram model gets below, and then
writes itself.
"""

from __future__ import annotations

import time

import numpy as np
from characters import TEXT, VOCABULARY, evaluate, learn
from corpus import bigram_bound

import trilobite as tb


class Block(tb.nn.Module):
    """Attention to the past, then two linear layers; each beside a way around it."""

    def __init__(self, width: int, heads: int) -> None:
        self.before, self.after = tb.nn.LayerNorm(width), tb.nn.LayerNorm(width)
        self.attention = tb.nn.MultiheadAttention(width, heads, batch_first=True, rotary=True)
        self.wide, self.narrow = tb.nn.Linear(width, 4 * width), tb.nn.Linear(4 * width, width)

    def forward(self, x: tb.Tensor) -> tb.Tensor:
        h = self.before(x)
        x = x + self.attention(h, h, h, is_causal=True, need_weights=False)[0]
        return x + self.narrow(tb.nn.functional.gelu(self.wide(self.after(x))))


class CharTransformer(tb.nn.Module):
    """Characters in, scores for the next character out. Positions enter by the rotation of queries and
    keys.
    """

    def __init__(self, width: int = 64, heads: int = 4, layers: int = 2) -> None:
        self.embed = tb.nn.Embedding(len(VOCABULARY), width)
        self.blocks = tb.nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = tb.nn.LayerNorm(width)
        self.out = tb.nn.Linear(width, len(VOCABULARY))

    def forward(self, codes: tb.Tensor) -> tb.Tensor:
        return self.out(self.norm(self.blocks(self.embed(codes))))

    def write(self, start: str, characters: int, window: int = 64) -> str:
        """The most likely continuation, each character from the window before it."""
        codes = list(VOCABULARY.encode(start))
        with tb.no_grad():
            for _ in range(characters):
                scores = self(tb.tensor(np.array([codes[-window:]])))
                codes.append(int(np.argmax(scores.numpy()[0, -1])))
        return VOCABULARY.decode(np.array(codes))


def main(steps: int = 400) -> None:
    tb.manual_seed(0)
    began, model = time.perf_counter(), CharTransformer()
    learn(model, steps, length=64, batch=32, peak=4e-3)
    loss, bound = evaluate(model, 64), bigram_bound(TEXT)
    print(f"{loss:.3f} nats per character on new notes; no bigram model gets below {bound:.3f}")
    print(model.write("the ", 200))
    print(f"{time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main()
