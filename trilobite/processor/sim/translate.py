"""Scalar code as machine code: a program's scalar and branch instructions, translated through LLVM.

Enters: a program. Leaves: code that runs a core from one instruction to the next one that it
does not translate (sync, barrier, atomic, rare formats, tensor instructions that are no `Site`). An access
it cannot prove good is left to the interpreter as well, which then raises the precise fault. Deleting this
module changes only speed.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

import numpy as np

from trilobite.native.jit import POINTER, NativeModule
from trilobite.processor.isa.address import NUMBERS
from trilobite.processor.isa.row import ACC, CODE, GDRAM, LDRAM, NRAM, WRAM, Operands, signed
from trilobite.processor.sim import emit, native_state
from trilobite.processor.sim.core import Core
from trilobite.processor.sim.memory import Memory, Place
from trilobite.processor.sim.native_state import (
    DRAM,
    EXECUTED,
    FAR,
    LIMIT,
    PC,
    RANDOM_BLOCK,
    READ_HIGH,
    READ_LOW,
    SCALAR_PLACE,
    SCRATCH,
    SEED,
    WRITE_HIGH,
    WRITE_LOW,
)
from trilobite.processor.sim.prepared import CLASS_NUMBER, Prepared
from trilobite.processor.sim.record import SCALAR_CLASSES, ScalarRecord
from trilobite.processor.sim.sites import routine_code, site_of
from trilobite.processor.sim.steps import Steps
from trilobite.processor.sim.tensor_step import FORM_WORDS

MEMORY = ("SLOAD", "SSTORE")
CONDITIONS = {"CB": "sgt", "CBZ": "eq", "CBNZ": "ne", "BEQ": "eq", "BNE": "ne", "BLT": "slt", "BGE": "sge",
              "BLTU": "ult", "BGEU": "uge"}  # fmt: skip
JUMPS = ("JUMP", "CALL", "RET")
MAX_PROMOTED = 2000  # instructions; beyond this registers stay in memory, so that compiling stays quick
SHORT, PATIENCE = 8, 16  # instructions, and calls that end so soon, before a door is closed
AMPLE = 4096  # a limit that no block reaches at once
MOST_FORMS = 1 << 12  # of one program; sizes beyond this stay with the interpreter
MAX_INLINED = 64  # scalar accesses; beyond this their checks are called, not copied


@dataclass(frozen=True)
class Block:
    """Instructions `first` to `last` run together; a memory access can only be the first of them."""

    first: int
    last: int


class Translation:
    """The machine code of one program, for any number of cores."""

    def __init__(self, code: Sequence[Prepared], writer: type[emit.Writer] = emit.Writer) -> None:
        sites = [
            site_of(prepared, place) if writer.does_tensors else None for place, prepared in enumerate(code)
        ]
        self.sites = [site for site in sites if site is not None]
        self.numbers = {site.place: number for number, site in enumerate(self.sites)}
        native = [
            _is_native(prepared) or site is not None for prepared, site in zip(code, sites, strict=True)
        ]
        blocks = _blocks(code, native, self.numbers)
        self.doors = _doors(code, native) & {block.first for block in blocks}
        with np.errstate(all="ignore"):  # immediates are converted to their formats here
            text = _module_text(code, blocks, sorted(self.doors), self, writer)
        # the optimiser's time grows faster than the code: large programs do with the code generator's own
        self._module = NativeModule(
            text, {"run": (None, (POINTER, POINTER))}, optimise=len(code) <= MAX_PROMOTED
        )
        self.function = self._module["run"]
        self.words = np.array([site.words() for site in self.sites], np.int64).reshape(-1)
        # by site, 0 while it is cold; a SYNC needs no code
        self.kernels = np.array([*(int(bool(site.queues)) for site in self.sites), 0], np.int64)
        self.first_form = np.full(len(self.sites) + 1, -1)
        self.forms = np.zeros((MOST_FORMS, FORM_WORDS), np.int64)
        self._form_count = 0
        self._code: list[object] = []  # what the kernels' addresses point to

    def visited(self, place: int, operands: Operands) -> None:
        """The interpreter did a tensor instruction; one that is hot gets its code."""
        number = self.numbers.get(place)
        if number is None or (self.kernels[number] and not self.sites[number].is_formed):
            return
        site = self.sites[number]
        if not site.is_hot():
            return
        if site.is_formed:
            self._add_form(number, operands)
            return
        kept, address = site.code()
        self._code.append(kept)
        self.kernels[number] = address

    def _add_form(self, number: int, operands: Operands) -> None:
        """The sizes of an execution as one more form of its site."""
        site = self.sites[number]
        form = site.new_form(operands) if self._form_count < MOST_FORMS else None
        if form is not None:
            self.forms[self._form_count] = site.form_words(form, int(self.first_form[number]))
            site.forms[self._form_count] = form
            self.first_form[number] = self._form_count
            self._code.append(routine_code(form.routine.text)[0])
            self._form_count += 1
            self.kernels[number] = 1

    def is_cold(self, place: int) -> bool:
        """Whether there is a tensor instruction whose code is still to come."""
        number = self.numbers.get(place)
        return number is not None and not self.kernels[number]


class CoreCode:
    """Translated code with the state of one core: its registers, and where its memories are."""

    def __init__(self, translation: Translation, memory: Memory, place: Place) -> None:
        self.translation, self.doors = translation, set(translation.doors)
        self._short: dict[int, int] = {}
        self.counts = np.zeros(len(SCALAR_CLASSES), np.int64)
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
        self._steps = Steps(translation, memory, self.state, self.counts) if translation.sites else None

    def remember_block(self, memory: Memory, offset: int) -> None:
        """Puts the DRAM block of an address among the four that translated code knows."""
        for start, end in memory.blocks:
            if start <= offset < end:
                self.state[native_state.BLOCKS + 2 * self._victim :][:2] = (start, end)
                self._victim = (self._victim + 1) % 4
                return

    def visited(self, place: int, operands: Operands) -> None:
        """The interpreter did a tensor instruction."""
        self.translation.visited(place, operands)

    def run(self, core: Core, limit: int) -> int:
        """Runs until something is left to the interpreter; gives the instructions executed."""
        state, started = self.state, core.pc
        state[:64] = np.array(core.registers, np.uint64).view(np.int64)
        state[PC], state[EXECUTED], state[LIMIT] = core.pc, 0, limit
        state[SEED] = signed(core.special.get("randomSeed", 0))
        state[RANDOM_BLOCK] = core.random_block
        if core.traced:
            self._continue(core.take_scalar(), started)
        if self._steps is not None:
            self._steps.begin(core)
        self.translation.function(state.ctypes.data, self.counts.ctypes.data)
        core.registers = state[:64].view(np.uint64).tolist()
        core.pc, core.random_block = int(state[PC]), int(state[RANDOM_BLOCK])
        executed = int(state[EXECUTED])
        if core.traced:
            if self._steps is not None:
                self._steps.end(core)
            self._account(core)
        if executed < SHORT and limit > AMPLE and not self.translation.is_cold(core.pc):
            self._tire(started)  # it was neither the limit nor code to come that ended it
        return executed

    def _tire(self, door: int) -> None:
        """A door behind which only a few instructions run is dearer than interpreting them: it is closed."""
        self._short[door] = self._short.get(door, 0) + 1
        if self._short[door] >= PATIENCE:
            self.doors.discard(door)

    def _continue(self, record: ScalarRecord | None, started: int) -> None:
        """Goes on with the core's running scalar record."""
        state = self.state
        state[SCRATCH], state[DRAM] = 0, 0
        self.counts[:] = record.counts if record else 0
        state[SCALAR_PLACE] = record.place if record else started
        state[READ_LOW : READ_HIGH + 1] = record.reads if record and record.reads else (FAR, 0)
        state[WRITE_LOW : WRITE_HIGH + 1] = record.writes if record and record.writes else (FAR, 0)

    def _account(self, core: Core) -> None:
        """What is left of scalar work is the core's running record."""
        state, counts = self.state, self.counts
        counts[CLASS_NUMBER["scratchpad"]] += state[SCRATCH]
        counts[CLASS_NUMBER["dram"]] += state[DRAM]
        counts[CLASS_NUMBER["issue"]] += state[SCRATCH]  # an interlock looks at every scratchpad access
        if counts.any():
            record = core.scalar_record(int(state[SCALAR_PLACE]))
            record.counts = counts.tolist()
            reads, writes = state[READ_LOW : READ_HIGH + 1], state[WRITE_LOW : WRITE_HIGH + 1]
            record.reads = (int(reads[0]), int(reads[1])) if reads[1] else None
            record.writes = (int(writes[0]), int(writes[1])) if writes[1] else None


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
    code: Sequence[Prepared],
    blocks: Sequence[Block],
    doors: Sequence[int],
    translation: Translation,
    kind: type[emit.Writer],
) -> str:
    entry = {block.first: block for block in blocks}
    accesses = sum(prepared.row.mnemonic in MEMORY for prepared in code)
    used = sorted({register for prepared in code for register in _registers(prepared)})
    small = len(code) <= MAX_PROMOTED
    writer = kind(used, promoted=small, inlined=accesses <= MAX_INLINED)
    for block in blocks:
        writer.label(f"b{block.first}")
        writer.enough(block.first, block.last - block.first + 1)
        if block.first in translation.numbers:
            _tensor(writer, translation, block.first)
            writer.count_trip((), 1)
            writer.go(block.first + 1, entry)
        else:
            _body(writer, code, block, entry, doors)
    return writer.module(doors)


def _registers(prepared: Prepared) -> Sequence[int]:
    if prepared.row.is_tensor:
        return [*(register for _, register, _ in prepared.fields), *prepared.outputs]
    return prepared.instruction.registers


def _tensor(writer: emit.Writer, translation: Translation, place: int) -> None:
    number = translation.numbers[place]
    site = translation.sites[number]
    registers = [register for _, register, _ in site.prepared.fields]
    writer.tensor(number, registers, site.immediate, place)
    for register in site.prepared.outputs:
        writer.take_result(register, len(registers))


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
            writer.set(prepared.outputs[0], str(place + 1))
        writer.go(place + instruction.immediate, entry)
        return
    target = writer.get(instruction.registers[-1])
    if prepared.outputs:
        writer.set(prepared.outputs[0], str(place + 1))
    writer.go_to_register(target)
