"""Where the cycles of each queue went: busy, and for every other cycle the reason.

Enters: a timeline. Leaves: per core and queue a row whose entries sum to the total, and the critical path.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from trilobite.processor.isa.formats import Array
from trilobite.processor.isa.row import QUEUES
from trilobite.processor.machine.drawing import table
from trilobite.processor.sim.timing.timeline import SEGMENT_CAUSES, CoreTimes, Operation, Timeline

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
        control = _Control(core)
        rows.append(_control_row(core, control, timeline.cycles))
        operations = core.operation_columns
        for number, queue in enumerate(QUEUES[1:], 1):
            mine = operations[:, operations[0] == number]
            if mine.shape[1]:
                rows.append(_queue_row(core, queue, mine, control, timeline.cycles))
    return rows


class _Control:
    """What control did, by cause: how many cycles of each lie before any moment."""

    def __init__(self, core: CoreTimes) -> None:
        self.start, self.end, self.what = core.segment_columns
        self.causes = [SEGMENT_CAUSES[number] for number in np.unique(self.what)]
        self.spent: dict[str, Array] = {}
        for cause in self.causes:
            mine = np.where(self.what == SEGMENT_CAUSES.index(cause), self.end - self.start, 0)
            self.spent[cause] = np.concatenate([[0], np.cumsum(mine)])
        self.last = int(self.end[-1]) if len(self.end) else 0

    def between(self, cause: str, first: Array, last: Array) -> int:
        """Cycles of a cause within some stretches of time."""
        return int((self._before(cause, last) - self._before(cause, first)).sum())

    def _before(self, cause: str, moment: Array) -> Array:
        place = np.searchsorted(self.start, moment, "right") - 1
        at = np.maximum(place, 0)
        within = np.clip(moment - self.start[at], 0, self.end[at] - self.start[at])
        partly = np.where(self.what[at] == SEGMENT_CAUSES.index(cause), within, 0)
        found: Array = np.where(place < 0, 0, self.spent[cause][at] + partly)
        return found


def _control_row(core: CoreTimes, control: _Control, total: int) -> StallRow:
    row = StallRow(core.trace.cluster, core.trace.core, "control")
    for cause in control.causes:
        row.cycles["busy" if cause in ("scalar", "dispatch") else cause] += int(control.spent[cause][-1])
    row.cycles["idle"] += total - sum(row.cycles.values())
    return row


def _queue_row(core: CoreTimes, queue: str, operations: Array, control: _Control, total: int) -> StallRow:
    row = StallRow(core.trace.cluster, core.trace.core, queue)
    _, dispatch, start, free, interval = operations
    clock = np.concatenate([[0], free])
    waiting = np.maximum(clock[:-1], np.minimum(dispatch, start))
    until = np.append(waiting, max(int(clock[-1]), min(control.last, total)))
    row.cycles["operand"] += int((start - waiting).sum())
    row.cycles["busy"] += int(np.minimum(interval, free - start).sum())
    row.cycles["bandwidth"] += int(np.maximum(0, free - start - interval).sum())
    for cause in control.causes:
        row.cycles[cause] += control.between(cause, clock, until)
    row.cycles["idle"] += total - sum(row.cycles.values())
    return row


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
