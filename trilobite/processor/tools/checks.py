"""The checkers as one observer of a launch: races, memory, poison.

Enters: a launch, instruction by instruction. Leaves: findings; a checked launch that has any ends in
`CheckFailed`. Function and cycles are those of the unchecked launch (poison changes what a wrong program
reads, on purpose).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from trilobite.base.errors import ProcessorFault
from trilobite.processor.isa.program import Program
from trilobite.processor.isa.row import QUEUES, IllegalOperands, Operands, Region, Row, region
from trilobite.processor.machine import Machine
from trilobite.processor.sim.control import ATOMIC_SPACES, LOADABLE, STORABLE
from trilobite.processor.sim.core import MASK, Core, NativeCode
from trilobite.processor.sim.memory import Memory, MemoryFault, Place
from trilobite.processor.sim.prepared import Prepared, queue_of
from trilobite.processor.sim.translate import PART
from trilobite.processor.tools.array_checker import ArrayChecker
from trilobite.processor.tools.findings import CheckFailed, Finding
from trilobite.processor.tools.memory_checker import MemoryChecker
from trilobite.processor.tools.native_checks import checked_code, is_translated
from trilobite.processor.tools.poison import Poison
from trilobite.processor.tools.races import RaceChecker
from trilobite.processor.tools.spans import Span, spans_of
from trilobite.processor.tools.wording import Wording

if TYPE_CHECKING:
    from trilobite.processor.device import Device, Kernel, Module

NATIVE_AFTER = 1 << 11  # interpreted instructions, for every so many of the program's
COMPILED_AT_ONCE = 64
MOST_MET = 1 << 14  # operands whose places are remembered
BRANCHES = frozenset("JUMP CALL RET CB CBZ CBNZ BEQ BNE BLT BGE BLTU BGEU".split())
SILENT = frozenset("NOP HALT TRAP BARRIER PRINT".split())


class Checks:
    """Watches a launch. `findings` has one entry per error, in the order in which they came."""

    def __init__(
        self, machine: Machine, memory: Memory, program: Program, poison: bool = False, native: bool = False
    ) -> None:
        self.memory, self._is_native = memory, native
        self._interpreted = 0
        self.most: int | None = None  # instructions that may be looked at one by one
        self._patience = NATIVE_AFTER * (1 + min(len(program.instructions), PART) // COMPILED_AT_ONCE)
        self._codes: dict[Place, NativeCode] = {}
        self.findings: list[Finding] = []
        self.races = RaceChecker(machine, memory, program, self.findings.append)
        self.bytes = MemoryChecker(memory, self.findings.append, Wording(program))
        self.arrays = ArrayChecker(program, self.findings.append)
        self.poison = Poison(machine, memory) if poison else None
        if self.poison is not None and not self.poison.is_on:
            self.poison = None
        self._at: Core | None = None  # who is executing
        self._actions: dict[int, Action] = {}  # by instruction
        self._behind: Prepared | None = None  # an instruction whose queue is waited for once it is done
        self._queue = ""
        self._met: dict[int, tuple[Operands, str, tuple[list[Span], list[Span]]]] = {}

    def began(self, cores: Sequence[Core]) -> None:
        self.races.began(cores)
        for core in cores:
            self.bytes.began(core)
            if self.poison is not None:
                self.poison.sync(core)

    def met(self, cores: Sequence[Core]) -> None:
        self.races.met(cores)

    def native(self, core: Core) -> NativeCode | None:
        """Checked machine code, once enough was interpreted to make compiling worth its price."""
        assert core.program is not None
        is_worth = self._interpreted >= self._patience or is_translated(core.program)
        if not (self._is_native and is_worth):
            return None
        if core.place not in self._codes:
            self._codes[core.place] = checked_code(core, self)
        return self._codes[core.place]

    def before(self, core: Core) -> None:
        self._interpreted += 1
        self._at = core
        if self.most is not None and self._interpreted > self.most:
            raise core.fault(
                f"the check looked at {self.most} instructions one by one, and the launch goes on",
                "look for an endless loop, check a smaller case, or check it with a larger limit",
            )
        if self._interpreted == self._patience:
            core.native = self.native(core)
        prepared = core.code[core.pc]
        found = self._actions.get(core.pc)
        if found is None:
            found = self._actions[core.pc] = action(prepared.row)
        found(self, core, prepared)

    def tensor(
        self,
        core: Core,
        prepared: Prepared,
        operands: Operands,
        reads: Sequence[Region],
        writes: Sequence[Region],
    ) -> None:
        met = self._met.get(id(operands))
        if met is None:  # operands that come again are the same object
            if len(self._met) >= MOST_MET:
                self._met.clear()
            spans = spans_of(self.memory, core.place, reads), spans_of(self.memory, core.place, writes)
            queue = queue_of(prepared.row, reads, writes)
            self._met[id(operands)] = operands, queue, spans
        else:
            _, queue, spans = met
        self.races.tensor(core, queue, *spans, lambda: self._is_copied(core, prepared, reads, writes))
        self.bytes.tensor(core, prepared, queue, operands, reads, writes, spans)
        if met is None:
            self.arrays.tensor(core, queue, operands, reads, writes, spans)
        if self.poison is not None:
            self.poison.tensor(core, queue, writes)
        if prepared.outputs:
            self._behind, self._queue = prepared, queue

    def after(self, core: Core) -> None:
        if self.poison is not None:
            self.poison.after(core)
        if self._behind is not None:
            self._sync(core, (self._queue,))
            self._behind = None
        if core.halted and self.poison is not None:
            self.poison.sync(core)

    def explain(self) -> bool:
        """After a fault: whether the access left its array by so much that it left the memory."""
        core = self._at
        if core is None or not 0 <= core.pc < len(core.code):
            return False
        prepared, before = core.code[core.pc], len(self.findings)
        row, static = prepared.row, prepared.static
        if row.mnemonic in ("SLOAD", "SSTORE"):
            base, offset = prepared.instruction.registers[1], prepared.instruction.immediate
            at = (core.registers[base] + offset) & MASK
            self.arrays.scalar(core, region(at, static["f0"], (1,), LOADABLE))
        elif row.is_tensor and row.writes is not None:
            o = core.operands(prepared)
            try:
                reads, writes = row.reads(o) if row.reads else (), row.writes(o)
            except IllegalOperands:
                return False
            self.arrays.tensor(core, queue_of(row, reads, writes), o, reads, writes, ((), ()))
        return len(self.findings) > before

    def close(self) -> None:
        if self.poison is not None:
            self.poison.close()

    def _sync(self, core: Core, queues: Sequence[str]) -> None:
        self.races.sync(core, queues)
        if self.poison is not None:
            self.poison.sync(core, queues)

    # What is to be done before an instruction, by its mnemonic.

    def silent(self, core: Core, prepared: Prepared) -> None:
        """Nothing that a checker looks at."""

    def sync(self, core: Core, prepared: Prepared) -> None:
        named = tuple(choice for choice in prepared.instruction.flags if choice)
        self._sync(core, named or QUEUES[1:])

    def branch(self, core: Core, prepared: Prepared) -> None:
        operands = zip(prepared.row.registers, prepared.instruction.registers, strict=True)
        self.bytes.branch(core, [register for operand, register in operands if operand.kind != "out"])
        self.bytes.define(core, prepared)

    def define(self, core: Core, prepared: Prepared) -> None:
        self.bytes.define(core, prepared)

    def compute(self, core: Core, prepared: Prepared) -> None:
        self.bytes.compute(core, prepared)

    def load(self, core: Core, prepared: Prepared) -> None:
        place = self._element(core, prepared, LOADABLE)
        if place is not None:
            self.arrays.scalar(core, place)
            self.races.load(core, place)
            self.bytes.load(core, prepared, place)

    def store(self, core: Core, prepared: Prepared) -> None:
        place = self._element(core, prepared, STORABLE)
        if place is not None:
            self.arrays.scalar(core, place)
            self.races.store(core, place, self._is_there(core, prepared, place))
            self.bytes.store(core, prepared, place)

    def atomic(self, core: Core, prepared: Prepared) -> None:
        place = self._element(core, prepared, ATOMIC_SPACES)
        if place is not None:
            self.races.atomic(core, place)
            self.bytes.atomic(core, prepared, place)

    def _is_there(self, core: Core, prepared: Prepared, place: Region) -> bool:
        """Whether a store writes what the memory holds already."""
        held = self.memory.view(core.place, place).tobytes()
        given = core.registers[prepared.instruction.registers[0]] & ((1 << 8 * len(held)) - 1)
        return int.from_bytes(held, "little") == given

    def _is_copied(
        self, core: Core, prepared: Prepared, reads: Sequence[Region], writes: Sequence[Region]
    ) -> bool:
        """Whether a copy or a fill writes what the memory holds already."""
        if prepared.row.timing != "dma" or len(reads) != 1 or len(writes) != 1:
            return False
        given, held = (self.memory.view(core.place, place) for place in (*reads, *writes))
        return given.shape == held.shape and bool((given == held).all())

    def _element(self, core: Core, prepared: Prepared, spaces: str) -> Region | None:
        """What a scalar access touches; None if it is going to fault."""
        instruction = prepared.instruction
        address = (core.registers[instruction.registers[1]] + instruction.immediate) & MASK
        place = region(address, prepared.static["f0"], (1,), spaces)
        try:
            self.memory.view(core.place, place)
        except MemoryFault:
            return None
        return place


Action = Callable[[Checks, Core, Prepared], None]
ACTIONS: dict[str, Action] = {
    **dict.fromkeys(BRANCHES, Checks.branch), **dict.fromkeys(SILENT, Checks.silent),
    "SYNC": Checks.sync, "SREAD": Checks.define, "SLOAD": Checks.load, "SSTORE": Checks.store,
    "ATOMIC": Checks.atomic, "CAS": Checks.atomic,
}  # fmt: skip


def action(row: Row) -> Action:
    found = ACTIONS.get(row.mnemonic)
    if found is None:
        return Checks.silent if row.is_tensor else Checks.compute
    return found


@contextmanager
def checking(
    machine: Machine,
    memory: Memory,
    program: Program,
    raises: bool = True,
    poison: bool = False,
    most: int | None = None,
) -> Iterator[Checks]:
    """Checks what is launched inside; findings end in `CheckFailed`, or stand as notes under a fault."""
    checks = Checks(machine, memory, program, poison, native=True)
    checks.most = most
    try:
        yield checks
    except ProcessorFault as fault:
        if raises and checks.explain():
            raise CheckFailed(checks.findings) from fault
        for finding in checks.findings:
            fault.add_note(f"before that, the checkers found:\n{finding}")
        raise
    finally:
        checks.close()
    if checks.findings and raises:
        raise CheckFailed(checks.findings)


def findings_of(
    device: Device,
    kernel: Kernel | Module,
    args: Sequence[Any] = (),
    dim: tuple[int, int, int] = (1, 1, 1),
    task: str = "block",
    *,
    poison: bool = False,
) -> list[Finding]:
    """Launches with the checkers on, and gives what they found instead of raising it."""
    try:
        device.launch(kernel, args, dim, task, checks=True, poison=poison)
    except CheckFailed as error:
        return error.findings
    return []
