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
from trilobite.processor.isa.row import ACC, CODE, GDRAM, NRAM, SRAM, WRAM
from trilobite.processor.lang.bounds import CallNote
from trilobite.processor.sim import emit, native_state
from trilobite.processor.sim.core import Core
from trilobite.processor.sim.core_code import CoreCode
from trilobite.processor.sim.memory import Memory, Place
from trilobite.processor.sim.translate import Translation
from trilobite.processor.tools.checked_access import (
    BLOCK_SLOTS,
    BOX_COUNT,
    BOXES,
    CLOCK,
    ENTRY_WORDS,
    FIRST,
    OWN,
    PAGE_COUNT,
    PAGES,
    READ_LOW,
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
from trilobite.processor.tools.planes import PAGE, SHIFT, Surface, Uses
from trilobite.processor.tools.spans import Key, Span

if TYPE_CHECKING:
    from trilobite.processor.tools.checks import Checks

UNTOUCHED = (native_state.FAR, 0, native_state.FAR, 0)  # where reads and writes of a stretch lie: nowhere yet
_TRANSLATIONS: WeakKeyDictionary[Program, Translation] = WeakKeyDictionary()


class CheckedWriter(emit.Writer):
    """Writes the same code with a question before every access; tensor instructions are the checkers'."""

    does_tensors = False
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


def is_translated(program: Program) -> bool:
    return program in _TRANSLATIONS


def checked_code(core: Core, checks: Checks) -> CheckedCode:
    """The translated code of the core's program, for this core."""
    assert core.program is not None
    if core.program not in _TRANSLATIONS:
        writer = type("NotedWriter", (CheckedWriter,), {"notes": getattr(core.program, "notes", {})})
        _TRANSLATIONS[core.program] = Translation(core.code, writer)
    return CheckedCode(_TRANSLATIONS[core.program], core, checks)


class CheckedCode(CoreCode):
    """Translated code with the state of one core and of the checkers around it."""

    def __init__(self, translation: Translation, core: Core, checks: Checks) -> None:
        super().__init__(translation, core.memory, core.place)
        self.state = np.concatenate([self.state, np.zeros(WORDS - len(self.state), np.int64)])
        self._checks = checks
        self._keys: list[Key | None] = [None] * SLOT_COUNT
        for space, number in NUMBERS.items():
            if space not in (GDRAM, CODE):
                self._keys[number] = _own_key(space, core.place)
        self._layouts = -1
        self._kept: list[Array] = []  # page tables that the state points to
        self._boxes: list[Array] = []
        self._used: list[tuple[int, Key, Surface]] = []  # slots of memories that were touched
        self._memories = 0  # that were touched when these were looked for
        self._rows = self.state[SLOTS:][: SLOT_COUNT * SLOT_WORDS].reshape(SLOT_COUNT, SLOT_WORDS)
        self._rows[:, READ_LOW : WRITE_HIGH + 1] = UNTOUCHED

    def remember_block(self, memory: Memory, offset: int) -> None:
        super().remember_block(memory, offset)
        for slot in range(BLOCK_SLOTS):
            start, end = self.state[native_state.BLOCKS + 2 * slot :][:2].tolist()
            self._keys[len(NUMBERS) + slot] = (GDRAM, start, 0) if end else None
        self._memories = -1  # all slots are looked for again

    def run(self, core: Core, limit: int) -> int:
        races, bytes_ = self._checks.races, self._checks.bytes
        undefined = bytes_.states[core.place]
        if undefined.any:  # the interpreter follows them
            return 0
        thread = races.control_thread(core.place)
        first = races.counts[thread] + 1
        clock = races.clock_of(core.place)
        state = self.state
        state[CLOCK], state[FIRST], state[OWN] = clock.ctypes.data, first, thread << SHIFT
        state[STACK_LOW], state[STACK_ON] = bytes_.room(core)[0], undefined.uses_stack
        self._fill_slots(thread, clock)
        executed = super().run(core, limit)
        if executed:
            races.stretch(thread, first, len(core.code))
            self._note_uses(thread, races.counts[thread])
            undefined.uses_stack = bool(state[STACK_ON])
        return executed

    def _fill_slots(self, thread: int, clock: Array) -> None:
        """Page tables where they have changed; what others may still be reading, every time."""
        surfaces = self._checks.races.surfaces
        if self._memories != len(surfaces):
            self._memories, self._layouts = len(surfaces), -1
            named = ((number, key) for number, key in enumerate(self._keys) if key is not None)
            self._used = [(number, key, surfaces[key]) for number, key in named if key in surfaces]
        layouts = 0
        for _, _, surface in self._used:
            layouts += surface.layouts
        if layouts != self._layouts:
            self._layouts, self._kept = layouts, []
            self._rows[:, PAGES : PAGE_COUNT + 1] = 0
            for number, key, surface in self._used:
                self._fill_pages(number, key, surface, thread)
        self._boxes = []
        for number, _, surface in self._used:
            boxes = _unknown_reads(surface, clock)
            self._rows[number, BOX_COUNT] = 0 if boxes is None else len(boxes) // 2
            if boxes is not None:
                self._rows[number, BOXES] = boxes.ctypes.data
                self._boxes.append(boxes)

    def _fill_pages(self, number: int, key: Key, surface: Surface, thread: int) -> None:
        if not surface.pages:
            return
        table = np.zeros((max(surface.pages) + 1, ENTRY_WORDS), np.int64)
        shadow = self._shadow(key)
        for place, page in surface.pages.items():
            planes = (page.writer.ctypes.data, page.reader(thread).ctypes.data)
            below = shadow.ctypes.data + place * PAGE if shadow is not None else 0
            table[place] = (page.granule.bit_length() - 1, *planes, below)
        self._rows[number, PAGES : PAGE_COUNT + 1] = table.ctypes.data, len(table)
        self._kept.append(table)

    def _shadow(self, key: Key) -> Array | None:
        shadow = self._checks.bytes.shadow
        return shadow.unwritten.get(key[1]) if key[0] == GDRAM else shadow.pad(*key)

    def _note_uses(self, thread: int, last: int) -> None:
        """Tells the planes between which bytes this stretch read and wrote."""
        for number, key, surface in self._used:
            row = self._rows[number]
            low, high, write_low, write_high = row[READ_LOW : WRITE_HIGH + 1].tolist()
            if high:
                surface.reads.setdefault(thread, Uses()).add(Span(key, low, high, high - low, ()), last)
            if write_high:
                span = Span(key, write_low, write_high, write_high - write_low, ())
                surface.writes.setdefault(thread, Uses()).add(span, last)
            if high or write_high:
                row[READ_LOW : WRITE_HIGH + 1] = UNTOUCHED


def _own_key(space: str, place: Place) -> Key | None:
    if space == SRAM:
        return (SRAM, place.cluster, 0)
    if place.is_memory_core and space in (NRAM, WRAM, ACC):
        return None
    return (space, place.cluster, place.core)


def _unknown_reads(surface: Surface, clock: Array) -> Array | None:
    """Low and high of what each thread read and is not known to have finished reading."""
    found: list[int] = []
    for thread, uses in surface.reads.items():
        if clock[thread] < uses.last:
            found += (uses.low, uses.high)
    return np.array(found, np.int64) if found else None


__all__ = ["CheckedCode", "CheckedWriter", "checked_code", "is_translated"]
