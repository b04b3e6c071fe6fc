"""Translated scalar code that checks its own accesses, at machine speed.

Enters: a program, and the checkers' planes and shadows. Leaves: code that runs a core as the simulator's
translation does and, before each scalar load or store, asks: is the last write to these bytes ordered
before? may somebody still read them? was every byte written? Whatever is not plainly fine is left to the
interpreter and the checkers, which judge and report it; so is everything while a register holds undefined
bits. Deleting this module changes only speed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from trilobite.native.llvm.types import Value
from trilobite.processor.isa.address import NUMBERS
from trilobite.processor.isa.encode import Instruction
from trilobite.processor.isa.formats import Array
from trilobite.processor.isa.program import Program
from trilobite.processor.lang.bounds import CallNote
from trilobite.processor.sim import emit, native_state
from trilobite.processor.sim.core import Core
from trilobite.processor.sim.core_code import CoreCode
from trilobite.processor.sim.memory import Memory
from trilobite.processor.sim.translate import Translated
from trilobite.processor.tools import judge_state as table
from trilobite.processor.tools.checked_access import (
    BLOCK_SLOTS,
    CLOCK,
    FIRST,
    OWN,
    PAGE_COUNT,
    PAGES,
    READ_COUNT,
    READ_LOW,
    READS,
    SLOT_COUNT,
    SLOT_WORDS,
    SLOTS,
    STACK_LOW,
    STACK_ON,
    WORDS,
    WRITE_HIGH,
    allowed_text,
)
from trilobite.processor.tools.memory_checker import STACK, moves_stack
from trilobite.processor.tools.memory_table import MemoryTable
from trilobite.processor.tools.native_tensors import SiteFacts, TensorJudge
from trilobite.processor.tools.planes import SHIFT

if TYPE_CHECKING:
    from trilobite.processor.tools.checks import Checks

UNTOUCHED = (native_state.FAR, 0, native_state.FAR, 0)  # where reads and writes of a stretch lie: nowhere yet
_CHECKED: WeakKeyDictionary[Program, dict[bool, Checked]] = WeakKeyDictionary()  # with tensors, without


class CheckedWriter(emit.Writer):
    """Writes the same code with a question before every access; tensor instructions ask `tensor_judge`."""

    notes: Mapping[int, CallNote] = {}  # of the program, by instruction

    def access(self, instruction: Instruction, place: int, is_store: bool) -> None:
        address = self.add(self.get(instruction.registers[1]), instruction.immediate)
        size = instruction.formats[0].bits // 8
        asked = f"ptr %s, {address.typed}, i64 {int(is_store)}, i64 {place}"
        bad = self.icmp("eq", self.define("i64", f"call i64 @allowed{size}({asked})"), 0)
        if instruction.registers[1] == STACK:
            bad = self.or_(bad, self._overflows(address))
        note = self.notes.get(place)
        if note is not None and note.arrays:
            bad = self.or_(bad, self._outside(note, address, size))
        self.leave_if(bad, place)
        super().access(instruction, place, is_store)

    def _outside(self, note: CallNote, address: Value, size: int) -> Value:
        """Whether an access lies in none of the arrays that it may be meant for."""
        bad = self.constant("i1", 1)
        for array in note.arrays[0][1]:
            at = self.sub(address, array.low)
            bad = self.and_(bad, self.icmp("ugt", at, array.high - array.low - size))
        return bad

    def _overflows(self, address: Value) -> Value:
        """Whether an access through the stack pointer lies below the stack's room."""
        low, on = (self.load_type("i64", self.word(word)) for word in (STACK_LOW, STACK_ON))
        return self.and_(self.icmp("ult", address, low), self.icmp("ne", on, 0))

    def compute(self, instruction: Instruction) -> None:
        super().compute(instruction)
        if instruction.registers[0] == STACK and not moves_stack(instruction):
            self.store_type(self.constant("i64", 0), self.word(STACK_ON))

    def module(self, places: Sequence[int]) -> str:
        return allowed_text() + super().module(places)


class Checked:
    """The checked code of a program."""

    def __init__(self, core: Core, does_tensors: bool) -> None:
        assert core.program is not None
        own = {"notes": getattr(core.program, "notes", {}), "does_tensors": does_tensors}
        self.translation = Translated(core.code, type("NotedWriter", (CheckedWriter,), own))
        self.facts = SiteFacts(self.translation, core.program)


def is_translated(program: Program) -> bool:
    return program in _CHECKED


def checked_code(core: Core, checks: Checks) -> CheckedCode:
    """The translated code of the core's program, for this core."""
    assert core.program is not None
    made = _CHECKED.setdefault(core.program, {})
    does_tensors = checks.poison is None  # poison looks at each one
    if does_tensors not in made:
        made[does_tensors] = Checked(core, does_tensors)
    return CheckedCode(made[does_tensors], core, checks)


class CheckedCode(CoreCode):
    """Translated code with the state of one core and of the checkers around it."""

    def __init__(self, checked: Checked, core: Core, checks: Checks) -> None:
        super().__init__(checked.translation, core.memory, core.place)
        races = checks.races
        self._checks, self._thread = checks, races.control_thread(core.place)
        self._memories = MemoryTable(core.place, checks, self._thread)
        self._row_of_slot: list[int | None] = [None] * SLOT_COUNT
        for number, key in enumerate(self._memories.keys[: len(NUMBERS)]):
            self._row_of_slot[number] = number if key is not None else None
        self._slots = self.state[SLOTS:][: SLOT_COUNT * SLOT_WORDS].reshape(SLOT_COUNT, SLOT_WORDS)
        self._slots[:, READ_LOW : WRITE_HIGH + 1] = UNTOUCHED
        self._are_slots_old = True
        self._judge: TensorJudge | None = None
        if self._steps is not None:
            is_interlocked = races.machine.interlock == "ranges"
            self._judge = TensorJudge(
                checked.facts, self.state, self._steps, self._memories.rows, len(core.memory.blocks),
                self._thread, is_interlocked,
            )  # fmt: skip
            checks.bytes.lanes = checked.facts.lanes
            self._steps.ask(self._judge.code, self._judge.address)

    def _made_state(self) -> Array:
        return np.zeros(WORDS, np.int64)

    def remember_block(self, memory: Memory, offset: int) -> None:
        super().remember_block(memory, offset)
        starts = {start: len(NUMBERS) + number for number, (start, _) in enumerate(memory.blocks)}
        for slot in range(BLOCK_SLOTS):
            start, end = self.state[native_state.BLOCKS + 2 * slot :][:2].tolist()
            self._row_of_slot[len(NUMBERS) + slot] = starts[start] if end else None
        self._are_slots_old = True

    def run(self, core: Core, limit: int) -> int:
        races, bytes_ = self._checks.races, self._checks.bytes
        undefined = bytes_.states[core.place]
        if undefined.any:  # the interpreter follows them
            return 0
        thread = self._thread
        first = races.counts[thread] + 1
        clock = races.clock_of(core.place)
        state = self.state
        state[CLOCK], state[FIRST], state[OWN] = clock.ctypes.data, first, thread << SHIFT
        state[STACK_LOW], state[STACK_ON] = bytes_.room(core)[0], undefined.uses_stack
        if self._memories.refresh() or self._are_slots_old:
            self._fill_slots()
        if self._judge is not None:
            self._judge.begin(clock, races.known_of(core.place), races.counts)
        executed = super().run(core, limit)
        if executed:
            races.stretch(thread, first, len(core.code))
            self._note_uses(thread, races.counts[thread])
            undefined.uses_stack = bool(state[STACK_ON])
        if self._judge is not None and len(noted := self._judge.noted()):
            races.noted(noted)
            bytes_.spread_natively(core.place, self._judge.undefined())
        return executed

    def _fill_slots(self) -> None:
        """What scalar accesses look at: the memories of the core, and the DRAM blocks that it remembers."""
        self._are_slots_old = False
        self._slots[:, PAGES : READ_COUNT + 1] = 0
        for slot, row in enumerate(self._row_of_slot):
            if row is not None:
                words = self._memories.rows[row]
                self._slots[slot, PAGES : PAGE_COUNT + 1] = words[table.PAGES : table.PAGE_COUNT + 1]
                self._slots[slot, READS : READ_COUNT + 1] = words[table.READS : table.READ_COUNT + 1]

    def _note_uses(self, thread: int, last: int) -> None:
        """Tells the planes between which bytes this stretch read and wrote."""
        slots = {row: slot for slot, row in enumerate(self._row_of_slot) if row is not None}
        for row, _, surface in self._memories.used():
            if row not in slots:
                continue
            words = self._slots[slots[row]]
            low, high, write_low, write_high = words[READ_LOW : WRITE_HIGH + 1].tolist()
            if high:
                surface.uses(surface.reads, thread).add(low, high, last)
            if write_high:
                surface.uses(surface.writes, thread).add(write_low, write_high, last)
            if high or write_high:
                words[READ_LOW : WRITE_HIGH + 1] = UNTOUCHED


__all__ = ["CheckedCode", "CheckedWriter", "checked_code", "is_translated"]
