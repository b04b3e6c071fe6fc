"""Exchanges between processes as lists of small operations, which machine code walks through (`exchange.ll`).

Enters: operations on an operand, a result and memory of one's own; the addresses of MPI's functions. Leaves:
a `Block` that begins when it is told, goes on whenever somebody looks, and is done, or needs Python, some
time. It knows nothing of collectives: what the messages mean is for whoever writes the list.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from trilobite.native.memory import zeros
from trilobite.native.runtime import Words, exchanges

MEMORY, OPERAND, RESULT = 0, 1, 2  # what addresses count from
DONE, UNDERWAY, STUCK = 0, 1, 2
SCRATCH = 1 << 16  # bytes that kernels find
_WIDTH = 10  # words of an operation
_PATIENCE = 300_000  # nanoseconds that machine code waits before Python looks who is missing


class At(NamedTuple):
    """A place: an address, or bytes behind the beginning of the operand or the result."""

    base: int
    offset: int

    def __add__(self, more: int) -> At:  # type: ignore[override]
        return At(self.base, self.offset + more)


class Arrived(NamedTuple):
    """Goes on when all messages since the last of these are there."""


class Send(NamedTuple):
    """Bytes for another process; without a tag of its own it takes the exchange's number."""

    at: At
    bytes: int
    peer: int
    comm: int
    tag: int = -1


class Receive(NamedTuple):
    at: At
    bytes: int
    peer: int
    comm: int
    tag: int = -1


class Copy(NamedTuple):
    """Rows of bytes, each so far behind the one before."""

    to: At
    source: At
    rows: int
    bytes: int
    to_stride: int
    source_stride: int


class Check(NamedTuple):
    """Python must look unless 16 bytes at both addresses are equal."""

    left: int
    right: int


class Run(NamedTuple):
    """A kernel over all its units (`program/kernels.py` says what one is)."""

    function: int
    args: tuple[At | int, ...]
    units: int


class Kernel(NamedTuple):
    """A function with its arguments: numbers, or ("in", k) and ("out", 0) with an offset in bytes."""

    function: int
    args: tuple[int | tuple[str, int, int], ...]
    units: int
    alive: object


Reduction = Callable[[str, np.dtype[Any], int, int], "tuple[Kernel, ...] | None"]
"""Kernels that reduce (by sum, prod, max or min) so many arrays of so many elements into one, in order."""


class Look(NamedTuple):
    """Python does something here: `Block.go_on` is told when it is done."""

    function: Callable[[Block], None]


class Zero(NamedTuple):
    at: At
    bytes: int


SLOTS = 8  # communicators for reductions that MPI makes: so many may be under way at once


class Reduce(NamedTuple):
    """MPI reduces the operand of all members into the result: elements of one of its datatypes, by one of its
    operations. `slots` is the address of pairs of words, a communicator and who is at it.
    """

    source: At
    to: At
    elements: int
    datatype: int
    operation: int
    slots: int
    function: int


class Free(NamedTuple):
    """The slot that the exchange had is free again."""

    slots: int


Op = Arrived | Send | Receive | Copy | Check | Run | Look | Zero | Reduce | Free
_KINDS = {Arrived: 0, Send: 1, Receive: 2, Copy: 3, Check: 4, Run: 5, Look: 6, Zero: 7, Reduce: 8, Free: 9}


class Library(NamedTuple):
    """Addresses of MPI's functions, and how it keeps its objects."""

    isend: int
    irecv: int
    testall: int
    get_status: int  # MPI_Request_get_status
    byte: int  # the handle of MPI_BYTE
    request: int  # bytes of a request
    status: int


class Link:
    """What the blocks of a process share: MPI, and the list of those on their way."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.scratch = zeros(SCRATCH, np.uint8)
        self.words: Words = zeros(8, np.int64)
        self.words[:5] = *library[:3], library.byte, library.request
        self.words[6] = self.scratch.ctypes.data
        self.address = int(self.words.ctypes.data)
        self._args: Words = np.array([self.address], np.int64)
        call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
        code = exchanges()
        self.start, self.poll_at, self.wait_at = (
            code[f"exchange_{name}"] for name in ("start", "poll", "wait")
        )
        self._start, self._poll, self._wait = (call(f) for f in (self.start, self.poll_at, self.wait_at))
        types = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
        size = ctypes.c_int64 if library.request == 8 else ctypes.c_int32
        self._done = ctypes.CFUNCTYPE(ctypes.c_int, size, *types[1:])(library.get_status)
        self._size = size
        self.blocks: dict[int, Block] = {}  # by address; those that are on their way stay alive here

    def poll(self) -> None:
        """Goes on with all that is on its way."""
        if self.words[5]:
            self._poll(self._args.ctypes.data, 0, 1, None)

    def underway(self) -> Iterator[Block]:
        """Blocks that have begun and are not done, in the order in which they began."""
        at = int(self.words[5])
        while at:
            block = self.blocks[at]
            yield block
            at = int(block.words[20])

    def arrived(self, request: int) -> bool:
        """Is the message of the request at this address there?"""
        flag, status = ctypes.c_int(0), (ctypes.c_uint8 * (self.library.status + 64))()
        value = self._size.from_address(request).value
        self._done(value, ctypes.addressof(flag), ctypes.addressof(status))
        return bool(flag.value)


class Block:
    """One exchange, which may be begun again when it is done."""

    def __init__(self, link: Link, ops: Sequence[Op], count: Words, alive: object = None) -> None:
        self.link, self.ops = link, list(ops)
        self._alive: list[Any] = [alive, count]
        posts = max(1, sum(isinstance(op, Send | Receive | Reduce) for op in ops))
        self._requests = zeros(posts * link.library.request + 64, np.uint8)
        statuses = zeros(posts * link.library.status + 64, np.uint8)
        self.rows: Words = np.zeros((len(ops), _WIDTH), np.int64)
        for i, op in enumerate(ops):
            fields = (_KINDS[type(op)], *self._fields(op))
            self.rows[i, : len(fields)] = fields
        self.words: Words = zeros(24, np.int64)
        self.words[2:4] = self.rows.ctypes.data, len(ops)
        self.words[8:12] = (
            self._requests.ctypes.data, statuses.ctypes.data, link.address, count.ctypes.data
        )  # fmt: skip
        self.words[19] = _PATIENCE
        self._alive.append(statuses)
        self.address = int(self.words.ctypes.data)
        self._args: Words = np.array([self.address, 0, 0], np.int64)
        link.blocks[self.address] = self

    def forget(self) -> None:
        """The link no longer keeps it; not for a block on its way."""
        self.link.blocks.pop(self.address, None)

    def _fields(self, op: Op) -> tuple[int, ...]:
        match op:
            case Send() | Receive():
                return *op.at, op.bytes, op.peer, op.comm, op.tag
            case Copy():
                return *op.to, *op.source, op.rows, op.bytes, op.to_stride, op.source_stride
            case Reduce():
                return *op.source, *op.to, *op[2:]
            case Free():
                return (op.slots,)
            case Check() | Zero():
                return (op.left, op.right) if isinstance(op, Check) else (*op.at, op.bytes)
            case Run():
                args = np.array([0 if isinstance(a, At) else a for a in op.args], np.int64)
                at = int(args.ctypes.data)
                moving = [(at + 8 * i, *a) for i, a in enumerate(op.args) if isinstance(a, At)]
                patches = np.array(moving, np.int64).reshape(-1, 3)
                self._alive += [args, patches]
                return op.function, at, op.units, int(patches.ctypes.data), len(moving)
            case _:
                return ()

    # -- walking ---------------------------------------------------------------------------------------------

    def start(self, operand: int, result: int) -> None:
        """Begins with the arrays at these addresses, which must stay until it is done."""
        self._args[1:] = operand, result
        self.link._start(self._args.ctypes.data, 0, 1, None)

    def wait(self) -> int:
        """Its state once it is done, needs Python, or was waited for some time."""
        self.link._wait(self._args.ctypes.data, 0, 1, None)
        return int(self.words[0])

    def rest(self, microseconds: int) -> None:
        """Whoever waits for it from now on sleeps that long between two looks."""
        self.words[21] = microseconds

    @property
    def state(self) -> int:
        return int(self.words[0])

    @property
    def next(self) -> int:
        """The operation at which it stands."""
        return int(self.words[1])

    def place(self, at: At) -> int:
        """The address of a place, while it is under way."""
        return int(self.words[4 + at.base]) + at.offset

    def go_on(self) -> None:
        """What Python was to do is done."""
        self.words[1] += 1
        self.words[0] = UNDERWAY

    def replace(self, at: int, op: Op) -> None:
        """Another operation in the place of one; not a kernel."""
        self.ops[at] = op
        fields = (_KINDS[type(op)], *self._fields(op))
        self.rows[at] = 0
        self.rows[at, : len(fields)] = fields

    def missing(self) -> list[int]:
        """From whom it waits for a message: their numbers in the communicators that they are asked in."""
        begin = self.next
        while begin > 0 and not isinstance(self.ops[begin - 1], Arrived):
            begin -= 1
        posts = [op for op in self.ops[begin : self.next] if isinstance(op, Send | Receive)]
        base, width = int(self._requests.ctypes.data), self.link.library.request
        return [
            op.peer
            for k, op in enumerate(posts)
            if isinstance(op, Receive) and not self.link.arrived(base + k * width)
        ]
