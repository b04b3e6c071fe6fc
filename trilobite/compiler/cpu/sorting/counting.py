"""Few keys, placed by counting how many come before each: no branch depends on what they are.

Enters: a `Text`. Leaves: `rank(keys, n, places, target)`, an internal function: `keys` are compared as i64,
`places` go to `target` in their order, of equal ones the first first. Keys are filled up to whole vectors
with the largest number, which counts before nothing.
"""

from __future__ import annotations

from trilobite.base.dtypes import int64
from trilobite.compiler.cpu.emit.text import Text, Value
from trilobite.compiler.cpu.emit.types import constant, iota, vector

FEW = 128  # keys up to which counting is quicker than sorting byte by byte
ROOM = (FEW + 8) * 8  # bytes of so many keys, with the last vector
_LARGEST = (1 << 63) - 1
_PARAMETERS = ("ptr noalias", "i64", "ptr noalias", "ptr noalias")


def emit_rank(t: Text) -> None:
    lanes = t.host.lanes(8)
    with t.function("rank", _PARAMETERS) as (keys, n, places, target), t.loop(0, n, name="key") as i:
        mine = t.load_type("i64", t.address(keys, i.index, int64))
        own = t.splat(mine, lanes)
        block = t.and_(i.index, -lanes)
        # True is -1 in every lane: what is counted grows below zero.
        with t.loop(0, block, lanes, carried=[constant(vector("i64", lanes), 0)], name="before") as j:
            j.next(t.add(j.values[0], _count(t, "sge", own, _load(t, keys, j.index, lanes))))
        there = _load(t, keys, block, lanes)
        earlier = t.icmp("slt", iota(own.type), t.splat(t.sub(i.index, block), lanes))
        same = t.and_(t.icmp("eq", there, own), earlier)
        here = t.convert("sext", t.or_(t.icmp("slt", there, own), same), "i64")
        start = t.add(j.results[0], here)
        with t.loop(t.add(block, lanes), n, lanes, carried=[start], name="after") as j:
            j.next(t.add(j.values[0], _count(t, "sgt", own, _load(t, keys, j.index, lanes))))
        rank = t.sub(t.constant("i64", 0), t.sum_lanes(j.results[0]))
        place = t.load_type("i64", t.address(places, i.index, int64))
        t.store_type(place, t.address(target, rank, int64))


def fill_up(t: Text, keys: Value, n: Value) -> None:
    """Before keys are written: the vector that the last of them may not fill."""
    lanes = t.host.lanes(8)
    last = t.address(keys, t.and_(n, -lanes), int64)
    t.store_type(constant(vector("i64", lanes), _LARGEST), last, 8)


def _load(t: Text, keys: Value, at: Value, lanes: int) -> Value:
    return t.load_type(vector("i64", lanes), t.address(keys, at, int64), 8)


def _count(t: Text, order: str, a: Value, b: Value) -> Value:
    return t.convert("sext", t.icmp(order, a, b), "i64")
