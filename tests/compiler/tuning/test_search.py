"""The search on costs that are known: it finds, it ends, it repeats nothing, and it beats drawing by lot."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.compiler.tuning.by_lot import draw_at_random
from trilobite.compiler.targets.cpu.tuning import model
from trilobite.compiler.targets.cpu.tuning import search as search_module
from trilobite.compiler.targets.cpu.tuning.model import Boosted, analytic, features, terms
from trilobite.compiler.targets.cpu.tuning.search import Budget, Found, search
from trilobite.compiler.targets.cpu.tuning.spaces import SPACES
from trilobite.native.host import AARCH64, SSE2
from trilobite.native.host import features as this_machine

PROBLEM = {
    "dot": "1x512x768x3072 float32 by k float32 by line to float32",
    "conv": "784 x 64 to 128 in 1 float32 to float32 28of56x3by2 28of56x3by2",
    "rows": "max 3136 x 64 float32 to float32 56of112x3by2 56of112x3by2",
    "loops": "f32[70001] of exp mul",
}
KINDS = list(SPACES)


def cost(kind: str, seed: int) -> Any:
    """A smooth valley at a random place, a cliff, and a little noise that depends on the place alone."""
    rng = np.random.default_rng(seed)
    space = SPACES[kind]
    place = space.random(rng)
    cliff = {name: rng.choice(values) for name, values in space.values}

    def seconds(p: dict[str, int]) -> float:
        away = sum(abs(math.log2(1 + p[n]) - math.log2(1 + place[n])) for n in p)
        fallen = sum(p[n] > cliff[n] for n in p)
        noise = np.random.default_rng([seed, *p.values()]).uniform(0, 0.02)
        return 1e-4 * (1 + 0.06 * away + 0.1 * fallen + noise)

    return seconds


def run(kind: str, seed: int, trials: int, seconds: float = math.inf) -> Found:
    host, problem = SSE2, PROBLEM[kind]
    default = SPACES[kind].random(np.random.default_rng(99))
    return search(
        SPACES[kind], default, cost(kind, seed),
        lambda p: analytic(kind, problem, p, host), lambda p: features(kind, problem, p, host),
        Budget(trials, seconds), np.random.default_rng(seed),
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["dot", "conv"])
def test_the_model_beats_drawing_by_lot_at_equal_trials(kind: str) -> None:
    ours, theirs = [], []
    for seed in range(12):
        default = SPACES[kind].random(np.random.default_rng(99))
        ours.append(run(kind, seed, 32).best[1])
        lot = draw_at_random(SPACES[kind], default, cost(kind, seed), Budget(32), np.random.default_rng(seed))
        theirs.append(lot.best[1])
    assert np.mean(ours) < 0.97 * np.mean(theirs)
    assert sum(a <= b for a, b in zip(ours, theirs, strict=True)) >= 9


@pytest.mark.parametrize("kind", KINDS)
def test_the_default_comes_first_and_nothing_twice(kind: str) -> None:
    found = run(kind, 3, 30)
    assert found.trials[0][0] == SPACES[kind].random(np.random.default_rng(99))
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


# -- models --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("host", [SSE2, AARCH64, this_machine()], ids=["sse2", "aarch64", "here"])
def test_the_written_model_has_an_opinion_on_everything(kind: str, host: Any) -> None:
    guesses = [analytic(kind, PROBLEM[kind], p, host) for p in SPACES[kind]]
    assert all(math.isfinite(g) and g >= 0 for g in guesses)
    assert max(guesses) > min(guesses)
    lengths = {len(terms(kind, PROBLEM[kind], p, host)) for p in SPACES[kind]}
    assert len(lengths) == 1


def test_the_written_model_knows_what_does_not_fit() -> None:
    p = {"m_block": 96, "n_block": 512, "direct": 128, "units": 64}
    fits, does_not = (analytic("dot", PROBLEM["dot"], {**p, "m_block": m}, SSE2) for m in (96, 768))
    assert fits < does_not
    two = model._uneven
    assert two(3, 2) == pytest.approx(1 / 3)
    assert two(4, 2) == two(1, 1) == 0


def test_stumps_learn_steps_and_sums_of_them() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (200, 4))
    y = 3.0 * (x[:, 1] > 0.2) - 2.0 * (x[:, 3] > -0.5) + 5
    fitted = Boosted().fit(x, y)
    fresh = rng.uniform(-1, 1, (100, 4))
    want = 3.0 * (fresh[:, 1] > 0.2) - 2.0 * (fresh[:, 3] > -0.5) + 5
    assert np.abs(fitted(fresh) - want).mean() < 0.1
    assert {f for f, *_ in fitted.stumps[:4]} == {1, 3}


def test_stumps_without_anything_to_learn() -> None:
    same = Boosted().fit(np.ones((5, 2)), np.arange(5.0))
    np.testing.assert_array_equal(same(np.zeros((3, 2))), 2.0)
    flat = Boosted().fit(np.arange(10.0).reshape(5, 2), np.full(5, 7.0))
    np.testing.assert_array_equal(flat(np.zeros((3, 2))), 7.0)


def test_children_stay_in_the_space() -> None:
    rng = np.random.default_rng(0)
    for space in SPACES.values():
        a, b = space.random(rng), space.random(rng)
        for _ in range(200):
            child = space.mutated(space.crossed(a, b, rng), rng)
            assert space.contains(child)
            assert all(child[name] in values for name, values in space.values)
    assert not SPACES["loops"].contains({})
    assert not SPACES["loops"].contains({"block": 1})
