"""Optimisers and schedules where ordinary training does not come: bounds of settings, saved states that do
not fit, groups as mappings, schedules at their ends.
"""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ArgumentError, StateError
from trilobite.framework import optim

sched = optim.lr_scheduler if hasattr(optim, "lr_scheduler") else optim


def leaf(*shape: int) -> Any:
    return tb.tensor(np.ones(shape, np.float32), requires_grad=True)


def sgd(lr: float = 0.1, **given: Any) -> Any:
    return optim.SGD([leaf(2)], lr=lr, **given)


# -- settings on both sides of their bounds ------------------------------------------------------------------

Case = tuple[Callable[[], Any], str, Callable[[], Any]]
A, B = sgd(), sgd()
CASES: dict[str, Case] = {
    "scale": (
        lambda: optim.GradScaler(init_scale=0),
        "init_scale > 0",
        lambda: optim.GradScaler(init_scale=1e-3),
    ),
    "growth": (
        lambda: optim.GradScaler(growth_factor=1.0),
        "growth_factor > 1",
        lambda: optim.GradScaler(growth_factor=1.01),
    ),
    "backoff": (
        lambda: optim.GradScaler(backoff_factor=0),
        "0 < backoff_factor",
        lambda: optim.GradScaler(backoff_factor=0.01),
    ),
    "backoff above": (
        lambda: optim.GradScaler(backoff_factor=1),
        "backoff_factor < 1",
        lambda: optim.GradScaler(backoff_factor=0.99),
    ),
    "interval": (
        lambda: optim.GradScaler(growth_interval=0),
        "growth_interval >= 1",
        lambda: optim.GradScaler(growth_interval=1),
    ),
    "several optimisers": (
        lambda: sched.ChainedScheduler([sched.StepLR(A, 2), sched.StepLR(B, 2)]),
        "of several optimisers",
        lambda: sched.ChainedScheduler([sched.StepLR(A, 2), sched.StepLR(A, 3)]),
    ),
    "no schedules": (
        lambda: sched.ChainedScheduler([]),
        "at least one schedule",
        lambda: sched.ChainedScheduler([sched.StepLR(A, 2)]),
    ),
    "plateau in a chain": (
        lambda: sched.ChainedScheduler([sched.ReduceLROnPlateau(A)]),
        "a function of the number of steps",
        lambda: sched.ChainedScheduler([sched.ConstantLR(A)]),
    ),
    "milestones": (
        lambda: sched.SequentialLR(A, [sched.StepLR(A, 2)] * 3, [4, 4]),
        "rising milestones",
        lambda: sched.SequentialLR(A, [sched.StepLR(A, 2)] * 3, [4, 5]),
    ),
    "number of milestones": (
        lambda: sched.SequentialLR(A, [sched.StepLR(A, 2)] * 3, [4]),
        "one fewer than schedules",
        lambda: sched.SequentialLR(A, [sched.StepLR(A, 2)] * 2, [4]),
    ),
    "another optimiser": (
        lambda: sched.SequentialLR(B, [sched.StepLR(A, 2)] * 2, [4]),
        "schedules of this optimiser",
        lambda: sched.SequentialLR(A, [sched.StepLR(A, 2)], []),
    ),
    "pct_start": (
        lambda: sched.OneCycleLR(A, 1.0, 10, pct_start=1.01, cycle_momentum=False),
        "pct_start from 0 to 1",
        lambda: sched.OneCycleLR(A, 1.0, 10, pct_start=1.0, cycle_momentum=False),
    ),
    "pct_start below": (
        lambda: sched.OneCycleLR(A, 1.0, 10, pct_start=-0.01, cycle_momentum=False),
        "pct_start from 0 to 1",
        lambda: sched.OneCycleLR(A, 1.0, 10, pct_start=0.0, cycle_momentum=False),
    ),
    "strategy": (
        lambda: sched.OneCycleLR(A, 1.0, 10, anneal_strategy="sine", cycle_momentum=False),
        "'cos' or 'linear'",
        lambda: sched.OneCycleLR(A, 1.0, 10, anneal_strategy="linear", cycle_momentum=False),
    ),
    "steps": (
        lambda: sched.OneCycleLR(A, 1.0, 1, cycle_momentum=False),
        "total_steps",
        lambda: sched.OneCycleLR(A, 1.0, 2, cycle_momentum=False),
    ),
    "momentum": (
        lambda: sched.OneCycleLR(A, 1.0, 10),
        "no momentum",
        lambda: sched.OneCycleLR(sgd(momentum=0.9), 1.0, 10),
    ),
    "swa": (
        lambda: sched.SWALR(A, 0.1, anneal_strategy="sine"),
        "SWALR: anneal_strategy",
        lambda: sched.SWALR(A, 0.1, anneal_strategy="linear"),
    ),
    "swa steps": (lambda: sched.SWALR(A, 0.1, -1), "anneal_epochs", lambda: sched.SWALR(A, 0.1, 0)),
    "mode": (
        lambda: sched.ReduceLROnPlateau(A, mode="low"),
        "mode",
        lambda: sched.ReduceLROnPlateau(A, mode="max"),
    ),
    "threshold_mode": (
        lambda: sched.ReduceLROnPlateau(A, threshold_mode="relative"),
        "threshold_mode",
        lambda: sched.ReduceLROnPlateau(A, threshold_mode="abs"),
    ),
    "rate": (lambda: sgd(-1e-9), "lr >= 0", lambda: sgd(0.0)),
    "rate without end": (lambda: sgd(math.inf), "lr >= 0", lambda: sgd(1e30)),
    "a rate that is none": (lambda: sgd(math.nan), "lr", lambda: sgd(1.0)),
    "beta": (
        lambda: optim.Adam([leaf(1)], betas=(0.9, 1.0)),
        "in [0, 1)",
        lambda: optim.Adam([leaf(1)], betas=(0.0, 0.0)),
    ),
    "beta below": (
        lambda: optim.Adam([leaf(1)], betas=(-0.1, 0.9)),
        "in [0, 1)",
        lambda: optim.Adam([leaf(1)], betas=(0.999, 0.9)),
    ),
    "iterations": (
        lambda: optim.LBFGS([leaf(1)], max_iter=0),
        "max_iter is 0",
        lambda: optim.LBFGS([leaf(1)], max_iter=1, max_eval=1),
    ),
    "evaluations": (
        lambda: optim.LBFGS([leaf(1)], max_eval=0),
        "max_eval is 0",
        lambda: optim.LBFGS([leaf(1)], max_eval=1),
    ),
    "iterations that are floats": (
        lambda: optim.LBFGS([leaf(1)], max_iter=2.0),
        "an integer from 1",
        lambda: optim.LBFGS([leaf(1)], max_iter=2),
    ),
    "history": (
        lambda: optim.LBFGS([leaf(1)], history_size=0),
        "history_size is 0",
        lambda: optim.LBFGS([leaf(1)], history_size=1),
    ),
    "search": (
        lambda: optim.LBFGS([leaf(1)], line_search_fn="wolfe"),
        "'strong_wolfe' or None",
        lambda: optim.LBFGS([leaf(1)], line_search_fn="strong_wolfe"),
    ),
    "groups of a vector": (
        lambda: optim.LBFGS([{"params": [leaf(1)]}, {"params": [leaf(1)]}]),
        "several parameter groups",
        lambda: optim.LBFGS([{"params": [leaf(1)]}]),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_side(name: str) -> None:
    wrong, text, right = CASES[name]
    with pytest.raises(ArgumentError) as caught:
        wrong()
    assert text in str(caught.value), str(caught.value)
    right()


# -- schedules -----------------------------------------------------------------------------------------------


def rates(schedule: Any, steps: int) -> list[float]:
    found = [schedule.get_last_lr()[0]]
    for _ in range(steps):
        schedule.step()
        found += schedule.get_last_lr()
    return found


@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize(
    ("total", "share", "three"),
    [(10, 0.3, False), (10, 0.4, True), (7, 0.0, False), (5, 1.0, False), (8, 0.125, False)],
)
def test_one_cycle_corner_by_corner(strategy: str, total: int, share: float, three: bool) -> None:
    optimizer = sgd(momentum=0.9)
    schedule = sched.OneCycleLR(
        optimizer, 2.0, total, pct_start=share, anneal_strategy=strategy, base_momentum=0.8, max_momentum=0.9,
        div_factor=10.0, final_div_factor=100.0, three_phase=three,
    )  # fmt: skip
    ends = (
        [share * total - 1, 2 * share * total - 2, total - 1.0] if three else [share * total - 1, total - 1.0]
    )
    tops = [0.2, 2.0, 0.2, 0.002] if three else [0.2, 2.0, 0.002]
    beats = [0.9, 0.8, 0.9, 0.9] if three else [0.9, 0.8, 0.9]

    def along(t: float, corners: list[float]) -> float:
        t, start = min(t, total - 1.0), 0.0
        for k, (end, (a, b)) in enumerate(zip(ends, itertools.pairwise(corners), strict=True)):
            if t <= end or k == len(ends) - 1:
                done = (t - start) / ((end - start) or 1.0)
                return (
                    a + (b - a) * done
                    if strategy == "linear"
                    else b + (a - b) * (1 + math.cos(math.pi * done)) / 2
                )
            start = end
        raise AssertionError

    for t in range(total + 3):
        group = optimizer.param_groups[0]
        assert group["lr"].item() == pytest.approx(along(t, tops), rel=1e-12), t
        assert group["momentum"].item() == pytest.approx(along(t, beats), rel=1e-12), t
        schedule.step()


def test_epochs_times_steps_is_a_cycle() -> None:
    a = sched.OneCycleLR(sgd(), 1.0, epochs=3, steps_per_epoch=4, cycle_momentum=False)
    b = sched.OneCycleLR(sgd(), 1.0, 12, cycle_momentum=False)
    assert rates(a, 14) == rates(b, 14)


@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("steps", [0, 1, 4])
def test_rates_for_averages(strategy: str, steps: int) -> None:
    found = rates(sched.SWALR(sgd(1.0), 0.2, steps, strategy), 6)
    for t, rate in enumerate(found):
        done = min(t / steps, 1.0) if steps else 1.0
        share = done if strategy == "linear" else (1 - math.cos(math.pi * done)) / 2
        assert rate == pytest.approx(1.0 + (0.2 - 1.0) * share, rel=1e-12)


def test_the_next_schedule_begins_at_its_milestone() -> None:
    optimizer = sgd(1.0)
    made = [
        sched.ConstantLR(optimizer, 0.5, 100),
        sched.StepLR(optimizer, 2, 0.1),
        sched.ExponentialLR(optimizer, 0.5),
    ]
    found = rates(sched.SequentialLR(optimizer, made, [3, 6]), 8)
    assert found == pytest.approx([0.5] * 3 + [1.0, 1.0, 0.1] + [1.0, 0.5, 0.25], rel=1e-12)


def test_what_else_a_schedule_sets_begins_at_its_milestone() -> None:
    """Momenta are the optimiser's until then, and count from there."""
    optimizer = sgd(1.0, momentum=0.7)
    cycle = sched.OneCycleLR(optimizer, 2.0, 4, base_momentum=0.5, max_momentum=0.9)
    alone = []
    for _ in range(4):
        alone.append(optimizer.param_groups[0]["momentum"].item())
        cycle.step()
    optimizer.param_groups[0]["momentum"] = 0.7
    cycle.step(0)
    optimizer.param_groups[0]["momentum"] = 0.7
    chain = sched.SequentialLR(optimizer, [sched.ConstantLR(optimizer, 1.0, 1), cycle], [3])
    seen = []
    for _ in range(7):
        seen.append(optimizer.param_groups[0]["momentum"].item())
        chain.step()
    assert seen == pytest.approx([0.7] * 3 + alone, rel=1e-12)


def test_a_schedule_tells_itself() -> None:
    schedule = sched.StepLR(sgd(0.25), 2, 0.5, last_epoch=5)
    assert schedule.last_epoch == 6 and schedule.base_lrs == [0.25], "as in PyTorch: step 6 comes after 5"
    assert repr(schedule) == "StepLR(step 6, lr 0.125)"
    assert sched.StepLR(sgd(0.25), 2, 0.5, last_epoch=0).last_epoch == 1
    assert sched.StepLR(sgd(0.25), 2, 0.5, last_epoch=-1).last_epoch == 0
    with pytest.raises(StateError, match="count"):
        schedule.load_state_dict({})


@pytest.mark.parametrize(
    ("mode", "how", "threshold"),
    [("min", "rel", 0.1), ("min", "abs", 0.1), ("max", "rel", 0.1), ("max", "abs", 0.1), ("min", "rel", 0.0)],
)
def test_plateaus_by_hand(mode: str, how: str, threshold: float) -> None:
    """Patience, rest, and steps of the rate that are too small to be worth it."""
    rng = np.random.default_rng(4)
    for patience, cooldown, eps in ((0, 0, 0.0), (2, 0, 0.0), (1, 2, 0.0), (1, 1, 0.02)):
        optimizer = sgd(1.0)
        schedule = sched.ReduceLROnPlateau(
            optimizer, mode, 0.5, patience, threshold, how, cooldown=cooldown, min_lr=0.01, eps=eps,
        )  # fmt: skip
        rate, best, bad, rest = 1.0, math.inf if mode == "min" else -math.inf, 0, 0
        for step in range(30):
            metric = (
                float(np.round(rng.random() + 0.5, 1)) if step % 7 else best if math.isfinite(best) else 1.0
            )
            schedule.step(metric)
            sign = -1 if mode == "min" else 1
            bound = best * (1 + sign * threshold) if how == "rel" else best + sign * threshold
            if metric < bound if mode == "min" else metric > bound:
                best, bad = metric, 0
            else:
                bad += 1
            if rest > 0:
                rest, bad = rest - 1, 0
            if bad > patience:
                new = max(rate * 0.5, 0.01)
                rate = new if rate - new > eps else rate
                rest, bad = cooldown, 0
            assert optimizer.param_groups[0]["lr"].item() == pytest.approx(rate, rel=1e-12), (patience, step)


# -- groups and saved states ---------------------------------------------------------------------------------


def test_groups_are_mappings() -> None:
    (group,) = optim.Adam([leaf(2)], lr=0.1, betas=(0.8, 0.7)).param_groups
    assert [b.item() for b in group["betas"]] == pytest.approx([0.8, 0.7])
    assert "betas" in group and group.get("nothing", 3) == 3 and group.get("nothing") is None
    with pytest.raises(KeyError):
        group["nothing"]
    assert group.setdefault("note", "mine") == "mine" and group.setdefault("note", "other") == "mine"
    group["betas"] = (0.5, 0.25)
    assert [group[n].item() for n in ("beta1", "beta2")] == [0.5, 0.25]
    for wrong in ("learning_rate", "wd", "beta"):
        with pytest.raises(StateError, match=f"has no '{wrong}'"):
            group[wrong] = 1.0
    for refused in (
        lambda: group.pop("lr"),
        lambda: group.clear(),
        lambda: group.popitem(),
        lambda: group.__delitem__("lr"),
    ):
        with pytest.raises(StateError, match="stays there"):
            refused()
    with pytest.raises(ArgumentError, match="lr is True"):
        group["lr"] = True
    with pytest.raises(ArgumentError, match=r"a tensor of shape \(2,\)"):
        group["lr"] = tb.ones((2,))
    for made in (
        copy.deepcopy(group),
        pickle.loads(pickle.dumps({k: v for k, v in group.items() if k == "note"})),
    ):
        assert made["note"] == "mine"
    copied = copy.deepcopy(group)
    copied["lr"] = 0.5
    assert group["lr"].item() == pytest.approx(0.1) and [b.item() for b in copied["betas"]] == [0.5, 0.25]


def test_a_group_refused_as_a_whole_is_as_before() -> None:
    optimizer = optim.LBFGS([leaf(2)])
    (group,) = optimizer.param_groups
    with pytest.raises(ArgumentError, match="history_size is 0"):
        group["history_size"] = 0
    assert group["history_size"] == 100 and group.owner is optimizer
    group["history_size"] = 3
    assert group["history_size"] == 3


WRONG: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "groups": (lambda s: s["param_groups"].append(dict(s["param_groups"][0])), "it has 2 parameter groups"),
    "parameters": (lambda s: s["state"].pop(), "it is of 1 parameters"),
    "members": (lambda s: s["param_groups"][0]["params"].pop(), "group 0 is of 1 parameters"),
    "missing": (lambda s: s["param_groups"][0].pop("lr"), "group 0 has no 'lr'"),
    "truth": (lambda s: s["param_groups"][0].update(lr=True), "lr of group 0 is True"),
    "word": (lambda s: s["param_groups"][0].update(lr="fast"), "lr of group 0 is 'fast'"),
    "switch": (lambda s: s["param_groups"][0].update(nesterov=True), "nesterov of group 0 is True"),
    "names": (lambda s: s["state"][0].update(more=np.zeros(2)), "parameter 0 has"),
    "no mapping": (lambda s: s["state"].__setitem__(0, [1]), "parameter 0 has list"),
    "shape": (lambda s: s["state"][1].update(velocity=np.zeros((3,), np.float32)), r"float32\[3\]"),
    "dtype": (lambda s: s["state"][1].update(velocity=np.zeros((2, 2))), r"float64\[2, 2\]"),
    "rooms": (lambda s: s.pop("state"), "it has"),
}


@pytest.mark.parametrize("name", WRONG)
def test_states_that_do_not_fit_change_nothing(name: str) -> None:
    spoil, text = WRONG[name]
    ps = [leaf(2), leaf(2, 2)]
    optimizer = optim.SGD(ps, lr=0.1, momentum=0.9)
    for p in ps:
        p.grad = tb.ones(p.shape)
    optimizer.step()
    state, before = optimizer.state_dict(), optimizer.state_dict()
    for row in state["state"]:
        for array in row.values():
            array += 1
    state["param_groups"][0]["lr"] = 0.5
    spoil(state)
    with pytest.raises(StateError, match=text):
        optimizer.load_state_dict(state)
    after = optimizer.state_dict()
    assert after["param_groups"] == before["param_groups"]
    for a, b in zip(after["state"], before["state"], strict=True):
        assert all(np.array_equal(a[k], b[k]) for k in b)
