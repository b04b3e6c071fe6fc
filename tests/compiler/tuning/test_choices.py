"""Parameters: who gets which, that they change no bit, and that what was kept is used."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from tests.compiler.tuning.subjects import PROGRAMS, executable, normal, subjects
from trilobite.compiler.targets.cpu.kinds import kinds
from trilobite.compiler.targets.cpu.tuning.choices import choice, trying
from trilobite.compiler.targets.cpu.tuning.database import Entry, keep
from trilobite.compiler.targets.cpu.tuning.spaces import SPACES


def never() -> str:
    pytest.fail("nobody would look at the description")


def test_without_a_database_defaults_hold_and_nothing_is_described() -> None:
    assert choice("dot", never, units=3, m_block=4) == {"units": 3, "m_block": 4}


def test_what_is_tried_holds_within_and_for_this_thread() -> None:
    seen: list[dict[str, int]] = []
    with trying({"block": 512}) as trial:
        assert choice("loops", lambda: "p", block=1) == {"block": 512}
        other = threading.Thread(target=lambda: seen.append(choice("loops", never, block=1)))
        other.start()
        other.join()
        with trying():
            assert choice("loops", lambda: "q", block=1) == {"block": 1}
        assert choice("conv", lambda: "p", pixels=7) == {"pixels": 7}  # parameters of another kind
    assert seen == [{"block": 1}]
    assert [a.key for a in trial.asked] == ["loops p", "conv p"]
    assert choice("loops", never, block=1) == {"block": 1}


def test_what_was_kept_is_used_but_not_while_trying() -> None:
    keep({"loops p": Entry({"block": 2048}, 1.0, 2.0, 5, "2026-01-01")})
    assert choice("loops", lambda: "p", block=1) == {"block": 2048}
    assert choice("loops", lambda: "q", block=1) == {"block": 1}
    assert choice("loops", lambda: "p", block=1, more=2) == {"block": 1, "more": 2}  # of an older kernel
    with trying():
        assert choice("loops", lambda: "p", block=1) == {"block": 1}


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_parameter_changes_a_bit(name: str) -> None:
    rng = np.random.default_rng(len(name))
    found = subjects(name)
    assert found
    for subject in found:
        (kind,) = {a.kind for a in subject.asked()}
        want = [o.tobytes() for o in subject.outputs(None)]
        space = SPACES[kind]
        ends = [{n: v[i] for n, v in space.values} for i in (0, -1)]
        for parameters in (*ends, *(space.random(rng) for _ in range(6))):
            got = [o.tobytes() for o in subject.outputs(parameters)]
            assert got == want, parameters


def test_parameters_are_not_ignored() -> None:
    """Each changes the program of some fusion above."""
    moved: dict[str, set[str]] = {kind: set() for kind in SPACES}
    for name in PROGRAMS:
        for subject in subjects(name):
            asked = subject.asked()[0]
            default, usual = dict(asked.defaults), subject.program(None).steps
            for parameter, values in SPACES[asked.kind].values:
                for value in (values[0], values[-1]):
                    if subject.program({**default, parameter: value}).steps != usual:
                        moved[asked.kind].add(parameter)
    assert moved == {kind: set(space.names) for kind, space in SPACES.items()}


def test_a_new_compilation_replays_what_was_kept() -> None:
    def f(a: Any, b: Any) -> Any:
        return a @ b + 1.0

    def first_units() -> int:
        fused = executable(f, (120, 64), (64, 240)).main.fused
        (e,) = (e for e in fused.equations if e.attributes["kind"] == "dot")
        return int(kinds().lowerings["dot"](e).steps[-1].units)

    before = first_units()
    fused = executable(f, (120, 64), (64, 240)).main.fused
    with trying() as trial:
        for e in fused.equations:
            kinds().lowerings[e.attributes["kind"]](e)
    asked = next(a for a in trial.asked if a.kind == "dot")
    keep({asked.key: Entry({**dict(asked.defaults), "units": 2}, 1.0, 2.0, 5, "2026-01-01")})
    assert before > 2
    assert first_units() == 2
    a, b = normal(120, 64, dtype=np.float64), normal(64, 240, seed=1, dtype=np.float64)
    np.testing.assert_allclose(tb.jit(f)(a, b).numpy(), f(a, b).numpy(), rtol=1e-12)
