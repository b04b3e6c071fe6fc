"""An LSTM over symbols: (batch, length) to scores at each place (batch, length, outputs).

With as many outputs as symbols it guesses the next character; with as many as there are tags, it is a tagger.
"""

from __future__ import annotations

from trilobite.framework import nn
from trilobite.framework.tensor import Tensor


class CharLSTM(nn.Module):
    def __init__(
        self, symbols: int = 96, width: int = 256, outputs: int | None = None, bidirectional: bool = False
    ) -> None:
        self.embed = nn.Embedding(symbols, width)
        self.lstm = nn.LSTM(width, width, batch_first=True, bidirectional=bidirectional)
        features = width * (2 if bidirectional else 1)
        self.head = nn.Linear(features, symbols if outputs is None else outputs)

    def forward(self, text: Tensor) -> Tensor:
        hidden, _ = self.lstm(self.embed(text))
        scores: Tensor = self.head(hidden)
        return scores
