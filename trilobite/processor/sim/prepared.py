"""Instructions with everything about them that does not change from one execution to the next.

Enters: a program. Leaves: a `Prepared` for each instruction: its operands by register, its class for timing,
its quick form; and the record of an execution.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from operator import itemgetter
from typing import Any
from weakref import WeakKeyDictionary

from trilobite.processor.isa.address import split
from trilobite.processor.isa.encode import Instruction
from trilobite.processor.isa.formats import Format
from trilobite.processor.isa.program import Program
from trilobite.processor.isa.row import CODE, DMA, GDRAM, IO, LDRAM, MOVE, QUEUES, Operands, Region, Row
from trilobite.processor.sim.quick import quick
from trilobite.processor.sim.record import SCALAR_CLASSES, TensorRecord

# Operands that count elements, bytes or rows are read as signed numbers, addresses and values as they stand.
SIGNED_FIELDS = frozenset(
    "n m k h w c ci co kh kw sh sw dh dw top bottom left right groups outer length inner batch rows cols "
    "count count0 count1 reach".split()
)  # fmt: skip
CLASS_NUMBER = {name: number for number, name in enumerate(SCALAR_CLASSES)}


class Prepared:
    """An instruction with everything about it that does not change from one execution to the next."""

    __slots__ = ("fields", "instruction", "key", "outputs", "quick", "row", "scalar_class", "static")

    def __init__(self, instruction: Instruction) -> None:
        row = instruction.row
        self.instruction, self.row = instruction, row
        self.static: dict[str, Any] = {f"f{i}": fmt for i, fmt in enumerate(instruction.formats)}
        self.static.update(zip((flag.name for flag in row.flags), instruction.flags, strict=True))
        if row.immediate:
            self.static[row.immediate.name] = instruction.immediate
        self.fields: list[tuple[str, int, bool]] = []
        self.outputs: list[int] = []
        for operand, register in zip(row.registers, instruction.registers, strict=True):
            if operand.kind == "out":
                self.outputs.append(register)
            elif operand.kind == "run":
                named = enumerate(operand.fields)
                self.fields += [(name, register + i, name in SIGNED_FIELDS) for i, name in named]
            else:
                self.fields.append((operand.name, register, operand.name in SIGNED_FIELDS and row.is_tensor))
        self.scalar_class = _scalar_class(row, instruction.formats)
        self.quick = quick(instruction)
        numbers = [register for _, register, _ in self.fields]
        self.key: Callable[[list[int]], Any] = itemgetter(*numbers) if numbers else tuple


def _scalar_class(row: Row, formats: tuple[Format, ...]) -> int:
    name = row.timing
    if name == "divide" and formats and formats[0].bits == 16:
        name = "divide16"
    return CLASS_NUMBER.get(name, CLASS_NUMBER["issue"])


_PREPARED: WeakKeyDictionary[Program, list[Prepared]] = WeakKeyDictionary()


def prepare(program: Program) -> list[Prepared]:
    """Made once for all launches of a program; equal instructions are one."""
    found = _PREPARED.get(program)
    if found is None:
        made: dict[Hashable, Prepared] = {}
        found = _PREPARED[program] = []
        for instruction in program.instructions:
            formats = tuple(fmt.code for fmt in instruction.formats)
            key = (instruction.row.opcode, instruction.registers, formats, instruction.flags,
                   instruction.immediate)  # fmt: skip
            known = made.get(key)
            if known is None:
                known = made[key] = Prepared(instruction)
            found.append(known)
    return found


def tensor_record(place: int, prepared: Prepared, o: Operands) -> TensorRecord:
    """What an execution with these operands leaves for timing."""
    row = prepared.row
    assert row.writes is not None
    reads, writes = tuple(row.reads(o)) if row.reads else (), tuple(row.writes(o))
    work = dict(row.work(o)) if row.work else {}
    formats = prepared.instruction.formats
    return TensorRecord(place, queue_of(row, reads, writes), row.timing, work, formats, reads, writes)


def sync_queues(instruction: Instruction) -> tuple[str, ...]:
    """The queues that a SYNC waits for: those it names, or all."""
    return tuple(choice for choice in instruction.flags if choice) or QUEUES[1:]


def queue_of(row: Row, reads: Sequence[Region], writes: Sequence[Region]) -> str:
    """The queue an instruction goes to: a copy with an end in DRAM is the io queue's, others the move's."""
    if row.queue != DMA:
        return row.queue
    spaces = {split(region.address)[0] for region in (*reads, *writes)}
    return IO if spaces & {GDRAM, LDRAM, CODE} else MOVE
