"""The undo log of a launch: what every instruction changed, so that it can be taken back and done again.

Enters: a launch, instruction by instruction. Leaves: `Step`s, each with its changes; undoing and redoing one
is the same exchange of what is there with what is kept. The newest ten thousand instructions are kept, fewer
if their bytes are many, but never less than the last thousand.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from trilobite.processor.isa.formats import Array
from trilobite.processor.isa.row import QUEUES, Operands, Region, region
from trilobite.processor.sim.control import STORABLE
from trilobite.processor.sim.core import MASK, Core, NativeCode
from trilobite.processor.sim.memory import Memory, MemoryFault, Place
from trilobite.processor.sim.observer import Observer
from trilobite.processor.sim.prepared import Prepared, queue_of
from trilobite.processor.tools.spans import Span, span_of

KEPT = 10_000
ALWAYS = 1_000
BYTES = 256 << 20


@dataclass(frozen=True)
class InFlight:
    """An instruction that was dispatched and that its core has not yet waited for."""

    queue: str
    instruction: int
    reads: tuple[Region, ...]
    writes: tuple[Region, ...]


Pending = dict[Place, tuple[InFlight, ...]]


@dataclass
class CoreChange:
    """Registers, program counter, and what is under way, of one core."""

    core: Core
    pending: Pending
    pc: int
    registers: list[int]
    halted: bool
    under_way: tuple[InFlight, ...]

    def swap(self) -> None:
        core, place = self.core, self.core.place
        kept = core.pc, core.registers, core.halted, self.pending.get(place, ())
        core.pc, core.registers, core.halted = self.pc, self.registers, self.halted
        self.pending[place] = self.under_way
        self.pc, self.registers, self.halted, self.under_way = kept


@dataclass
class MemoryChange:
    """Bytes of a memory, as a view, and what stands there on the other side of the instruction."""

    view: Array
    other: Array

    def swap(self) -> None:
        here = self.view.copy()
        self.view[...] = self.other
        self.other = here


@dataclass
class Step:
    """One executed instruction."""

    core: Core
    instruction: int
    changes: list[CoreChange | MemoryChange] = field(default_factory=list)
    writes: list[Span] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        return sum(change.other.nbytes for change in self.changes if isinstance(change, MemoryChange))

    def undo(self) -> None:
        for change in reversed(self.changes):
            change.swap()

    def redo(self) -> None:
        for change in self.changes:
            change.swap()


class Recorder:
    """An observer that keeps the steps; `inner` watches beside it."""

    def __init__(self, memory: Memory, inner: Observer | None = None, kept: int = KEPT) -> None:
        self.memory, self.inner, self.kept = memory, inner, max(kept, ALWAYS)
        self.steps: deque[Step] = deque()
        self.pending: Pending = {}
        self.executed = 0
        self._bytes = 0
        self._open: Step | None = None
        self._latest: dict[Place, tuple[int, list[int]]] = {}

    def began(self, cores: Sequence[Core]) -> None:
        if self.inner is not None:
            self.inner.began(cores)
        for core in cores:
            before = self._latest.get(core.place)
            if before is not None and self.steps:
                under_way = self.pending.get(core.place, ())
                self.steps[-1].changes.append(CoreChange(core, self.pending, *before, True, under_way))
            self.pending[core.place] = ()

    def before(self, core: Core) -> None:
        step = Step(core, core.pc)
        step.changes.append(self._snapshot(core))
        self._open = step
        self._scalar_write(core, step)
        if self.inner is not None:
            self.inner.before(core)

    def _snapshot(self, core: Core) -> CoreChange:
        under_way = self.pending.get(core.place, ())
        return CoreChange(core, self.pending, core.pc, list(core.registers), core.halted, under_way)

    def _scalar_write(self, core: Core, step: Step) -> None:
        prepared = core.code[core.pc]
        if prepared.row.mnemonic not in ("SSTORE", "ATOMIC", "CAS"):
            return
        instruction = prepared.instruction
        address = (core.registers[instruction.registers[1]] + instruction.immediate) & MASK
        place = region(address, prepared.static["f0"], (1,), STORABLE)
        try:
            self._keep(core, step, place)
        except MemoryFault:
            self._open = None  # the instruction is going to fault and changes nothing

    def _keep(self, core: Core, step: Step, place: Region) -> None:
        view = self.memory.view(core.place, place)
        step.changes.append(MemoryChange(view, view.copy()))
        span = span_of(self.memory, core.place, place)
        if span is not None:
            step.writes.append(span)

    def tensor(
        self,
        core: Core,
        prepared: Prepared,
        operands: Operands,
        reads: Sequence[Region],
        writes: Sequence[Region],
    ) -> None:
        assert self._open is not None
        for place in writes:
            self._keep(core, self._open, place)
        queue = queue_of(prepared.row, reads, writes)
        if not prepared.outputs:  # a result in a register is waited for at once
            entry = InFlight(queue, core.pc, tuple(reads), tuple(writes))
            self.pending[core.place] = (*self.pending.get(core.place, ()), entry)
        if self.inner is not None:
            self.inner.tensor(core, prepared, operands, reads, writes)

    def after(self, core: Core) -> None:
        step = self._open
        assert step is not None
        prepared = core.code[step.instruction]
        if prepared.row.mnemonic == "SYNC":
            named = [choice for choice in prepared.instruction.flags if choice] or QUEUES
            waiting = self.pending.get(core.place, ())
            self.pending[core.place] = tuple(entry for entry in waiting if entry.queue not in named)
        if core.halted:
            self.pending[core.place] = ()
        self._append(step)
        self._latest[core.place] = core.pc, list(core.registers)
        if self.inner is not None:
            self.inner.after(core)

    def _append(self, step: Step) -> None:
        self.steps.append(step)
        self.executed += 1
        self._bytes += step.bytes
        while len(self.steps) > self.kept or (self._bytes > BYTES and len(self.steps) > ALWAYS):
            self._bytes -= self.steps.popleft().bytes

    def met(self, cores: Sequence[Core]) -> None:
        """The last to come took all of them behind the barrier."""
        for core in cores:
            if core is not self.steps[-1].core:
                change = self._snapshot(core)
                change.pc = core.pc - 1
                self.steps[-1].changes.append(change)
            self._latest[core.place] = core.pc, list(core.registers)
        if self.inner is not None:
            self.inner.met(cores)

    def native(self, core: Core) -> NativeCode | None:
        return None
