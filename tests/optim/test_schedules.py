"""Every schedule against its formula, in combination, saved and restored."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ArgumentError, StateError
from trilobite.framework import optim

BASES = (0.1, 0.025)


def make(bases: Any = BASES, **settings: Any) -> optim.Optimizer:
    groups = [{"params": [tb.tensor([1.0], requires_grad=True)], "lr": b} for b in bases]
    return optim.SGD(groups, momentum=0.9, **settings)


def rates(build: Callable[[Any], Any], steps: int = 60) -> list[list[float]]:
    optimizer = make()
    schedule = build(optimizer)
    out = [schedule.get_last_lr()]
    for _ in range(steps):
        schedule.step()
        out.append(schedule.get_last_lr())
    return out


def restarts(t: int, first: int, growth: int) -> tuple[int, int]:
    length = first
    while t >= length:
        t, length = t - length, length * growth
    return t, length


def one_cycle(t: int, base: float, total: int, share: float, linear: bool, three: bool) -> float:
    peak = base * 4
    corners = [peak / 25, peak, peak / 25 / 1e4]
    ends = [share * total - 1, total - 1]
    if three:
        corners, ends = (
            [peak / 25, peak, peak / 25, peak / 25 / 1e4],
            [share * total - 1, 2 * share * total - 2, total - 1],
        )
    t, start = min(t, total - 1), 0.0
    for a, b, end in zip(corners, corners[1:], ends, strict=False):
        if t <= end or end == ends[-1]:
            done = (t - start) / (end - start)
            return a + (b - a) * done if linear else b + (a - b) * (1 + math.cos(math.pi * done)) / 2
        start = end
    raise AssertionError


def cosine(base: float, floor: float, done: float) -> float:
    return floor + (base - floor) * (1 + math.cos(math.pi * done)) / 2


def cyclic(t: int, up: int, down: int, scale: Callable[[int, int], float]) -> float:
    """The rate between 0.1 and 0.5, walked up and down step by step."""
    cycle, place = divmod(t, up + down)
    height = place / up if place <= up else (up + down - place) / down
    return 0.1 + 0.4 * height * scale(cycle + 1, t)


FORMULAS: dict[str, tuple[Callable[[Any], Any], Callable[[float, int], float]]] = {
    "lambda": (lambda o: optim.LambdaLR(o, lambda t: 1 / (1 + t)), lambda b, t: b / (1 + t)),
    "step": (lambda o: optim.StepLR(o, 7, 0.3), lambda b, t: b * 0.3 ** (t // 7)),
    "multistep": (
        lambda o: optim.MultiStepLR(o, [30, 4, 4, 11], 0.5),
        lambda b, t: b * 0.5 ** sum(t >= m for m in (4, 4, 11, 30)),
    ),
    "constant": (lambda o: optim.ConstantLR(o, 0.2, 9), lambda b, t: b * (0.2 if t < 9 else 1)),
    "linear": (lambda o: optim.LinearLR(o, 0.1, 0.8, 13), lambda b, t: b * (0.1 + 0.7 * min(t, 13) / 13)),
    "exponential": (lambda o: optim.ExponentialLR(o, 0.93), lambda b, t: b * 0.93**t),
    "polynomial": (lambda o: optim.PolynomialLR(o, 40, 1.7), lambda b, t: b * (1 - min(t, 40) / 40) ** 1.7),
    "cosine": (lambda o: optim.CosineAnnealingLR(o, 17, 0.01), lambda b, t: cosine(b, 0.01, t / 17)),
    "multiplicative": (
        lambda o: optim.lr_scheduler.MultiplicativeLR(o, lambda t: 1 - 0.01 * t),
        lambda b, t: b * math.prod(1 - 0.01 * i for i in range(1, t + 1)),
    ),
    "cyclic": (
        lambda o: optim.lr_scheduler.CyclicLR(o, 0.1, 0.5, 4, cycle_momentum=False),
        lambda b, t: cyclic(t, 4, 4, lambda cycle, t: 1.0),
    ),
    "cyclic, shrinking": (
        lambda o: optim.lr_scheduler.CyclicLR(o, 0.1, 0.5, 3, 7, "triangular2", cycle_momentum=False),
        lambda b, t: cyclic(t, 3, 7, lambda cycle, t: 0.5 ** (cycle - 1)),
    ),
    "cyclic, decaying": (
        lambda o: optim.lr_scheduler.CyclicLR(o, 0.1, 0.5, 5, 2, "exp_range", 0.97, cycle_momentum=False),
        lambda b, t: cyclic(t, 5, 2, lambda cycle, t: 0.97**t),
    ),
    "cyclic, by a function of the cycle": (
        lambda o: optim.lr_scheduler.CyclicLR(
            o, 0.1, 0.5, 4, scale_fn=lambda cycle: 1 / cycle, cycle_momentum=False
        ),
        lambda b, t: cyclic(t, 4, 4, lambda cycle, t: 1 / cycle),
    ),
    "cyclic, by a function of the step": (
        lambda o: optim.lr_scheduler.CyclicLR(
            o, 0.1, 0.5, 4, scale_fn=lambda t: 1 / (1 + t), scale_mode="iterations", cycle_momentum=False
        ),
        lambda b, t: cyclic(t, 4, 4, lambda cycle, t: 1 / (1 + t)),
    ),
    "restarts": (
        lambda o: optim.CosineAnnealingWarmRestarts(o, 8, 1, 0.002),
        lambda b, t: cosine(b, 0.002, (t % 8) / 8),
    ),
    "growing restarts": (
        lambda o: optim.CosineAnnealingWarmRestarts(o, 3, 2),
        lambda b, t: cosine(b, 0.0, np.divide(*restarts(t, 3, 2))),
    ),
    "tripling restarts": (
        lambda o: optim.CosineAnnealingWarmRestarts(o, 2, 3),
        lambda b, t: cosine(b, 0.0, np.divide(*restarts(t, 2, 3))),
    ),
    "one cycle": (
        lambda o: optim.OneCycleLR(o, [4 * b for b in BASES], 50),
        lambda b, t: one_cycle(t, b, 50, 0.3, False, False),
    ),
    "one cycle linear": (
        lambda o: optim.OneCycleLR(o, [4 * b for b in BASES], 41, pct_start=0.4, anneal_strategy="linear"),
        lambda b, t: one_cycle(t, b, 41, 0.4, True, False),
    ),
    "one cycle of three": (
        lambda o: optim.OneCycleLR(o, [4 * b for b in BASES], 55, three_phase=True),
        lambda b, t: one_cycle(t, b, 55, 0.3, False, True),
    ),
    "swa": (lambda o: optim.SWALR(o, 0.5, 10, "linear"), lambda b, t: b + (0.5 - b) * min(t / 10, 1)),
    "swa cosine": (
        lambda o: optim.SWALR(o, [0.5, 0.01], 8),
        lambda b, t: b + ((0.5 if b == BASES[0] else 0.01) - b) * (1 - math.cos(math.pi * min(t / 8, 1))) / 2,
    ),
    "sequential": (
        lambda o: optim.SequentialLR(
            o,
            [optim.LinearLR(o, 0.1, 1.0, 10), optim.CosineAnnealingLR(o, 20), optim.ConstantLR(o, 0.5, 5)],
            [10, 30],
        ),
        lambda b, t: (
            b * (0.1 + 0.9 * t / 10)
            if t < 10
            else cosine(b, 0, (t - 10) / 20)
            if t < 30
            else b * (0.5 if t < 35 else 1)
        ),
    ),
    "chained": (
        lambda o: optim.ChainedScheduler(
            [optim.ExponentialLR(o, 0.9), optim.StepLR(o, 6, 0.5), optim.ConstantLR(o, 0.1, 4)]
        ),
        lambda b, t: b * 0.9**t * 0.5 ** (t // 6) * (0.1 if t < 4 else 1),
    ),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_a_schedule_is_its_formula(name: str) -> None:
    build, formula = FORMULAS[name]
    got = rates(build)
    for t, row in enumerate(got):
        assert row == pytest.approx([formula(b, t) for b in BASES], rel=1e-12, abs=1e-15), t


def test_restarts_are_exact_far_out() -> None:
    """At a restart the rate is the base itself, never the end of the cycle before."""
    optimizer = make([0.5])
    schedule = optim.CosineAnnealingWarmRestarts(optimizer, 3, 2)
    start = 0
    for n in range(20):
        schedule.count.copy_(start)
        schedule._write()
        assert schedule.get_last_lr() == [0.5], n
        start += 3 * 2**n


def test_one_cycle_runs_the_momentum_the_other_way() -> None:
    optimizer = make()
    schedule = optim.OneCycleLR(optimizer, 0.4, 30)
    momenta = []
    for _ in range(35):
        momenta.append(optimizer.param_groups[1]["momentum"].item())
        schedule.step()
    assert momenta[0] == pytest.approx(0.95) and min(momenta) == pytest.approx(0.85)
    assert int(np.argmin(momenta)) == 8 and momenta[-1] == pytest.approx(0.95)
    betas = optim.Adam([tb.tensor([1.0], requires_grad=True)])
    optim.OneCycleLR(betas, 0.4, 30)
    assert betas.param_groups[0]["beta1"].item() == pytest.approx(0.95)


def test_a_cycle_runs_the_momentum_the_other_way_unless_told_not_to() -> None:
    opt = make([0.1])
    schedule = optim.lr_scheduler.CyclicLR(opt, [0.1], [0.5], 4, 6, base_momentum=0.6, max_momentum=0.95)
    for t in range(25):
        height = (cyclic(t, 4, 6, lambda cycle, t: 1.0) - 0.1) / 0.4
        assert opt.param_groups[0]["momentum"].item() == pytest.approx(0.95 - 0.35 * height, rel=1e-6)
        opt.step()
        schedule.step()
    still = make([0.1])
    optim.lr_scheduler.CyclicLR(still, 0.1, 0.5, 4, cycle_momentum=False).step(3)
    assert still.param_groups[0]["momentum"].item() == pytest.approx(0.9)


def test_cycles_of_each_group() -> None:
    opt = make([0.1, 0.2])
    schedule = optim.lr_scheduler.CyclicLR(opt, [0.1, 0.3], [0.5, 0.4], 2, cycle_momentum=False)
    assert schedule.get_last_lr() == pytest.approx([0.1, 0.3])
    schedule.step()
    assert schedule.get_last_lr() == pytest.approx([0.3, 0.35])
    schedule.step()
    assert schedule.get_last_lr() == pytest.approx([0.5, 0.4])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mode": "square"}, "CyclicLR: mode is 'square'"),
        ({"scale_mode": "epoch"}, "expected: 'cycle' or 'iterations'"),
        ({"step_size_up": 0}, "CyclicLR: step_size_up is 0"),
        ({"step_size_down": 2.5}, "CyclicLR: step_size_down is 2.5"),
    ],
)
def test_wrong_cycles(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        optim.lr_scheduler.CyclicLR(make([0.1]), 0.1, 0.5, **settings)


def test_one_cycle_in_epochs() -> None:
    a, b = make(), make()
    by_steps, by_epochs = optim.OneCycleLR(a, 0.4, 30), optim.OneCycleLR(b, 0.4, epochs=5, steps_per_epoch=6)
    for _ in range(30):
        by_steps.step()
        by_epochs.step()
        assert by_steps.get_last_lr() == by_epochs.get_last_lr()
    with pytest.raises(ArgumentError, match="OneCycleLR: epochs is None"):
        optim.OneCycleLR(make(), 0.4)


def test_functions_per_group() -> None:
    optimizer = make()
    optim.LambdaLR(optimizer, [lambda t: 2.0 + t, lambda t: 3.0])
    assert [g["lr"].item() for g in optimizer.param_groups] == pytest.approx([0.2, 0.075])


def test_saved_and_restored_it_goes_on_with_the_same_bits() -> None:
    for build, _ in FORMULAS.values():
        optimizer = make()
        schedule = build(optimizer)
        for _ in range(9):
            schedule.step()
        saved, of_optimizer = schedule.state_dict(), optimizer.state_dict()
        other = make()
        again = build(other)
        other.load_state_dict(of_optimizer)
        again.load_state_dict(saved)
        assert again.get_last_lr() == schedule.get_last_lr()
        for _ in range(20):
            schedule.step()
            again.step()
            assert again.get_last_lr() == schedule.get_last_lr()


def test_an_optimiser_restored_first_keeps_its_base() -> None:
    optimizer = make()
    schedule = optim.ExponentialLR(optimizer, 0.5)
    schedule.step()
    other = make()
    other.load_state_dict(optimizer.state_dict())
    again = optim.ExponentialLR(other, 0.5)
    assert again.base_lrs == pytest.approx(list(BASES)), "the base is the first rate, not the present one"
    assert again.get_last_lr() == pytest.approx([0.5 * b for b in BASES]), "the rate that was restored stays"
    again.step()
    assert again.get_last_lr() == pytest.approx([0.25 * b for b in BASES])


# ---- plateau ----


def plateau(metrics: list[float], **settings: Any) -> list[float]:
    optimizer = make([1.0])
    schedule = optim.ReduceLROnPlateau(optimizer, factor=0.5, **settings)
    out = []
    for m in metrics:
        schedule.step(m)
        out.append(schedule.get_last_lr()[0])
    return out


def test_plateau_waits_reduces_and_rests() -> None:
    assert plateau([1.0, 1.0, 1.0, 1.0, 1.0], patience=1) == [1.0, 1.0, 0.5, 0.5, 0.25]
    assert plateau([1.0] * 8, patience=0, cooldown=2) == [1.0, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125]
    assert plateau([5, 4, 3, 2, 1], patience=0) == [1.0] * 5


def test_plateau_thresholds() -> None:
    assert plateau([1.0, 0.95, 0.9], patience=0, threshold=0.1) == [1.0, 0.5, 0.25]
    assert plateau([1.0, 0.95, 0.84], patience=0, threshold=0.1) == [1.0, 0.5, 0.5]
    assert plateau([10.0, 9.95, 9.8], patience=0, threshold=0.1, threshold_mode="abs") == [1.0, 0.5, 0.5]
    assert plateau([1.0, 1.05, 1.3], patience=0, threshold=0.1, mode="max") == [1.0, 0.5, 0.5]


def test_plateau_keeps_above_the_least_rate() -> None:
    assert plateau([1.0] * 5, patience=0, min_lr=0.3) == [1.0, 0.5, 0.3, 0.3, 0.3]
    assert plateau([1.0] * 3, patience=0, eps=0.6) == [1.0, 1.0, 1.0]


def test_plateau_never_takes_a_number_that_is_none_for_better() -> None:
    assert plateau([1.0, math.nan, math.nan], patience=1) == [1.0, 1.0, 0.5]
    assert plateau([math.nan, 1.0, 0.5], patience=0)[1:] == [0.5, 0.5]


def test_plateau_restored() -> None:
    optimizer = make([1.0])
    schedule = optim.ReduceLROnPlateau(optimizer, patience=2)
    for m in (3.0, 2.0, 2.0, 2.0):
        schedule.step(m)
    other = make([1.0])
    again = optim.ReduceLROnPlateau(other, patience=2)
    again.load_state_dict(schedule.state_dict())
    other.load_state_dict(optimizer.state_dict())
    for s in (schedule, again):
        s.step(tb.tensor(2.0))
    assert again.get_last_lr() == schedule.get_last_lr() == pytest.approx([0.1])


# ---- wrong uses ----


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda o: optim.StepLR(o, 0), r"StepLR: step_size is 0\n.*where.*\n.*an integer of at least 1"),
        (lambda o: optim.StepLR([1], 3), "StepLR of a list"),
        (lambda o: optim.LambdaLR(o, [abs]), "LambdaLR: 1 values of lr_lambda"),
        (lambda o: optim.OneCycleLR(o, 0.1, 10, anneal_strategy="x"), "'cos' or 'linear'"),
        (lambda o: optim.SequentialLR(o, [optim.ExponentialLR(o, 0.9)], [3]), "one fewer than schedules"),
        (
            lambda o: optim.SequentialLR(make(), [optim.ExponentialLR(o, 0.9)], []),
            "schedules of this optimiser",
        ),
        (lambda o: optim.ChainedScheduler([]), "at least one schedule"),
        (lambda o: optim.ChainedScheduler([optim.ReduceLROnPlateau(o)]), "a function of the number of steps"),
        (lambda o: optim.ReduceLROnPlateau(o, factor=1.0), "factor between 0 and 1"),
        (lambda o: optim.ReduceLROnPlateau(o).step(), r"step\(\) without a metric"),
    ],
)
def test_wrong_uses(build: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        build(make())


def test_cycles_need_a_momentum_to_cycle() -> None:
    plain = optim.SGD([tb.tensor([1.0], requires_grad=True)])
    with pytest.raises(ArgumentError, match=r"CyclicLR[\s\S]*no momentum[\s\S]*cycle_momentum=False"):
        optim.lr_scheduler.CyclicLR(plain, 0.1, 0.5)
    with pytest.raises(ArgumentError, match=r"no momentum[\s\S]*cycle_momentum=False"):
        optim.OneCycleLR(plain, 0.1, 10)


def test_another_schedules_state_is_refused() -> None:
    schedule = optim.StepLR(make(), 3)
    with pytest.raises(StateError, match="does not fit StepLR"):
        schedule.load_state_dict(optim.ReduceLROnPlateau(make()).state_dict())
