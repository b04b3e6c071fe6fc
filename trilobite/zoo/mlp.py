"""MLP: (N, inputs) through hidden layers with ReLU to class scores (N, classes)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from trilobite.framework import nn
from trilobite.framework.nn import functional as F
from trilobite.framework.tensor import Tensor


class MLP(nn.Module):
    """The defaults are for MNIST's digits."""

    def __init__(self, inputs: int = 784, hidden: Sequence[int] = (512, 512), classes: int = 10) -> None:
        sizes = (inputs, *hidden, classes)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))

    def forward(self, x: Tensor) -> Tensor:
        *hidden, last = self.layers
        for layer in hidden:
            x = F.relu(layer(x))
        scores: Tensor = last(x)
        return scores
