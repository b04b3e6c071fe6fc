"""Kills a program at random moments, again and again, and has what it leaves behind examined each time.

Enters: a command that starts the program (it resumes from what it finds) and a function that examines what is
there. Leaves: a `Report`. The program prints `ready` once it is at work, and may print `done <anything>` for
whatever it counts as accomplished: the examiner is given the last such line, so it can tell whether a promise
was broken. Works for any program: a loop that only saves, or a training script. It knows nothing of
checkpoints.
"""

from __future__ import annotations

import dataclasses
import os
import random
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Examine = Callable[[str | None], Any]


@dataclasses.dataclass
class Report:
    """What happened: kills that hit a living program, whether it ended by itself, and what the examiner
    returned."""

    kills: int = 0
    finished: bool = False
    examined: list[Any] = dataclasses.field(default_factory=list)


def kill_repeatedly(
    command: Sequence[str] | Callable[[int], Sequence[str]],
    examine: Examine,
    *,
    kills: int,
    longest: float,
    seed: int = 0,
    env: Mapping[str, str] | None = None,
    start_seconds: float = 60.0,
) -> Report:
    """Start the program, let it work for a random time of at most `longest` seconds, kill it and all its
    children, examine; until it was killed `kills` times or ended by itself. A callable command is given
    the number of kills."""
    moments = random.Random(seed)
    report = Report()
    while report.kills < kills and not report.finished:
        words = command(report.kills) if callable(command) else command
        output = _run_and_kill(words, moments.uniform(0, longest), env, start_seconds)
        report.finished = output.finished
        report.kills += not output.finished
        report.examined.append(examine(output.last_done))
    return report


@dataclasses.dataclass
class _Output:
    finished: bool
    last_done: str | None


def _run_and_kill(
    words: Sequence[str], moment: float, env: Mapping[str, str] | None, start_seconds: float
) -> _Output:
    with tempfile.TemporaryFile("w+") as errors:
        # A session of its own: the kill must reach worker processes as well.
        program = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=errors, text=True, env=env, start_new_session=True
        )
        assert program.stdout is not None
        with program.stdout as output:
            guard = threading.Timer(start_seconds, _kill, [program])
            guard.start()
            first = output.readline()
            guard.cancel()
            if first.strip() == "ready":
                _wait(program, moment)
            alive = program.poll() is None
            _kill(program)
            lines = output.read()
        program.wait()
        errors.seek(0)
        if first.strip() != "ready" or (not alive and program.returncode != 0):
            raise AssertionError(
                f"{list(words)} failed with {program.returncode} after {first!r}:\n{errors.read()}"
            )
    done = [
        line.removeprefix("done ") for line in lines.splitlines(keepends=True) if line.startswith("done ")
    ]
    complete = [line.strip() for line in done if line.endswith("\n")]
    return _Output(not alive, complete[-1] if complete else None)


def _wait(program: subprocess.Popen[str], seconds: float) -> None:
    """Sleep, but not longer than the program lives."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0 and program.poll() is None:
        time.sleep(min(left, 0.05))


def _kill(program: subprocess.Popen[str]) -> None:
    if program.poll() is None:
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()
