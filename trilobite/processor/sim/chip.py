"""A whole launch, functionally: cores in canonical interleaving, meetings at barriers, faults.

Enters: a machine, its memory, a program and a task grid. Leaves: changed memory, the trace, and what was
printed. Cores run in the order of their numbers, each from one inter-core event to the next, so a launch
has one result.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import numpy as np

from trilobite.base.errors import ArgumentError, ProcessorFault
from trilobite.processor.isa.address import LETTERS
from trilobite.processor.isa.program import RESERVED_SECTIONS, Program
from trilobite.processor.machine import Machine
from trilobite.processor.sim.control import HANDLERS, pass_barrier
from trilobite.processor.sim.core import Core, Handlers, Kernel
from trilobite.processor.sim.core_code import CoreCode
from trilobite.processor.sim.memory import Memory, Place
from trilobite.processor.sim.observer import Observer
from trilobite.processor.sim.prepared import prepare
from trilobite.processor.sim.record import TaskRecord, Trace
from trilobite.processor.sim.stepped import SteppedCode
from trilobite.processor.sim.tasks import Group, rounds

SLICE = 1 << 16  # instructions before a core without events makes room for the others
MAX_ARGUMENTS = 32
MOST_INSTRUCTIONS = 1 << 32  # of a launch that says nothing else
MOST_CHECKED = 1 << 29  # of a checked launch: half a minute of translated code
MOST_ONE_BY_ONE = (
    1 << 21
)  # of those that checkers look at one by one, tensor instructions among them: a minute
MOST_RECORDS = 1 << 22  # of its trace: less than a gigabyte
PATIENCE = 1 << 9  # instructions interpreted after which is asked anew how a core goes on
PORTION = 1 << 14  # the same of all instructions
TRANSLATE_AFTER = 1 << 12  # instructions interpreted before compiling is worth its price
WORDS_QUICKER = 1 << 9  # by how much instructions as words are quicker than interpreted ones
_CODE: WeakKeyDictionary[Program, SteppedCode] = WeakKeyDictionary()
BarrierKey = tuple[str, str, int]


@dataclass
class Execution:
    trace: Trace
    printed: str
    instructions: int


@dataclass
class _Meeting:
    """Who must come to a barrier, and who has."""

    members: set[Place]
    arrived: set[Place] = field(default_factory=set)


def check_fits(machine: Machine, program: Program) -> None:
    """Static arrays must leave the stack its part: the reserved one, or what the compiler says it takes."""
    core = machine.core

    def left(whole: int, reserved_kib: int) -> int:
        stack = reserved_kib * 1024
        return whole - (stack if program.frame is None else min(stack, program.frame))

    room = {
        "nram": left(core.nram.bytes, core.nram.reserved_kib),
        "wram": core.wram.bytes,
        "acc": core.acc.bytes,
        "sram": left(machine.sram.bytes, machine.sram.reserved_kib),
        "ldram": 1 << 25,
    }
    both = program.sizes.get("nram", 0) + program.sizes.get("wram", 0)
    pooled = program.sizes.get("pool", both)  # what a compiler has seen in use at one time
    if core.pool_kib and pooled > core.pool_kib * 1024:
        raise ProcessorFault(
            f"static arrays need {pooled} bytes of the pool that NRAM and WRAM are, "
            f"{machine.name} has {core.pool_kib * 1024}",
            where=", ".join(sorted(set(program.sources))),
            expected=f"at most {core.pool_kib * 1024} bytes of both together",
            remedy="make the arrays smaller, or choose a machine with more",
        )
    for section in RESERVED_SECTIONS:
        needed = program.sizes.get(section, 0)
        if needed > room[section]:
            raise ProcessorFault(
                f"static arrays need {needed} bytes of {section}, {machine.name} has {room[section]}",
                where=", ".join(sorted(set(program.sources))),
                expected=f"at most {room[section]} bytes ({LETTERS[section]})",
                remedy="make the arrays smaller, or choose a machine with more",
            )


class Chip:
    """Runs launches of one program after another on one part's memory."""

    def __init__(
        self,
        machine: Machine,
        memory: Memory,
        kernels: Mapping[str, Kernel],
        translate: bool = True,
        observer: Observer | None = None,
    ) -> None:
        self.machine, self.memory, self.kernels = machine, memory, kernels
        self.translate, self.observer = translate, observer

    def execute(
        self,
        program: Program,
        entry: int,
        arguments: Sequence[int],
        dim: tuple[int, int, int] = (1, 1, 1),
        task: str = "block",
        traced: bool = True,
        seed: int = 0,
        limit: int | None = None,
        trace_limit: int | None = None,
    ) -> Execution:
        launch = Launch(self, program, traced, limit, trace_limit)
        with np.errstate(all="ignore"):
            deque(launch.cores_in_order(entry, arguments, dim, task, seed), maxlen=0)
        return launch.result()


class Launch:
    """One launch under way. Its cores run in order, each from one inter-core event to the next."""

    def __init__(
        self,
        chip: Chip,
        program: Program,
        traced: bool,
        limit: int | None,
        trace_limit: int | None = None,
    ) -> None:
        self.chip, self.program, self.traced = chip, program, traced
        self.limit, self.trace_limit = limit, trace_limit
        self.code = prepare(program)
        self.handlers: Handlers = HANDLERS
        self.cores: dict[Place, Core] = {}
        self.meetings: dict[tuple[int, BarrierKey], _Meeting] = {}
        self.barriers_passed = 0
        self.executed = 0
        self.records = 0  # of all traces
        self._sizes: dict[Place, int] = {}
        self._entry_points: dict[Place, set[int]] = {}  # of the code that a core has
        self.rounds = 0
        self.groups = 0  # begun so far
        self.printed: list[str] = []
        self.timing_dependent = False

    def cores_in_order(
        self,
        entry: int,
        arguments: Sequence[int],
        dim: tuple[int, int, int],
        task: str,
        seed: int = 0,
        single: bool = False,
    ) -> Iterator[Core]:
        """Runs the launch; if `single`, it stops before each instruction, giving the core that is next."""
        if len(arguments) > MAX_ARGUMENTS:
            raise ArgumentError(
                f"{len(arguments)} arguments",
                expected=f"at most {MAX_ARGUMENTS}",
                remedy="pass a pointer to a table",
            )
        check_fits(self.chip.machine, self.program)
        self.chip.memory.code = np.frombuffer(self.program.data, np.uint8)
        self.chip.memory.aligned = self.program.aligned
        for groups in rounds(self.chip.machine, dim, task, seed):
            yield from self._round(groups, entry, list(arguments), single)
            self.rounds += 1

    def _round(
        self, groups: Sequence[Group], entry: int, arguments: list[int], single: bool
    ) -> Iterator[Core]:
        group_of: dict[Place, int] = {}
        running = []
        for index, group in enumerate(groups):
            for member in group:
                core = self._core(member.place)
                core.start(self.program, self.code, entry, arguments, dict(member.special))
                if self.traced:
                    number = member.special["taskId"]
                    core.trace.tail.append(TaskRecord(entry, number, self.rounds, self.groups))
                group_of[member.place] = index
                running.append(core)
            self.groups += 1
            if self.chip.observer is not None:
                self.chip.observer.began(running[-len(group) :])
        members = {index: [member.place for member in group] for index, group in enumerate(groups)}
        return self._interleave(running, group_of, members, single)

    def _core(self, place: Place) -> Core:
        if place not in self.cores:
            core = Core(place, self.chip.memory, self.chip.kernels, self.traced)
            core.observer = self.chip.observer
            self.cores[place] = core
        return self.cores[place]

    def _interleave(
        self,
        cores: list[Core],
        group_of: Mapping[Place, int],
        members: Mapping[int, list[Place]],
        single: bool,
    ) -> Iterator[Core]:
        waiting: dict[Place, tuple[int, BarrierKey]] = {}
        while any(not core.halted for core in cores):
            progress = False
            for core in cores:
                if core.halted or core.place in waiting:
                    continue
                progress = True
                if single:
                    yield from self._stepwise(core)
                else:
                    self._run(core)
                if core.event == "barrier":
                    self._arrive(core, group_of[core.place], members, waiting)
            if not progress:
                raise self._deadlock(cores, waiting)

    def _stepwise(self, core: Core) -> Iterator[Core]:
        """The same turn as `_run` gives, one instruction at a time."""
        core.event, done = None, 0
        while done < SLICE and core.event is None:
            yield core
            with np.errstate(all="ignore"):
                done += core.run(1, self.handlers)
        self._close(core, done)

    def _run(self, core: Core) -> None:
        """A turn of a core: up to an event that others may see, or a slice."""
        core.event, done = None, 0
        while done < SLICE and core.event is None:
            portion = SLICE - done
            if core.observer is not None:
                core.native = core.observer.native(core)
            elif self.chip.translate and self._enter(core):
                portion = min(portion, PORTION)
            done += core.run(portion, self.handlers)
        self._close(core, done)

    def _enter(self, core: Core) -> bool:
        """Gives a core its native code: words at once, which are translated if the program stays long.
        Whether that may still come.
        """
        if self.program not in _CODE:
            _CODE[self.program] = SteppedCode(self.code, is_eager=self.program.ahead)
        code = _CODE[self.program]
        may_come = code.translation is None and not self.program.ahead
        if may_come and self._is_long(core, code):
            code.translate()
            may_come = False
        if self._entry_points.get(core.place) is not code.entry_points:
            self._entry_points[core.place] = code.entry_points
            core.native = CoreCode(code, self.chip.memory, core.place)
        return may_come

    def _is_long(self, core: Core, code: SteppedCode) -> bool:
        """Code that is passed through once is not worth compiling, however long it is."""
        code.interpreted, core.interpreted = code.interpreted + core.interpreted, 0
        done = core.trace.instructions
        core.patience = PATIENCE
        return done >= 2 * len(self.code) and code.interpreted + done // WORDS_QUICKER >= TRANSLATE_AFTER

    def _close(self, core: Core, done: int) -> None:
        """What a turn leaves: its count, its records, what it printed."""
        self.executed += done
        core.flush()
        self.records += core.trace.size - self._sizes.get(core.place, 0)
        self._sizes[core.place] = core.trace.size
        self.timing_dependent |= core.event == "atomic" or "readClock" in core.special
        self.printed += core.printed
        core.printed.clear()
        if self.limit is not None and self.executed > self.limit:
            remedy = "look for an endless loop, or launch it with a larger limit"
            raise core.fault(f"the launch ran over its limit of {self.limit} instructions", remedy)
        if self.trace_limit is not None and self.records > self.trace_limit:
            raise core.fault(
                f"the trace of the launch grew beyond its limit of {self.trace_limit} records",
                "look for an endless loop, give a larger trace_limit, or launch it with traced=False",
            )

    def _arrive(
        self,
        core: Core,
        group: int,
        members: Mapping[int, list[Place]],
        waiting: dict[Place, tuple[int, BarrierKey]],
    ) -> None:
        scope, who = self.code[core.pc].instruction.flags
        key = (group, (scope, who, core.place.cluster if scope == "cluster" else -1))
        meeting = self.meetings.get(key)
        if meeting is None:
            meeting = self.meetings[key] = _Meeting(_invited(members[group], key[1]))
        if core.place not in meeting.members:  # a barrier of the other kind of core: it goes on at once
            pass_barrier(core, self.barriers_passed, scope)
            self.barriers_passed += 1
            return
        meeting.arrived.add(core.place)
        waiting[core.place] = key
        if meeting.arrived == meeting.members:
            for place in sorted(meeting.members, key=lambda p: (p.cluster, p.core)):
                del waiting[place]
                pass_barrier(self.cores[place], self.barriers_passed, scope)
            del self.meetings[key]
            self.barriers_passed += 1
            if core.observer is not None:
                core.observer.met([self.cores[place] for place in meeting.members])

    def _deadlock(
        self, cores: Sequence[Core], waiting: Mapping[Place, tuple[int, BarrierKey]]
    ) -> ProcessorFault:
        """Every core that is left waits; says for whom."""
        first = next(core for core in cores if core.place in waiting)
        meeting = self.meetings[waiting[first.place]]
        missing = [self.cores[place] for place in meeting.members - meeting.arrived]
        missing.sort(key=lambda core: (core.place.cluster, core.place.core))
        elsewhere = [core for core in missing if not core.halted]
        if elsewhere:
            other = elsewhere[0]
            what = (
                f"the union task diverges: {first.name()} waits here, {other.name()} at another barrier "
                f"({self.program.where(other.pc)})"
            )
        else:
            names = ", ".join(core.name() for core in missing)
            what = f"the barrier is deadlocked: {first.name()} waits for {names}, whose task has ended"
        return first.fault(what, "let every member of the barrier reach it the same number of times")

    def result(self) -> Execution:
        ordered = sorted(self.cores.values(), key=lambda core: (core.place.cluster, core.place.core))
        trace = Trace([core.trace for core in ordered], self.rounds, self.timing_dependent)
        return Execution(trace, "".join(self.printed), self.executed)


def _invited(group: Sequence[Place], key: BarrierKey) -> set[Place]:
    scope, who, cluster = key
    chosen = [place for place in group if scope == "chip" or place.cluster == cluster]
    if who:
        chosen = [place for place in chosen if place.is_memory_core == (who == "mpu")]
    return set(chosen)
