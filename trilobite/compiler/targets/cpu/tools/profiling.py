"""Where the time of a compiled function goes: every kernel's time, rates and share of the roofline.

Enters: what `tb.jit` gave, and arguments to call it with. Leaves: a `Profile`. A row is one fusion, which is
one kernel or a few in sequence; its time is the least of all repeats, because others on the machine only ever
add to it. What is computed from weights alone runs when they change and is not in it. Work that NumPy does
between kernels is in `elsewhere`, with the time of the call itself.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from trilobite.base.dtypes import is_float
from trilobite.base.errors import ArgumentError
from trilobite.base.records import dataclass
from trilobite.compiler.program.plan_control import is_control
from trilobite.compiler.program.program import Call, Exchange, Loop, Step, hosts, inner
from trilobite.compiler.targets import profiles as targets
from trilobite.compiler.targets.cpu.compiled import Compiled
from trilobite.compiler.targets.cpu.runner import Runner
from trilobite.compiler.targets.cpu.target import Executable, everyone
from trilobite.compiler.targets.cpu.tools.roofs import Roofline, roofline
from trilobite.ir.graph import Equation, Graph

Words = np.ndarray[Any, np.dtype[np.int64]]
_MORE = {"recorded": "what the program did", "fuse": "groups of equations that become one kernel"}
_MOST = 1 << 22  # kernels of one call that are noted


@dataclass(frozen=True)
class Row:
    """One fusion: `seconds` is the least of all repeats, `floor` what the roofline allows."""

    fusion: int
    kind: str
    kernels: tuple[str, ...]
    location: str
    runs: int  # of kernels, in one call
    seconds: float
    flops: float
    bytes: int
    floor: float

    @property
    def gflops(self) -> float:
        return self.flops / self.seconds / 1e9 if self.seconds else 0.0

    @property
    def gbytes(self) -> float:
        return self.bytes / self.seconds / 1e9 if self.seconds else 0.0

    @property
    def share(self) -> float:
        """Of the roofline: 1 means that no kernel could be quicker."""
        return self.floor / self.seconds if self.seconds else 0.0

    @property
    def name(self) -> str:
        return " + ".join(dict.fromkeys(self.kernels))


@dataclass(frozen=True)
class Event:
    """One kernel of the quickest call: which row it belongs to, and when it ran, in nanoseconds."""

    row: int
    kernel: str
    begin: int
    end: int


@dataclass(frozen=True)
class Profile(targets.Profile):
    """`call` is the quickest whole call in seconds. `host` names what NumPy ran in between."""

    form: ClassVar[str] = targets.MEASURED

    name: str
    repeats: int
    call: float
    rows: tuple[Row, ...]
    host: tuple[str, ...]
    events: tuple[Event, ...]
    roofline: Roofline
    executable: Executable | None = field(default=None, compare=False, repr=False)  # whose kernels these are

    @property
    def kernels(self) -> float:
        return sum(r.seconds for r in self.rows)

    @property
    def elsewhere(self) -> float:
        """Of the quickest call: its kernels' own time taken off."""
        return max(self.call - sum(e.end - e.begin for e in self.events) * 1e-9, 0.0)

    @property
    def disturbed(self) -> float:
        """Of the quickest call: what its kernels took beyond their own least times. The three sum to it."""
        return max(self.call - self.kernels - self.elsewhere, 0.0)

    def __str__(self) -> str:
        from trilobite.compiler.targets.cpu.tools.profile_forms import table

        return table(self)

    @property
    def target(self) -> str:
        return (self.executable.target if self.executable is not None else "") or "cpu"

    @property
    def fused(self) -> Graph | None:
        """Whose equations `rows` number; None if nobody knows any more."""
        return None if self.executable is None else self.executable.main.fused

    @property
    def arena(self) -> int:
        """Bytes that are planned for values between kernels."""
        return 0 if self.executable is None else self.executable.memory().peak

    def listings(self) -> Mapping[str, Callable[[], list[tuple[str, str]]]]:
        """By a kernel's name what shows its levels: loops if it has some, and assembly."""
        from trilobite.compiler.targets.cpu.report import kernels_of, levels_of

        if self.executable is None:
            return {}
        return {k.name: partial(levels_of, k) for k in kernels_of((self.executable.main,))}

    def stages(self) -> targets.Stages | None:
        from trilobite.compiler.targets.cpu.stages import STAGES

        if self.executable is None:
            return None
        done = self.executable.compilation
        graphs = {"recorded": done.graph, **done.stages, "fuse": self.executable.main.fused}
        return targets.Stages(graphs, {**_MORE, **{name: p.doc for name, p in STAGES}})

    def timeline(self) -> targets.Timeline:
        from trilobite.compiler.targets.cpu.tools.profile_forms import chrome_trace

        return targets.Timeline(".trace.json", chrome_trace(self).encode())

    def write(self, directory: str | Path) -> Sequence[Path]:
        """Table, timeline and JSON, as files."""
        from trilobite.compiler.targets.cpu.tools.profile_forms import write_profile

        return write_profile(self, directory)


def busiest(call: Callable[[], object]) -> Executable | None:
    """Which executable a call spends most of its time in: with gradients on it is not that of `lower`."""
    watched = [(e, _Watch(r)) for e in everyone for r in e.main.runners.values()]
    spent: Counter[Executable] = Counter()
    try:
        call()
        for e, w in watched:
            events = w.take()
            spent[e] += int((events[:, 2] - events[:, 1]).sum())
    finally:
        for _, w in watched:
            w.stop()
    return max(spent, key=lambda e: spent[e]) if spent.total() else None


def profile_calls(executable: Executable, call: Callable[[], object], repeats: int, name: str) -> Profile:
    """The same of an executable that `call` runs, and has run before."""
    part = executable.main
    watched = [_Watch(r) for r in part.runners.values()]
    best_events: list[tuple[_Watch, Words]] = []
    quickest = float("inf")
    try:
        _make_room(watched, call)
        for _ in range(repeats):
            start = time.perf_counter()
            call()
            seconds = time.perf_counter() - start
            noted = [(w, w.take()) for w in watched]
            if seconds < quickest:
                quickest, best_events = seconds, noted
    finally:
        for w in watched:
            w.stop()
    ran = next((w for w, events in best_events if len(events)), watched[0])
    rows = tuple(_rows(part, ran))
    at = {r.fusion: n for n, r in enumerate(rows)}
    events = tuple(
        Event(at[ran.runner.steps[row].fusion], ran.kernel(row), begin, end)
        for w, noted in best_events
        if w is ran
        for row, begin, end in noted.tolist()
        if ran.runner.steps[row].fusion in at
    )
    host = tuple(s.equation.primitive.name for s in hosts(ran.runner.program.steps))
    return Profile(name, repeats, quickest, rows, host, events, roofline(), executable)


class _Watch:
    """A runner whose kernels are timed: per row of its table the least time of one call."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.room = min(_runs(runner.program.steps) + 1, _MOST)
        self.least = np.full(max(len(runner.steps), 1), np.iinfo(np.int64).max)
        self.count = np.zeros_like(self.least)
        runner.table.time(self.room)

    def take(self) -> Words:
        events = self.runner.table.events()
        if len(events):
            spent = np.zeros_like(self.least)
            np.add.at(spent, events[:, 0], events[:, 2] - events[:, 1])
            self.count = np.bincount(events[:, 0], minlength=len(self.least))
            ran = self.count > 0
            self.least[ran] = np.minimum(self.least, spent)[ran]
        return events

    @property
    def is_full(self) -> bool:
        """Was there room for no more than what was noted since last asked?"""
        return len(self.runner.table.events()) == self.room

    def enlarge(self) -> None:
        if self.room == _MOST:
            raise ArgumentError(
                f"a profile of a call that runs {_MOST:,} kernels or more",
                expected="fewer",
                remedy="profile a function with fewer rounds of its loops",
            )
        self.room = min(4 * self.room, _MOST)
        self.runner.table.time(self.room)

    def stop(self) -> None:
        self.runner.table.time(0)

    def kernel(self, row: int) -> str:
        step = self.runner.steps[row]
        if isinstance(step, Exchange):
            return step.name
        return step.kernel.name if isinstance(step, Call) else type(step).__name__


def _make_room(watched: Sequence[_Watch], call: Callable[[], object]) -> None:
    """How often a `while` goes round is known when it has: calls until all kernels of one are noted."""
    call()
    while full := [w for w in watched if w.is_full]:
        for w in full:
            w.enlarge()
        call()


def _runs(steps: Sequence[Step]) -> int:
    """How many kernels one run calls; of a `while`, in one round."""
    return sum(
        isinstance(s, Call) + (s.count if isinstance(s, Loop) else 1) * sum(map(_runs, inner(s)))
        for s in steps
    )


def _rows(part: Compiled, watch: _Watch) -> Iterator[Row]:
    found: dict[int, list[tuple[Call | Exchange, int, int]]] = {}
    for n, step in enumerate(watch.runner.steps):
        if isinstance(step, Call | Exchange) and watch.count[n]:
            found.setdefault(step.fusion, []).append((step, int(watch.least[n]), int(watch.count[n])))
    machine = roofline()
    for fusion, ran in found.items():
        e = part.fused.equations[fusion]
        yield Row(
            fusion,
            str(e.attributes["kind"]),
            tuple(dict.fromkeys(s.kernel.name if isinstance(s, Call) else s.name for s, _, _ in ran)),
            str(e.location),
            runs=sum(count for _, _, count in ran),
            seconds=sum(ns for _, ns, _ in ran) * 1e-9,
            flops=sum(s.flops * count for s, _, count in ran),
            bytes=sum(s.bytes * count for s, _, count in ran),
            floor=_floor(e, ran, machine),
        )


def _floor(e: Equation, ran: Sequence[tuple[Call | Exchange, int, int]], machine: Roofline) -> float:
    """The kernels of a fusion share its bytes; those of control flow have their own, round by round."""
    dtype = _dtype(e)
    if is_control(e):
        return sum(count * machine.seconds(s.flops, s.bytes, dtype) for s, _, count in ran)
    return machine.seconds(sum(s.flops for s, _, _ in ran), sum(s.bytes for s, _, _ in ran), dtype)


def _dtype(e: Equation) -> str:
    """What a fusion computes in, as far as peaks go: float64 if any of it is, nothing for integers."""
    dtypes = [v.type.dtype for inner in e.attributes["region"].equations for v in inner.outputs]
    floats = [d for d in dtypes if is_float(d)]
    if not floats:
        return "integers"
    return "float64" if any(d.itemsize == 8 for d in floats) else "float32"
