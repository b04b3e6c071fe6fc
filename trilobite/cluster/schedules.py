"""Orders in which the ranks of a pipeline run their stages: GPipe, 1F1B, interleaved.

Enters: numbers of ranks, of stages per rank and of micro-batches. Leaves: for each rank the tasks in their
order, and how long all take if every task takes one unit (two for a backward one). A simulation runs
them in these orders, so none of them can wait in a circle.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location

KINDS = ("gpipe", "1f1b", "interleaved")


class Task(NamedTuple):
    """A stage on a micro-batch, forward or backward."""

    backward: bool
    stage: int
    micro: int


class Plan(NamedTuple):
    """The tasks of each rank, and what the simulation counted."""

    tasks: tuple[tuple[Task, ...], ...]
    length: int  # units of time from the first task to the end of the last
    idle: float  # part of that time, over all ranks, in which nothing runs
    kept: tuple[int, ...]  # how many forward passes each rank keeps at most for their backward ones


@cache
def plan(kind: str, ranks: int, chunks: int, micros: int) -> Plan:
    """`chunks` stages per rank: stage s is on rank s mod ranks."""
    uneven = kind == "interleaved" and chunks > 1 and micros % ranks
    if kind not in KINDS or min(ranks, chunks, micros) < 1 or (kind == "1f1b" and chunks > 1) or uneven:
        raise ArgumentError(
            f"a schedule {kind!r} of {chunks} stages on each of {ranks} ranks, {micros} micro-batches",
            where=user_location(),
            expected=f"one of {', '.join(KINDS)}; 1f1b has one stage on each rank, interleaved whole rounds "
            "of micro-batches: a multiple of the ranks",
        )
    return _Simulation(kind, ranks, chunks, micros).run()


class _Simulation:
    def __init__(self, kind: str, ranks: int, chunks: int, micros: int) -> None:
        self.kind, self.ranks, self.chunks, self.micros = kind, ranks, chunks, micros
        self.stages = ranks * chunks
        self.done: dict[Task, int] = {}  # when each ended
        self.order: list[list[Task]] = [[] for _ in range(ranks)]
        self.free = [0] * ranks  # from when on each rank can begin something
        self.open = [0] * ranks  # forward passes whose backward ones are to come
        self.kept = [0] * ranks
        self.left = [self._tasks(r) for r in range(ranks)]

    def _tasks(self, rank: int) -> list[Task]:
        """All of a rank in their order: some forward ones to fill the pipeline, then one forward and one
        backward in turn, then what is left. Interleaved, micro-batches come in rounds of `ranks`.
        """
        mine = range(rank, self.stages, self.ranks)
        round_ = self.ranks if self.kind == "interleaved" else self.micros
        pairs = [(s, m) for s in mine for m in range(self.micros)]
        forward = [Task(False, s, m) for s, m in sorted(pairs, key=lambda p: (p[1] // round_, p[0], p[1]))]
        back = [Task(True, s, m) for s, m in sorted(pairs, key=lambda p: (p[1] // round_, -p[0], p[1]))]
        first = min(len(forward), self._ahead(rank))
        turns = [t for pair in zip(forward[first:], back, strict=False) for t in pair]
        return [*forward[:first], *turns, *back[len(forward) - first :]]

    def _ahead(self, rank: int) -> int:
        """Forward passes before the first backward one."""
        if self.kind == "gpipe":
            return self.chunks * self.micros
        if self.chunks == 1:
            return self.ranks - rank - 1
        return 2 * (self.ranks - rank - 1) + (self.chunks - 1) * self.ranks

    def _needs(self, t: Task) -> list[Task]:
        if not t.backward:
            return [Task(False, t.stage - 1, t.micro)] if t.stage else []
        out = [Task(False, t.stage, t.micro)]
        return out + ([Task(True, t.stage + 1, t.micro)] if t.stage < self.stages - 1 else [])

    def run(self) -> Plan:
        now = 0
        while any(self.left):
            for r in range(self.ranks):
                if self.free[r] <= now:
                    self._begin(r, now)
            now += 1
        length = max(self.done.values())
        busy = 3 * self.stages * self.micros
        return Plan(tuple(map(tuple, self.order)), length, 1 - busy / (length * self.ranks), tuple(self.kept))

    def _begin(self, rank: int, now: int) -> None:
        found = self.left[rank][0] if self.left[rank] else None
        if found is None or not all(self.done.get(n, now + 1) <= now for n in self._needs(found)):
            return
        del self.left[rank][0]
        self.order[rank].append(found)
        self.open[rank] += -1 if found.backward else 1
        self.kept[rank] = max(self.kept[rank], self.open[rank])
        self.free[rank] = self.done[found] = now + (2 if found.backward else 1)
