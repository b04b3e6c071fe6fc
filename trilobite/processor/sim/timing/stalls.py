"""Where the cycles of each queue went: busy, and for every other cycle the reason.

Enters: a timeline. Leaves: per core and queue a row whose entries sum to the total, and the critical path.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from trilobite.processor.isa.row import QUEUES
from trilobite.processor.machine.drawing import table
from trilobite.processor.sim.timing.timeline import CoreTimes, Operation, Timeline

Name = TypeVar("Name")
CAUSES = ("busy", "bandwidth", "operand", "scalar", "dispatch", "fetch", "queue full", "sync", "barrier",
          "launch", "idle")  # fmt: skip


@dataclass
class StallRow:
    """Cycles of one queue by cause."""

    cluster: int
    core: int
    queue: str
    cycles: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CAUSES, 0))

    @property
    def total(self) -> int:
        return sum(self.cycles.values())


def stall_table(timeline: Timeline) -> list[StallRow]:
    """One row per core and queue that did anything; every row sums to the launch's cycles."""
    rows = []
    for core in timeline.cores:
        rows.append(_control_row(core, timeline.cycles))
        for queue in QUEUES[1:]:
            operations = [op for op in core.operations if op.record.queue == queue]
            if operations:
                rows.append(_queue_row(core, queue, operations, timeline.cycles))
    return rows


def _control_row(core: CoreTimes, total: int) -> StallRow:
    row = StallRow(core.trace.cluster, core.trace.core, "control")
    for start, end, what in core.segments:
        row.cycles["busy" if what in ("scalar", "dispatch") else what] += end - start
    row.cycles["idle"] += total - sum(row.cycles.values())
    return row


def _queue_row(core: CoreTimes, queue: str, operations: list[Operation], total: int) -> StallRow:
    row = StallRow(core.trace.cluster, core.trace.core, queue)
    clock, at = 0, 0
    for op in operations:
        waiting = max(clock, min(op.dispatch, op.start))
        at = _charge_control(row, core, clock, waiting, at)
        row.cycles["operand"] += op.start - waiting
        row.cycles["busy"] += min(op.cost.interval, op.free - op.start)
        row.cycles["bandwidth"] += max(0, op.free - op.start - op.cost.interval)
        clock = op.free
    last = core.segments[-1][1] if core.segments else 0
    _charge_control(row, core, clock, max(clock, min(last, total)), at)
    row.cycles["idle"] += total - sum(row.cycles.values())
    return row


def _charge_control(row: StallRow, core: CoreTimes, start: int, end: int, at: int) -> int:
    """Charges the cycles from start to end to what control did then; gives where to look next time."""
    segments = core.segments
    while at < len(segments) and segments[at][1] <= start:
        at += 1
    place = at
    clock = start
    while clock < end and place < len(segments):
        first, last, what = segments[place]
        row.cycles["idle"] += max(0, min(first, end) - clock)
        clock = max(clock, min(first, end))
        step = max(0, min(last, end) - clock)
        row.cycles[what] += step
        clock += step
        place += 1
    return at


def critical_path(timeline: Timeline) -> list[Operation]:
    """From the first to the last instruction of the chain that made the launch as long as it is."""
    operations = [op for core in timeline.cores for op in core.operations]
    if not operations:
        return []
    here: Operation | None = max(operations, key=lambda op: (op.finish, -op.core.number))
    path = []
    seen: set[int] = set()
    while here is not None and id(here) not in seen:
        seen.add(id(here))
        path.append(here)
        here = here.cause if here.cause is not None else here.core_wait
    return path[::-1]


def stall_text(rows: list[StallRow]) -> str:
    """The table as text."""
    used = [cause for cause in CAUSES if any(row.cycles[cause] for row in rows)]
    lines = [["core", "queue", *used, "total"]]
    for row in rows:
        name = f"{row.cluster}.{'m' if row.core == 0x80 else row.core}"
        lines.append([name, row.queue, *(str(row.cycles[cause]) for cause in used), str(row.total)])
    return table(lines)


def line_table(timeline: Timeline, name_of: Callable[[int], Name]) -> list[tuple[Name, int, int, int]]:
    """(name, executions, busy cycles, cycles between dispatch and start), the costliest first; `name_of` says
    under which name an instruction counts."""
    lines: dict[Name, list[int]] = {}
    names: dict[int, Name] = {}
    for core in timeline.cores:
        for op in core.operations:
            place = op.record.place
            if place not in names:
                names[place] = name_of(place)
            entry = lines.setdefault(names[place], [0, 0, 0])
            entry[0] += 1
            entry[1] += op.free - op.start
            entry[2] += op.start - op.dispatch
    rows = [(name, count, busy, waiting) for name, (count, busy, waiting) in lines.items()]
    return sorted(rows, key=lambda row: (-row[2], str(row[0])))
