"""Collectives as lists of messages, copies and sums: what `native/exchange.py` walks through.

Enters: a call, this rank's place among the members, and how to reach them (`Wires`). Leaves: the operations,
with sums as kernels for compiled programs, and by NumPy for calls that run at once.
All members tell each other first what they are about (a word, with digests of group and call); small arrays
travel with it, and every member computes the collective's meaning by itself. Large ones go member to member:
a sum is cut into one part for each, who adds up what all send it, in rank order, and gives it to all.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from trilobite.base.dtypes import DType, is_complex, real_of
from trilobite.cluster.groups import parts
from trilobite.ir.primitives import table
from trilobite.ir.primitives.cluster import cuts, reduce_in_order
from trilobite.ir.ranks import Array, Call
from trilobite.native.exchange import (
    MEMORY,
    OPERAND,
    RESULT,
    Arrived,
    At,
    Block,
    Check,
    Copy,
    Look,
    Op,
    Receive,
    Reduction,
    Run,
    Send,
    Zero,
)
from trilobite.native.memory import empty

SMALL = 8192  # bytes that travel with the word
WORD = 512  # bytes of a word: two digests, then text
ROUND = 1 << 20  # bytes of a sum that a member makes at a time
LARGEST = 1 << 30  # bytes of one message: MPI counts in 32 bits
X, OUT = At(OPERAND, 0), At(RESULT, 0)


class Wires(NamedTuple):
    """How members are reached: a communicator of all ranks for words, and the group's own for data, which is
    0 until `join` has made it.
    """

    words: int
    tag: int
    data: int
    join: Callable[[Block], None]
    reduce: Callable[[Exchange], None] | None = None  # writes the sum of large arrays, if not in rank order


class Piece(NamedTuple):
    """A part of an array along one of its axes: rows of bytes, each a stride behind the one before."""

    at: At
    rows: int
    bytes: int
    stride: int

    @property
    def size(self) -> int:
        return self.rows * self.bytes


def piece(at: At, shape: Sequence[int], dtype: DType, axis: int, cut: tuple[int, int]) -> Piece:
    inner = prod(shape[axis + 1 :]) * dtype.itemsize
    return Piece(at + cut[0] * inner, prod(shape[:axis]), (cut[1] - cut[0]) * inner, int(shape[axis]) * inner)


class Exchange:
    """The list of one call, as it is written."""

    def __init__(self, call: Call, rank: int, wires: Wires, word: bytes, kernels: Reduction | None) -> None:
        self.call, self.wires, self.word, self.kernels = call, wires, word, kernels
        self.members, self.own = call.members, call.members.index(rank)
        self.n = len(call.members)
        self.others = [k for k in range(self.n) if k != self.own]
        self.shape = tuple(map(int, call.type.shape))
        self.dtype = call.type.dtype
        operands = () if call.name == "cluster_index" else (call.type,)
        result: Any = table[call.name].type(*operands, **call.attributes)
        self.result = tuple(map(int, result.shape)), result.dtype
        self.bytes = prod(self.shape) * self.dtype.itemsize
        self.ops: list[Op] = []
        self.alive: list[Any] = []
        self.memory = 0  # bytes of its own
        self.room: dict[int, At] = {}  # what came from each other member with its word
        self.heard: dict[int, Array] = {}  # the same, with the words
        self.small = self.n > 1 and self._largest() <= SMALL and call.name not in _WORDLESS
        if self.n > 1 and call.name not in LOCAL:
            self._words()
        _WRITERS[call.name](self)

    def _largest(self) -> int:
        """Bytes of the largest part that a member has: the same number on all of them."""
        sizes = self.call.attributes.get("sizes")
        if self.call.name != "cluster_all_gather" or sizes is None:
            return self.bytes
        axis = self.call.attributes["axis"]
        rest = prod(d for i, d in enumerate(self.shape) if i != axis)
        return int(rest * max(sizes) * self.dtype.itemsize)

    # -- what all begin with ---------------------------------------------------------------------------------

    def _memory(self, size: int) -> At:
        array = empty(max(size, 1), np.uint8)
        self.alive.append(array)
        self.memory += size
        return At(MEMORY, int(array.ctypes.data))

    def _words(self) -> None:
        length = WORD + (self.bytes if self.small else 0)
        message = empty(WORD + SMALL, np.uint8)
        message[:WORD] = np.frombuffer(self.word, np.uint8)
        self.alive.append(message)
        own = At(MEMORY, int(message.ctypes.data))
        if self.small:
            self.copy(own + WORD, X, self.bytes)
        for k in self.others:
            self.heard[k] = empty(WORD + SMALL, np.uint8)
            at = At(MEMORY, int(self.heard[k].ctypes.data))
            self.room[k] = at + WORD
            self.ops.append(Receive(at, WORD + SMALL, self.members[k], self.wires.words, self.wires.tag))
        for k in self.others:
            self.ops.append(Send(own, length, self.members[k], self.wires.words, self.wires.tag))
        self.ops.append(Arrived())
        self.alive.append(self.heard)
        for k in self.others:
            self.ops.append(Check(own.offset, self.room[k].offset - WORD))
        if not self.small and self.wires.data == 0 and self.call.name != "cluster_barrier":
            self.ops.append(Look(self.wires.join))

    def places(self) -> list[At]:
        """Where the whole arrays of all members lie, in their order, once the words are there."""
        return [X if k == self.own else self.room[k] for k in range(self.n)]

    # -- steps -----------------------------------------------------------------------------------------------

    def copy(self, to: At, source: At, size: int) -> None:
        if size:
            self.ops.append(Copy(to, source, 1, size, 0, 0))

    def move(self, to: Piece, source: Piece) -> None:
        """Between two forms of one piece: rows of one, or both, may lie apart."""
        rows, size = (to.rows, to.bytes) if to.rows >= source.rows else (source.rows, source.bytes)
        if rows and size:
            apart = [p.stride if p.rows == rows else size for p in (to, source)]
            self.ops.append(Copy(to.at, source.at, rows, size, *apart))

    def line(self, p: Piece) -> At:
        """A piece as one line of bytes: where it lies, if it is one, or a copy."""
        if p.rows <= 1 or p.bytes == p.stride:
            return p.at
        at = self._memory(p.size)
        self.move(Piece(at, 1, p.size, p.size), p)
        return at

    def swap(self, sent: dict[int, tuple[At, int]], came: dict[int, tuple[At, int]]) -> None:
        """Bytes to members, by their places in the group, and from them; then all are there."""
        self.post(sent, came)
        self.ops.append(Arrived())

    def post(self, sent: dict[int, tuple[At, int]], came: dict[int, tuple[At, int]]) -> None:
        """The same, without waiting for them."""
        for kind, rows in ((Receive, came), (Send, sent)):
            for k, (at, size) in rows.items():
                for begin in range(0, size, LARGEST):
                    self.ops.append(kind(at + begin, min(LARGEST, size - begin), k, self.wires.data))

    def reduce(self, to: At, places: Sequence[At], count: int, op: str) -> None:
        """The arrays at these places as one, in order."""
        dtype, arrays = self.dtype, len(places)
        if count == 0:
            return
        if arrays == 1:
            self.copy(to, places[0], count * dtype.itemsize)
            return
        if is_complex(dtype) and op == "sum":
            dtype, count = real_of(dtype), 2 * count
        found = None if self.kernels is None else self.kernels(op, dtype, arrays, count)
        if found is None:
            self.ops.append(Look(_by_numpy(to, tuple(places), dtype, count, op)))
            return
        for kernel in found:
            args = tuple(a if isinstance(a, int) else _at(a, places, to) for a in kernel.args)
            self.ops.append(Run(kernel.function, args, kernel.units))
            self.alive.append(kernel.alive)


def _at(role: tuple[str, int, int], places: Sequence[At], to: At) -> At:
    where, index, offset = role
    return (places[index] if where == "in" else to) + offset


def view(address: int, count: int, dtype: DType) -> Array:
    """Memory as an array."""
    raw = (ctypes.c_uint8 * (count * dtype.itemsize)).from_address(address)
    array: Array = np.frombuffer(memoryview(raw), np.uint8).view(dtype)
    return array


def _by_numpy(to: At, places: tuple[At, ...], dtype: DType, count: int, op: str) -> Callable[[Block], None]:
    def reduce(block: Block) -> None:
        arrays = [view(block.place(at), count, dtype) for at in places]
        _reduce_into(view(block.place(to), count, dtype), arrays, op)
        block.go_on()

    return reduce


def _reduce_into(total: Array, arrays: Sequence[Array], op: str) -> None:
    """As `reduce_in_order`; sums of dtypes that NumPy adds in themselves need no memory besides."""
    if op != "sum" or total.dtype.char not in "fdlqiLQI":
        total[...] = reduce_in_order(arrays, op)
        return
    with np.errstate(all="ignore"):
        np.add(arrays[0], arrays[1], out=total)
        for x in arrays[2:]:
            np.add(total, x, out=total)


# -- each collective -----------------------------------------------------------------------------------------


def _all_reduce(e: Exchange) -> None:
    count, op, size = prod(e.shape), e.call.attributes["op"], e.dtype.itemsize
    if e.small or e.n == 1:
        e.reduce(OUT, e.places(), count, op)
        return
    if e.wires.reduce is not None:
        return e.wires.reduce(e)
    rounds = _rounds(count, e.n, size)
    room = [{k: e._memory(rounds[0][e.own][1] * size) for k in e.others} for _ in rounds[:2]]

    def terms(j: int) -> None:
        """What the others need of this rank's operand in a round, and what comes for its own sum."""
        to = {k: (X + rounds[j][k][0] * size, rounds[j][k][1] * size) for k in e.others}
        e.post(to, {k: (room[j % 2][k], rounds[j][e.own][1] * size) for k in e.others})

    terms(0)
    e.ops.append(Arrived())
    for j, row in enumerate(rounds):
        if j + 1 < len(rounds):
            terms(j + 1)  # on its way while these are added up
        begin, length = row[e.own]
        own = OUT + begin * size
        e.reduce(own, [room[j % 2].get(k, X + begin * size) for k in range(e.n)], length, op)
        sums = {k: (OUT + row[k][0] * size, row[k][1] * size) for k in e.others}
        e.swap({k: (own, length * size) for k in e.others}, sums)


def _rounds(count: int, n: int, size: int) -> list[list[tuple[int, int]]]:
    """Of each round, where the piece begins that each member adds up, and its length: what comes for it is
    still in the cache when it is added, and so is the sum when it is sent.
    """
    each = parts(count, n)
    step = max(1, ROUND // size)
    begins = np.cumsum([0, *each]).tolist()
    return [
        [(begins[k] + min(at, each[k]), min(step, max(0, each[k] - at))) for k in range(n)]
        for at in range(0, max(each), step)
    ]


def _reduce_scatter(e: Exchange) -> None:
    a = e.call.attributes
    at = cuts(e.shape[a["axis"]], e.n, a["sizes"])
    count = prod(e.result[0])

    def part(place: At, k: int) -> Piece:
        return piece(place, e.shape, e.dtype, a["axis"], at[k])

    if e.small or e.n == 1:
        e.reduce(OUT, [e.line(part(p, e.own)) for p in e.places()], count, "sum")
        return
    sent = {k: (e.line(part(X, k)), part(X, k).size) for k in e.others}
    own = e.line(part(X, e.own))
    room = {k: e._memory(count * e.dtype.itemsize) for k in e.others}
    e.swap(sent, {k: (room[k], count * e.dtype.itemsize) for k in e.others})
    e.reduce(OUT, [room.get(k, own) for k in range(e.n)], count, "sum")


def _all_gather(e: Exchange) -> None:
    axis = e.call.attributes["axis"]
    sizes = e.call.attributes["sizes"] or [e.shape[axis]] * e.n
    to = [piece(OUT, e.result[0], e.dtype, axis, cut) for cut in cuts(sum(sizes), e.n, sizes)]
    places = {e.own: X}
    if e.small:
        places |= e.room
    elif e.n > 1:
        straight = {k: to[k].at if to[k].rows <= 1 else e._memory(to[k].size) for k in e.others}
        e.swap({k: (X, e.bytes) for k in e.others}, {k: (straight[k], to[k].size) for k in e.others})
        places |= straight
    for k, at in places.items():
        if at != to[k].at:
            e.move(to[k], Piece(at, 1, to[k].size, to[k].size))


def _all_to_all(e: Exchange) -> None:
    split, join = e.call.attributes["split"], e.call.attributes["join"]
    at = cuts(e.shape[split], e.n, None)
    shape = [d // e.n if i == split else d for i, d in enumerate(e.shape)]
    to = [
        piece(OUT, e.result[0], e.dtype, join, (k * shape[join], (k + 1) * shape[join])) for k in range(e.n)
    ]

    def part(place: At, k: int) -> Piece:
        return piece(place, e.shape, e.dtype, split, at[k])

    if e.small or e.n == 1:
        lines = {k: e.line(part(p, e.own)) for k, p in enumerate(e.places())}
    else:
        sent = {k: (e.line(part(X, k)), part(X, k).size) for k in e.others}
        lines = {k: e._memory(to[k].size) for k in e.others} | {e.own: e.line(part(X, e.own))}
        e.swap(sent, {k: (lines[k], to[k].size) for k in e.others})
    for k, line in lines.items():
        e.move(to[k], Piece(line, 1, to[k].size, to[k].size))


def _broadcast(e: Exchange) -> None:
    """By a tree: who has it gives it on to those whose place, counted from the root, has one more bit."""
    root = e.call.attributes["root"]
    if e.small or e.n == 1:
        e.copy(OUT, e.places()[root], e.bytes)
        return
    place = (e.own - root) % e.n
    high = 1 << (e.n - 1).bit_length()
    low = (place & -place) if place else high
    if place:
        e.swap({}, {(place - low + root) % e.n: (OUT, e.bytes)})
    steps = [low >> s for s in range(1, low.bit_length())]
    source = OUT if place else X
    e.swap({(place + s + root) % e.n: (source, e.bytes) for s in steps if place + s < e.n}, {})
    if not place:
        e.copy(OUT, X, e.bytes)


def _permute(e: Exchange) -> None:
    pairs = e.call.attributes["pairs"]
    source = next((a for a, b in pairs if b == e.own), None)
    if source is None:
        e.ops.append(Zero(OUT, e.bytes))
    elif e.small or e.n == 1 or source == e.own:
        e.copy(OUT, e.places()[source], e.bytes)
    if e.small or e.n == 1:
        return
    e.swap(
        {b: (X, e.bytes) for a, b in pairs if a == e.own != b},
        {a: (OUT, e.bytes) for a, b in pairs if b == e.own != a},
    )


def _barrier(e: Exchange) -> None:
    e.copy(OUT, X, e.bytes)


def _part(e: Exchange) -> None:
    a = e.call.attributes
    own = piece(X, e.shape, e.dtype, a["axis"], cuts(e.shape[a["axis"]], e.n, a["sizes"])[e.own])
    e.move(Piece(OUT, 1, own.size, own.size), own)


def _index(e: Exchange) -> None:
    number = np.array([e.own], np.int64)
    e.alive.append(number)
    e.copy(OUT, At(MEMORY, int(number.ctypes.data)), number.nbytes)


LOCAL = frozenset({"cluster_part", "cluster_index"})  # no other member takes part
_WORDLESS = LOCAL | {"cluster_barrier"}  # whose operands nobody needs
_WRITERS: dict[str, Callable[[Exchange], None]] = {
    "cluster_all_reduce": _all_reduce, "cluster_reduce_scatter": _reduce_scatter,
    "cluster_all_gather": _all_gather, "cluster_all_to_all": _all_to_all, "cluster_broadcast": _broadcast,
    "cluster_permute": _permute, "cluster_barrier": _barrier,
    "cluster_part": _part, "cluster_index": _index,
}  # fmt: skip
