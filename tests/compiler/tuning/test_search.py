"""The search on costs that are known: it finds, it ends, it repeats nothing, and it beats drawing by lot."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.compiler.tuning.by_lot import draw_at_random, random_point
from trilobite.compiler.targets.cpu.tuning import search as search_module
from trilobite.compiler.targets.cpu.tuning.search import Budget, Found, search
from trilobite.compiler.targets.cpu.tuning.spaces import SPACES

KINDS = list(SPACES)


def cost(kind: str, seed: int) -> Any:
    """A smooth valley at a random place, a cliff, and a little noise that depends on the place alone."""
    rng = np.random.default_rng(seed)
    space = SPACES[kind]
    place = random_point(space, rng)
    cliff = {name: rng.choice(values) for name, values in space.values}

    def seconds(p: dict[str, int]) -> float:
        away = sum(abs(math.log2(1 + p[n]) - math.log2(1 + place[n])) for n in p)
        fallen = sum(p[n] > cliff[n] for n in p)
        noise = np.random.default_rng([seed, *p.values()]).uniform(0, 0.02)
        return 1e-4 * (1 + 0.06 * away + 0.1 * fallen + noise)

    return seconds


def default_of(kind: str) -> dict[str, int]:
    return random_point(SPACES[kind], np.random.default_rng(99))


def run(kind: str, seed: int, trials: int, seconds: float = math.inf) -> Found:
    rng, budget = np.random.default_rng(seed), Budget(trials, seconds)
    return search(SPACES[kind], default_of(kind), cost(kind, seed), budget, rng)


@pytest.mark.parametrize("kind", ["dot", "conv"])
def test_it_beats_drawing_by_lot_at_equal_trials(kind: str) -> None:
    ours, theirs = [], []
    for seed in range(12):
        ours.append(run(kind, seed, 32).best[1])
        rng = np.random.default_rng(seed)
        lot = draw_at_random(SPACES[kind], default_of(kind), cost(kind, seed), Budget(32), rng)
        theirs.append(lot.best[1])
    assert np.mean(ours) < 0.97 * np.mean(theirs)
    assert sum(a <= b for a, b in zip(ours, theirs, strict=True)) >= 9


@pytest.mark.parametrize("kind", KINDS)
def test_the_default_comes_first_and_nothing_twice(kind: str) -> None:
    found = run(kind, 3, 30)
    assert found.trials[0][0] == default_of(kind)
    assert len(found.seen()) == len(found.trials) == min(30, SPACES[kind].size)
    assert found.best == found.ranked()[0]
    assert run(kind, 3, 30).trials == found.trials  # the same seed, the same search


def test_a_small_space_is_measured_whole() -> None:
    found = run("loops", 1, 1000)
    assert len(found.trials) == SPACES["loops"].size
    assert found.best[1] == min(map(cost("loops", 1), SPACES["loops"]))


@pytest.mark.parametrize(("seconds", "trials"), [(0.0, 1), (6.0, 4), (100.0, 51)])
def test_time_ends_a_search(seconds: float, trials: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that moves by two seconds between looks at it: the machine's load has no say."""
    clock = itertools.count(0.0, 2.0)
    monkeypatch.setattr(search_module, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    assert len(run("dot", 0, 10**6, seconds).trials) == trials


@pytest.mark.parametrize("kind", KINDS)
def test_points_beside_another(kind: str) -> None:
    """One parameter is another, and none lies between; also of a default that is no listed value."""
    space = SPACES[kind]
    listed = dict(space.values)
    for seed in range(40):
        p = random_point(space, np.random.default_rng(seed))
        p = {name: n + seed % 3 for name, n in p.items()}
        found = list(space.beside(p))
        assert found
        for q in found:
            ((name, n),) = ((name, n) for name, n in q.items() if n != p[name])
            low, high = sorted((n, p[name]))
            assert n in listed[name] and not any(low < v < high for v in listed[name])
        ends = sum((v[0] >= p[name]) + (v[-1] <= p[name]) for name, v in space.values)
        assert len(found) == 2 * len(space.values) - ends


def test_what_is_of_a_space() -> None:
    assert SPACES["loops"].contains({"block": 1000})
    assert not SPACES["loops"].contains({})
    assert not SPACES["loops"].contains({"block": 1})
