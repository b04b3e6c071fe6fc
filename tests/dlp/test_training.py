"""Training on the processor: each step from the same state as the CPU's, and whole runs beside it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb

F = tb.nn.functional


def stepper(model: Any, target: str, rate: float = 1e-3) -> Any:
    opt = tb.optim.Adam(model.parameters(), lr=rate)

    @tb.jit(target=target)
    def step(x: Any, y: Any) -> Any:
        scores = model(x)
        loss = F.cross_entropy(scores.reshape(-1, scores.shape[-1]), y.reshape(-1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    return step


def pair(make: Any, machine: str) -> tuple[Any, Any, Any, Any]:
    """The same model twice, with a step for the processor and one for the CPU."""
    first, second = make(), make()
    second.load_state_dict(first.state_dict())
    return first, second, stepper(first, f"dlp:{machine}"), stepper(second, "cpu")


def small() -> Any:
    return tb.nn.Sequential(
        tb.nn.Conv2d(1, 4, 3, padding=1),
        tb.nn.ReLU(),
        tb.nn.MaxPool2d(2),
        tb.nn.Flatten(),
        tb.nn.Linear(64, 5),
    )


def test_three_steps_are_the_cpu_s() -> None:
    first, second, fast, slow = pair(small, "dlp-s")
    rng = np.random.default_rng(1)
    for _ in range(3):
        x, y = tb.tensor(rng.normal(size=(6, 1, 8, 8)).astype(np.float32)), tb.tensor(rng.integers(0, 5, 6))
        np.testing.assert_allclose(float(fast(x, y)), float(slow(x, y)), rtol=1e-4)
    for p, q in zip(first.parameters(), second.parameters(), strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=2e-3, atol=2e-5)


@pytest.mark.long
def test_lenet_on_digits_for_200_steps() -> None:
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = np.kron(digits.images, np.ones((3, 3)))[:, None].astype(np.float32) / 16.0
    images = np.pad(images, ((0, 0), (0, 0), (2, 2), (2, 2)))
    _, _, fast, slow = pair(lambda: tb.zoo.create("lenet"), "dlp-m")
    rng, losses = np.random.default_rng(0), []
    for _ in range(200):
        chosen = rng.integers(0, len(images), 8)
        x, y = tb.tensor(images[chosen]), tb.tensor(digits.target[chosen].astype(np.int64))
        losses.append((float(fast(x, y)), float(slow(x, y))))
    a, b = np.array(losses).T
    smooth = [np.convolve(v, np.ones(20) / 20, "valid") for v in (a, b)]
    assert np.abs(smooth[0] - smooth[1]).max() <= 0.01 * smooth[1].max()
    assert smooth[0][-1] < 0.3 * smooth[0][0]
    assert fast.last_run.cycles > 0 and fast.last_run.energy.total > 0


@pytest.mark.long
def test_a_character_transformer_for_100_steps() -> None:
    def make() -> Any:
        return tb.zoo.create("char_transformer")

    _, _, fast, slow = pair(make, "dlp-m")
    rng = np.random.default_rng(0)
    losses = []
    for _ in range(100):
        x = rng.integers(0, 60, (2, 17))
        losses.append([float(s(tb.tensor(x[:, :-1]), tb.tensor(x[:, 1:].copy()))) for s in (fast, slow)])
    a, b = np.array(losses).T
    assert np.abs(a - b).max() <= 0.01 * b.max()
