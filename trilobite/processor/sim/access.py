"""Access to a core's memories from machine code, as LLVM text.

Enters: nothing. Leaves: the texts of `locate`, which finds the host address of a simulated one, and of what
reads, writes and fills host memory for typed Python, which has no pointers. Words of the state are
`native_state`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, reduce

from trilobite.base.dtypes import int64
from trilobite.native.host import features
from trilobite.native.llvm.functions import Functions
from trilobite.native.llvm.types import Value
from trilobite.processor.sim.native_state import ALIGNED, BLOCKS, DRAM, READ_LOW, SCRATCH, SPACES

SPACE_SHIFT, SPACE_COUNT = 56, 7  # spaces that scalar code may touch
OWNER, INNER = 0xFFFF << 40, (1 << 40) - 1  # whose memory it is (0: one's own), and the byte in it
BLOCK_COUNT = 4  # DRAM blocks that the state names
SIZES = (1, 2, 4)  # of a word in bytes; else 8


@cache
def locate_text(inlined: bool) -> str:
    """`locate(state, address, size, store)`: the host address, or 0 for what the interpreter must judge.
    Counts the access, and widens the touched range of scratchpads.
    """
    t = Functions(features())
    with t.function("locate", ["ptr", "i64", "i64", "i64"], "i64", inlined) as (s, address, size, store):
        space = t.lshr(address, SPACE_SHIFT)
        between = t.and_(t.and_(address, t.sub(size, 1)), word(t, s, ALIGNED))
        odd = t.or_(t.and_(address, OWNER), between)
        t.return_if(t.or_(t.icmp("ne", odd, 0), t.icmp("uge", space, SPACE_COUNT)), 0)
        offset = t.and_(address, INNER)
        end = t.add(offset, size)
        row = t.address(s, t.add(t.shl(space, 2), SPACES), int64)
        base = t.load_type("i64", row)
        t.either(
            t.icmp("eq", space, 0),
            lambda: _in_blocks(t, s, offset, end),
            lambda: _in_space(t, s, row, address, size, end, store),
        )
        t.give_back(t.add(base, offset))
    return t.functions_text()


def _in_blocks(t: Functions, s: Value, offset: Value, end: Value) -> None:
    """DRAM. The first block is tried alone: code stays where it is."""
    blocks = t.address(s, BLOCKS, int64)

    def inside(number: int) -> Value:
        low, high = (word(t, blocks, 2 * number + side) for side in (0, 1))
        return t.and_(t.icmp("uge", offset, low), t.icmp("ule", end, high))

    with t.when(t.not_(inside(0))):
        t.return_if(t.not_(reduce(t.or_, [inside(number) for number in range(1, BLOCK_COUNT)])), 0)
    _counted(t, s, DRAM)


def _in_space(
    t: Functions, s: Value, row: Value, address: Value, size: Value, end: Value, store: Value
) -> None:
    limit, on_chip, writable = (word(t, row, number) for number in (1, 2, 3))
    t.return_if(t.or_(t.icmp("ugt", end, limit), t.icmp("ugt", store, writable)), 0)
    t.either(
        t.icmp("ne", on_chip, 0),
        lambda: _touched(t, s, address, size, store),
        lambda: _counted(t, s, DRAM),
    )


def word(t: Functions, words: Value, number: int) -> Value:
    return t.load_type("i64", t.address(words, number, int64))


def _counted(t: Functions, s: Value, word: int) -> None:
    place = t.address(s, word, int64)
    t.store_type(t.add(t.load_type("i64", place), 1), place)


def _touched(t: Functions, s: Value, address: Value, size: Value, store: Value) -> None:
    _counted(t, s, SCRATCH)
    widened(t, t.address(s, READ_LOW, int64), store, address, size)


def widened(t: Functions, ranges: Value, store: Value, address: Value, size: Value) -> None:
    """Bytes join the range of what was read, or of what was written, which stands behind it."""
    low = t.address(ranges, t.shl(store, 1), int64)
    for order, place, reached in (
        ("ult", low, address),
        ("ugt", t.address(low, 1, int64), t.add(address, size)),
    ):
        known = t.load_type("i64", place)
        t.store_type(t.select(t.icmp(order, reached, known), reached, known), place)


@cache
def access_text() -> str:
    """`entry(host, size, value, store)`: a word of the host, loaded with zeros above, or stored."""
    t = Functions(features())
    with t.function("entry", ["i64"] * 4, "i64", linkage="") as (host, size, value, store):
        place = t.convert("inttoptr", host, "ptr")

        def get(kind: str) -> Value:
            word = t.load_type(kind, place, 1)
            return word if kind == "i64" else t.convert("zext", word, "i64")

        def put(kind: str) -> Value:
            t.store_type(value if kind == "i64" else t.convert("trunc", value, kind), place, 1)
            return t.constant("i64", 1)

        (out,) = t.either(
            t.icmp("ne", store, 0),
            lambda: _by_size(t, size, put, SIZES),
            lambda: _by_size(t, size, get, SIZES),
        )
        t.give_back(out)
    return t.functions_text()


def _by_size(t: Functions, size: Value, do: Callable[[str], Value], sizes: Sequence[int]) -> list[Value]:
    if not sizes:
        return [do("i64")]
    first, *rest = sizes
    return t.either(
        t.icmp("eq", size, first), lambda: [do(f"i{8 * first}")], lambda: _by_size(t, size, do, rest)
    )


@cache
def fill_text() -> str:
    """`entry(host, value, count)`: so many bytes of one value."""
    t = Functions(features())
    with t.function("entry", ["i64"] * 3, "i64", linkage="") as (host, value, count):
        place, byte = t.convert("inttoptr", host, "ptr"), t.convert("trunc", value, "i8")
        t.intrinsic("memset.p0.i64", "void", place, byte, count, t.constant("i1", 0), suffix="")
        t.give_back(t.constant("i64", 1))
    return t.functions_text()
