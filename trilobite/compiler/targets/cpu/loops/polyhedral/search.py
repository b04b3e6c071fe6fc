"""The search for an order of iterations, in a process of its own, which ends when a search takes too long.

Enters: iterations and pairs of them that must stay in order, in isl's text. Leaves: isl's schedule as text,
or `NotFound`. Why: isl's scheduler eliminates variables without counting that as steps, and nobody can
interrupt it, so that for some nests it would go on for ever. The process starts with the first search and
serves all that follow; `main` is what runs in it. It looks twice: quickly, among simpler pairs of which the
real ones are a part, and where that finds nothing thoroughly, among the pairs themselves.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
from threading import Lock
from typing import Any

from trilobite.base.errors import StateError
from trilobite.base.forks import renewed_in_child
from trilobite.compiler.targets.cpu.loops.polyhedral.model import islpy

STEPS = 30_000  # of isl's solver before the quick search is given up
SECONDS = 5.0  # of a processor for both searches; ordinary ones take milliseconds
LARGEST = 4  # by how much a found row may multiply a loop: more means skewing beyond use


class NotFound(Exception):
    """A search that ended without an order; the message says how."""


def order_of(iterations: str, simpler: str, pairs: str) -> str:
    """A schedule in bands of loops, by which every pair runs forward in each loop of its band."""
    asked = {"iterations": iterations, "simpler": simpler, "pairs": pairs, "seconds": SECONDS}
    with _one_at_a_time:
        answer = _searcher().ask(asked)
    if answer is None:
        raise NotFound(f"the search took more than {SECONDS:g} seconds")
    if "order" not in answer:
        raise NotFound(answer["error"])
    return str(answer["order"])


class _Searcher:
    """The other process, seen from here. A fork of this one starts its own."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.process = subprocess.Popen(
            [sys.executable, "-m", __spec__.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            start_new_session=True,  # Ctrl-C is for this process, which then ends the other
        )
        atexit.register(self.end)

    def is_there(self) -> bool:
        return self.owner == os.getpid() and self.process.poll() is None

    def ask(self, asked: dict[str, Any]) -> dict[str, Any] | None:
        """The answer; None where the process ended itself."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(asked) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BaseException:  # its answer would be taken for that to another question
            self.end()
            raise
        if line:
            return dict(json.loads(line))
        self.end()
        if self.process.returncode != -signal.SIGPROF:
            raise StateError(f"the search for an order ended with the exit code {self.process.returncode}")
        return None

    def end(self) -> None:
        if self.owner != os.getpid():
            return
        atexit.unregister(self.end)
        self.process.kill()
        self.process.communicate()


_one_at_a_time = renewed_in_child(Lock())
_started: list[_Searcher] = []


def _searcher() -> _Searcher:
    if not (_started and _started[0].is_there()):
        _started[:] = [_Searcher()]
    return _started[0]


# -- in the other process ------------------------------------------------------------------------------------


def main() -> None:
    """Answers a question after another, a line each, until there are no more."""
    for line in sys.stdin:
        asked = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, asked["seconds"])  # its signal ends the process
        answer = _answer(asked)
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps(answer), flush=True)


def _answer(asked: dict[str, Any]) -> dict[str, str]:
    isl, iterations = islpy(), asked["iterations"]
    try:
        # Joining parts one by one may eliminate variables without end: all at once.
        return {"order": _order(iterations, asked["simpler"], whole=True, steps=STEPS)}
    except isl.Error:
        pass
    try:
        return {"order": _order(iterations, asked["pairs"], whole=False, steps=0)}
    except isl.Error as error:
        return {"error": str(error)}


def _order(iterations: str, pairs: str, *, whole: bool, steps: int) -> str:
    isl = islpy()
    context = isl.Context()
    context.set_schedule_whole_component(int(whole))
    context.set_schedule_max_coefficient(LARGEST)
    near = isl.UnionMap.read_from_str(context, pairs)
    wanted = isl.ScheduleConstraints.on_domain(isl.UnionSet.read_from_str(context, iterations))
    wanted = wanted.set_validity(near).set_proximity(near).set_coincidence(near)
    context.set_max_operations(steps)
    return str(wanted.compute_schedule())


if __name__ == "__main__":
    main()
