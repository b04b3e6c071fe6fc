"""Where the cycles went, by source line: every cycle of every queue is charged to a line and a cause.

Enters: a run. Leaves: rows whose sum is the sum of the stall table (cycles times queues). A unit's own
cycles and its waiting for operands belong to its instruction's line; while a queue has nothing to do, its
cycles belong to the line that control was at. Scalar work counts at the line where the run of scalar
instructions began.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from trilobite.processor.isa.row import QUEUES
from trilobite.processor.machine.drawing import table
from trilobite.processor.sim.run import Run
from trilobite.processor.sim.timing.stalls import CAUSES
from trilobite.processor.sim.timing.timeline import CoreTimes, Operation

OUTSIDE = "outside"  # before a core begins, and after it has ended


@dataclass
class LineRow:
    """Cycles of one source line by cause, over all cores and queues; `executions` of queue instructions."""

    line: str
    executions: int = 0
    cycles: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CAUSES, 0))

    @property
    def total(self) -> int:
        return sum(self.cycles.values())


class _Charges:
    def __init__(self, name_of: Callable[[int], str]) -> None:
        self.name_of = cache(name_of)
        self.rows: dict[str, LineRow] = {}

    def row(self, place: int | None) -> LineRow:
        name = OUTSIDE if place is None else self.name_of(place)
        if name not in self.rows:
            self.rows[name] = LineRow(name)
        return self.rows[name]

    def charge(self, place: int | None, cause: str, cycles: int) -> None:
        if cycles > 0:
            self.row(place).cycles[cause] += cycles


def line_stalls(run: Run, by_origin: bool = False) -> list[LineRow]:
    """One row per line, the costliest first; sums by cause are those of `run.stalls`.

    `by_origin` makes a row of what a compiler said that instructions came from, and leaves the line where it
    said nothing.
    """
    program = run.program

    def origin(place: int) -> str:
        found = program.origin(place)
        return program.where(place) if found is None else origin_text(found)

    charges = _Charges(origin if by_origin else program.where)
    for core in run.timeline.cores:
        _control(charges, core, run.cycles)
        for queue in QUEUES[1:]:
            operations = [op for op in core.operations if op.record.queue == queue]
            if operations:
                _queue(charges, core, operations, run.cycles)
    return sorted(charges.rows.values(), key=lambda row: (-row.total, row.line))


def origin_text(origin: Any) -> str:
    """A path of names as one word."""
    return " ".join(map(str, origin)) if isinstance(origin, tuple) else str(origin)


def _control(charges: _Charges, core: CoreTimes, total: int) -> None:
    end = 0
    for (start, end, what), place in zip(core.segments, core.places, strict=True):
        charges.charge(place, "busy" if what in ("scalar", "dispatch") else what, end - start)
    charges.charge(None, "idle", total - end)


def _queue(charges: _Charges, core: CoreTimes, operations: list[Operation], total: int) -> None:
    clock, at = 0, 0
    for op in operations:
        place = op.record.place
        waiting = max(clock, min(op.dispatch, op.start))
        at = _meanwhile(charges, core, clock, waiting, at)
        charges.row(place).executions += 1
        charges.charge(place, "operand", op.start - waiting)
        charges.charge(place, "busy", min(op.cost.interval, op.free - op.start))
        charges.charge(place, "bandwidth", op.free - op.start - op.cost.interval)
        clock = op.free
    last = core.segments[-1][1] if core.segments else 0
    _meanwhile(charges, core, clock, min(last, total), at)
    charges.charge(None, "idle", total - max(clock, min(last, total)))


def _meanwhile(charges: _Charges, core: CoreTimes, start: int, end: int, at: int) -> int:
    """Charges an empty queue's cycles to what control did; gives where to look next time."""
    segments = core.segments
    while at < len(segments) and segments[at][1] <= start:
        at += 1
    place, clock = at, start
    while clock < end and place < len(segments):
        _, last, what = segments[place]
        charges.charge(core.places[place], what, min(last, end) - clock)
        clock = min(last, end)
        place += 1
    return at


def line_text(run: Run, limit: int = 30) -> str:
    """The costliest lines as a table."""
    rows = line_stalls(run)
    used = [cause for cause in CAUSES if any(row.cycles[cause] for row in rows)]
    lines = [["line", "executions", *used, "total"]]
    lines += [[row.line, str(row.executions), *(str(row.cycles[c]) for c in used), str(row.total)]
              for row in rows[:limit]]  # fmt: skip
    if len(rows) > limit:
        rest = rows[limit:]
        sums = [str(sum(row.cycles[cause] for row in rest)) for cause in used]
        executions = str(sum(row.executions for row in rest))
        lines.append([f"{len(rest)} others", executions, *sums, str(sum(row.total for row in rest))])
    return table(lines)
