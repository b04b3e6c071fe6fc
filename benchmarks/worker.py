"""One system in a process of its own, with its threads pinned, that takes a sample whenever it is asked.

Enters: lines of JSON. `{"prepare": row}` builds the row's work, warms it up and answers `{"calls": n,
"seconds": s}`, the calls that fill one sample and the time of one; `{"sample": n}` answers `{"seconds": s}`;
`{"outputs": file}` writes the results of the work there, if it has any; `{"release": null}` forgets the work.
What goes wrong is answered as `{"error": text}`. A process per system keeps one system's threads, allocator
and import hooks out of another's time.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import json
import os
import sys
from collections.abc import Callable, Sequence
from time import perf_counter, process_time, sleep
from typing import Any

from benchmarks.row import CLOCK, REFERENCE, US, Job, Row, Work, section

SAMPLE_SECONDS = 0.02  # long beside the clock's grain, short enough that the systems alternate quickly
WARM_UP_SECONDS, WARM_UP_CALLS = 0.05, 3  # systems that keep results for further calls need some to have them
MOST_CALLS = 1_000_000
GLANCE_SECONDS, MOST_GLANCES = 0.004, 50


clock = process_time if os.environ.get(CLOCK) == "cpu" else perf_counter


def timed(work: Work, calls: int) -> float:
    """Seconds for one call, the mean over `calls` calls."""
    start = clock()
    for _ in itertools.repeat(None, calls):
        work()
    return (clock() - start) / calls


def calibrated(work: Work) -> tuple[int, float]:
    """How many calls fill a sample and how long one takes; finding out also warms the work up."""
    calls, made, spent = 1, 0, 0.0
    while True:
        each = timed(work, calls)
        made, spent = made + calls, spent + each * calls
        warm = spent >= WARM_UP_SECONDS and made >= WARM_UP_CALLS
        if (warm and each * calls >= SAMPLE_SECONDS / 2) or calls >= MOST_CALLS:
            return max(1, min(MOST_CALLS, round(SAMPLE_SECONDS / max(each, 1e-9)))), each
        calls = min(MOST_CALLS, calls * 2)


def settle() -> None:
    """Waits until this process's threads sleep: some systems' look for more work for up to 50 ms after a
    call, on cores that the next system's sample would have to share with them.
    """
    for _ in range(MOST_GLANCES):
        before = process_time()
        sleep(GLANCE_SECONDS)
        if process_time() - before < GLANCE_SECONDS / 4:
            return


class Worker:
    """Holds the work of one row at a time, so that a row's memory is gone before the next one runs."""

    def __init__(self, system: str, rows: dict[str, Row]) -> None:
        self.system, self.rows = system, rows
        self.row: Row | None = None
        self.work: Work | None = None
        self.results: Sequence[Any] | None = None

    def prepare(self, key: str) -> dict[str, Any]:
        self.release(None)
        row = self.rows[key]
        made = row.systems[self.system]()
        work = made.work if isinstance(made, Job) else made
        results = None
        if isinstance(made, Job) and (self.system in (US, REFERENCE) or row.truth is not None):
            results = made.outputs()
        elif row.most_rounds is None:
            work()  # the first call may compile
        calls, each = (1, 0.0) if row.times_itself else calibrated(work)
        self.row, self.work, self.results = row, work, results
        return {"calls": calls, "seconds": each, "has_outputs": results is not None}

    def sample(self, calls: int) -> dict[str, Any]:
        if self.row is None or self.work is None:
            raise RuntimeError("a sample was asked for before a row was prepared")
        if self.row.times_itself:
            return {"seconds": self.work()}
        seconds = timed(self.work, calls)
        settle()
        return {"seconds": seconds}

    def outputs(self, path: str) -> dict[str, Any]:
        import numpy as np

        if self.results is not None:
            np.savez(path, *self.results)
        return {}

    def release(self, _: None) -> dict[str, Any]:
        self.row = self.work = self.results = None
        gc.collect()
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc alone has it
        if trim is not None:
            trim(0)  # idle workers must not fill the memory that the others need
        return {}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        ((verb, argument),) = request.items()
        verbs: dict[str, Callable[[Any], dict[str, Any]]] = {
            "prepare": self.prepare,
            "sample": self.sample,
            "outputs": self.outputs,
            "release": self.release,
        }
        try:
            return verbs[verb](argument)
        except (
            Exception
        ) as error:  # whatever a system raises belongs into the report, not into this process's death
            return {"error": f"{type(error).__name__}: {error}"}


def main(system: str, threads: int, modules: list[str]) -> None:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    # Systems may print; the answers keep the real standard output to themselves.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    worker = Worker(system, {row.key: row for module in modules for row in section(module).rows})
    for line in sys.stdin:
        print(json.dumps(worker.answer(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
