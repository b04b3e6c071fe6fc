"""Training on the processor: each step from the same state as the CPU's, and whole runs beside it."""

from __future__ import annotations

from typing import Any

import numpy as np

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
