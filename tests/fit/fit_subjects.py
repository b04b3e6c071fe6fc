"""A small model with everything that makes resuming hard: running statistics, dropout, a shuffled loader."""

from __future__ import annotations

from typing import Any

import numpy as np

import trilobite as tb
from trilobite.framework import data, nn, optim
from trilobite.framework.random import manual_seed


def points(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two classes, divided by a bent surface."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 3)).astype(np.float32)
    return x, (x[:, 0] + np.abs(x[:, 1]) > 0.8 * x[:, 2]).astype(np.int64)


class Run:
    """Everything that a call of fit takes, made afresh from the same seeds."""

    def __init__(self, seed: int = 1, **optimizer: Any) -> None:
        manual_seed(seed)
        self.model = nn.Sequential(
            nn.Linear(3, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Dropout(0.2), nn.Linear(16, 2)
        )
        self.optimizer = optim.Adam(self.model.parameters(), **{"lr": 0.02, **optimizer})
        self.train = data.Loader(data.ArrayDataset(*points(70, 3)), 16, shuffle=True, seed=5)
        self.validation = data.Loader(data.ArrayDataset(*points(40, 4)), 16)

    def arguments(self, **more: Any) -> dict[str, Any]:
        base = {
            "model": self.model,
            "optimizer": self.optimizer,
            "loss": loss,
            "train": self.train,
            "progress": False,
        }
        return {**base, **more}

    def bits(self) -> dict[str, bytes]:
        """All that training has made, to the last bit."""
        tensors = dict(self.model.state_dict())
        for i, p in enumerate(self.optimizer.state):
            tensors |= {f"{i}.{name}": t for name, t in self.optimizer.state[p].items()}
        return {name: t.detach().numpy().tobytes() for name, t in tensors.items()}


def loss(prediction: tb.Tensor, target: tb.Tensor) -> tb.Tensor:
    if hasattr(nn.functional, "cross_entropy"):
        return nn.functional.cross_entropy(prediction, target)
    hot = (target.reshape(-1, 1) == tb.arange(2)).astype(tb.float32)
    return -(nn.functional.log_softmax(prediction, 1) * hot).sum() / len(prediction)
