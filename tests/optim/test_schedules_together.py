"""Several schedules on one optimiser, rates that others set, and schedules and optimisers as they are written
for PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite import optim

BASES = (0.1, 0.025)


def make(rates: Any = BASES) -> optim.SGD:
    return optim.SGD([{"params": [tb.ones(2, requires_grad=True)], "lr": r} for r in rates])


def cosine(base: float, floor: float, share: float) -> float:
    return floor + (base - floor) * (1 + math.cos(math.pi * share)) / 2


# ---- several on one optimiser, rates that others set ----

FACTORS: dict[str, tuple[Callable[[Any], Any], Callable[[int], float]]] = {
    "step": (lambda o: optim.StepLR(o, 3, 0.5), lambda t: 0.5 ** (t // 3)),
    "multistep": (lambda o: optim.MultiStepLR(o, [2, 7], 0.1), lambda t: 0.1 ** ((t >= 2) + (t >= 7))),
    "exponential": (lambda o: optim.ExponentialLR(o, 0.9), lambda t: 0.9**t),
    "linear": (lambda o: optim.LinearLR(o, 0.25, 1.0, 4), lambda t: 0.25 + 0.75 * min(t, 4) / 4),
    "constant": (lambda o: optim.ConstantLR(o, 0.3, 4), lambda t: 0.3 if t < 4 else 1.0),
    "polynomial": (lambda o: optim.PolynomialLR(o, 15, 2.0), lambda t: (1 - min(t, 15) / 15) ** 2),
    "cosine": (lambda o: optim.CosineAnnealingLR(o, 17), lambda t: cosine(1.0, 0.0, t / 17)),
    "multiplicative": (lambda o: optim.lr_scheduler.MultiplicativeLR(o, lambda t: 0.95), lambda t: 0.95**t),
}


class Kept(optim.Optimizer):
    """An optimiser as it is written for PyTorch: its numbers are Python's."""

    def __init__(self, params: Any, lr: Any = 0.1, betas: tuple[float, float] = (0.9, 0.99)) -> None:
        super().__init__(params, {"lr": lr, "betas": betas})

    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                p.data.add_(p.grad, alpha=-group["lr"])


def kept() -> Kept:
    return Kept([{"params": [tb.ones(2, requires_grad=True)], "lr": b} for b in BASES])


@pytest.mark.parametrize("make_one", [make, kept], ids=["ours", "of others"])
def test_schedules_that_step_in_turn_multiply(make_one: Callable[[], Any]) -> None:
    rng = np.random.default_rng(5)
    for _ in range(12):
        names = rng.choice(list(FACTORS), 2 + rng.integers(2), replace=False)
        optimizer = make_one()
        schedules = [FACTORS[n][0](optimizer) for n in names]
        for t in range(12):
            factor = math.prod(FACTORS[n][1](t) for n in names)
            if t == 6:  # and somebody who changes rates by hand
                for g in optimizer.param_groups:
                    g["lr"] *= 0.5
            found = [float(g["lr"]) for g in optimizer.param_groups]
            assert found == pytest.approx([b * factor * (0.5 if t >= 6 else 1.0) for b in BASES], rel=1e-9)
            for s in schedules:
                s.step()


def test_a_recorded_schedule_moves_on_from_what_it_finds() -> None:
    w = tb.ones(3, requires_grad=True)
    optimizer = optim.SGD([w], lr=0.4)
    schedules = [optim.StepLR(optimizer, 2, 0.5), optim.ExponentialLR(optimizer, 0.9)]

    @tb.jit
    def step() -> tb.Tensor:
        optimizer.zero_grad()
        (w * w).sum().backward()
        optimizer.step()
        for s in schedules:
            s.step()
        return optimizer.param_groups[0]["lr"] * 1.0

    for t in range(1, 8):
        if t == 5:
            optimizer.param_groups[0]["lr"] *= 3.0
        wanted = 0.4 * 0.5 ** (t // 2) * 0.9**t * (3.0 if t >= 5 else 1.0)
        assert step().item() == pytest.approx(wanted, rel=1e-9)


def test_plateau_after_warming_up() -> None:
    optimizer = make([1.0])
    warm, watch = optim.LinearLR(optimizer, 0.25, 1.0, 3), optim.ReduceLROnPlateau(optimizer, patience=0)
    for _ in range(4):
        watch.step(1.0)
        warm.step()
    assert float(optimizer.param_groups[0]["lr"]) == pytest.approx(1e-3)


# ---- schedules that are written for PyTorch ----


class WarmUp(optim.lr_scheduler.LRScheduler):
    def __init__(self, optimizer: Any, steps: int, last_epoch: int = -1) -> None:
        self.steps = steps
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [b * min(1.0, (self.last_epoch + 1) / self.steps) for b in self.base_lrs]


class Faded(optim.lr_scheduler._LRScheduler):
    def get_lr(self) -> list[float]:
        return [g["lr"] * (0.9 if self.last_epoch else 1.0) for g in self.optimizer.param_groups]


class Lifted(optim.StepLR):
    def get_lr(self) -> list[float]:
        return [r + 0.01 for r in super().get_lr()]


STATED: dict[str, tuple[Callable[[Any], Any], Callable[[float, list[float]], None]]] = {
    "of the count": (
        lambda o: WarmUp(o, 4),
        lambda b, out: out.extend(b * min(1, t / 4) for t in range(1, 7)),
    ),
    "of the rate": (Faded, lambda b, out: out.extend(b * 0.9**t for t in range(6))),
    "of a base": (
        lambda o: Lifted(o, 2, 0.5),
        lambda b, out: [
            out.append((out[-1] if out else b) * (0.5 if t in (2, 4) else 1) + 0.01) for t in range(6)
        ],
    ),
}  # type: ignore[dict-item]


@pytest.mark.parametrize("make_one", [make, kept], ids=["ours", "of others"])
@pytest.mark.parametrize("name", STATED)
def test_rates_that_a_subclass_states(name: str, make_one: Callable[[], Any]) -> None:
    optimizer = make_one()
    schedule, wanted = STATED[name][0](optimizer), [[] for _ in BASES]
    for base, row in zip(BASES, wanted, strict=True):
        STATED[name][1](base, row)
    for t in range(6):
        assert schedule.get_last_lr() == pytest.approx([row[t] for row in wanted])
        assert [float(g["lr"]) for g in optimizer.param_groups] == schedule.get_last_lr()
        assert schedule.last_epoch == t
        schedule.step()


def test_what_a_schedule_of_others_may_set() -> None:
    optimizer = make()
    schedule = WarmUp(optimizer, 4)
    schedule.base_lrs = [2 * b for b in BASES]
    schedule.last_epoch = 2
    schedule.step()
    assert schedule.get_last_lr() == pytest.approx([2 * b for b in BASES])
    chained = optim.StepLR(optimizer, 1, 0.5)
    chained.step()
    assert schedule.get_last_lr() == pytest.approx([2 * b for b in BASES]), "what this one set"
    assert chained.get_last_lr() == pytest.approx(list(BASES))


def test_momenta_in_betas_of_others() -> None:
    optimizer = kept()
    schedule = optim.OneCycleLR(optimizer, 0.5, 10)
    seen = []
    for _ in range(4):
        seen.append(optimizer.param_groups[0]["betas"])
        schedule.step()
    assert seen[0] == (pytest.approx(0.95), 0.99) and seen[2][0] == pytest.approx(0.85)
    assert all(type(b) is float for pair in seen for b in pair)


def test_numbers_of_python_are_not_recorded() -> None:
    optimizer = kept()
    schedule = optim.StepLR(optimizer, 1, 0.5)
    with pytest.raises(tb.errors.TraceError, match="is a number of Python that a schedule changes"):
        tb.jit(schedule.step)()
    rate = tb.tensor(0.5, dtype=tb.float64)
    optimizer = Kept([tb.ones(2, requires_grad=True)], lr=rate)
    schedule = optim.StepLR(optimizer, 1, 0.5)
    step = tb.jit(schedule.step)
    for _ in range(3):
        step()
    assert rate.item() == 0.0625


RESUMED: dict[
    str, tuple[Callable[[Any], Any], float]
] = {  # as PyTorch continues after step 3 from a rate of 1
    "step": (lambda o: optim.StepLR(o, 2, 0.5, 3), 0.5),
    "multistep": (lambda o: optim.MultiStepLR(o, [2, 4], 0.1, last_epoch=3), 0.1),
    "exponential": (lambda o: optim.ExponentialLR(o, 0.9, 3), 1.0),
    "cosine": (lambda o: optim.CosineAnnealingLR(o, 9, 0.0, 3), 1.0),
    "lambda": (lambda o: optim.LambdaLR(o, lambda t: 0.9**t, 3), 0.9**4),
}


@pytest.mark.parametrize("name", RESUMED)
def test_last_epoch_is_the_step_that_was_done(name: str) -> None:
    optimizer = make([1.0])
    schedule = RESUMED[name][0](optimizer)
    assert schedule.last_epoch == 4 and schedule.get_last_lr() == [pytest.approx(RESUMED[name][1])]
