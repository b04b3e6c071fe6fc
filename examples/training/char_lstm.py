"""A character LSTM that learns the notes of `corpus`: `python examples/training/char_lstm.py`.

It prints the loss on notes of another writer, beside the bound that no bigram model gets below, and then
writes itself.
"""

from __future__ import annotations

import time

import numpy as np
from characters import TEXT, VOCABULARY, evaluate, learn
from corpus import bigram_bound

import trilobite as tb


class CharLSTM(tb.nn.Module):
    """Characters in, scores for the next character out."""

    def __init__(self, hidden: int = 96) -> None:
        self.embed = tb.nn.Embedding(len(VOCABULARY), 24)
        self.lstm = tb.nn.LSTM(24, hidden, batch_first=True)
        self.out = tb.nn.Linear(hidden, len(VOCABULARY))

    def forward(self, codes: tb.Tensor) -> tb.Tensor:
        return self.out(self.lstm(self.embed(codes))[0])

    def write(self, start: str, characters: int) -> str:
        """The most likely continuation, carrying the state from character to character."""
        codes = VOCABULARY.encode(start)
        written, state = list(codes), None
        with tb.no_grad():
            for _ in range(characters):
                features, state = self.lstm(self.embed(tb.tensor(codes[None])), state)
                codes = np.argmax(self.out(features[:, -1]).numpy(), axis=1)
                written.append(codes[0])
        return VOCABULARY.decode(np.array(written))


def main(steps: int = 300) -> None:
    tb.manual_seed(0)
    began, model = time.perf_counter(), CharLSTM()
    learn(model, steps, length=48, batch=32, peak=1e-2)
    loss, bound = evaluate(model, 96), bigram_bound(TEXT)
    print(f"{loss:.3f} nats per character on new notes; no bigram model gets below {bound:.3f}")
    print(model.write("the ", 200))
    print(f"{time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main()
