"""Measures rows: asks one worker a system, in turn, so that drift of the machine meets all systems alike.

Enters: rows. Leaves: a `Result` a row, with every sample. What a system could not do is kept as its reason.
Results of peers that were kept from an earlier run (`keeping`) take the place of their workers.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from benchmarks.keeping import Keeper, Kept
from benchmarks.row import REFERENCE, US, Row

THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TRILOBITE_THREADS",
)  # fmt: skip
FEWEST_ROUNDS = 5  # of slow rows: the median of fewer is that of the machine's moods
REFERENCE_FILE = "what is right"


@dataclass
class Result:
    """The samples of a row in seconds, by system, and the reasons of systems that have none."""

    row: Row
    samples: dict[str, list[float]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    error: float | None = None  # how far our results are from the reference's, relative to its largest number
    errors: dict[str, float] = field(default_factory=dict)  # of peers, where the row knows what is right

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


@dataclass(frozen=True)
class Plan:
    """How much time rows get: at most `rounds` samples a system, and about `budget` seconds a row."""

    rounds: int
    budget: float = float("inf")
    keeper: Keeper | None = None
    reuse: bool = False

    def rounds_of(self, row: Row, seconds_a_round: float) -> int:
        most = min(self.rounds, row.most_rounds or self.rounds)
        if row.times_itself or seconds_a_round == 0:
            return most
        return max(min(FEWEST_ROUNDS, most), int(min(most, self.budget / seconds_a_round)))


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
        with suppress(BrokenPipeError):  # a process that has died may have left a question unread
            self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def measure(
    rows: Sequence[Row], modules: Sequence[str], rounds: int | None = None, plan: Plan | None = None
) -> Iterator[Result]:
    """Measures row after row; a worker lives as long as rows need its system with its number of threads."""
    plan = plan or Plan(rounds or FEWEST_ROUNDS)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        workers: dict[tuple[str, int], RemoteSystem] = {}
        for row in rows:
            kept = kept_results(row, plan)
            needed = [system for system in row.systems if system not in kept]
            for system in needed:
                key = (system, row.threads)
                if key not in workers or workers[key].process.poll() is not None:
                    workers[key] = stack.enter_context(RemoteSystem(*key, modules))
            yield measure_row(row, {name: workers[name, row.threads] for name in needed}, kept, plan, folder)


def kept_results(row: Row, plan: Plan) -> dict[str, Kept]:
    """Peers whose results of an earlier run may be shown again."""
    if plan.keeper is None or not plan.reuse:
        return {}
    found = ((system, plan.keeper.find(row.key, system)) for system in row.systems if system != US)
    return {system: kept for system, kept in found if kept is not None}


def measure_row(
    row: Row, workers: dict[str, RemoteSystem], kept: dict[str, Kept], plan: Plan, folder: Path
) -> Result:
    result = Result(row)
    for system, earlier in kept.items():
        result.samples[system] = earlier.samples
    calls, files, spent = prepare(row, workers, result, folder)
    take_turns(workers, calls, result, plan.rounds_of(row, spent))
    files.update({system: earlier.outputs for system, earlier in kept.items() if earlier.outputs})
    if row.truth is not None:
        files[REFERENCE_FILE] = folder / f"{len(list(folder.iterdir()))}.npz"
        np.savez(files[REFERENCE_FILE], *row.truth())
    result.error = distance(files.get(US), files.get(REFERENCE_FILE, files.get(REFERENCE)))
    result.errors = peer_errors(row, files)
    for system, worker in workers.items():
        worker.ask("release", None)
        if plan.keeper is not None and system != US and system in result.samples:
            plan.keeper.keep(row.key, system, Kept(result.samples[system], files.get(system)))
    return result


def prepare(
    row: Row, workers: dict[str, RemoteSystem], result: Result, folder: Path
) -> tuple[dict[str, int], dict[str, Path], float]:
    """Builds the work everywhere: calls of a sample, files with results, and seconds that a round takes."""
    calls: dict[str, int] = {}
    files: dict[str, Path] = {}
    spent = 0.0
    for system, worker in workers.items():
        answer = worker.ask("prepare", row.key)
        if "error" in answer:
            result.reasons[system] = answer["error"]
            continue
        calls[system] = answer["calls"]
        spent += answer["calls"] * answer["seconds"]
        if answer["has_outputs"]:
            path = folder / f"{len(list(folder.iterdir()))}.npz"
            written = worker.ask("outputs", str(path))
            if "error" in written:
                result.reasons[system] = written["error"]
            else:
                files[system] = path
    return calls, files, spent


def take_turns(workers: dict[str, RemoteSystem], calls: dict[str, int], result: Result, rounds: int) -> None:
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


def peer_errors(row: Row, files: dict[str, Path]) -> dict[str, float]:
    """How far the peers are from what is right, where the row knows it."""
    if row.truth is None:
        return {}
    found = {peer: distance(files.get(peer), files[REFERENCE_FILE]) for peer in row.peers}
    return {peer: error for peer, error in found.items() if error is not None}


def distance(ours: Path | None, theirs: Path | None) -> float | None:
    """The largest difference, relative to the reference's largest number."""
    if ours is None or theirs is None:
        return None
    with np.load(ours) as a, np.load(theirs) as b:
        pairs = [(a[name].astype(np.float64), b[name].astype(np.float64)) for name in b.files]
    if any(x.shape != y.shape for x, y in pairs):
        return float("inf")
    found = [float(np.abs(x - y).max() / (np.abs(y).max() or 1)) for x, y in pairs]
    return float(np.max(found))  # NaN stays NaN
