"""Checking a student's file from outside: a process of its own, a clock, and what came of it.

Enters: a lab, the path of a file. Leaves: a `Result`. The student's code never runs in this process: one that
loops, takes all memory or crashes ends its own process, and the result says in which part it was.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trilobite.apps.labs.grading import Verdict
from trilobite.apps.labs.task import Lab
from trilobite.base.errors import FileError, TrilobiteError

GRACE = 1.0  # seconds to end in, when all has been said
POLL = 0.05  # seconds between looks at the clock and at memory


class LabError(TrilobiteError, RuntimeError):
    """A student's file could not be graded to its end."""


@dataclass(frozen=True)
class Result:
    """Verdicts of all parts; `seed` gives the same cases again."""

    lab: Lab
    seed: int
    verdicts: tuple[Verdict, ...]
    seconds: float

    @property
    def right(self) -> bool:
        return all(verdict.right for verdict in self.verdicts)

    def text(self) -> str:
        lines = []
        for verdict in self.verdicts:
            count = "1 case" if verdict.cases == 1 else f"{verdict.cases} cases"
            lines.append(f"{'right' if verdict.right else 'wrong'}  {verdict.part} ({count})")
            lines += [f"         {line}" for problem in verdict.problem for line in problem.splitlines()]
        right = sum(verdict.right for verdict in self.verdicts)
        lines.append(
            f"{right} of {len(self.verdicts)} parts are right, in {self.seconds:.1f} s; seed {self.seed}"
        )
        return "\n".join(lines)


def check(
    lab: Lab, file: str | Path, seed: int | None = None, cases: int = 0, seconds: float = 0.0
) -> Result:
    """Grade a file in a process of its own; without a seed the cases are fresh."""
    path = Path(file).absolute()
    if not path.is_file():
        raise FileError(
            "there is no such file", where=path, remedy=f"trilobite lab {lab.name} --start {file}"
        )
    seed = int.from_bytes(os.urandom(4), "little") if seed is None else seed
    began = time.monotonic()
    lines, ended = _run(lab, path, seed, cases, seconds or lab.seconds)
    took = time.monotonic() - began
    last = lines[-1] if lines else {}
    if "error" in last:
        raise LabError(str(last["error"]))
    if "verdicts" in last:
        verdicts = tuple(Verdict(v["part"], v["cases"], tuple(v["problem"])) for v in last["verdicts"])
        return Result(lab, seed, verdicts, took)
    raise _unfinished(lab, last, ended, took)


class _Ended(Exception):
    """The child was ended: why, and what it had written."""

    def __init__(self, why: str, text: bytes) -> None:
        self.why, self.text = why, text


def _run(lab: Lab, path: Path, seed: int, cases: int, seconds: float) -> tuple[list[dict[str, Any]], str]:
    """What the child wrote, and how it ended."""
    deadline = time.monotonic() + seconds
    ours, theirs = os.pipe()
    words = [lab.name, str(path), str(seed), str(cases), str(seconds), str(theirs)]
    command = [sys.executable, "-m", "trilobite.apps.labs.child", *words]
    child = subprocess.Popen(command, pass_fds=(theirs,), start_new_session=True, stdin=subprocess.DEVNULL)
    os.close(theirs)
    text = b""
    try:
        text = _read(ours, child.pid, deadline, lab.mebibytes)
        code = child.wait(GRACE)
        ended = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    except _Ended as end:
        text, ended = end.text, end.why
    except subprocess.TimeoutExpired:  # all was said, but something of the student's still runs
        ended = "the clock"
    finally:
        os.close(ours)
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)  # its own session: the child and whatever it started
            child.wait()
    whole = text.decode(errors="replace").rpartition("\n")[0]  # the last line may have been cut off
    return [json.loads(line) for line in whole.splitlines()], ended


def _read(descriptor: int, process: int, deadline: float, mebibytes: int) -> bytes:
    """All that is written until the other end closes; too much time or memory ends it before."""
    collected = b""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while True:
            if selector.select(POLL):
                piece = os.read(descriptor, 65536)
                if not piece:
                    return collected
                collected += piece
            if time.monotonic() > deadline:
                raise _Ended("the clock", collected)
            if _resident(process) > mebibytes << 20:
                raise _Ended("memory", collected)


def _resident(process: int) -> int:
    """Bytes of memory that a process uses. (Simulated memories reserve far more address space than that.)"""
    try:
        pages = Path(f"/proc/{process}/statm").read_text().split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _unfinished(lab: Lab, last: dict[str, Any], ended: str, took: float) -> LabError:
    doing = last.get("doing", "starting")
    sizes = ", ".join(f"{name}={value}" for name, value in last.get("sizes", {}).items())
    found = "\n    ".join(last.get("found", ()))
    if found:  # it ended while a smaller input was looked for
        what, expected = f"wrong: {found}", "a right result; smaller inputs were not tried to the end"
        remedy = "mend this first, or give more time: --seconds"
    elif ended == "the clock":
        what, expected = f"your file was still running after {took:.0f} s", "an end"
        remedy = "look for a loop that does not end; try the sizes above by hand"
    elif ended == "memory":
        what, expected = "your file took too much memory", f"at most {lab.mebibytes} MiB"
        remedy = "look for an array that grows; try the sizes above by hand"
    else:
        what, expected = f"the process of your file ended by {ended}", "an answer to every part"
        remedy = "try the sizes above by hand"
    where = f"{doing}{' with ' + sizes if sizes else ''}"
    return LabError(what, where=where, expected=expected, remedy=remedy)
