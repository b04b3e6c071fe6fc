"""Tuning as a whole: what is measured, what is checked in another process, what is kept and shown."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from tests.compiler.tuning.subjects import executable, normal, subjects
from trilobite.base.errors import ArgumentError, StateError
from trilobite.cli.compiler import duration
from trilobite.compiler.targets.cpu.tuning import again, tuner
from trilobite.compiler.targets.cpu.tuning.again import measured_again
from trilobite.compiler.targets.cpu.tuning.database import current
from trilobite.compiler.targets.cpu.tuning.report import outcomes_table
from trilobite.compiler.targets.cpu.tuning.tuner import tasks_of, tune


def layers(a: Any, b: Any) -> Any:
    for _ in range(3):
        a = tb.tanh(a @ b)
    return a


def test_equal_kernels_are_one_task() -> None:
    tasks = tasks_of(executable(layers, (64, 96), (96, 96)))
    dots = [t for t in tasks if t.asked[0].kind == "dot"]
    assert len(dots) == 1
    assert dots[0].count == 3
    assert 0 < dots[0].default < 1


def test_kernels_of_a_loop_count_as_often_as_it_runs() -> None:
    def f(x: Any, w: Any) -> Any:
        return tb.scan(lambda c, _: (tb.tanh(c @ w), None), x, None, length=11)[0]

    (dot,) = (t for t in tasks_of(executable(f, (24, 32), (32, 32))) if t.asked[0].kind == "dot")
    assert dot.count == 11


def test_symbolic_sizes_are_left_alone() -> None:
    f = tb.jit(lambda x: tb.exp(x) @ x.T, shapes=[(tb.dim("n", max=64), 16)])
    assert tasks_of(f.lower(normal(8, 16)).compile()) == []


def fake(pair: tuple[float, float]) -> Any:
    return lambda jobs: [pair for _ in jobs]


def winning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measurements under which another schedule always wins."""
    seconds = (0.9**n for n in itertools.count())
    monkeypatch.setattr(tuner.Subject, "seconds", lambda *_, **__: next(seconds))


def test_what_holds_elsewhere_is_kept_and_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    winning(monkeypatch)
    monkeypatch.setattr(tuner, "measured_again", fake((2e-4, 1e-4)))
    monkeypatch.setattr(tuner, "TRIALS", 12)
    said: list[str] = []
    outcomes = tune(executable(layers, (64, 96), (96, 96)), 3.0, said.append)
    assert all(o.kept and o.gain == pytest.approx(2) for o in outcomes)
    assert len(said) == len(outcomes)
    kept = current().entries
    assert {key.split()[0] for key in kept} >= {"dot"}
    assert all(e.trials == 12 for key, e in kept.items() if key.startswith("dot"))
    text = outcomes_table(outcomes)
    assert "2.00" in text and f"{len(outcomes)} of {len(outcomes)} kernels kept" in text
    a, b = normal(64, 96), normal(96, 96, seed=1)
    np.testing.assert_allclose(tb.jit(layers)(a, b).numpy(), layers(a, b).numpy(), rtol=1e-4, atol=1e-5)


def test_what_does_not_hold_elsewhere_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    winning(monkeypatch)
    monkeypatch.setattr(tuner, "measured_again", fake((1e-4, 0.99e-4)))
    monkeypatch.setattr(tuner, "TRIALS", 6)
    outcomes = tune(executable(layers, (64, 96), (96, 96)), 2.0)
    assert outcomes and not any(o.kept for o in outcomes)
    assert not current()
    assert "the default stays" in outcomes_table(outcomes)


def test_nothing_to_tune() -> None:
    assert outcomes_table(tune(executable(lambda x: tb.reshape(x, (6,)), (2, 3)), 1.0)) == (
        "no kernel of it has parameters"
    )


def test_another_process_measures_both() -> None:
    (subject,) = subjects("loops")
    ((default, tuned),) = measured_again([(subject.graph, {"block": 512})])
    assert 1e-7 < default < 1 and 1e-7 < tuned < 1
    assert measured_again([]) == []


def test_another_process_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    (subject,) = subjects("loops")
    monkeypatch.setattr(again, "show", lambda _: "no graph")
    with pytest.raises(StateError, match="measuring in another process failed"):
        measured_again([(subject.graph, {"block": 512})])


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30), ("5m", 300), ("1.5h", 5400), ("7", 7)])
def test_durations(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-3s", "0", "3d", "3 s"])
def test_durations_that_are_none(text: str) -> None:
    with pytest.raises(ArgumentError, match="expected: a time such as 30s, 5m or 1h"):
        duration(text)
