"""Which elements of a long lane can be among the first few: a part of a kernel of `top_k`.

Enters: a `Text`, and how a lane's keys are read. Leaves: words with the places of the candidates, in their
order, and how many there are. A lane is dealt out to more groups than elements are wanted; as many groups
as are wanted have a largest key that is not below some bound, so the wanted ones are not below it either.
Candidates are the keys above that bound, and of those that equal it the first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from trilobite.base.dtypes import int64
from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import constant, vector

FEW = 8  # one of so many wanted, or fewer: else it is quicker to sort all
FEWEST = 64  # keys of a lane from which on looking for a bound pays
_GROUPS = 4  # for each that is wanted
_VECTORS = 8  # of groups, at least: each waits for what it was in the round before

Keys = Callable[[Value, int], Value]
"""So many consecutive keys from a place on, as signed numbers that rise; without lanes, one."""


def is_worth(t: Text, n: Value, wanted: Value) -> Value:
    few = t.icmp("sle", t.mul(wanted, FEW), n)
    return t.and_(few, t.icmp("sge", n, FEWEST))


def emit_candidates(
    t: Text, bits: int, keys: Value, n: Value, wanted: Value, words: Value
) -> Value:  # fmt: skip
    """`keys` are signed numbers of so many bits; `words` has room for one word for each of them."""
    bound = _bound(t, bits, keys, n, wanted, words)
    return _not_below(t, bits, keys, n, wanted, bound, words)


def fill(t: Text, bits: int, read: Keys, n: Value, side_by_side: Value, keys: Value) -> None:
    """Keys as numbers one after the other; vectors are read where elements lie side by side."""
    lanes, size = t.host.lanes(bits // 8), bits // 8

    def one_by_one(start: Value | int) -> None:
        with t.loop(start, n, name="key") as i:
            t.store_type(read(i.index, 0), t.address(keys, t.mul(i.index, size)))

    def vectors() -> None:
        whole = t.and_(n, -lanes)
        with t.loop(0, whole, lanes, name="keys") as i:
            t.store_type(read(i.index, lanes), t.address(keys, t.mul(i.index, size)), size)
        one_by_one(whole)

    t.either(side_by_side, vectors, partial(one_by_one, 0))


def _bound(t: Text, bits: int, keys: Value, n: Value, wanted: Value, groups: Value) -> Value:
    """A key that at least `wanted` others reach: that of the largest of groups, found bit by bit."""
    lanes, size = t.host.lanes(bits // 8), bits // 8
    type = vector(f"i{bits}", lanes)
    lowest = constant(f"i{bits}", -(1 << (bits - 1)))
    count = t.smax(t.ceil_div(t.mul(wanted, _GROUPS), lanes), _VECTORS)
    step = lanes * size

    def group(i: Value) -> Value:
        return t.address(groups, t.mul(i, step))

    with t.loop(0, count, name="group") as i:
        t.store_type(t.splat(lowest, lanes), group(i.index), size)
    with t.loop(0, t.udiv(n, lanes), count, name="round") as i:
        rest = t.smin(t.sub(t.udiv(n, lanes), i.index), count)
        with t.loop(0, rest, name="largest") as j:
            there = t.load_type(type, t.address(keys, t.mul(t.add(i.index, j.index), step)), size)
            so_far = t.load_type(type, group(j.index), size)
            t.store_type(t.smax(so_far, there), group(j.index), size)
    top = constant("i64", 1 << (bits - 1) if bits < 64 else -(1 << 63))
    with t.loop(0, bits, carried=[lowest], name="bit") as bit:
        one = t.lshr(top, bit.index)
        tried = t.add(bit.values[0], one if bits == 64 else t.convert("trunc", one, f"i{bits}"))
        wide = t.splat(tried, lanes)
        with t.loop(0, count, carried=[constant(type, 0)], name="reach") as i:
            # True is -1 in every lane: what is counted grows below zero.
            there = t.icmp("sge", t.load_type(type, group(i.index), size), wide)
            i.next(t.add(i.values[0], t.convert("sext", there, f"i{bits}")))
        reached = t.sub(constant(f"i{bits}", 0), t.sum_lanes(i.results[0]))
        enough = t.icmp("sge", t.convert("sext", reached, "i64"), wanted)
        bit.next(t.select(enough, tried, bit.values[0]))
    return bit.results[0]


def _not_below(
    t: Text, bits: int, keys: Value, n: Value, wanted: Value, bound: Value, words: Value
) -> Value:  # fmt: skip
    lanes, size = t.host.lanes(bits // 8), bits // 8
    nothing = constant("i64", 0)

    def one(place: Value, found: Value, equals: Value) -> list[Value]:
        """The place is written in any case, and stays if the key is a candidate."""
        mine = t.load_type(f"i{bits}", t.address(keys, t.mul(place, size)))
        t.store_type(place, t.address(words, found, int64))
        same = t.icmp("eq", mine, bound)
        among_first = t.and_(same, t.icmp("slt", equals, wanted))
        taken = t.or_(t.icmp("sgt", mine, bound), among_first)
        return [t.add(found, t.convert("zext", taken, "i64")), t.add(equals, t.convert("zext", same, "i64"))]

    whole = t.and_(n, -lanes)
    with t.loop(0, whole, lanes, carried=[nothing, nothing], name="candidates") as i:
        there = t.load_type(vector(f"i{bits}", lanes), t.address(keys, t.mul(i.index, size)), size)

        def each(i: Value = i.index, found: Value = i.values[0], equals: Value = i.values[1]) -> list[Value]:
            for lane in range(lanes):
                found, equals = one(t.add(i, lane), found, equals)
            return [found, equals]

        some = t.any_lane(t.icmp("sge", there, t.splat(bound, lanes)))
        i.next(*t.either(some, each, partial(list, i.values)))
    with t.loop(whole, n, carried=i.results, name="candidate") as rest:
        rest.next(*one(rest.index, rest.values[0], rest.values[1]))
    return rest.results[0]
