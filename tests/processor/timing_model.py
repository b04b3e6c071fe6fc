"""T1: a trace in whole cycles, with queues, interlocks or sync edges, and contention for shared parts.

Enters: a machine and a trace. Leaves: a `Timeline`. Function is not repeated: records are replayed.

Each core dispatches in order. An instruction starts when it is dispatched, its queue is free and (with
`interlock: ranges`) nothing under way touches its bytes. Everything whose time is known is placed at once;
only transfers over shared parts wait for the clock, because others may slow them.

It is a second model, written with objects and lists, to compare `timing/stepping.py` with: the same times and
causes must come out.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.processor.contention_model import Sharing, Transfer
from trilobite.processor.isa.row import Region
from trilobite.processor.machine import Machine
from trilobite.processor.sim.record import (
    BarrierRecord,
    CoreTrace,
    ScalarRecord,
    SyncRecord,
    TaskRecord,
    TensorRecord,
    Trace,
)
from trilobite.processor.sim.timing.caches import caches_of
from trilobite.processor.sim.timing.cost import capacity, cost_of, scalar_latencies
from trilobite.processor.sim.timing.ranges import Footprint, solid
from trilobite.processor.sim.timing.timeline import CoreTimes, Operation, Timeline


@dataclass(eq=False, slots=True)
class _Underway:
    """An operation while its times are being found out."""

    operation: Operation
    timer: CoreTimer
    footprint: Footprint
    behind: _Underway | None
    needs: list[_Underway]
    number: int  # in the order of dispatch
    missing: int = 0
    waiters: list[_Underway] = field(default_factory=list)
    is_awaited: bool = False  # its core's control waits for it

    @property
    def finish(self) -> int:
        return self.operation.finish


class CoreTimer(CoreTimes):
    """The control of one core: where it is in its records, and its clock."""

    def __init__(self, trace: CoreTrace, number: int) -> None:
        super().__init__(trace, number)
        self.records = trace.records
        self.place = 0
        self.clock = 0
        self.tasks = 0
        self.last: dict[str, _Underway] = {}
        self.outstanding: dict[str, deque[_Underway]] = {}
        self.waited_for: Operation | None = None
        self.in_flight: list[_Underway] = []
        self.fetched = -1
        self.by_record: dict[int, _Underway] = {}

    def spend(self, until: int, what: str) -> None:
        if until > self.clock:
            self.segments.append((self.clock, until, what))
            behind = self.records[self.place]
            if isinstance(behind, ScalarRecord):
                self.scalar_records[len(self.segments) - 1] = behind
            self.places.append(behind.place)
            self.clock = until


class Engine:
    def __init__(self, machine: Machine, trace: Trace) -> None:
        self.machine = machine
        self.cores = [CoreTimer(core, number) for number, core in enumerate(trace.cores)]
        self.sharing = Sharing(lambda resource: capacity(machine, resource))
        self.begins: list[tuple[int, int, int, _Underway]] = []
        self.transfers: dict[Transfer, _Underway] = {}
        self.sequence = 0
        self.ready: deque[CoreTimer] = deque()
        self.expected = _sizes(trace, BarrierRecord)
        self.arrived: dict[int, list[CoreTimer]] = {}
        self.members = _sizes(trace, TaskRecord)
        self.gathered: dict[int, list[CoreTimer]] = {}
        self.caches = caches_of(machine, trace)

    def run(self) -> Timeline:
        self.ready.extend(self.cores)
        while True:
            while self.ready:
                self._advance(self.ready.popleft())
            if not self._next_event():
                break
        ends = [max([core.clock, *(op.finish for op in core.operations)]) for core in self.cores]
        return Timeline(self.machine, list(self.cores), max(ends, default=0))

    def _next_event(self) -> bool:
        """The next begin or end of a shared transfer; false when nothing is left."""
        end = self.sharing.next_end()
        if self.begins and (end is None or self.begins[0][0] < end):
            cycle, _, _, underway = heapq.heappop(self.begins)
            self._begin(underway, cycle)
            return True
        if end is None:
            return False
        for transfer in self.sharing.finish(end):
            self._ended(self.transfers.pop(transfer), end)
        return True

    def _ended(self, underway: _Underway, end: int) -> None:
        """A transfer has moved its last byte."""
        operation = underway.operation
        operation.free = max(end, operation.start + operation.cost.interval)
        self._settle(underway, operation.free + operation.cost.latency - operation.cost.interval)

    def _begin(self, underway: _Underway, cycle: int) -> None:
        cost = underway.operation.cost
        top = cost.amount / max(cost.interval, cost.alone)
        if self.sharing.is_idle:
            end = cycle + self.sharing.cycles_alone(cost.amount, top, cost.resources)
            if not self.begins or self.begins[0][0] >= end:  # nobody comes in between
                self.sharing.now = end
                self._ended(underway, end)
                return
        transfer = Transfer(cost.amount, top, cost.resources, underway.timer.number)
        self.transfers[transfer] = underway
        self.sharing.begin(transfer, cycle)

    def _settle(self, underway: _Underway, finish: int) -> None:
        """An operation's times are known: whoever waited for them may go on."""
        pending = [(underway, finish)]
        while pending:
            done, done_finish = pending.pop()
            done.operation.finish = done_finish
            if done.is_awaited:
                done.is_awaited = False
                self._wake(done.timer)
            for waiter in done.waiters:
                waiter.missing -= 1
                if waiter.missing == 0:
                    known = self._place(waiter)
                    if known is not None:
                        pending.append((waiter, known))
            done.waiters = []

    def _wake(self, core: CoreTimer) -> None:
        if core not in self.ready:
            self.ready.append(core)

    def _place(self, underway: _Underway) -> int | None:
        """Fixes the start; gives the finish if nothing shared is involved."""
        operation, behind = underway.operation, underway.behind
        start, operation.cause = operation.dispatch, None
        if behind is not None and behind.operation.free > start:
            start, operation.cause = behind.operation.free, behind.operation
        for need in underway.needs:
            if need.finish > start:
                start, operation.cause = need.finish, need.operation
        operation.start = start
        cost = operation.cost
        if cost.resources:
            self.sequence += 1
            heapq.heappush(self.begins, (start, underway.timer.number, self.sequence, underway))
            return None
        operation.free = start + cost.interval
        return start + cost.latency

    def _advance(self, core: CoreTimer) -> None:
        """Runs a core's control until it must wait for a time that is not known yet."""
        records = core.records
        while core.place < len(records):
            record = records[core.place]
            self._fetch(core)
            if isinstance(record, TensorRecord):
                passed = self._dispatch(core, record)
            elif isinstance(record, ScalarRecord):
                passed = self._scalar(core, record)
            elif isinstance(record, SyncRecord):
                passed = self._drain(core, record.queues)
            elif isinstance(record, TaskRecord):
                passed = self._task(core, record)
            else:
                passed = self._barrier(core, record)
            if not passed:
                return
            core.place += 1

    def _fetch(self, core: CoreTimer) -> None:
        """Waits once for the instructions of a record."""
        fetch = self.caches.fetch[core.number]
        if fetch and core.fetched < core.place:
            core.fetched = core.place
            core.spend(core.clock + fetch[core.place], "fetch")

    def _drain(self, core: CoreTimer, queues: Iterable[str]) -> bool:
        """Control waits until the queues are empty."""
        for queue in queues:
            under_way = core.outstanding.get(queue, deque())
            if not self._wait(core, under_way, "sync"):
                return False
            under_way.clear()
        return True

    def _wait(self, core: CoreTimer, awaited: Iterable[_Underway], what: str) -> bool:
        """Control waits for results; false if one of them is not known yet."""
        for underway in awaited:
            if underway.finish < 0:
                underway.is_awaited = True
                return False
            if underway.finish > core.clock:
                core.spend(underway.finish, what)
                core.waited_for = underway.operation
        return True

    def _task(self, core: CoreTimer, record: TaskRecord) -> bool:
        """A task begins when all cores of its group are free."""
        if not self._drain(core, core.outstanding):
            return False
        here = self.gathered.setdefault(record.group, [])
        here.append(core)
        if len(here) < self.members[record.group]:
            return False
        launch, free = self.machine.launch, max(member.clock for member in here)
        for member in here:
            ahead = self.machine.cycles(launch.round_ns if member.tasks else launch.overhead_ns)
            member.spend(free + ahead, "launch")
            member.tasks += 1
            self._go_on(member, core)
        return True

    def _go_on(self, member: CoreTimer, last: CoreTimer) -> None:
        """A meeting is over; the last that came goes on by itself."""
        if member is not last:
            member.place += 1
            self._wake(member)

    def _scalar(self, core: CoreTimer, record: ScalarRecord) -> bool:
        if self.machine.interlock == "ranges" and (record.reads or record.writes):
            touched = Footprint(_as_regions(record.reads), _as_regions(record.writes))
            needed = [other for other in core.in_flight if touched.conflicts(other.footprint)]
            if not self._wait(core, needed, "operand"):
                return False
        core.spend(core.clock + scalar_cycles(self.machine, record), "scalar")
        return True

    def _barrier(self, core: CoreTimer, record: BarrierRecord) -> bool:
        here = self.arrived.setdefault(record.meeting, [])
        here.append(core)
        if len(here) < self.expected[record.meeting]:
            return False
        release = max(member.clock for member in here) + self.machine.barrier_cycles
        for member in here:
            member.spend(release, "barrier")
            self._go_on(member, core)
        return True

    def _dispatch(self, core: CoreTimer, record: TensorRecord) -> bool:
        queue = core.outstanding.setdefault(record.queue, deque())
        while queue and 0 <= queue[0].finish <= core.clock:
            queue.popleft()
        if len(queue) >= self.machine.core.queues.depth:
            if not self._wait(core, [queue[0]], "queue full"):
                return False
            queue.popleft()
        core.spend(core.clock + self.machine.core.queues.dispatch, "dispatch")
        underway = self._underway(core, record)
        queue.append(underway)
        core.last[record.queue] = underway
        core.operations.append(underway.operation)
        self._await(underway)
        if underway.missing == 0:
            finish = self._place(underway)
            if finish is not None:
                underway.operation.finish = finish  # nobody can wait for it yet
        return True

    def _await(self, underway: _Underway) -> None:
        """Counts what it must wait for and does not know the time of."""
        for other in (underway.behind, *underway.needs):
            if other is not None and other.finish < 0:
                underway.missing += 1
                other.waiters.append(underway)

    def _underway(self, core: CoreTimer, record: TensorRecord) -> _Underway:
        missing = self.caches.missing[core.number]
        cost = cost_of(
            self.machine,
            record,
            core.trace.cluster,
            core.trace.core,
            missing[core.place] if missing else None,
        )
        behind = core.last.get(record.queue)
        made = Operation(record, cost, core, core.clock, behind.operation if behind else None)
        made.core_wait = core.waited_for
        own = Footprint(record.reads, record.writes)
        underway = _Underway(made, core, own, behind, [], len(core.operations))
        if self.machine.interlock == "ranges":
            underway.needs = self._interlock(core, record.queue, own)
            core.in_flight.append(underway)
        after = self.caches.after[core.number]
        if after:
            core.by_record[core.place] = underway
            if after[core.place] >= 0:  # the FIFO of tiles is full until then
                underway.needs.append(core.by_record[after[core.place]])
                underway.needs.sort(key=lambda need: need.number)
        return underway

    def _interlock(self, core: CoreTimer, queue: str, own: Footprint) -> list[_Underway]:
        """What is under way and touches the bytes of a new instruction, in the order of dispatch."""
        core.in_flight = [other for other in core.in_flight if not 0 <= other.finish <= core.clock]
        needs = []
        for other in core.in_flight:
            known = other.operation
            if known.record.queue == queue and known.cost.latency == known.cost.interval:
                continue  # the queue itself orders them
            if own.conflicts(other.footprint):
                needs.append(other)
        return needs


def scalar_cycles(machine: Machine, record: ScalarRecord) -> int:
    """In order and without overlap: the latencies add up."""
    return sum(count * each for count, each in zip(record.counts, scalar_latencies(machine), strict=True))


def _as_regions(span: tuple[int, int] | None) -> list[Region]:
    return [solid(*span)] if span else []


def _sizes(trace: Trace, kind: type[BarrierRecord | TaskRecord]) -> Counter[int]:
    """How many cores take part in each meeting of a kind."""
    sizes: Counter[int] = Counter()
    for core in trace.cores:
        for record in core.records:
            if isinstance(record, BarrierRecord | TaskRecord) and isinstance(record, kind):
                sizes[record.meeting if isinstance(record, BarrierRecord) else record.group] += 1
    return sizes


def replay_by_model(machine: Machine, trace: Trace) -> Timeline:
    """The timeline of a trace; the machine may differ in timing parameters from the one that ran it."""
    return Engine(machine, trace).run()
