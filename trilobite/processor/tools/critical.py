"""The critical path: the chain of work and waiting, without a gap, that made a launch as long as it is.

Enters: a run. Leaves: stretches of time from cycle 0 to the end; their cycles sum to the launch's. Each says
what it was (an instruction in its unit, scalar work, dispatch, a barrier, the launch itself), on which source
line, and what bound it: why it did not begin earlier or end sooner.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trilobite.processor.isa.disassembler import instruction_text
from trilobite.processor.machine import Machine
from trilobite.processor.machine.drawing import table
from trilobite.processor.sim.record import SCALAR_CLASSES
from trilobite.processor.sim.run import Run
from trilobite.processor.sim.timing.cost import (
    BANDWIDTH,
    IO_DMA,
    MATRIX_UNIT,
    MOVE_DMA,
    PADS,
    VECTOR_UNIT,
    Resource,
    capacity,
    scalar_latencies,
)
from trilobite.processor.sim.timing.tables import weighted
from trilobite.processor.sim.timing.timeline import CoreTimes, Operation, Timeline

WAITS = ("sync", "operand")  # for an instruction, which the path goes on with
# Parts of the machine that what control does belongs to; scalar work is looked at more closely.
CONTROL_PARTS = {"launch": "the launch", "barrier": "barriers", "queue full": "queue depth",
                 "fetch": "DRAM latency", "dispatch": "dispatch", "sync": "sync",
                 "operand": "sync"}  # fmt: skip
SHARED = {"dram": BANDWIDTH, "die": BANDWIDTH, "channel": BANDWIDTH, "link": "the NoC", "sram": "SRAM",
          "bus": "SRAM", "llc": "the cache"}  # fmt: skip
DRAM_CLASSES = ("dram", "atomic")


@dataclass(frozen=True)
class Stretch:
    """Cycles start to end of the path."""

    start: int
    end: int
    cluster: int
    core: int
    queue: str
    what: str
    line: str
    bound: str
    parts: tuple[tuple[str, int], ...] = ()  # parts of the machine, and the cycles that each accounts for

    @property
    def cycles(self) -> int:
        return self.end - self.start


def bound_of(operation: Operation) -> str:
    """What an instruction was bound by: its unit, an operand, bandwidth, or what its core's control did.

    If it started as soon as it was dispatched, that is whatever kept control longest since its queue ran
    empty.
    """
    if operation.bound != "dispatch":
        return operation.bound
    core, before = operation.core, operation.behind
    idle_since = min(before.free, operation.dispatch) if before is not None else 0
    spent: dict[str, int] = {}
    at = bisect_left(core.segments, (operation.dispatch, 0, ""))
    for start, end, what in reversed(core.segments[:at]):
        if end <= idle_since:
            break
        spent[what] = spent.get(what, 0) + end - max(start, idle_since)
    return max(spent, key=lambda what: spent[what]) if spent else "dispatch"


def critical_path(run: Run) -> list[Stretch]:
    """The stretches in the order of time."""
    return list(_backwards(run))[::-1]


def critical_parts(run: Run) -> dict[str, int]:
    """Cycles of the path by the part of the machine that they were spent in, the most first."""
    found: dict[str, int] = {}
    for stretch in critical_path(run):
        for part, cycles in stretch.parts:
            found[part] = found.get(part, 0) + cycles
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _operation_parts(machine: Machine, op: Operation, end: int) -> tuple[tuple[str, int], ...]:
    """Its unit, a memory or a shared part while it runs; then what its result waits for."""
    busy = min(end, op.free) - op.start
    return (_busy_part(machine, op), busy), (_latency_part(op), max(0, end - op.free))


def _busy_part(machine: Machine, op: Operation) -> str:
    cost, took = op.cost, op.free - op.start
    if took <= cost.interval or not cost.resources:
        return cost.part
    if took <= cost.alone:
        return cost.alone_part or cost.part
    return _shared_part(machine, cost.resources)


def _shared_part(machine: Machine, resources: Sequence[Resource]) -> str:
    """The slowest part of a way that others were on as well."""
    slowest: Resource = ()
    least = float("inf")
    for resource in resources:
        part, share = weighted(resource)
        assert isinstance(part, tuple)
        if capacity(machine, part) / share < least:
            slowest, least = part, capacity(machine, part) / share
    return PADS[str(slowest[1])] if slowest[0] == "pad" else SHARED[str(slowest[0])]


def _latency_part(op: Operation) -> str:
    """What passes between the last beat of a unit and its result."""
    if op.record.queue not in ("io", "move"):
        return VECTOR_UNIT if op.cost.part != MATRIX_UNIT else MATRIX_UNIT
    if any(part[0] in ("dram", "llc") for part in op.cost.resources):
        return "DRAM latency"
    return IO_DMA if op.record.queue == "io" else MOVE_DMA


def _control_part(machine: Machine, core: CoreTimes, at: int) -> str:
    what, record = core.segments[at][2], core.scalar_records.get(at)
    if what != "scalar" or record is None:
        return CONTROL_PARTS.get(what, "the scalar unit")
    cycles = [count * each for count, each in zip(record.counts, scalar_latencies(machine), strict=True)]
    far = sum(cycles[SCALAR_CLASSES.index(name)] for name in DRAM_CLASSES)
    return "DRAM latency" if 2 * far > sum(cycles) else "the scalar unit"


def _backwards(run: Run) -> Iterator[Stretch]:
    timeline = run.timeline
    here: Operation | CoreTimes | None = _last(timeline)
    clock = timeline.cycles
    while here is not None and clock > 0:
        if isinstance(here, Operation):
            yield _operation(run, here, clock)
            clock = here.start
            here = here.cause if here.cause is not None else here.core
        else:
            clock, here, stretch = _control(run, here, clock)
            if stretch is not None:
                yield stretch


def _last(timeline: Timeline) -> Operation | CoreTimes | None:
    """What ended last: an instruction, or a core's control."""
    for core in timeline.cores:
        if core.end == timeline.cycles:
            return core
    operations = (op for core in timeline.cores for op in core.operations)
    return next((op for op in operations if op.finish == timeline.cycles), None)


def _operation(run: Run, op: Operation, end: int) -> Stretch:
    trace = op.core.trace
    text = instruction_text(run.program.instructions[op.record.place])
    line = run.program.where(op.record.place)
    parts = _operation_parts(run.machine, op, end)
    return Stretch(op.start, end, trace.cluster, trace.core, op.record.queue, text, line, bound_of(op), parts)


def _control(
    run: Run, core: CoreTimes, clock: int
) -> tuple[int, Operation | CoreTimes | None, Stretch | None]:
    """The stretch of control that ends at the clock, and where the path came from before it."""
    at = bisect_left(core.segments, (clock, 0, "")) - 1
    start, _, what = core.segments[at]
    line = run.program.where(core.places[at])
    trace = core.trace
    if what in WAITS:
        awaited = next((op for op in core.operations if op.finish == clock), None)
        if awaited is not None:
            return clock, awaited, None
    if what == "barrier":
        begin = clock - run.timeline.machine.barrier_cycles
        parts = (("barriers", clock - begin),)
        stretch = Stretch(begin, clock, trace.cluster, trace.core, "control", what, line, what, parts)
        return begin, _last_to_come(run.timeline, clock) or core, stretch
    parts = ((_control_part(run.machine, core, at), clock - start),)
    return start, core, Stretch(start, clock, trace.cluster, trace.core, "control", what, line, what, parts)


def _last_to_come(timeline: Timeline, release: int) -> CoreTimes | None:
    """The member of a barrier that kept the others waiting."""
    wanted = (release - timeline.machine.barrier_cycles, release, "barrier")
    for core in timeline.cores:
        at = bisect_left(core.segments, wanted)
        if at < len(core.segments) and core.segments[at] == wanted:
            return core
    return None


def critical_text(run: Run, limit: int = 40) -> str:
    """The longest stretches of the path as a table, in the order of time."""
    path = critical_path(run)
    kept = sorted(
        sorted(path, key=lambda stretch: -stretch.cycles)[:limit], key=lambda stretch: stretch.start
    )
    rows = [["cycle", "cycles", "core", "queue", "bound by", "what", "line"]]
    for one in kept:
        name = f"{one.cluster}.{'m' if one.core == 0x80 else one.core}"
        rows.append([str(one.start), str(one.cycles), name, one.queue, one.bound, one.what, one.line])
    left = run.cycles - sum(one.cycles for one in kept)
    text = table(rows)
    return text + f"and {len(path) - len(kept)} shorter ones, {left} cycles\n" if left else text
