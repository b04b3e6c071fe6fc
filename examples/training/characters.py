"""What the character models share: the text as windows, the training loop, and the loss on a text not
seen.

Enters: a module that maps codes (batch, length) to scores (batch, length, characters). Leaves: it
trained, and numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from corpus import notes

import trilobite as tb

TEXT = notes(60_000)
VOCABULARY = tb.data.Vocabulary(TEXT)


def next_character_loss(scores: tb.Tensor, targets: tb.Tensor) -> tb.Tensor:
    """Nats per character."""
    return tb.nn.functional.cross_entropy(scores.reshape(-1, scores.shape[-1]), targets.reshape(-1))


def learn(
    model: Any, steps: int, *, length: int, batch: int, peak: float, seed: int = 0, jit: bool = False
) -> list[float]:
    """Train for a number of steps with one cycle of the learning rate; the losses on the way."""
    windows = tb.data.TextDataset(TEXT, length, stride=7, vocabulary=VOCABULARY)
    loader = tb.data.Loader(windows, batch, shuffle=True, seed=seed, drop_last=True)
    optimizer = tb.optim.AdamW(model.parameters(), lr=peak / 25)
    schedule = tb.optim.OneCycleLR(optimizer, peak, steps)

    def step(x: tb.Tensor, y: tb.Tensor) -> tb.Tensor:
        loss = next_character_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        tb.optim.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        return loss

    run: Callable[..., tb.Tensor] = tb.jit(step) if jit else step
    losses: list[float] = []
    while True:
        for x, y in loader:
            losses.append(run(tb.tensor(x), tb.tensor(y)).item())
            if len(losses) == steps:
                return losses


def evaluate(model: Any, length: int, windows: int = 64) -> float:
    """Nats per character on the notes of another writer, in windows that each begin without a past."""
    text = tb.data.TextDataset(notes(windows * length + 1, seed=99), length, vocabulary=VOCABULARY)
    x, y = next(iter(tb.data.Loader(text, windows)))
    model.eval()
    with tb.no_grad():
        loss = next_character_loss(model(tb.tensor(x)), tb.tensor(y)).item()
    model.train()
    return loss
