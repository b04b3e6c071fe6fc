"""Training killed at random moments: every checkpoint it leaves is that of a run nobody killed, and so is
its end.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoint_trees import assert_same
from kill import kill_repeatedly

from trilobite.framework import data
from trilobite.framework.checkpoint import Checkpointer

HERE = Path(__file__).resolve().parent


def environment() -> dict[str, str]:
    paths = [str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "OPENBLAS_NUM_THREADS": "1"}


class Reference:
    """A run that was let be, with all its checkpoints."""

    def __init__(self, place: Path) -> None:
        pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
        small = data.digits()
        images, labels = small.get_batch(np.arange(len(small)))
        self.digits = place / "digits.npz"
        np.savez(self.digits, images=images[:, None], labels=labels)
        subprocess.run(
            self.command(place / "whole", 0), env=environment(), check=True, stdout=subprocess.DEVNULL
        )
        self.run = Checkpointer(place / "whole", keep=None)
        self.steps = self.run.steps()
        self.state: dict[int, Any] = {}

    def command(self, place: Path, keep: int = 2) -> list[str]:
        return [sys.executable, str(HERE / "kill_trainer.py"), str(self.digits), str(place), str(keep)]

    def at(self, step: int) -> Any:
        """The state of the step, without the seconds it took."""
        if step not in self.state:
            self.state[step] = timeless(self.run.load(step))
        return self.state[step]


def timeless(state: Any) -> Any:
    for row in state["run"]["rows"]:
        del row["seconds"]
    return state


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    return Reference(tmp_path_factory.mktemp("reference"))


class Examiner:
    """Holds whatever a killed run left against the one that was let be."""

    def __init__(self, reference: Reference, place: Path) -> None:
        self.reference, self.run, self.promised, self.mended = reference, Checkpointer(place), 0, 0

    def __call__(self, done: str | None) -> int:
        self.mended += any(Path(self.run.directory).glob(".*-*"))
        self.promised = max(self.promised, int(done or 0))
        steps = self.run.steps()
        assert (steps[-1] if steps else 0) >= self.promised, "a checkpoint that was announced is gone"
        for step in steps[-2:]:
            assert_same(timeless(self.run.load(step)), self.reference.at(step))
        return steps[-1] if steps else 0


def kill_one_run(reference: Reference, place: Path, kills: int, seed: int) -> tuple[int, int]:
    """Kill a run until it ends by itself, or `kills` times and then let it end; how often it was killed, and
    in how many of those a save was under way.
    """
    examiner = Examiner(reference, place)
    report = kill_repeatedly(
        reference.command(place), examiner, kills=kills, longest=0.3, seed=seed, env=environment()
    )
    assert report.examined == sorted(report.examined)
    if not report.finished:
        subprocess.run(reference.command(place), env=environment(), check=True, stdout=subprocess.DEVNULL)
    last = reference.steps[-1]
    assert examiner.run.latest() == last
    assert_same(timeless(examiner.run.load(last)), reference.at(last))
    return report.kills, examiner.mended


def test_ten_kills_change_nothing(reference: Reference, tmp_path: Path) -> None:
    kills = 0
    for run in range(40):  # a quick machine ends a run after a few kills: then another one is killed
        kills += kill_one_run(reference, tmp_path / f"run{run}", 10 - kills, seed=1 + run)[0]
        if kills == 10:
            break
    assert kills == 10


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_200_kills_change_nothing(reference: Reference, tmp_path: Path) -> None:
    kills = in_saves = runs = 0
    while kills < 200:
        runs += 1
        killed, mended = kill_one_run(reference, tmp_path / f"run{runs}", 200 - kills, seed=runs)
        kills, in_saves = kills + killed, in_saves + mended
    assert runs > 1 and 20 < in_saves < 180, "kills must fall into saves and between them"


def test_the_reference_learns(reference: Reference) -> None:
    """What is killed above is a training that works."""
    rows = reference.at(reference.steps[-1])["run"]["rows"]
    assert rows[-1]["loss"] < 0.5 * rows[0]["loss"] and rows[-1]["validation_accuracy"] > 0.7
    assert len(reference.steps) == 40 and reference.steps[-1] == 80
