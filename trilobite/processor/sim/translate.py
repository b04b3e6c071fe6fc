"""Scalar code as machine code: a program's scalar and branch instructions, translated through LLVM.

Enters: a program. Leaves: code that runs a core from one instruction to the next one that it
does not translate (tensor, sync, barrier, atomic, rare formats). An access it cannot prove good is left to
the interpreter as well, which then raises the precise fault. Deleting this module changes only speed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trilobite.native.jit import POINTER, NativeModule
from trilobite.processor.isa.address import NUMBERS
from trilobite.processor.isa.formats import Array
from trilobite.processor.isa.row import ACC, CODE, GDRAM, LDRAM, NRAM, WRAM
from trilobite.processor.sim import emit, native_state
from trilobite.processor.sim.core import CLASS_NUMBER, Core, Prepared
from trilobite.processor.sim.memory import Memory, Place
from trilobite.processor.sim.native_state import (
    DRAM,
    EXECUTED,
    FAR,
    LIMIT,
    PC,
    READ_HIGH,
    READ_LOW,
    SCRATCH,
    WRITE_HIGH,
    WRITE_LOW,
)
from trilobite.processor.sim.record import SCALAR_CLASSES

MEMORY = ("SLOAD", "SSTORE")
CONDITIONS = {"CB": "sgt", "CBZ": "eq", "CBNZ": "ne", "BEQ": "eq", "BNE": "ne", "BLT": "slt", "BGE": "sge",
              "BLTU": "ult", "BGEU": "uge"}  # fmt: skip
JUMPS = ("JUMP", "CALL", "RET")
MAX_PROMOTED = 2000  # instructions; beyond this registers stay in memory, so that compiling stays quick
SHORT, PATIENCE = 8, 16  # instructions, and calls that end so soon, before a door is closed
AMPLE = 4096  # a limit that no block reaches at once
MAX_INLINED = 64  # scalar accesses; beyond this their checks are called, not copied


@dataclass(frozen=True)
class Block:
    """Instructions `first` to `last` run together; a memory access can only be the first of them."""

    number: int
    first: int
    last: int


class Translation:
    """The machine code of one program, for any number of cores."""

    def __init__(self, code: Sequence[Prepared], writer: type[emit.Writer] = emit.Writer) -> None:
        native = [_is_native(prepared) for prepared in code]
        blocks = _blocks(code, native)
        self.doors = _doors(code, native) & {block.first for block in blocks}
        self.counts = _static_counts(code, blocks)
        with np.errstate(all="ignore"):  # immediates are converted to their formats here
            text = _module_text(code, blocks, sorted(self.doors), writer)
        # the optimiser's time grows faster than the code: large programs do with the code generator's own
        self._module = NativeModule(
            text, {"run": (None, (POINTER, POINTER))}, optimise=len(code) <= MAX_PROMOTED
        )
        self.function = self._module["run"]


class CoreCode:
    """Translated code with the state of one core: its registers, and where its memories are."""

    def __init__(self, translation: Translation, memory: Memory, place: Place) -> None:
        self.translation, self.doors = translation, set(translation.doors)
        self._short: dict[int, int] = {}
        self.trips = np.zeros(len(translation.counts), np.int64)
        self.state = np.zeros(native_state.STATE_WORDS, np.int64)
        self._victim = 0
        for space, number in NUMBERS.items():
            if (
                space == GDRAM
                or (place.is_memory_core and space in (NRAM, WRAM, ACC))
                or not memory.size(space)
            ):
                continue
            backing = memory.code if space == CODE else memory.pad(space, place.cluster, place.core)
            row = (backing.ctypes.data, len(backing), space not in (CODE, LDRAM), space != CODE)
            self.state[native_state.SPACES + 4 * number :][:4] = row
        self.state[native_state.SPACES] = memory.gdram.ctypes.data

    def remember_block(self, memory: Memory, offset: int) -> None:
        """Puts the DRAM block of an address among the four that translated code knows."""
        for start, end in memory.blocks:
            if start <= offset < end:
                self.state[native_state.BLOCKS + 2 * self._victim :][:2] = (start, end)
                self._victim = (self._victim + 1) % 4
                return

    def run(self, core: Core, limit: int) -> int:
        """Runs until something is left to the interpreter; gives the instructions executed."""
        state, started = self.state, core.pc
        state[:64] = np.array(core.registers, np.uint64).view(np.int64)
        state[PC], state[EXECUTED], state[LIMIT] = core.pc, 0, limit
        state[SCRATCH : WRITE_HIGH + 1] = (0, 0, FAR, 0, FAR, 0)
        self.translation.function(state.ctypes.data, self.trips.ctypes.data)
        core.registers = state[:64].view(np.uint64).tolist()
        core.pc = int(state[PC])
        executed = int(state[EXECUTED])
        if core.traced and executed:
            self._account(core, started)
        self.trips[:] = 0
        if executed < SHORT and limit > AMPLE:  # it was not the limit that ended it
            self._tire(started)
        return executed

    def _tire(self, door: int) -> None:
        """A door behind which only a few instructions run is dearer than interpreting them: it is closed."""
        self._short[door] = self._short.get(door, 0) + 1
        if self._short[door] >= PATIENCE:
            self.doors.discard(door)

    def _account(self, core: Core, started: int) -> None:
        """Adds what ran to the core's scalar record."""
        record, state = core.scalar_record(started), self.state
        counts = self.trips @ self.translation.counts
        counts[CLASS_NUMBER["scratchpad"]] += state[SCRATCH]
        counts[CLASS_NUMBER["dram"]] += state[DRAM]
        counts[CLASS_NUMBER["issue"]] += state[SCRATCH]  # an interlock looks at every scratchpad access
        record.counts = [a + int(b) for a, b in zip(record.counts, counts, strict=True)]
        record.reads = _joined(record.reads, state[READ_LOW], state[READ_HIGH])
        record.writes = _joined(record.writes, state[WRITE_LOW], state[WRITE_HIGH])


def _joined(old: tuple[int, int] | None, low: int, high: int) -> tuple[int, int] | None:
    if not high:
        return old
    return (min(old[0], int(low)), max(old[1], int(high))) if old else (int(low), int(high))


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


def _blocks(code: Sequence[Prepared], native: Sequence[bool]) -> list[Block]:
    leaders = {0}
    for place, prepared in enumerate(code):
        name = prepared.row.mnemonic
        if prepared.row.immediate is not None and prepared.row.immediate.kind == "target":
            leaders.add(place + prepared.instruction.immediate)
        if name in MEMORY or _is_register_jump(prepared):
            leaders.add(place)
        if name in CONDITIONS or name in JUMPS or not native[place]:
            leaders.add(place + 1)
        if not native[place]:
            leaders.add(place)
    blocks: list[Block] = []
    for first in sorted(place for place in leaders if 0 <= place < len(code) and native[place]):
        last = first
        while last + 1 < len(code) and last + 1 not in leaders:
            last += 1
        blocks.append(Block(len(blocks), first, last))
    return blocks


def _static_counts(code: Sequence[Prepared], blocks: Sequence[Block]) -> Array:
    counts = np.zeros((max(len(blocks), 1), len(SCALAR_CLASSES)), np.int64)
    for block in blocks:
        for prepared in code[block.first : block.last + 1]:
            if prepared.row.mnemonic not in MEMORY:  # counted where the address is known
                counts[block.number, prepared.scalar_class] += 1
    return counts


def _doors(code: Sequence[Prepared], native: Sequence[bool]) -> set[int]:
    """Where the interpreter may hand over: loop heads, calls, returns, behind what is not translated.

    Every door is one more way into the middle of the code: it costs compile time and registers.
    """
    doors = {0}
    for place, prepared in enumerate(code):
        target = prepared.row.immediate is not None and prepared.row.immediate.kind == "target"
        is_call = prepared.row.mnemonic == "CALL"
        if target and (is_call or prepared.instruction.immediate <= 0):
            doors.add(place + prepared.instruction.immediate)
        if is_call or not native[place]:
            doors.add(place + 1)
    return doors


def _module_text(
    code: Sequence[Prepared], blocks: Sequence[Block], doors: Sequence[int], kind: type[emit.Writer]
) -> str:
    entry = {block.first: block for block in blocks}
    accesses = sum(prepared.row.mnemonic in MEMORY for prepared in code)
    used = sorted({register for prepared in code for register in _registers(prepared)})
    small = len(code) <= MAX_PROMOTED
    writer = kind(used, promoted=small, inlined=accesses <= MAX_INLINED)
    for block in blocks:
        writer.label(f"b{block.first}")
        writer.enough(block.first, block.last - block.first + 1)
        _body(writer, code, block, entry, doors)
    return writer.module(doors)


def _registers(prepared: Prepared) -> Sequence[int]:
    return [] if prepared.row.is_tensor else prepared.instruction.registers


def _body(
    writer: emit.Writer, code: Sequence[Prepared], block: Block, entry: dict[int, Block], doors: Sequence[int]
) -> None:
    ended = False
    for place in range(block.first, block.last + 1):
        prepared = code[place]
        name, instruction = prepared.row.mnemonic, prepared.instruction
        if name in MEMORY:
            writer.access(instruction, place, is_store=name == "SSTORE")
        elif _is_register_jump(
            prepared
        ):  # only to where this code can go on; the interpreter judges the rest
            writer.check_door(instruction.registers[-1], place, doors)
        if place == block.first:
            writer.count_trip(block.number, block.last - block.first + 1)
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
            writer.set(prepared.outputs[0], str(place + 1))
        writer.go(place + instruction.immediate, entry)
        return
    target = writer.get(instruction.registers[-1])
    if prepared.outputs:
        writer.set(prepared.outputs[0], str(place + 1))
    writer.go_to_register(target)
