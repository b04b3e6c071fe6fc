"""Scalar code as machine code: a program's scalar and branch instructions, translated through LLVM.

Enters: a program. Leaves: code that runs a core from one instruction to the next one that it
does not translate (sync, barrier, atomic, rare formats, tensor instructions that are no `Site`). An access
it cannot prove good is left to the interpreter as well, which then raises the precise fault. Deleting this
module changes only speed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Sequence
from dataclasses import dataclass

import numpy as np

from trilobite.native.jit import POINTER, NativeModule
from trilobite.processor.isa.formats import Array
from trilobite.processor.sim import emit
from trilobite.processor.sim.native_state import PC
from trilobite.processor.sim.prepared import Prepared
from trilobite.processor.sim.record import SCALAR_CLASSES
from trilobite.processor.sim.site_table import SiteTable

MEMORY = ("SLOAD", "SSTORE")
CONDITIONS = {"CB": "sgt", "CBZ": "eq", "CBNZ": "ne", "BEQ": "eq", "BNE": "ne", "BLT": "slt", "BGE": "sge",
              "BLTU": "ult", "BGEU": "uge"}  # fmt: skip
JUMPS = ("JUMP", "CALL", "RET")
# Blocks times registers (what becomes of them are joins); beyond this registers stay in memory, so that
# compiling stays quick.
MAX_PROMOTED = 4000
PART = 2048  # instructions that are compiled together if a program is large
HEAT = 2048  # times that such a part is met before compiling it is worth its price
MAX_INLINED = 64  # scalar accesses; beyond this their checks are called, not copied


@dataclass(frozen=True)
class Block:
    """Instructions `first` to `last` run together; a memory access can only be the first of them."""

    first: int
    last: int


class Part:
    """Blocks of a program that are compiled together, once enough has passed through their entry_points."""

    def __init__(self, blocks: Sequence[Block], entry_points: set[int]) -> None:
        self.blocks, self.entry_points = blocks, entry_points
        self.heat = 0
        self.module: NativeModule | None = None


class Translation:
    """The machine code of one program, for any number of cores. A large program is compiled part by part:
    LLVM's time grows faster than the code, and much of such code is passed through once."""

    def __init__(
        self, code: Sequence[Prepared], table: SiteTable, writer: type[emit.Writer] = emit.Writer
    ) -> None:
        self._code_of_program, self._table, self._writer = code, table, writer
        native = [_is_native(prepared) or place in table.numbers for place, prepared in enumerate(code)]
        parts = _parts(_blocks(code, native, table.numbers), len(code))
        entry_points = _entry_points(code, native)
        if len(parts) > 1:
            entry_points |= _crossings(code, parts)
        self._parts = [Part(part, entry_points & {block.first for block in part}) for part in parts]
        self._part_at = {place: part for part in self._parts for place in part.entry_points}
        self.entry_points = set(self._part_at)
        if len(parts) == 1:
            self._compile(self._parts[0])

    def _compile(self, part: Part) -> None:
        code = self._code_of_program
        covered = [prepared for block in part.blocks for prepared in code[block.first : block.last + 1]]
        used = sorted({register for prepared in covered for register in _registers(prepared)})
        promoted = len(part.blocks) * len(used) <= MAX_PROMOTED
        accesses = sum(prepared.row.mnemonic in MEMORY for prepared in covered)
        made = self._writer(used, promoted=promoted, inlined=accesses <= MAX_INLINED)
        with np.errstate(all="ignore"):  # immediates are converted to their formats here
            text = _module_text(code, part.blocks, sorted(part.entry_points), self._table, made)
        # The optimiser's time grows faster than the code: large programs do with the code generator's own,
        # and for the others its few light passes give code as fast as all of them.
        part.module = NativeModule(text, {"run": (None, (POINTER, POINTER))}, level=int(promoted))

    def enters(self, place: int) -> bool:
        """Whether translated code that is compiled can be entered there."""
        return place in self._part_at and self.is_ready(place)

    def is_ready(self, place: int) -> bool:
        """Whether the code from an entry point on is compiled; what is met often enough is."""
        part = self._part_at[place]
        if part.module is None:
            part.heat += 1
            if part.heat < HEAT:
                return False
            self._compile(part)
        return True

    def run(self, state: Array, counts: Array) -> None:
        """Runs a core from its program counter on, from one part to the next."""
        following: Part | None = self._part_at[int(state[PC])]
        part = None
        while following is not None and following.module is not None and following is not part:
            part = following
            following.module["run"](state.ctypes.data, counts.ctypes.data)
            following = self._part_at.get(int(state[PC]))

    def is_cold(self, place: int) -> bool:
        """Whether the code from an entry point on is still to be compiled."""
        part = self._part_at.get(place)
        return part is not None and part.module is None


class Translated(SiteTable):
    """A program that only its translation runs."""

    def __init__(self, code: Sequence[Prepared], writer: type[emit.Writer]) -> None:
        super().__init__(code if writer.does_tensors else ())
        self._translation = Translation(code, self, writer)
        self.entry_points = self._translation.entry_points

    def is_ready(self, place: int) -> bool:
        return self._translation.is_ready(place)

    def run(self, state: Array, counts: Array) -> None:
        self._translation.run(state, counts)

    def is_cold(self, place: int) -> bool:
        return self._translation.is_cold(place) or super().is_cold(place)


def _parts(blocks: Sequence[Block], length: int) -> list[list[Block]]:
    """Blocks of about PART instructions each; programs up to twice that are one part."""
    if length <= 2 * PART:
        return [list(blocks)]
    parts: list[list[Block]] = [[]]
    for block in blocks:
        if parts[-1] and block.last - parts[-1][0].first >= PART:
            parts.append([])
        parts[-1].append(block)
    return parts


def _crossings(code: Sequence[Prepared], parts: Sequence[Sequence[Block]]) -> set[int]:
    """Where one part can go on in another: branches, and what a part begins with."""
    firsts = [part[0].first for part in parts]
    found = set(firsts)
    for place, prepared in enumerate(code):
        if prepared.row.immediate is not None and prepared.row.immediate.kind == "target":
            target = place + prepared.instruction.immediate
            if bisect_right(firsts, target) != bisect_right(firsts, place):
                found.add(target)
    return found


def _is_native(prepared: Prepared) -> bool:
    name = prepared.row.mnemonic
    formats = prepared.instruction.formats
    if name in MEMORY:
        return formats[0].name in emit.REGISTER_FORMATS
    return (
        name in CONDITIONS
        or name in JUMPS
        or name == "NOP"
        or emit.can_emit(name, formats, prepared.instruction.flags)
    )


def _is_register_jump(prepared: Prepared) -> bool:
    return prepared.row.mnemonic in JUMPS and prepared.row.immediate is None


def _blocks(code: Sequence[Prepared], native: Sequence[bool], sites: Container[int]) -> list[Block]:
    leaders = {0}
    for place, prepared in enumerate(code):
        name = prepared.row.mnemonic
        if prepared.row.immediate is not None and prepared.row.immediate.kind == "target":
            leaders.add(place + prepared.instruction.immediate)
        if name in MEMORY or _is_register_jump(prepared):
            leaders.add(place)
        if name in CONDITIONS or name in JUMPS or not native[place]:
            leaders.add(place + 1)
        if not native[place] or place in sites:
            leaders |= {place, place + 1}
    blocks = []
    for first in sorted(place for place in leaders if 0 <= place < len(code) and native[place]):
        last = first
        while last + 1 < len(code) and last + 1 not in leaders:
            last += 1
        blocks.append(Block(first, last))
    return blocks


def _block_counts(code: Sequence[Prepared], block: Block) -> list[int]:
    """Scalar instructions of a block by class; accesses are counted where the address is known."""
    counts = [0] * len(SCALAR_CLASSES)
    for prepared in code[block.first : block.last + 1]:
        if prepared.row.mnemonic not in MEMORY and not prepared.row.is_tensor:
            counts[prepared.scalar_class] += 1
    return counts


def _entry_points(code: Sequence[Prepared], native: Sequence[bool]) -> set[int]:
    """Where the interpreter may hand over: loop heads, calls, returns, behind what is not translated.

    Each is one more way into the middle of the code: it costs compile time and registers.
    """
    entry_points = {0}
    for place, prepared in enumerate(code):
        target = prepared.row.immediate is not None and prepared.row.immediate.kind == "target"
        is_call = prepared.row.mnemonic == "CALL"
        if target and (is_call or prepared.instruction.immediate <= 0):
            entry_points.add(place + prepared.instruction.immediate)
        if is_call or not native[place]:
            entry_points.add(place + 1)
    return entry_points


def _module_text(
    code: Sequence[Prepared],
    blocks: Sequence[Block],
    entry_points: Sequence[int],
    table: SiteTable,
    writer: emit.Writer,
) -> str:
    entry = {block.first: block for block in blocks}
    for block in blocks:
        writer.label(f"b{block.first}")
        writer.enough(block.first, block.last - block.first + 1)
        if block.first in table.numbers:
            _tensor(writer, table, block.first)
            writer.count_trip((), 1)
            writer.go(block.first + 1, entry)
        else:
            _body(writer, code, block, entry, entry_points)
    return writer.module(entry_points)


def _registers(prepared: Prepared) -> Sequence[int]:
    if prepared.row.is_tensor:
        return [*(register for _, register, _ in prepared.fields), *prepared.outputs]
    return prepared.instruction.registers


def _tensor(writer: emit.Writer, table: SiteTable, place: int) -> None:
    number = table.numbers[place]
    site = table.sites[number]
    registers = [register for _, register, _ in site.prepared.fields]
    writer.tensor(number, registers, site.immediate, place)
    for register in site.prepared.outputs:
        writer.take_result(register, len(registers))


def _body(
    writer: emit.Writer,
    code: Sequence[Prepared],
    block: Block,
    entry: dict[int, Block],
    entry_points: Sequence[int],
) -> None:
    ended = False
    for place in range(block.first, block.last + 1):
        prepared = code[place]
        name, instruction = prepared.row.mnemonic, prepared.instruction
        if name in MEMORY:
            writer.access(instruction, place, is_store=name == "SSTORE")
        elif _is_register_jump(prepared):
            # Only to where this code can go on; the interpreter judges the rest.
            writer.check_entry_point(instruction.registers[-1], place, entry_points)
        if place == block.first:
            writer.count_trip(_block_counts(code, block), block.last - block.first + 1)
        if name in CONDITIONS:
            test = writer.condition(CONDITIONS[name], instruction.registers)
            writer.branch(test, place + instruction.immediate, place + 1, entry)
            ended = True
        elif name in JUMPS:
            _jump(writer, prepared, place, entry)
            ended = True
        elif name not in MEMORY and name != "NOP":
            writer.compute(instruction)
    if not ended:
        writer.go(block.last + 1, entry)


def _jump(writer: emit.Writer, prepared: Prepared, place: int, entry: dict[int, Block]) -> None:
    instruction = prepared.instruction
    if prepared.row.immediate:
        if prepared.outputs:
            writer.set(prepared.outputs[0], writer.constant("i64", place + 1))
        writer.go(place + instruction.immediate, entry)
        return
    target = writer.get(instruction.registers[-1])
    if prepared.outputs:
        writer.set(prepared.outputs[0], writer.constant("i64", place + 1))
    writer.go_to_register(target)
