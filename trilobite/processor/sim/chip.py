"""A whole launch, functionally: cores in canonical interleaving, meetings at barriers, faults.

Enters: a machine, its memory, a program and a task grid. Leaves: changed memory, the trace, and what was
printed. Cores run in the order of their numbers, each from one inter-core event to the next, so a launch
has one result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from trilobite.base.errors import ArgumentError, ProcessorFault
from trilobite.processor.isa.address import LETTERS
from trilobite.processor.isa.program import RESERVED_SECTIONS, Program
from trilobite.processor.machine import Machine
from trilobite.processor.sim.control import HANDLERS, pass_barrier
from trilobite.processor.sim.core import Core, Kernel, Prepared, prepare
from trilobite.processor.sim.memory import Memory, Place
from trilobite.processor.sim.record import TaskRecord, Trace
from trilobite.processor.sim.tasks import Group, rounds

SLICE = 1 << 14  # instructions before a core without events makes room for the others
MAX_ARGUMENTS = 32
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
    """Static arrays must leave the reserved part of each memory free."""
    core = machine.core
    room = {
        "nram": (core.nram.kib - core.nram.reserved_kib) * 1024,
        "wram": core.wram.bytes,
        "acc": core.acc.bytes,
        "sram": (machine.sram.kib - machine.sram.reserved_kib) * 1024,
        "ldram": 1 << 25,
    }
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

    def __init__(self, machine: Machine, memory: Memory, kernels: Mapping[str, Kernel]) -> None:
        self.machine, self.memory, self.kernels = machine, memory, kernels

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
    ) -> Execution:
        if len(arguments) > MAX_ARGUMENTS:
            raise ArgumentError(
                f"{len(arguments)} arguments",
                expected=f"at most {MAX_ARGUMENTS}",
                remedy="pass a pointer to a table",
            )
        check_fits(self.machine, program)
        self.memory.code = np.frombuffer(program.data, np.uint8)
        launch = _Launch(self, program, prepare(program), traced, limit)
        count = 0
        for number, groups in enumerate(rounds(self.machine, dim, task, seed)):
            launch.run_round(groups, entry, list(arguments), number)
            count = number + 1
        return launch.result(count)


class _Launch:
    def __init__(
        self, chip: Chip, program: Program, code: list[Prepared], traced: bool, limit: int | None
    ) -> None:
        self.chip, self.program, self.code, self.traced, self.limit = chip, program, code, traced, limit
        self.cores: dict[Place, Core] = {}
        self.meetings: dict[tuple[int, BarrierKey], _Meeting] = {}
        self.held = 0
        self.executed = 0
        self.printed: list[str] = []
        self.timing_dependent = False

    def run_round(self, groups: Sequence[Group], entry: int, arguments: list[int], number: int) -> None:
        group_of: dict[Place, int] = {}
        running = []
        for index, group in enumerate(groups):
            for member in group:
                core = self._core(member.place)
                core.start(self.program, self.code, entry, arguments, dict(member.special))
                if self.traced:
                    core.trace.records.append(TaskRecord(entry, member.special["taskId"], number))
                group_of[member.place] = index
                running.append(core)
        members = {index: [member.place for member in group] for index, group in enumerate(groups)}
        self._interleave(running, group_of, members)

    def _core(self, place: Place) -> Core:
        if place not in self.cores:
            self.cores[place] = Core(place, self.chip.memory, self.chip.kernels, self.traced)
        return self.cores[place]

    def _interleave(
        self, cores: list[Core], group_of: Mapping[Place, int], members: Mapping[int, list[Place]]
    ) -> None:
        waiting: dict[Place, tuple[int, BarrierKey]] = {}
        while any(not core.halted for core in cores):
            progress = False
            for core in cores:
                if core.halted or core.place in waiting:
                    continue
                progress = True
                self._run(core)
                if core.event == "barrier":
                    self._arrive(core, group_of[core.place], members, waiting)
            if not progress:
                raise self._deadlock(cores, waiting)

    def _run(self, core: Core) -> None:
        self.executed += core.run(SLICE, HANDLERS)
        core.flush()
        self.timing_dependent |= core.event == "atomic" or "readClock" in core.special
        self.printed += core.printed
        core.printed.clear()
        if self.limit is not None and self.executed > self.limit:
            raise core.fault(
                f"the launch ran over its limit of {self.limit} instructions", "look for an endless loop"
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
        meeting = self.meetings.setdefault(key, _Meeting(_invited(members[group], key[1])))
        if core.place not in meeting.members:
            raise core.fault(
                "this core is not invited to the barrier it waits at",
                "let only compute cores come to .ipu, only memory cores to .mpu",
            )
        meeting.arrived.add(core.place)
        waiting[core.place] = key
        if meeting.arrived == meeting.members:
            for place in sorted(meeting.members, key=lambda p: (p.cluster, p.core)):
                del waiting[place]
                pass_barrier(self.cores[place], self.held, scope)
            del self.meetings[key]
            self.held += 1

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

    def result(self, count: int) -> Execution:
        ordered = sorted(self.cores.values(), key=lambda core: (core.place.cluster, core.place.core))
        trace = Trace([core.trace for core in ordered], count, self.timing_dependent)
        return Execution(trace, "".join(self.printed), self.executed)


def _invited(group: Sequence[Place], key: BarrierKey) -> set[Place]:
    scope, who, cluster = key
    chosen = [place for place in group if scope == "chip" or place.cluster == cluster]
    if who:
        chosen = [place for place in chosen if place.is_memory_core == (who == "mpu")]
    return set(chosen)
