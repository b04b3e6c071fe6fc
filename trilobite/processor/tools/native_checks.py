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
from trilobite.processor.tools.memory_checker import STACK, moves_stack
from trilobite.processor.tools.planes import COUNT, PAGE, SHIFT, Surface, Uses
from trilobite.processor.tools.spans import Key, Span

if TYPE_CHECKING:
    from trilobite.processor.tools.checks import Checks

# Words behind the simulator's own.
CLOCK, FIRST, OWN, STACK_LOW, STACK_ON = range(native_state.STATE_WORDS, native_state.STATE_WORDS + 5)
SLOTS = native_state.STATE_WORDS + 8  # spaces by their number, then the remembered DRAM blocks
PAGES, PAGE_COUNT, BOXES, BOX_COUNT, READ_LOW, READ_HIGH, WRITE_LOW, WRITE_HIGH = range(8)
SLOT_WORDS, BLOCK_SLOTS = 8, 4
SLOT_COUNT = len(NUMBERS) + BLOCK_SLOTS
WORDS = SLOTS + SLOT_COUNT * SLOT_WORDS
ENTRY_WORDS = 4  # of a page: shift of its granule, writers, own reads, shadow (0: all written)
_TRANSLATIONS: WeakKeyDictionary[Program, Translation] = WeakKeyDictionary()


def _allowed(size: int) -> str:
    """LLVM text: 1 if the access is plainly fine, and then it is recorded; 0 leaves it to the checkers."""
    bits, ones = size * 8, int.from_bytes(b"\1" * size, "little")
    return f"""
define internal i64 @allowed{size}(ptr %s, i64 %address, i64 %store, i64 %place) noinline {{
  %space = lshr i64 %address, 56
  %owner = and i64 %address, 72056494526300160
  %skew = and i64 %address, {size - 1}
  %odd = or i64 %owner, %skew
  %plain = icmp eq i64 %odd, 0
  %known = icmp ult i64 %space, {NUMBERS[CODE]}
  %go = and i1 %plain, %known
  br i1 %go, label %which, label %other
other:
  %iscode = icmp eq i64 %space, {NUMBERS[CODE]}
  %constant = zext i1 %iscode to i64
  ret i64 %constant
which:
  %offset = and i64 %address, 1099511627775
  %isdram = icmp eq i64 %space, 0
  br i1 %isdram, label %try, label %slot
try:
  %b = phi i64 [ 0, %which ], [ %bnext, %again ]
  %bw = shl i64 %b, 1
  %bi = add i64 %bw, {native_state.BLOCKS}
  %lp = getelementptr i64, ptr %s, i64 %bi
  %lo = load i64, ptr %lp
  %hp = getelementptr i64, ptr %lp, i64 1
  %hi = load i64, ptr %hp
  %above = icmp uge i64 %offset, %lo
  %below = icmp ult i64 %offset, %hi
  %inside = and i1 %above, %below
  %bnext = add i64 %b, 1
  br i1 %inside, label %slot, label %again
again:
  %more = icmp ult i64 %bnext, {BLOCK_SLOTS}
  br i1 %more, label %try, label %fail
slot:
  %start = phi i64 [ 0, %which ], [ %lo, %try ]
  %blockslot = phi i64 [ %space, %which ], [ %b, %try ]
  %plus = select i1 %isdram, i64 {len(NUMBERS)}, i64 0
  %number = add i64 %blockslot, %plus
  %at = sub i64 %offset, %start
  %sw = mul i64 %number, {SLOT_WORDS}
  %si = add i64 %sw, {SLOTS}
  %slotp = getelementptr i64, ptr %s, i64 %si
  %pagesi = load i64, ptr %slotp
  %pcp = getelementptr i64, ptr %slotp, i64 {PAGE_COUNT}
  %pagecount = load i64, ptr %pcp
  %page = lshr i64 %at, {PAGE.bit_length() - 1}
  %there = icmp ult i64 %page, %pagecount
  br i1 %there, label %entry, label %fail
entry:
  %pages = inttoptr i64 %pagesi to ptr
  %ew = mul i64 %page, {ENTRY_WORDS}
  %ep = getelementptr i64, ptr %pages, i64 %ew
  %shift = load i64, ptr %ep
  %wpp = getelementptr i64, ptr %ep, i64 1
  %wi = load i64, ptr %wpp
  %rpp = getelementptr i64, ptr %ep, i64 2
  %ri = load i64, ptr %rpp
  %dpp = getelementptr i64, ptr %ep, i64 3
  %di = load i64, ptr %dpp
  %inner = and i64 %at, {PAGE - 1}
  %n = lshr i64 {size}, %shift
  %isplane = icmp ne i64 %wi, 0
  %isfine = icmp ne i64 %n, 0
  %usable = and i1 %isplane, %isfine
  br i1 %usable, label %clock, label %fail
clock:
  %writers = inttoptr i64 %wi to ptr
  %first = lshr i64 %inner, %shift
  %end = add i64 %first, %n
  %cp = getelementptr i64, ptr %s, i64 {CLOCK}
  %ci = load i64, ptr %cp
  %clocks = inttoptr i64 %ci to ptr
  br label %judge
judge:
  %g = phi i64 [ %first, %clock ], [ %gnext, %ordered ]
  %codep = getelementptr i64, ptr %writers, i64 %g
  %code = load i64, ptr %codep
  %thread = lshr i64 %code, {SHIFT}
  %count = and i64 %code, {COUNT}
  %vp = getelementptr i64, ptr %clocks, i64 %thread
  %v = load i64, ptr %vp
  %fine = icmp ule i64 %count, %v
  br i1 %fine, label %ordered, label %fail
ordered:
  %gnext = add i64 %g, 1
  %rest = icmp ult i64 %gnext, %end
  br i1 %rest, label %judge, label %shadow
shadow:
  %isload = icmp eq i64 %store, 0
  %all = icmp eq i64 %di, 0
  %dat = add i64 %di, %inner
  %dp = inttoptr i64 %dat to ptr
  %fp = getelementptr i64, ptr %s, i64 {FIRST}
  %base = load i64, ptr %fp
  %own = add i64 %base, %place
  br i1 %isload, label %load, label %boxes
load:
  br i1 %all, label %read, label %defined
defined:
  %d = load i{bits}, ptr %dp, align 1
  %written = icmp eq i{bits} %d, {ones}
  br i1 %written, label %read, label %fail
read:
  %readers = inttoptr i64 %ri to ptr
  br label %mark
mark:
  %rg = phi i64 [ %first, %read ], [ %rgnext, %mark ]
  %rp = getelementptr i64, ptr %readers, i64 %rg
  store i64 %own, ptr %rp
  %rgnext = add i64 %rg, 1
  %rrest = icmp ult i64 %rgnext, %end
  br i1 %rrest, label %mark, label %widen
boxes:
  %bcp = getelementptr i64, ptr %slotp, i64 {BOX_COUNT}
  %boxcount = load i64, ptr %bcp
  %bxp = getelementptr i64, ptr %slotp, i64 {BOXES}
  %bxi = load i64, ptr %bxp
  %bx = inttoptr i64 %bxi to ptr
  %atend = add i64 %at, {size}
  br label %box
box:
  %k = phi i64 [ 0, %boxes ], [ %knext, %clear ]
  %done = icmp uge i64 %k, %boxcount
  br i1 %done, label %write, label %look
look:
  %kw = shl i64 %k, 1
  %kp = getelementptr i64, ptr %bx, i64 %kw
  %klow = load i64, ptr %kp
  %khp = getelementptr i64, ptr %kp, i64 1
  %khigh = load i64, ptr %khp
  %left = icmp ult i64 %at, %khigh
  %right = icmp ult i64 %klow, %atend
  %meets = and i1 %left, %right
  br i1 %meets, label %fail, label %clear
clear:
  %knext = add i64 %k, 1
  br label %box
write:
  %op = getelementptr i64, ptr %s, i64 {OWN}
  %owncode = load i64, ptr %op
  %newcode = or i64 %owncode, %own
  br label %stamp
stamp:
  %wg = phi i64 [ %first, %write ], [ %wgnext, %stamp ]
  %sp = getelementptr i64, ptr %writers, i64 %wg
  store i64 %newcode, ptr %sp
  %wgnext = add i64 %wg, 1
  %wrest = icmp ult i64 %wgnext, %end
  br i1 %wrest, label %stamp, label %define
define:
  br i1 %all, label %widen, label %fill
fill:
  store i{bits} {ones}, ptr %dp, align 1
  br label %widen
widen:
  %tw = shl i64 %store, 1
  %ti = add i64 %tw, {READ_LOW}
  %tp = getelementptr i64, ptr %slotp, i64 %ti
  %tl = load i64, ptr %tp
  %lower = icmp ult i64 %at, %tl
  %newlow = select i1 %lower, i64 %at, i64 %tl
  store i64 %newlow, ptr %tp
  %thp = getelementptr i64, ptr %tp, i64 1
  %th = load i64, ptr %thp
  %top = add i64 %at, {size}
  %higher = icmp ugt i64 %top, %th
  %newhigh = select i1 %higher, i64 %top, i64 %th
  store i64 %newhigh, ptr %thp
  ret i64 1
fail:
  ret i64 0
}}
"""


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
        return "".join(_allowed(size) for size in (1, 2, 4, 8)) + super().module(places)


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

    def remember_block(self, memory: Memory, offset: int) -> None:
        super().remember_block(memory, offset)
        for slot in range(BLOCK_SLOTS):
            start, end = self.state[native_state.BLOCKS + 2 * slot :][:2].tolist()
            self._keys[len(NUMBERS) + slot] = (GDRAM, start, 0) if end else None
        self._layouts = -1

    def run(self, core: Core, limit: int) -> int:
        races, bytes_ = self._checks.races, self._checks.bytes
        undefined = bytes_.states[core.place]
        if undefined.any:  # the interpreter follows them
            return 0
        thread = races.control_thread(core.place)
        first = races.counts[thread] + 1
        clock = races.clock_of(thread)
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

    def _surface(self, number: int) -> Surface | None:
        key = self._keys[number]
        return self._checks.races.surfaces.get(key) if key is not None else None

    def _fill_slots(self, thread: int, clock: Array) -> None:
        """Page tables where they have changed; what others may still be reading, every time."""
        surfaces = [self._surface(number) for number in range(SLOT_COUNT)]
        layouts = sum(surface.layouts for surface in surfaces if surface is not None)
        if layouts != self._layouts:
            self._layouts, self._kept = layouts, []
            for number, surface in enumerate(surfaces):
                self._fill_pages(number, surface, thread)
        self._boxes = []
        for number, surface in enumerate(surfaces):
            slot = self._slot(number)
            slot[READ_LOW : WRITE_HIGH + 1] = (native_state.FAR, 0, native_state.FAR, 0)
            boxes = _unknown_reads(surface, clock) if surface is not None else None
            slot[BOX_COUNT] = 0 if boxes is None else len(boxes) // 2
            if boxes is not None:
                slot[BOXES] = boxes.ctypes.data
                self._boxes.append(boxes)

    def _slot(self, number: int) -> Array:
        return self.state[SLOTS + number * SLOT_WORDS :][:SLOT_WORDS]

    def _fill_pages(self, number: int, surface: Surface | None, thread: int) -> None:
        slot = self._slot(number)
        slot[PAGES : PAGE_COUNT + 1] = 0
        key = self._keys[number]
        if surface is None or key is None or not surface.pages:
            return
        table = np.zeros((max(surface.pages) + 1, ENTRY_WORDS), np.int64)
        shadow = self._shadow(key)
        for place, page in surface.pages.items():
            planes = (page.writer.ctypes.data, page.reader(thread).ctypes.data)
            below = shadow.ctypes.data + place * PAGE if shadow is not None else 0
            table[place] = (page.granule.bit_length() - 1, *planes, below)
        slot[PAGES], slot[PAGE_COUNT] = table.ctypes.data, len(table)
        self._kept.append(table)

    def _shadow(self, key: Key) -> Array | None:
        shadow = self._checks.bytes.shadow
        return shadow.unwritten.get(key[1]) if key[0] == GDRAM else shadow.pad(*key)

    def _note_uses(self, thread: int, last: int) -> None:
        """Tells the planes between which bytes this stretch read and wrote."""
        for number in range(SLOT_COUNT):
            low, high, write_low, write_high = self._slot(number)[READ_LOW:].tolist()
            surface, key = self._surface(number), self._keys[number]
            if surface is None or key is None:
                continue
            if high:
                surface.reads.setdefault(thread, Uses()).add(Span(key, low, high, high - low, ()), last)
            if write_high:
                span = Span(key, write_low, write_high, write_high - write_low, ())
                surface.writes.setdefault(thread, Uses()).add(span, last)


def _own_key(space: str, place: Place) -> Key | None:
    if space == SRAM:
        return (SRAM, place.cluster, 0)
    if place.is_memory_core and space in (NRAM, WRAM, ACC):
        return None
    return (space, place.cluster, place.core)


def _unknown_reads(surface: Surface, clock: Array) -> Array | None:
    """Low and high of what each thread read and is not known to have finished reading."""
    found = [(uses.low, uses.high) for thread, uses in surface.reads.items() if clock[thread] < uses.last]
    return np.array(found, np.int64).reshape(-1) if found else None


__all__ = ["CheckedCode", "CheckedWriter", "checked_code", "is_translated"]
