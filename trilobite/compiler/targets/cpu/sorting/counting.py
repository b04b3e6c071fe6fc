"""Few keys, placed by counting how many are less than each: no branch depends on what they are.

Enters: a `Text`. Leaves: `rank32` and `rank64(keys, n, places, target, room)`, internal functions: `keys`
are compared as signed numbers of so many bits, `places` go to `target` in their order. Equal keys have the
same count; those after the first go to the places after it. Keys are filled up to whole groups with the
largest number, which is less than nothing.
"""

from __future__ import annotations

from trilobite.base.dtypes import int64
from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import constant, lanes_of, vector

FEW = 320  # keys up to which counting is quicker than sorting byte by byte
FEW_BYTES = 112  # the same of single bytes
ROOM = (FEW + 16) * 8  # bytes of so many keys, with the last group
_GROUP = 4  # keys that are compared with a vector of others at once
_PARAMETERS = ("ptr noalias", "i64", "ptr noalias", "ptr noalias", "ptr noalias")


def emit_rank(t: Text, bits: int) -> None:
    with t.function(f"rank{bits}", _PARAMETERS) as (keys, n, places, target, room):
        free = t.address(room, ROOM)
        _counts(t, bits, keys, n, room)
        _numbers(t, free, n)
        with t.loop(0, n, name="key") as i:
            count = t.load_type("i64", t.address(room, i.index, int64))
            at = t.address(free, count, int64)
            found = t.load_type("i64", at)
            t.store_type(t.add(found, 1), at)
            place = t.load_type("i64", t.address(places, i.index, int64))
            t.store_type(place, t.address(target, found, int64))


def _counts(t: Text, bits: int, keys: Value, n: Value, counts: Value) -> None:
    """How many keys are less than each, up to the end of the last group."""
    lanes, size = t.host.lanes(bits // 8), bits // 8
    with t.loop(0, n, _GROUP, name="group") as group:
        first = t.address(keys, t.mul(group.index, size))
        own = [t.splat(t.load_type(f"i{bits}", t.address(first, i * size)), lanes) for i in range(_GROUP)]
        zero = constant(vector(f"i{bits}", lanes), 0)
        with t.loop(0, n, lanes, carried=[zero] * _GROUP, name="other") as other:
            there = t.load_type(zero.type, t.address(keys, t.mul(other.index, size)), size)
            # True is -1 in every lane: what is counted grows below zero.
            less = [t.convert("sext", t.icmp("sgt", mine, there), f"i{bits}") for mine in own]
            other.next(*(t.add(a, b) for a, b in zip(other.values, less, strict=True)))
        for i, total in enumerate(other.results):
            count = t.sub(t.constant(f"i{bits}", 0), t.sum_lanes(total))
            wide = count if bits == 64 else t.convert("zext", count, "i64")
            t.store_type(wide, t.address(counts, t.add(group.index, i), int64))


def _numbers(t: Text, target: Value, n: Value) -> None:
    """0, 1, 2, ... up to n."""
    lanes = t.host.lanes(8)
    with t.loop(0, n, lanes, name="number") as i:
        numbers = t.lane_numbers(vector("i64", lanes), i.index)
        t.store_type(numbers, t.address(target, i.index, int64), 8)


def fill_up(t: Text, keys: Value, n: Value, bits: int) -> None:
    """Before keys are written: the vectors that the last of them may not fill."""
    lanes = max(t.host.lanes(bits // 8), _GROUP)
    largest = constant(vector(f"i{bits}", lanes), (1 << (bits - 1)) - 1)
    assert lanes_of(largest.type) % _GROUP == 0
    t.store_type(largest, t.address(keys, t.mul(t.and_(n, -lanes), bits // 8)), bits // 8)
