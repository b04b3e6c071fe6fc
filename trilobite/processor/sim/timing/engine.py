"""T1: a trace in whole cycles, with queues, interlocks or sync edges, and contention for shared parts.

Enters: a machine and a trace. Leaves: a `Timeline`: when every instruction was dispatched, started, freed
its unit and had its result, and what each core's control was doing meanwhile. Function is not repeated:
records are replayed.

Each core dispatches in order. An instruction starts when it is dispatched, its queue is free and (with
`interlock: ranges`) nothing under way touches its bytes. Everything whose time is known is placed at once;
only transfers over shared parts wait for the clock, because others may slow them.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import lcm

from trilobite.processor.isa.formats import U8
from trilobite.processor.isa.row import Region, region
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
from trilobite.processor.sim.timing.contention import Sharing, Transfer
from trilobite.processor.sim.timing.cost import Cost, capacity, cost_key, cost_of, scalar_cycles
from trilobite.processor.sim.timing.ranges import Footprint

BARRIER_CYCLES = 8
Segment = tuple[int, int, str]  # from, to, what control did (a cause of the stall table)


@dataclass(eq=False, slots=True)
class Operation:
    """One instruction of a queue on its way through time."""

    record: TensorRecord
    cost: Cost
    core: CoreTimer
    dispatch: int
    behind: Operation | None  # the one before it in the same queue
    needs: list[Operation]
    start: int = -1
    free: int = -1  # when the unit can begin the next one
    finish: int = -1
    missing: int = 0
    cause: Operation | None = None  # what it waited for after its dispatch
    core_wait: Operation | None = None  # what control had last waited for before it
    waiters: list[Operation] | None = None
    blocked: list[CoreTimer] | None = None

    @property
    def known(self) -> bool:
        return self.finish >= 0

    @property
    def bound(self) -> str:
        """What made it start no earlier, or run no faster."""
        if self.free - self.start > self.cost.interval:
            return "bandwidth"
        if self.cause is None:
            return "dispatch"
        return "unit busy" if self.cause is self.behind else "operand"


@dataclass(eq=False)
class CoreTimer:
    """The control of one core: where it is in its records, and its clock."""

    trace: CoreTrace
    number: int
    place: int = 0
    clock: int = 0
    tasks: int = 0
    last: dict[str, Operation] = field(default_factory=dict)
    outstanding: dict[str, deque[Operation]] = field(default_factory=dict)
    segments: list[Segment] = field(default_factory=list)
    places: list[int] = field(default_factory=list)  # the instruction behind each segment
    operations: list[Operation] = field(default_factory=list)
    waited_for: Operation | None = None
    # By record: where one instruction is under way several times with the same bytes, the last is done last.
    in_flight: dict[int, tuple[Operation, Footprint]] = field(default_factory=dict)

    def spend(self, until: int, what: str) -> None:
        if until > self.clock:
            self.segments.append((self.clock, until, what))
            self.places.append(self.trace.records[self.place].place)
            self.clock = until


@dataclass
class Timeline:
    """Everything T1 found out; cycles is when the last result was there."""

    machine: Machine
    cores: list[CoreTimer]
    cycles: int


class Engine:
    def __init__(self, machine: Machine, trace: Trace) -> None:
        self.machine = machine
        self.cores = [CoreTimer(core, number) for number, core in enumerate(trace.cores)]
        self.sharing = Sharing(lambda resource: capacity(machine, resource))
        self.begins: list[tuple[int, int, int, Operation]] = []
        self.transfers: dict[Transfer, Operation] = {}
        self.sequence = 0
        self.costs: dict[tuple[int, tuple[object, ...]], Cost] = {}
        self.known: dict[tuple[int, int], tuple[Cost, Footprint]] = {}  # by cluster and record
        self.meet: dict[tuple[int, int], bool] = {}  # whether two records touch a common byte
        self.scalars: dict[tuple[int, ...], int] = {}
        self.turn = lcm(machine.dram.granule_bytes, machine.dram.burst_bytes * machine.dram.channels)
        self.ready: deque[CoreTimer] = deque()
        self.expected = _meeting_sizes(trace)
        self.arrived: dict[int, list[CoreTimer]] = {}
        self.members = Counter(r.group for c in trace.cores for r in c.records if isinstance(r, TaskRecord))
        self.gathered: dict[int, list[CoreTimer]] = {}

    def run(self) -> Timeline:
        self.ready.extend(self.cores)
        while True:
            while self.ready:
                self._advance(self.ready.popleft())
            if not self._next_event():
                break
        ends = [max([core.clock, *(op.finish for op in core.operations)]) for core in self.cores]
        return Timeline(self.machine, self.cores, max(ends, default=0))

    def _next_event(self) -> bool:
        """The next begin or end of a shared transfer; false when nothing is left."""
        end = self.sharing.next_end()
        if self.begins and (end is None or self.begins[0][0] < end):
            cycle, _, _, operation = heapq.heappop(self.begins)
            self._begin(operation, cycle)
            return True
        if end is None:
            return False
        for transfer in self.sharing.finish(end):
            self._ended(self.transfers.pop(transfer), end)
        return True

    def _ended(self, operation: Operation, end: int) -> None:
        """A transfer has moved its last byte."""
        operation.free = max(end, operation.start + operation.cost.interval)
        self._settle(operation, operation.free + operation.cost.latency - operation.cost.interval)

    def _begin(self, operation: Operation, cycle: int) -> None:
        cost = operation.cost
        top = cost.amount / max(cost.interval, cost.alone)
        if self.sharing.is_idle:
            end = cycle + self.sharing.cycles_alone(cost.amount, top, cost.resources)
            if not self.begins or self.begins[0][0] >= end:  # nobody comes in between
                self.sharing.now = end
                self._ended(operation, end)
                return
        transfer = Transfer(cost.amount, top, cost.resources, operation.core.number)
        self.transfers[transfer] = operation
        self.sharing.begin(transfer, cycle)

    def _settle(self, operation: Operation, finish: int) -> None:
        """An operation's times are known: whoever waited for them may go on."""
        pending = [(operation, finish)]
        while pending:
            done, done_finish = pending.pop()
            done.finish = done_finish
            if done.blocked is not None:
                self.ready.extend(core for core in done.blocked if core not in self.ready)
                done.blocked = None
            if done.waiters is None:
                continue
            for waiter in done.waiters:
                waiter.missing -= 1
                if waiter.missing == 0:
                    known = self._place(waiter)
                    if known is not None:
                        pending.append((waiter, known))
            done.waiters = None

    def _place(self, operation: Operation) -> int | None:
        """Fixes the start; gives the finish if nothing shared is involved."""
        start, operation.cause = operation.dispatch, None
        if operation.behind is not None and operation.behind.free > start:
            start, operation.cause = operation.behind.free, operation.behind
        for need in operation.needs:
            if need.finish > start:
                start, operation.cause = need.finish, need
        operation.start = start
        cost = operation.cost
        if cost.resources:
            self.sequence += 1
            heapq.heappush(self.begins, (start, operation.core.number, self.sequence, operation))
            return None
        operation.free = start + cost.interval
        return start + cost.latency

    def _advance(self, core: CoreTimer) -> None:
        """Runs a core's control until it must wait for a time that is not known yet."""
        records = core.trace.records
        while core.place < len(records):
            record = records[core.place]
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

    def _drain(self, core: CoreTimer, queues: Iterable[str]) -> bool:
        """Control waits until the queues are empty."""
        for queue in queues:
            under_way = core.outstanding.get(queue, deque())
            if not self._wait(core, under_way, "sync"):
                return False
            under_way.clear()
        return True

    def _wait(self, core: CoreTimer, operations: Iterable[Operation], what: str) -> bool:
        """Control waits for results; false if one of them is not known yet."""
        for operation in operations:
            if operation.finish < 0:
                operation.blocked = [*(operation.blocked or ()), core]
                return False
            if operation.finish > core.clock:
                core.spend(operation.finish, what)
                core.waited_for = operation
        return True

    def _task(self, core: CoreTimer, record: TaskRecord) -> bool:
        """A task begins when all cores of its group are free."""
        if not self._drain(core, core.outstanding):
            return False
        here = self.gathered.setdefault(record.group, [])
        if core not in here:
            here.append(core)
        if len(here) < self.members[record.group]:
            return False
        launch, free = self.machine.launch, max(member.clock for member in here)
        for member in here:
            ahead = self.machine.cycles(launch.round_ns if member.tasks else launch.overhead_ns)
            member.spend(free + ahead, "launch")
            member.tasks += 1
            if member is not core:
                member.place += 1
                self.ready.append(member)
        return True

    def _scalar(self, core: CoreTimer, record: ScalarRecord) -> bool:
        if self.machine.interlock == "ranges" and (record.reads or record.writes):
            touched = Footprint(_as_regions(record.reads), _as_regions(record.writes))
            needed = [op for op, footprint in core.in_flight.values() if touched.conflicts(footprint)]
            if not self._wait(core, needed, "operand"):
                return False
        counts = tuple(record.counts)
        cycles = self.scalars.get(counts)
        if cycles is None:
            cycles = self.scalars[counts] = scalar_cycles(self.machine, record)
        core.spend(core.clock + cycles, "scalar")
        return True

    def _barrier(self, core: CoreTimer, record: BarrierRecord) -> bool:
        here = self.arrived.setdefault(record.meeting, [])
        if core not in here:
            here.append(core)
        if len(here) < self.expected[record.meeting]:
            return False
        release = max(member.clock for member in here) + BARRIER_CYCLES
        for member in here:
            member.spend(release, "barrier")
            if member is not core:
                member.place += 1
                self.ready.append(member)
        return True

    def _dispatch(self, core: CoreTimer, record: TensorRecord) -> bool:
        queue = core.outstanding.get(record.queue)
        if queue is None:
            queue = core.outstanding[record.queue] = deque()
        while queue and 0 <= queue[0].finish <= core.clock:
            queue.popleft()
        if len(queue) >= self.machine.core.queues.depth:
            if not self._wait(core, [queue[0]], "queue full"):
                return False
            queue.popleft()
        core.spend(core.clock + self.machine.core.queues.dispatch, "dispatch")
        operation = self._operation(core, record)
        queue.append(operation)
        core.last[record.queue] = operation
        core.operations.append(operation)
        self._await(operation)
        if operation.missing == 0:
            finish = self._place(operation)
            if finish is not None:
                operation.finish = finish  # nobody can wait for it yet
        return True

    def _await(self, operation: Operation) -> None:
        """Counts what it must wait for and does not know the time of."""
        for op in (operation.behind, *operation.needs):
            if op is not None and op.finish < 0:
                operation.missing += 1
                if op.waiters is None:
                    op.waiters = []
                op.waiters.append(operation)

    def _operation(self, core: CoreTimer, record: TensorRecord) -> Operation:
        cost, own = self._cost(core, record)
        needs: list[Operation] = []
        made = Operation(record, cost, core, core.clock, core.last.get(record.queue), needs)
        made.core_wait = core.waited_for
        if self.machine.interlock == "ranges":
            self._interlock(core, made, own)
        return made

    def _interlock(self, core: CoreTimer, made: Operation, own: Footprint) -> None:
        clock, number, queue = core.clock, id(made.record), made.record.queue
        over = [key for key, (op, _) in core.in_flight.items() if 0 <= op.finish <= clock]
        for key in over:
            del core.in_flight[key]
        implied: set[int] = set()  # what a later one already waits for need not be looked at
        for key, (op, footprint) in reversed(core.in_flight.items()):
            if id(op) in implied:
                implied.update(map(id, op.needs))
                continue
            if op.record.queue == queue and op.cost.latency == op.cost.interval:
                continue  # the queue itself orders them
            touches = self.meet.get((number, key))
            if touches is None:
                touches = self.meet[number, key] = own.conflicts(footprint)
            if touches:
                made.needs.append(op)
                implied.update(map(id, op.needs))
        made.needs.reverse()
        core.in_flight.pop(number, None)  # the order of the dictionary is that of dispatch
        core.in_flight[number] = (made, own)

    def _cost(self, core: CoreTimer, record: TensorRecord) -> tuple[Cost, Footprint]:
        """Loops repeat their records and shapes: costs are kept by what they depend on."""
        cluster = core.trace.cluster
        known = self.known.get((cluster, id(record)))
        if known is None:
            key = (cluster, cost_key(record, self.turn))
            cost = self.costs.get(key)
            if cost is None:
                cost = self.costs[key] = cost_of(self.machine, record, cluster)
            known = self.known[cluster, id(record)] = (cost, Footprint(record.reads, record.writes))
        return known


def _as_regions(span: tuple[int, int] | None) -> list[Region]:
    return [region(span[0], U8, (span[1] - span[0],))] if span else []


def _meeting_sizes(trace: Trace) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for core in trace.cores:
        for record in core.records:
            if isinstance(record, BarrierRecord):
                sizes[record.meeting] = sizes.get(record.meeting, 0) + 1
    return sizes


def replay(machine: Machine, trace: Trace) -> Timeline:
    """The timeline of a trace; the machine may differ in timing parameters from the one that ran it."""
    return Engine(machine, trace).run()
