"""The first few of a lane, one after the other: a part of a kernel of `top_k`.

Enters: a `Text` and a lane's keys. Leaves: words with places, in order. Each round goes through all keys for
the largest and the first place that has it, and takes it out. Where few are wanted of few, that is less than
looking for a bound (`candidates`) or sorting.
"""

from __future__ import annotations

from functools import partial

from trilobite.base.dtypes import int64
from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import constant, vector

MOST = 4096  # keys that all rounds together go through; for one alone there is no limit
_FEWEST = 16  # keys of a lane
_PART = 4  # one of so many wanted, or fewer


def is_worth(t: Text, n: Value, wanted: Value) -> Value:
    short = t.or_(t.icmp("eq", wanted, 1), t.icmp("sle", t.mul(wanted, n), MOST))
    few = t.and_(t.icmp("sge", n, _FEWEST), t.icmp("sle", t.mul(wanted, _PART), n))
    return t.and_(short, few)


def keys_behind(t: Text, words: Value, wanted: Value) -> Value:
    """Where keys lie in a lane's two buffers: behind the places, and up to a whole vector has room."""
    return t.address(words, wanted, int64)


def emit_rounds(t: Text, bits: int, keys: Value, n: Value, wanted: Value, words: Value) -> None:
    """`keys` are signed numbers of so many bits, with room up to a whole vector."""
    lanes, size = t.host.lanes(bits // 8), bits // 8
    lowest = constant(f"i{bits}", -(1 << (bits - 1)))
    whole = t.mul(t.ceil_div(n, lanes), lanes)
    with t.loop(n, whole, name="pad") as i:
        t.store_type(lowest, t.address(keys, t.mul(i.index, size)))
    with t.loop(0, wanted, name="round") as turn:
        largest, place = _largest(t, bits, keys, whole)
        # Keys that were taken, and those that fill a vector, are the lowest there is: a lane that has
        # nothing above it has equal keys alone, which are in order as they lie.
        nothing_above = t.icmp("eq", largest, lowest)
        (place,) = t.either(nothing_above, partial(_first_free, t, words, turn.index), partial(list, [place]))
        t.store_type(place, t.address(words, turn.index, int64))
        t.store_type(lowest, t.address(keys, t.mul(place, size)))


def _largest(t: Text, bits: int, keys: Value, whole: Value) -> tuple[Value, Value]:
    """The largest key, and its first place."""
    lanes, size = t.host.lanes(bits // 8), bits // 8
    type = vector(f"i{bits}", lanes)
    lowest = constant(type, -(1 << (bits - 1)))
    with t.loop(0, whole, lanes, carried=[lowest, constant(type, 0)], name="largest") as i:
        there = t.load_type(type, t.address(keys, t.mul(i.index, size)), size)
        start = i.index if bits == 64 else t.convert("trunc", i.index, f"i{bits}")
        above = t.icmp("sgt", there, i.values[0])
        i.next(t.smax(there, i.values[0]), t.select(above, t.splat(start, lanes), i.values[1]))
    most, starts = i.results
    largest = t.fold(most, t.smax)
    places = t.add(starts, t.lane_numbers(type))
    farthest = constant(type, (1 << (bits - 1)) - 1)
    mine = t.select(t.icmp("eq", most, t.splat(largest, lanes)), places, farthest)
    place = t.fold(mine, t.smin)
    return largest, place if bits == 64 else t.convert("sext", place, "i64")


def _first_free(t: Text, words: Value, taken: Value) -> list[Value]:
    """The first place that is not among those taken: one of the first `taken + 1`."""
    with t.loop(0, taken, carried=[taken], name="place") as i:
        place = t.sub(t.sub(taken, 1), i.index)
        with t.loop(0, taken, carried=[constant("i64", 0)], name="taken") as j:
            same = t.icmp("eq", t.load_type("i64", t.address(words, j.index, int64)), place)
            j.next(t.or_(j.values[0], t.convert("zext", same, "i64")))
        i.next(t.select(t.icmp("eq", j.results[0], 0), place, i.values[0]))
    return i.results
