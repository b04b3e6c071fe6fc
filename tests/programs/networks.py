"""Programs with networks: forward passes, and training steps of a hundred steps with everything that has
state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import trilobite as tb
from trilobite import nn, optim

from .harness import Built, program

F = nn.functional
STEPS = 100


def batch(i: int, *shape: int, classes: int = 0) -> tuple[tb.Tensor, tb.Tensor]:
    rng = np.random.default_rng(1000 + i)
    x = tb.tensor(rng.normal(size=shape).astype("float32"))
    y = rng.integers(0, classes, shape[0]) if classes else rng.normal(size=shape).astype("float32")
    return x, tb.tensor(y)


def training(
    model: nn.Module,
    make: Callable[[Any], Any],
    loss_fn: Callable[[tb.Tensor, tb.Tensor], tb.Tensor],
    inputs: Callable[[int], tuple[tb.Tensor, ...]],
    schedule: Callable[[Any], Any] | None = None,
) -> Built:
    """The step that everyone writes: zero, forward, backward, update, schedule."""
    opt = make(model.parameters())
    plan = None if schedule is None else schedule(opt)

    def step(x: tb.Tensor, y: tb.Tensor) -> tb.Tensor:
        opt.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        opt.step()
        if plan is not None:
            plan.step()
        return loss

    return Built(step, inputs, [dict(model.state_dict()), opt.state_dict()])


class Net(nn.Module):
    """Convolution, batch norm, dropout, pooling, linear."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 6, 3, stride=2)
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(6 * 2 * 2, 5)

    def forward(self, x: tb.Tensor) -> tb.Tensor:
        x = F.max_pool2d(F.relu(self.norm(self.conv1(x))), 2)
        x = F.gelu(self.conv2(x))
        return self.head(self.drop(x.flatten(1)))


@program(steps=STEPS)
def convnet_adam_cosine() -> Built:
    return training(
        Net(),
        lambda p: optim.Adam(p, lr=0.01, weight_decay=0.01),
        F.cross_entropy,
        lambda i: batch(i % 7, 3, 1, 11, 11, classes=5),
        lambda opt: optim.CosineAnnealingLR(opt, 50),
    )


@program(steps=STEPS)
def mlp_sgd_momentum() -> Built:
    model = nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.LayerNorm(9), nn.Linear(9, 6))
    make = lambda p: optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True)  # noqa: E731
    return training(
        model, make, F.mse_loss, lambda i: batch(i % 5, 4, 6), lambda opt: optim.StepLR(opt, 20, 0.5)
    )


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 6)
        self.lstm = nn.LSTM(6, 5, num_layers=2, bidirectional=True, batch_first=True)
        self.out = nn.Linear(10, 11)

    def forward(self, x: tb.Tensor) -> tb.Tensor:
        return self.out(self.lstm(self.embed(x))[0]).reshape(-1, 11)


def tokens(i: int, b: int, n: int) -> tuple[tb.Tensor, tb.Tensor]:
    t = np.random.default_rng(i).integers(0, 11, (b, n + 1))
    return tb.tensor(t[:, :-1]), tb.tensor(t[:, 1:].reshape(-1))


@program(steps=20)
def recurrent_tagger_adamw() -> Built:
    return training(
        Tagger(), lambda p: optim.AdamW(p, lr=0.02), F.cross_entropy, lambda i: tokens(i % 3, 2, 7)
    )


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.block = nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, dropout=0.1, batch_first=True)

    def forward(self, x: tb.Tensor) -> tb.Tensor:
        n = x.shape[1]
        mask = tb.triu(tb.full((n, n), float("-inf")), k=1)
        h = self.block(self.embed(x), src_mask=mask)
        return (h @ self.embed.weight.T).reshape(-1, 11)


@program(steps=30)
def tied_transformer_lion() -> Built:
    return training(
        Decoder(), lambda p: optim.Lion(p, lr=1e-3), F.cross_entropy, lambda i: tokens(i % 3, 2, 6)
    )


@program()
def inference_in_evaluation_mode() -> Built:
    model = Net().eval()
    return Built(lambda x: F.softmax(model(x), dim=-1), lambda i: (batch(i, 4, 1, 11, 11)[0],))


@program()
def gradients_of_a_module_as_a_tree() -> Built:
    model = nn.Sequential(nn.Linear(4, 3), nn.SiLU(), nn.Linear(3, 2))
    x, _ = batch(0, 5, 4)
    return Built(tb.grad(lambda m, x: (m(x) ** 2).mean()), lambda i: (model, x))
