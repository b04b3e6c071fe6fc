"""Tuning of a compiled function: every kernel that has parameters is searched for better ones.

Enters: an executable and a number of seconds. Leaves: outcomes, and entries of the database for those that
hold. Kernels get time by how long they take. What looks better is measured again, beside the default, in a
process of its own: code and data lie elsewhere there, and what was luck does not come twice.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator

import numpy as np

from trilobite.base.records import dataclass
from trilobite.compiler.program.plan_control import is_control
from trilobite.compiler.targets.cpu.target import Executable
from trilobite.compiler.targets.cpu.tuning.again import measured_again
from trilobite.compiler.targets.cpu.tuning.choices import Asked
from trilobite.compiler.targets.cpu.tuning.database import Entry, keep
from trilobite.compiler.targets.cpu.tuning.measure import Subject
from trilobite.compiler.targets.cpu.tuning.model import analytic, features
from trilobite.compiler.targets.cpu.tuning.search import Budget, search
from trilobite.compiler.targets.cpu.tuning.spaces import SPACES
from trilobite.ir.graph import Equation, Graph
from trilobite.native import host

TRIALS = 400  # of one kernel, at most
GAIN = 0.98  # of the default's time: what is less of a gain is taken for noise
_CHECKING = 0.2  # of the time is kept for measuring again
_SHORTEST = 0.2  # seconds for one kernel


@dataclass(frozen=True)
class Task:
    """One kernel: a fusion, and what its lowering asks for. `weight` is its share of a call's time."""

    subject: Subject
    asked: tuple[Asked, ...]
    name: str
    default: float
    count: int

    @property
    def weight(self) -> float:
        return self.default * self.count


@dataclass(frozen=True)
class Outcome:
    """Seconds are those of the last measurement, side by side."""

    name: str
    problem: str
    parameters: dict[str, int]
    seconds: float
    default_seconds: float
    trials: int
    count: int
    kept: bool

    @property
    def gain(self) -> float:
        return self.default_seconds / self.seconds


Report = Callable[[str], None]


def tune(
    executable: Executable, seconds: float, report: Report = lambda _: None, seed: int = 0
) -> list[Outcome]:
    """Search within about so many seconds, and keep what holds."""
    start = time.perf_counter()
    tasks = sorted(tasks_of(executable), key=lambda t: -t.weight)
    found = []
    for i, task in enumerate(tasks):
        left = (1 - _CHECKING) * seconds - (time.perf_counter() - start)
        mine = left * task.weight / sum(t.weight for t in tasks[i:])
        if mine >= _SHORTEST or i == 0:
            outcome = _searched(task, max(mine, _SHORTEST), np.random.default_rng(seed))
            report(f"{task.name}: {outcome.trials} trials, {outcome.gain:.2f} x")
            found.append((task, outcome))
    outcomes = _checked(found)
    entries = {
        asked.key: _entry(outcome)
        for (task, _), outcome in zip(found, outcomes, strict=True)
        for asked in task.asked
        if outcome.kept
    }
    if entries:
        keep(entries)
    return outcomes


def _entry(o: Outcome) -> Entry:
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return Entry(o.parameters, o.seconds, o.default_seconds, o.trials, today)


def tasks_of(executable: Executable) -> list[Task]:
    """Different kernels of every run that ask for parameters of one kind."""
    counts: dict[tuple[str, ...], int] = {}
    first: dict[tuple[str, ...], tuple[Equation, Subject, tuple[Asked, ...]]] = {}
    for e, rounds in _fusions(executable.main.fused):
        subject = Subject(e)
        asked = subject.asked()
        if not asked or len({a.kind for a in asked}) != 1:
            continue
        key = tuple(a.key for a in asked)
        counts[key] = counts.get(key, 0) + rounds
        first.setdefault(key, (e, subject, asked))
    return [
        Task(subject, asked, _name(e), subject.seconds(None), counts[key])
        for key, (e, subject, asked) in first.items()
    ]


def _fusions(graph: Graph, rounds: int = 1) -> Iterator[tuple[Equation, int]]:
    """Those without symbolic sizes; of a loop's body too, as often as it runs."""
    for e in graph.equations:
        if e.primitive.name != "fusion" or graph.symbols:
            continue
        if is_control(e):
            (inner,) = e.attributes["region"].equations
            for _, region in inner.regions():
                yield from _fusions(region, rounds * int(inner.attributes.get("length", 1)))
        elif e.attributes["kind"] not in ("alias", "host"):
            yield e, rounds


def _name(e: Equation) -> str:
    names = dict.fromkeys(inner.primitive.name for inner in e.attributes["region"].equations)
    return " ".join(names)[:60]


def _searched(task: Task, seconds: float, rng: np.random.Generator) -> Outcome:
    kind, problem, default = task.asked[0].kind, task.asked[0].problem, dict(task.asked[0].defaults)
    machine = host.features()
    found = search(
        SPACES[kind],
        default,
        task.subject.seconds,
        lambda p: analytic(kind, problem, p, machine),
        lambda p: features(kind, problem, p, machine),
        Budget(TRIALS, seconds),
        rng,
    )
    best, least = found.best
    kept = best != default
    return Outcome(task.name, problem, best, least, found.trials[0][1], len(found.trials), task.count, kept)


def _checked(found: list[tuple[Task, Outcome]]) -> list[Outcome]:
    """Winners once more, beside their defaults, elsewhere."""
    winners = [(t, o) for t, o in found if o.kept and o.seconds < GAIN * o.default_seconds]
    figures = measured_again([(t.subject.graph, o.parameters) for t, o in winners])
    checked = {id(o): pair for (_, o), pair in zip(winners, figures, strict=True)}
    out = []
    for _, o in found:
        default, tuned = checked.get(id(o), (o.default_seconds, o.default_seconds))
        parameters = o.parameters if id(o) in checked else {}
        kept = tuned < GAIN * default
        out.append(Outcome(o.name, o.problem, parameters, tuned, default, o.trials, o.count, kept))
    return out
