"""Measures rows: asks one worker a system, in turn, so that drift of the machine meets all systems alike.

Enters: rows. Leaves: a `Result` a row, with every sample. What a system could not do is kept as its reason.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from benchmarks.row import US, Row

THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TRILOBITE_NUM_THREADS",
)  # fmt: skip


@dataclass
class Result:
    """The samples of a row in seconds, by system, and the reasons of systems that have none."""

    row: Row
    samples: dict[str, list[float]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    def median(self, system: str) -> float:
        return statistics.median(self.samples[system])

    def minimum(self, system: str) -> float:
        return min(self.samples[system])

    @property
    def best_peer(self) -> str | None:
        """The peer with the smallest median."""
        return min((name for name in self.row.peers if name in self.samples), key=self.median, default=None)

    @property
    def ratio(self) -> float | None:
        """Our median over the best peer's: below 1 we are quicker."""
        if self.best_peer is None or US not in self.samples:
            return None
        return self.median(US) / self.median(self.best_peer)


class RemoteSystem:
    """The parent's end of a worker."""

    def __init__(self, system: str, threads: int, modules: Sequence[str]) -> None:
        environment = dict(os.environ, **dict.fromkeys(THREAD_VARIABLES, str(threads)))
        command = [sys.executable, "-m", "benchmarks.worker", system, str(threads), *modules]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def ask(self, verb: str, argument: object) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps({verb: argument}) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return {"error": f"the process ended with code {self.process.wait()}"}
        line = self.process.stdout.readline()
        if not line:
            return {"error": f"the process ended with code {self.process.wait()}"}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def __enter__(self) -> RemoteSystem:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def measure(rows: Sequence[Row], modules: Sequence[str], rounds: int) -> Iterator[Result]:
    """Measures row after row; a worker lives as long as rows need its system with its number of threads."""
    with ExitStack() as stack:
        workers: dict[tuple[str, int], RemoteSystem] = {}
        for row in rows:
            for system in row.systems:
                key = (system, row.threads)
                if key not in workers or workers[key].process.poll() is not None:
                    workers[key] = stack.enter_context(RemoteSystem(*key, modules))
            yield measure_row(row, {system: workers[system, row.threads] for system in row.systems}, rounds)


def measure_row(row: Row, workers: dict[str, RemoteSystem], rounds: int) -> Result:
    result = Result(row)
    calls = {}
    for system, worker in workers.items():
        answer = worker.ask("prepare", row.name)
        if "error" in answer:
            result.reasons[system] = answer["error"]
        else:
            calls[system] = answer["calls"]
    for turn in range(rounds):
        ready = [system for system in calls if system not in result.reasons]
        # Each round begins with another system: whoever runs after a pause or a hot loop changes too.
        start = turn % max(1, len(ready))
        for system in ready[start:] + ready[:start]:
            answer = workers[system].ask("sample", calls[system])
            if "error" in answer:
                result.reasons[system] = answer["error"]
                result.samples.pop(system, None)
            else:
                result.samples.setdefault(system, []).append(answer["seconds"])
    return result
