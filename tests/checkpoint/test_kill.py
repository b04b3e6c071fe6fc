"""Kills at random moments: the newest checkpoint is whole and right, and no finished save is lost."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from checkpoint_trees import assert_same
from kill import Report, kill_repeatedly
from kill_saver import first_state, next_state

from trilobite.framework.checkpoint import Checkpointer

HERE = Path(__file__).parent
ENDLESS = 10**9


class Examiner:
    """Knows every state that the run must pass through, and holds each checkpoint against it."""

    def __init__(self, place: Path) -> None:
        self.run = Checkpointer(place, keep=2)
        self.state, self.promised, self.interrupted = first_state(), 0, 0

    def __call__(self, done: str | None) -> int:
        self.interrupted += any(Path(self.run.directory).glob(".*-*"))
        self.promised = max(self.promised, int(done or 0))
        steps = self.run.steps()
        assert (steps[-1] if steps else 0) >= self.promised, "a save that had returned is gone"
        for step in steps:
            self._check(step)
        return steps[-1] if steps else 0

    def _check(self, step: int) -> None:
        while self.state["step"] < step:
            self.state = next_state(self.state)
        if self.state["step"] == step:
            assert_same(self.run.load(step), self.state)
        else:
            assert self.run.load(step)["step"] == step  # checked bit for bit when it was the newest


def _env() -> dict[str, str]:
    paths = [os.environ.get("PYTHONPATH", ""), str(HERE.parent.parent)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def _command(place: Path, last: int) -> list[str]:
    return [sys.executable, str(HERE / "kill_saver.py"), str(place), str(last)]


def _kill_saver(place: Path, kills: int, seed: int) -> Report:
    examiner = Examiner(place)
    report = kill_repeatedly(
        _command(place, ENDLESS), examiner, kills=kills, longest=0.15, seed=seed, env=_env()
    )
    assert examiner.interrupted > kills / 3, "the kills must fall into saves, or they prove nothing"
    assert report.kills == kills and not report.finished
    assert report.examined == sorted(report.examined) and report.examined[-1] > kills / 10
    return report


def test_25_kills_leave_whole_checkpoints(tmp_path: Path) -> None:
    _kill_saver(tmp_path / "run", 25, seed=1)
    left = [p.name for p in (tmp_path / "run").iterdir() if p.name.startswith(".")]
    assert len(left) <= 6, "leftovers of killed writers pile up"


@pytest.mark.long
@pytest.mark.timeout(900)
def test_200_kills_leave_whole_checkpoints(tmp_path: Path) -> None:
    _kill_saver(tmp_path / "run", 200, seed=2)


def test_a_run_killed_on_the_way_ends_as_one_that_was_not(tmp_path: Path) -> None:
    place = tmp_path / "killed"
    # Without an end until the third kill, so that no machine is too fast to be killed; then a few steps more.
    report = kill_repeatedly(
        _command(place, ENDLESS), Examiner(place), kills=3, longest=0.15, seed=3, env=_env()
    )
    assert report.kills == 3
    last = report.examined[-1] + 5
    subprocess.run(_command(place, last), env=_env(), check=True, stdout=subprocess.DEVNULL)
    state = first_state()
    while state["step"] < last:
        state = next_state(state)
    assert_same(Checkpointer(place).load(), state)


# ---- the harness itself ----


def _python(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def test_the_harness_reports_a_program_that_fails(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="failed with 3 after 'ready"):
        kill_repeatedly(
            _python("print('ready', flush=True); raise SystemExit(3)"), lambda _: None, kills=5, longest=5
        )
    with pytest.raises(AssertionError, match=r"(?s)after ''.*ZeroDivisionError"):
        kill_repeatedly(_python("1/0"), lambda _: None, kills=1, longest=5)


def test_the_harness_kills_the_programs_children_too(tmp_path: Path) -> None:
    child = f"import time, pathlib; time.sleep(0.5); pathlib.Path({str(tmp_path / 'late')!r}).touch()"
    start = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {child!r}]); "
    text = start + "print('ready', flush=True); time.sleep(60)"
    report = kill_repeatedly(_python(text), lambda _: None, kills=1, longest=0.1)
    assert report.kills == 1
    time.sleep(0.8)
    assert not (tmp_path / "late").exists()


def test_the_harness_tells_what_was_promised() -> None:
    seen: list[Any] = []
    text = "import time; print('ready'); print('done 4'); print('done 5', flush=True); time.sleep(60)"
    kill_repeatedly(
        lambda number: _python(text.replace("5", str(number))), seen.append, kills=2, longest=0.01
    )
    assert seen == ["0", "1"]
