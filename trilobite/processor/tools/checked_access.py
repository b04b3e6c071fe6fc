"""The question before each scalar access of checked code, as LLVM text.

Enters: nothing. Leaves: the text of `allowed1` to `allowed8(state, address, store, place)`: 1 if the access
is plainly fine, and then it is recorded; 0 leaves it to the checkers. And the words of the state that it
reads: behind the simulator's own, a slot for each memory and remembered DRAM block, with the pages of its
planes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from trilobite.base.dtypes import int64
from trilobite.native.host import features
from trilobite.native.llvm.functions import Functions
from trilobite.native.llvm.types import Value
from trilobite.processor.isa.address import NUMBERS
from trilobite.processor.isa.row import CODE
from trilobite.processor.sim import native_state
from trilobite.processor.sim.access import INNER, OWNER, SPACE_SHIFT, widened, word
from trilobite.processor.tools.judge_state import ENTRY_WORDS
from trilobite.processor.tools.planes import COUNT, PAGE, SHIFT

# Words behind the simulator's own.
CLOCK, FIRST, OWN, STACK_LOW, STACK_ON = range(native_state.STATE_WORDS, native_state.STATE_WORDS + 5)
SLOTS = native_state.STATE_WORDS + 8  # spaces by their number, then the remembered DRAM blocks
PAGES, PAGE_COUNT, READS, READ_COUNT, READ_LOW, READ_HIGH, WRITE_LOW, WRITE_HIGH = range(8)
SLOT_WORDS, BLOCK_SLOTS = 8, 4
SLOT_COUNT = len(NUMBERS) + BLOCK_SLOTS
WORDS = SLOTS + SLOT_COUNT * SLOT_WORDS
ENTRY_USED = 4  # words of a page: shift of its granule, writers, own reads, shadow (0: all written)


@cache
def allowed_text() -> str:
    t = Functions(features())
    for size in (1, 2, 4, 8):
        with t.function(f"allowed{size}", ["ptr", "i64", "i64", "i64"], "i64") as (s, address, store, place):
            _Question(t, size, s, store).ask(address, place)
    return t.functions_text()


class _Question:
    """One function while it is written."""

    def __init__(self, t: Functions, size: int, state: Value, store: Value) -> None:
        self.t, self.size, self.state, self.store = t, size, state, store

    def ask(self, address: Value, place: Value) -> None:
        t = self.t
        space = t.lshr(address, SPACE_SHIFT)
        t.return_if(t.icmp("eq", space, NUMBERS[CODE]), 1)
        odd = t.and_(address, OWNER | (self.size - 1))
        t.return_if(t.or_(t.icmp("ne", odd, 0), t.icmp("ugt", space, NUMBERS[CODE])), 0)
        offset = t.and_(address, INNER)
        start, number = t.either(
            t.icmp("eq", space, 0),
            lambda: self._block(offset, range(BLOCK_SLOTS)),
            lambda: [t.constant("i64", 0), space],
        )
        slot = t.address(self.state, t.add(t.mul(number, SLOT_WORDS), SLOTS), int64)
        at = t.sub(offset, start)
        page = t.lshr(at, PAGE.bit_length() - 1)
        t.return_if(t.icmp("uge", page, word(t, slot, PAGE_COUNT)), 0)
        entry = t.address(self._pointer(slot, PAGES), t.mul(page, ENTRY_WORDS), int64)
        shift, writers, readers, shadow = (word(t, entry, k) for k in range(ENTRY_USED))
        inner = t.and_(at, PAGE - 1)
        count = t.lshr(t.constant("i64", self.size), shift)
        t.return_if(t.or_(t.icmp("eq", writers, 0), t.icmp("eq", count, 0)), 0)
        first = t.lshr(inner, shift)
        granules = (first, t.add(first, count))
        planes = [t.convert("inttoptr", plane, "ptr") for plane in (writers, readers)]
        self._ordered(planes[0], granules)
        own = t.add(word(t, self.state, FIRST), place)
        byte = t.convert("inttoptr", t.add(shadow, inner), "ptr")
        follows = t.icmp("ne", shadow, 0)  # whether bytes have a shadow; else all are written
        t.either(
            t.icmp("eq", self.store, 0),
            lambda: self._load(planes[1], granules, own, byte, follows),
            lambda: self._store(slot, at, planes[0], granules, own, byte, follows),
        )
        widened(t, t.address(slot, READ_LOW, int64), self.store, at, t.constant("i64", self.size))
        t.give_back(t.constant("i64", 1))

    def _pointer(self, words: Value, number: int) -> Value:
        return self.t.convert("inttoptr", word(self.t, words, number), "ptr")

    def _block(self, offset: Value, blocks: Sequence[int]) -> list[Value]:
        """Where the DRAM block of a byte begins, and the number of its slot."""
        t, (first, *others) = self.t, blocks
        low, high = (word(t, self.state, native_state.BLOCKS + 2 * first + side) for side in (0, 1))
        inside = t.and_(t.icmp("uge", offset, low), t.icmp("ult", offset, high))
        here = [low, t.constant("i64", len(NUMBERS) + first)]
        if not others:
            t.return_if(t.not_(inside), 0)
            return here
        return t.either(inside, lambda: here, lambda: self._block(offset, others))

    def _ordered(self, writers: Value, granules: tuple[Value, Value]) -> None:
        """The last write to each granule happened before."""
        t, clocks = self.t, self._pointer(self.state, CLOCK)
        with t.loop(*granules) as granule:
            code = t.load_type("i64", t.address(writers, granule.index, int64))
            known = t.load_type("i64", t.address(clocks, t.lshr(code, SHIFT), int64))
            t.return_if(t.icmp("ugt", t.and_(code, COUNT), known), 0)

    def _mark(self, plane: Value, granules: tuple[Value, Value], code: Value) -> None:
        with self.t.loop(*granules) as granule:
            self.t.store_type(code, self.t.address(plane, granule.index, int64))

    @property
    def _written(self) -> Value:
        """The shadow of bytes that were written."""
        return self.t.constant(f"i{8 * self.size}", int.from_bytes(b"\1" * self.size, "little"))

    def _load(
        self, readers: Value, granules: tuple[Value, Value], own: Value, byte: Value, follows: Value
    ) -> None:
        t = self.t
        with t.when(follows):
            known = t.load_type(f"i{8 * self.size}", byte, 1)
            t.return_if(t.icmp("ne", known, self._written), 0)
        self._mark(readers, granules, own)

    def _store(
        self, slot: Value, at: Value, writers: Value, granules: tuple[Value, Value], own: Value, byte: Value,
        follows: Value,
    ) -> None:  # fmt: skip
        """Nobody may still read it, as far as the ranges of others' reads tell."""
        t, end, readers = self.t, self.t.add(at, self.size), self._pointer(slot, READS)
        clocks = self._pointer(self.state, CLOCK)
        with t.loop(0, word(t, slot, READ_COUNT)) as number:
            uses = t.convert("inttoptr", t.load_type("i64", t.address(readers, number.index, int64)), "ptr")
            thread, last, low, high = (word(t, uses, k) for k in range(4))
            known = t.load_type("i64", t.address(clocks, thread, int64))
            meets = t.and_(t.icmp("ult", at, high), t.icmp("ult", low, end))
            t.return_if(t.and_(meets, t.icmp("ugt", last, known)), 0)
        self._mark(writers, granules, t.or_(word(t, self.state, OWN), own))
        with t.when(follows):
            t.store_type(self._written, byte, 1)
