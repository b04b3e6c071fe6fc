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
from kill import kill_repeatedly
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


def _kill_saver(place: Path, kills: int, seed: int) -> int:
    """The last step that was saved."""
    examiner, longest = Examiner(place), 0.15
    examined: list[int] = []
    for more in range(6):  # a busy machine comes less far within the same time: then later, and again
        report = kill_repeatedly(
            _command(place, ENDLESS),
            examiner,
            kills=kills,
            longest=longest,
            seed=seed + 100 * more,
            env=_env(),
        )
        assert report.kills == kills and not report.finished
        examined += report.examined
        if examiner.interrupted > kills / 3 and examined[-1] > kills / 10:
            break
        longest *= 2
    assert examiner.interrupted > kills / 3, "the kills must fall into saves, or they prove nothing"
    assert examined == sorted(examined) and examined[-1] > kills / 10
    return examined[-1]


def test_25_kills_leave_whole_checkpoints(tmp_path: Path) -> None:
    place = tmp_path / "run"
    last = _kill_saver(place, 25, seed=1)
    subprocess.run(_command(place, last + 3), env=_env(), check=True, stdout=subprocess.DEVNULL)
    left = [p.name for p in place.iterdir() if p.name.startswith(".")]
    assert left == [], "what killed writers left is there for good"


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
            _python("print('ready', flush=True); raise SystemExit(3)"), lambda _: None, kills=5, longest=100
        )
    with pytest.raises(AssertionError, match=r"(?s)after ''.*ZeroDivisionError"):
        kill_repeatedly(_python("1/0"), lambda _: None, kills=1, longest=100)


def test_the_harness_kills_the_programs_children_too() -> None:
    text = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print('ready'); print('done', child.pid, flush=True); time.sleep(600)"
    )
    report = kill_repeatedly(_python(text), lambda pid: pid, kills=1, longest=0.1)
    assert report.kills == 1
    (child,) = report.examined
    until = time.monotonic() + 60
    while _lives(child) and time.monotonic() < until:
        time.sleep(0.01)
    assert not _lives(child)


def _lives(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_harness_tells_what_was_promised() -> None:
    seen: list[Any] = []
    text = "import time; print('ready'); print('done 4'); print('done 5', flush=True); time.sleep(60)"
    kill_repeatedly(
        lambda number: _python(text.replace("5", str(number))), seen.append, kills=2, longest=0.01
    )
    assert seen == ["0", "1"]
