"""The debugger: a launch that is held between two instructions, in both directions of time.

Enters: a device, a kernel and its arguments. Leaves: stops, and at each of them the state of every core and
memory in program order, with the instructions that are still under way listed beside it.

    debug = Debugger(device, module["kernel"], [x, 64])
    debug.break_at("loop"); debug.run()                  # a label, a line, file.s:line, *instruction
    debug.watch("nram(0)", 256); debug.run()             # stops behind a write to any of these bytes
    debug.step(); debug.step_line(); debug.back(); debug.back_line(); debug.run_back()
    debug.tensor("nram(0)", "f32", (8, 8)); debug.registers; debug.in_flight()

Time is that of the canonical interleaving: a core runs to its next inter-core event, then the next core.
Steps count the instructions of the core in focus; the others run as they come. Going back undoes, going
forward again redoes what is kept, and only then executes, so looking at the past changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trilobite.base.errors import ArgumentError, ProcessorFault
from trilobite.processor.device import Device, Kernel, Module, argument_word
from trilobite.processor.isa.address import NAMES
from trilobite.processor.isa.disassembler import instruction_text
from trilobite.processor.isa.formats import BY_NAME, U8, Array, Format
from trilobite.processor.isa.row import Region, region
from trilobite.processor.sim.chip import Chip, Launch
from trilobite.processor.sim.core import Core
from trilobite.processor.sim.kernels import KERNELS
from trilobite.processor.sim.memory import MemoryFault, Place
from trilobite.processor.tools.checks import Checks
from trilobite.processor.tools.findings import Finding, core_text
from trilobite.processor.tools.history import KEPT, InFlight, Recorder, Step
from trilobite.processor.tools.spans import span_of
from trilobite.processor.tools.stops import Breakpoint, Watchpoint, address_of, instructions_at

ANYWHERE = "".join(NAMES)


@dataclass(frozen=True)
class Stop:
    """Why the program is held, and where: the instruction that its core would execute next."""

    reason: str
    core: Place
    instruction: int
    text: str
    line: str

    def __str__(self) -> str:
        at = f"{core_text(self.core)}, instruction {self.instruction}: {self.text} ({self.line})"
        return f"{self.reason}\n{at}"


class Debugger:
    def __init__(
        self,
        device: Device,
        kernel: Kernel | Module,
        args: Sequence[Any] = (),
        dim: tuple[int, int, int] = (1, 1, 1),
        task: str = "block",
        *,
        seed: int = 0,
        checks: bool = False,
        history: int = KEPT,
    ) -> None:
        chosen = kernel if isinstance(kernel, Kernel) else Kernel(kernel.program, "")
        self.device, self.program = device, chosen.program
        self.checks = Checks(device.machine, device.memory, self.program) if checks else None
        self._recorder = Recorder(device.memory, self.checks, history)
        chip = Chip(device.machine, device.memory, KERNELS, observer=self._recorder)
        self._launch = Launch(chip, self.program, traced=True, limit=None)
        self._arguments = list(args)  # an array that nobody holds would be freed
        words = device.entry_words(chosen, [argument_word(value) for value in args])
        self._cores_in_order = self._launch.cores_in_order(chosen.place, words, dim, task, seed, single=True)
        self.breakpoints: list[Breakpoint] = []
        self.watchpoints: list[Watchpoint] = []
        self._numbers = 0
        self._undone: list[Step] = []  # what was taken back, the next to be redone last
        self.fault: ProcessorFault | None = None
        self.ended = False
        self._next: Core = next(self._cores_in_order)
        self.focus = self._next.place

    # What there is to see.

    @property
    def current(self) -> Core:
        """The core that executes next at this point of time."""
        return self._undone[-1].core if self._undone else self._next

    @property
    def core(self) -> Core:
        """The core in focus."""
        return self._launch.cores[self.focus]

    @property
    def cores(self) -> list[Core]:
        return [self._launch.cores[place] for place in sorted(self._launch.cores, key=_order)]

    @property
    def registers(self) -> list[int]:
        return list(self.core.registers)

    @property
    def findings(self) -> list[Finding]:
        return self.checks.findings if self.checks is not None else []

    @property
    def printed(self) -> str:
        under_way = [text for core in self._launch.cores.values() for text in core.printed]
        return "".join([*self._launch.printed, *under_way])

    def in_flight(self, place: Place | None = None) -> tuple[InFlight, ...]:
        """What a core dispatched and has not waited for; in program order."""
        return self._recorder.pending.get(place or self.focus, ())

    def address(self, text: str) -> int:
        return address_of(self.program, text, self.core.registers)

    def tensor(self, at: str | int, fmt: str | Format, shape: Sequence[int]) -> Array:
        """A copy of any memory as a tensor, seen from the core in focus."""
        place = self._region(at, fmt, shape)
        try:
            return self.device.memory.read(self.focus, place).copy()
        except MemoryFault as error:
            raise ArgumentError(
                str(error), expected="an address that this core can reach", remedy="change the focus"
            ) from None

    def _region(self, at: str | int, fmt: str | Format, shape: Sequence[int]) -> Region:
        chosen = fmt if isinstance(fmt, Format) else BY_NAME.get(fmt)
        if chosen is None:
            raise ArgumentError(
                f"there is no format {fmt!r}", expected="one of " + " ".join(BY_NAME), remedy="correct it"
            )
        if min(shape, default=0) < 1:
            raise ArgumentError(
                f"a shape of {tuple(shape)}", expected="extents of at least 1", remedy="write it as 8x8"
            )
        address = at if isinstance(at, int) else self.address(at)
        return region(address, chosen, tuple(shape), ANYWHERE)

    def set_focus(self, place: Place) -> None:
        if place not in self._launch.cores:
            known = ", ".join(core_text(core.place) for core in self.cores)
            raise ArgumentError(
                f"{core_text(place)} has no part in this launch", expected=known, remedy="choose one of these"
            )
        self.focus = place

    # Where to stop.

    def break_at(self, text: str, core: Place | None = None) -> Breakpoint:
        self._numbers += 1
        made = Breakpoint(self._numbers, text, instructions_at(self.program, text), core)
        self.breakpoints.append(made)
        return made

    def watch(self, at: str, size: int) -> Watchpoint:
        place = self._region(at, U8, (size,))
        try:
            self.device.memory.view(self.focus, place)
        except MemoryFault as error:
            raise ArgumentError(str(error), expected="bytes of a memory", remedy="correct it") from None
        span = span_of(self.device.memory, self.focus, place)
        assert span is not None
        self._numbers += 1
        made = Watchpoint(self._numbers, f"{at}, {size} bytes", span)
        self.watchpoints.append(made)
        return made

    def delete(self, number: int) -> None:
        both: list[Breakpoint | Watchpoint] = [*self.breakpoints, *self.watchpoints]
        if number not in [one.number for one in both]:
            raise ArgumentError(
                f"there is no breakpoint {number}",
                expected="one of " + ", ".join(str(one.number) for one in both) if both else "a breakpoint",
                remedy="`breaks` lists them",
            )
        self.breakpoints = [one for one in self.breakpoints if one.number != number]
        self.watchpoints = [one for one in self.watchpoints if one.number != number]

    # Forward.

    def run(self) -> Stop:
        """To the next breakpoint, write to watched bytes, finding, fault, or the end."""
        while True:
            reason = self._forward()
            if reason is not None:
                return self._stopped(reason)

    def step(self, count: int = 1) -> Stop:
        """The next `count` instructions of the core in focus."""
        reason = None
        while count > 0 and reason is None:
            mine = self.current.place == self.focus
            reason = self._forward()
            count -= mine
        return self._stopped(reason or "stepped")

    def step_line(self, count: int = 1) -> Stop:
        """To the next source line of the core in focus."""
        reason = None
        for _ in range(count):
            line = self.program.where(self.core.pc)
            while reason is None:
                mine = self.current.place == self.focus
                reason = self._forward()
                if mine and self.program.where(self.core.pc) != line:
                    break
        return self._stopped(reason or "stepped")

    def _forward(self) -> str | None:
        """One instruction of whichever core is next; why to stop behind it, if there is a reason."""
        if self._undone:
            step = self._undone.pop()
            step.redo()
            self._recorder.steps.append(step)
            return self._reason(step, len(self.findings))
        if self.fault is not None:
            return f"fault: {self.fault.what}"
        if self.ended:
            return "the program has ended"
        known, executed = len(self.findings), self._recorder.executed
        try:
            self._next = next(self._cores_in_order)
        except StopIteration:
            self.ended = True
        except ProcessorFault as fault:
            self.fault = fault
            return f"fault: {fault.what}"
        done = self._recorder.steps[-1] if self._recorder.executed > executed else None
        return self._reason(done, known)

    def _reason(self, step: Step | None, known: int) -> str | None:
        """`step` is what was just executed, if anything was; a task may also have come to its end."""
        watched = self._watched(step) if step is not None else None
        if watched is not None and step is not None:
            writer = f"{core_text(step.core.place)} at {self.program.where(step.instruction)}"
            return f"{watched}, written by {writer}"
        if len(self.findings) > known:
            return f"finding: {self.findings[known]}"
        if self.ended and not self._undone:
            return "the program has ended"
        return self._broken()

    def _watched(self, step: Step) -> str | None:
        for watchpoint in self.watchpoints:
            if watchpoint.touched(step.writes):
                return f"watchpoint {watchpoint.number}: {watchpoint.text}"
        return None

    def _broken(self) -> str | None:
        core = self.current
        for breakpoint in self.breakpoints:
            if breakpoint.holds(core.place, core.pc):
                return f"breakpoint {breakpoint.number}: {breakpoint.text}"
        return None

    # Backward.

    def back(self, count: int = 1) -> Stop:
        """Takes back the last `count` instructions of the core in focus."""
        reason = None
        while count > 0 and reason is None:
            reason = self._backward()
            count -= reason is None and self.current.place == self.focus
        return self._stopped(reason or "stepped back")

    def back_line(self, count: int = 1) -> Stop:
        """To the beginning of the source line before, of the core in focus."""
        reason = None
        for _ in range(count):
            reason = reason or self._back_to_line()
        return self._stopped(reason or "stepped back")

    def _back_to_line(self) -> str | None:
        reason = self._backward()
        while reason is None and self.current.place != self.focus:
            reason = self._backward()
        line = self.program.where(self.core.pc)
        while reason is None and self._steps_into(line):
            reason = self._backward()
        return reason

    def _steps_into(self, line: str) -> bool:
        """Whether the step before is another core's, or belongs to the same line."""
        steps = self._recorder.steps
        if not steps:
            return False
        last = steps[-1]
        return last.core.place == self.focus and self.program.where(last.instruction) == line

    def run_back(self) -> Stop:
        """To the breakpoint or write before, or as far as the log reaches."""
        while True:
            reason = self._backward()
            if reason is not None:
                return self._stopped(reason)
            watched = self._watched(self._undone[-1])
            reason = f"{watched}, before the write" if watched is not None else self._broken()
            if reason is not None:
                return self._stopped(reason)

    def _backward(self) -> str | None:
        if not self._recorder.steps:
            return "the undo log reaches no further back"
        step = self._recorder.steps.pop()
        step.undo()
        self._undone.append(step)
        return None

    def _stopped(self, reason: str) -> Stop:
        """The focus goes to the core that stopped, unless it only stepped."""
        if not reason.startswith("stepped") and not self.ended:
            self.focus = self.current.place
        return self.where(reason)

    def where(self, reason: str = "held") -> Stop:
        core = self.core
        inside = core.pc < len(self.program.instructions)
        text = instruction_text(self.program.instructions[core.pc]) if inside else "the end"
        return Stop(reason, core.place, core.pc, text, self.program.where(core.pc) if inside else "end")


def _order(place: Place) -> tuple[int, int]:
    return place.cluster, place.core
