"""The critical path: the chain of work and waiting, without a gap, that made a launch as long as it is.

Enters: a run. Leaves: stretches of time from cycle 0 to the end; their cycles sum to the launch's. Each says
what it was (an instruction in its unit, scalar work, dispatch, a barrier, the launch itself), on which source
line, and what bound it: why it did not begin earlier or end sooner.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from trilobite.processor.isa.disassembler import instruction_text
from trilobite.processor.machine.drawing import table
from trilobite.processor.sim.run import Run
from trilobite.processor.sim.timing.timeline import CoreTimes, Operation, Timeline

WAITS = ("sync", "queue full", "operand")


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
    return Stretch(op.start, end, trace.cluster, trace.core, op.record.queue, text, line, bound_of(op))


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
        stretch = Stretch(begin, clock, trace.cluster, trace.core, "control", what, line, what)
        return begin, _last_to_come(run.timeline, clock) or core, stretch
    return start, core, Stretch(start, clock, trace.cluster, trace.core, "control", what, line, what)


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
