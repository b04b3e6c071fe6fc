"""A trace as arrays: what each record costs and which bytes it touches.

Enters: a machine and a trace. Leaves: the arrays of `State` that describe records, costs, paths and
footprints. Loops repeat their records: what is equal is looked at once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import replace
from math import lcm

import numpy as np

from trilobite.processor.isa.formats import Array
from trilobite.processor.isa.row import Region
from trilobite.processor.machine import Machine
from trilobite.processor.sim.log import Log
from trilobite.processor.sim.record import (
    CoreTrace,
    Record,
    ScalarRecord,
    SyncRecord,
    TaskRecord,
    TensorRecord,
    Trace,
)
from trilobite.processor.sim.timing.caches import caches_of, has_parts
from trilobite.processor.sim.timing.cost import (
    Cost,
    Resource,
    capacity,
    cost_key,
    cost_of,
    is_contended,
    scalar_latencies,
)
from trilobite.processor.sim.timing.log_rows import QUEUE_NUMBER, rows_of_logs, sync_word
from trilobite.processor.sim.timing.ranges import bounds, is_dense, overlap, solid
from trilobite.processor.sim.timing.state import BARRIER, SCALAR, SYNC, TASK, TENSOR

Row = tuple[int, int, int, int]  # kind, argument, queue, footprint


class Tables:
    """The arrays, and the objects behind their numbers."""

    def __init__(self, machine: Machine, trace: Trace) -> None:
        self.machine = machine
        self.is_ranges = machine.interlock == "ranges"
        self._is_contended = is_contended(machine)
        self.costs: list[Cost] = []
        self._numbers: dict[int, int] = {}  # of costs, by their identity
        self._cost_numbers: dict[Hashable, int] = {}
        self.latencies = scalar_latencies(machine)
        row = machine.dram.row_bytes or machine.dram.burst_bytes
        self.period = lcm(machine.dram.granule_bytes, row * machine.dram.channels)
        self._meetings: dict[tuple[str, int], int] = {}
        self._expected: list[int] = []
        self.spans, self.feet = _Growing(3), _Growing(3)
        self._holed: dict[int, Region] = {}
        self._holed_from: list[int] = []
        self._holed_at: list[tuple[Sequence[Region], Array]] = []
        self._met: dict[tuple[int, int], int] = {}
        self._paths: dict[tuple[Resource, ...], int] = {}
        self.caches = caches_of(machine, trace) if has_parts(machine) else None
        self._logged = self._logs(trace) if self.caches is None or not machine.llc.kib else {}
        parts = [self._core(core, number) for number, core in enumerate(trace.cores)]
        self._logged = {}
        self.first = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
        self.records: Array = np.concatenate(parts) if parts else np.zeros((0, 4), np.int64)
        tensors = np.flatnonzero(self.records[:, 0] == TENSOR)
        self.core_of_tensor = np.searchsorted(self.first, tensors, "right") - 1

    def _logs(self, trace: Trace) -> dict[int, Array]:
        """Rows of every log; those of cores that pay the same are looked at together."""
        by_who: dict[tuple[int, int], list[tuple[CoreTrace, Log]]] = {}
        for core in trace.cores:
            logs = [(core, part) for part in core.parts if isinstance(part, Log)]
            by_who.setdefault(self.who(core), []).extend(logs)
        found: dict[int, Array] = {}
        for pairs in by_who.values():
            logs_of_all = [log for _, log in pairs]
            if pairs:
                rows = rows_of_logs(self, logs_of_all, pairs[0][0])
                found.update(zip(map(id, logs_of_all), rows, strict=True))
        return found

    def _core(self, core: CoreTrace, number: int) -> Array:
        if self.caches is not None and self.caches.missing[number]:
            missing = self.caches.missing[number]
            rows = [
                self._row(record, core, lacks) for record, lacks in zip(core.records, missing, strict=True)
            ]
            return np.array(rows, np.int64).reshape(-1, 4)
        made = []
        for part in core.parts:
            if isinstance(part, Log):
                made.append(self._logged[id(part)])
            else:
                made.append(self._listed(part if isinstance(part, list) else part.records(), core))
        return np.concatenate(made)

    def _listed(self, records: Sequence[Record], core: CoreTrace) -> Array:
        """A row for each record; equal objects are looked at once."""
        keys = list(map(id, records))
        distinct = dict(zip(keys, records, strict=True))
        rows = np.array([self._row(record, core) for record in distinct.values()], np.int64).reshape(-1, 4)
        number = {key: place for place, key in enumerate(distinct)}
        found: Array = rows[np.fromiter(map(number.__getitem__, keys), np.int64, len(keys))]
        return found

    def _row(self, record: Record, core: CoreTrace, missing: int | None = None) -> Row:
        if isinstance(record, TensorRecord):
            foot = self._foot(record.reads, record.writes)
            return TENSOR, self.cost(record, core, missing), QUEUE_NUMBER[record.queue], foot
        if isinstance(record, ScalarRecord):
            cycles = sum(a * b for a, b in zip(record.counts, self.latencies, strict=True))
            return SCALAR, cycles, 0, self.span_foot(record.reads, record.writes)
        if isinstance(record, SyncRecord):
            return SYNC, sync_word(record.queues), 0, -1
        if isinstance(record, TaskRecord):
            return TASK, self._meeting("task", record.group), 0, -1
        return BARRIER, self._meeting("barrier", record.meeting), 0, -1

    def _meeting(self, kind: str, number: int) -> int:
        """One number for every meeting; each core that has a record of it is expected."""
        found = self._meetings.setdefault((kind, number), len(self._meetings))
        if found == len(self._expected):
            self._expected.append(0)
        self._expected[found] += 1
        return found

    def who(self, core: CoreTrace) -> tuple[int, int]:
        """What a cost depends on of the core that pays it."""
        return core.cluster, core.core if self._is_contended else 0

    def cost(self, record: TensorRecord, core: CoreTrace, missing: int | None = None) -> int:
        who = self.who(core)
        key = (*who, missing, cost_key(record, self.period))
        found = self._cost_numbers.get(key)
        if found is None:
            found = self._cost_numbers[key] = len(self.costs)
            self.costs.append(cost_of(self.machine, record, *who, missing))
            self._numbers[id(self.costs[-1])] = found
        return found

    def number(self, cost: Cost) -> int:
        """Of a cost that may come from another timing."""
        found = self._numbers.get(id(cost))
        if found is None:
            found = self._numbers[id(cost)] = len(self.costs)
            self.costs.append(cost)
        return found

    def _foot(self, reads: Sequence[Region], writes: Sequence[Region]) -> int:
        if not self.is_ranges:
            return -1
        first = self.spans.count
        read, written = ([region for region in regions if region.count] for regions in (reads, writes))
        rows = [(*bounds(region), int(is_dense(region))) for region in (*read, *written)]
        self._holed.update(
            (first + at, region) for at, region in enumerate((*read, *written)) if not rows[at][2]
        )
        self.spans.add(rows)
        return self.feet.add([(first, first + len(read), self.spans.count)])

    def span_foot(self, reads: tuple[int, int] | None, writes: tuple[int, int] | None) -> int:
        """The footprint of scalar accesses."""
        if not self.is_ranges or not (reads or writes):
            return -1
        first = self.spans.count
        self.spans.add([(*span, 1) for span in (reads, writes) if span])
        return self.feet.add([(first, first + bool(reads), self.spans.count)])

    def meet(self, one: int, other: int) -> int:
        """Whether two spans touch of which at least one has holes."""
        found = self._met.get((one, other))
        if found is None:
            found = self._met[one, other] = int(overlap(self._region(one), self._region(other)))
        return found

    def remember_holes(self, first: int, regions: Sequence[Region], addresses: Array) -> None:
        """Spans from `first` on are these regions at the addresses of each row."""
        self._holed_from.append(first)
        self._holed_at.append((regions, addresses))

    def _region(self, span: int) -> Region:
        found = self._holed.get(span)
        if found is None:
            found = self._holed[span] = self._of_row(span)
        return found

    def _of_row(self, span: int) -> Region:
        low, high, is_solid = map(int, self.spans.array[span])
        if is_solid:
            return solid(low, high)
        part = bisect_right(self._holed_from, span) - 1
        regions, addresses = self._holed_at[part]
        row, place = divmod(span - self._holed_from[part], len(regions))
        return replace(regions[place], address=int(addresses[row, place]))

    def arrays(self) -> dict[str, Array]:
        """Everything that does not change during a replay."""
        kind, argument, queue, foot = np.ascontiguousarray(self.records.T)
        count = len(kind)
        feet, spans = self.feet.array.T, self.spans.array.T
        made = {
            "kind": kind, "argument": argument, "queue": queue, "foot": foot,
            "fetch": self._of_caches("fetch", count, 0), "after": self._after(count),
            "operation_of": np.full(count, -1),
            "foot_reads": feet[0], "foot_writes": feet[1], "foot_end": feet[2],
            "span_low": spans[0], "span_high": spans[1], "span_solid": spans[2],
            "expected": np.array(self._expected, np.int64),
        }  # fmt: skip
        made.update({name: np.zeros(len(self._expected), np.int64)
                     for name in ("arrived", "first_there", "last_there")})  # fmt: skip
        made.update(self._cost_arrays())
        return {name: np.ascontiguousarray(array) for name, array in made.items()}

    def _of_caches(self, name: str, count: int, default: int) -> Array:
        """A list for each core, one behind the other."""
        lists = getattr(self.caches, name, [])
        return np.concatenate(lists).astype(np.int64) if any(lists) else np.full(count, default)

    def _after(self, count: int) -> Array:
        """Records are counted over all cores here."""
        found = self._of_caches("after", count, -1)
        first = np.repeat(self.first[:-1], np.diff(self.first))
        return np.where(found >= 0, found + first, -1)

    def _cost_arrays(self) -> dict[str, Array]:
        costs = self.costs
        alone = [max(cost.interval, cost.alone, 1) for cost in costs]
        made = {
            "interval": np.array([cost.interval for cost in costs], np.int64),
            "latency": np.array([cost.latency for cost in costs], np.int64),
            "amount": np.array([cost.amount for cost in costs], np.float64),
            "top": np.array([cost.amount / most for cost, most in zip(costs, alone, strict=True)]),
            "path": np.array([self._path(cost.resources) for cost in costs], np.int64),
        }
        return made | self._path_arrays()

    def _path(self, resources: tuple[Resource, ...]) -> int:
        return self._paths.setdefault(resources, len(self._paths)) if resources else -1

    def _path_arrays(self) -> dict[str, Array]:
        numbers: dict[Hashable, int] = {}
        parts, weights, ends = [], [], [0]
        for resources in self._paths:
            for part, weight in map(weighted, resources):
                parts.append(numbers.setdefault(part, len(numbers)))
                weights.append(weight)
            ends.append(len(parts))
        capacities = [capacity(self.machine, part) for part in numbers]  # type: ignore[arg-type]
        return {
            "path_from": np.array(ends[:-1], np.int64), "path_to": np.array(ends[1:], np.int64),
            "part": np.array(parts, np.int64), "weight": np.array(weights, np.float64),
            "capacity": np.array(capacities, np.float64), "room": np.zeros(len(numbers)),
            "users": np.zeros(len(numbers)),
        }  # fmt: skip


class _Growing:
    """An array that grows by rows."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._chunks: list[Array] = []
        self._listed: list[tuple[int, ...]] = []
        self.count = 0

    def add(self, rows: Sequence[tuple[int, ...]]) -> int:
        """Gives the number of the first of the new rows."""
        first = self.count
        self._listed += rows
        self.count += len(rows)
        return first

    def extend(self, rows: Array) -> int:
        """The same for many rows at once."""
        first = self.count
        self._chunks += [self._of_lists(), rows]
        self.count += len(rows)
        return first

    def _of_lists(self) -> Array:
        made = np.array(self._listed, np.int64).reshape(-1, self._width)
        self._listed = []
        return made

    @property
    def array(self) -> Array:
        """All rows."""
        self._chunks = [np.concatenate([*self._chunks, self._of_lists()])]
        return self._chunks[0]


def weighted(resource: Hashable) -> tuple[Hashable, float]:
    """The part itself, and which share of a transfer's bytes it carries."""
    if isinstance(resource, tuple) and resource[0] == "channel":
        return resource[:2], 1 / resource[2]
    if isinstance(resource, tuple) and resource[0] == "share":
        part, weight = weighted(resource[1])
        return part, weight * resource[2] / resource[3]
    return resource, 1.0
