"""Order between the queues of a core: puts in the SYNCs that blocking operations need, takes out those that
wait for nothing.

Blocking copies, compute and scalar accesses behave as if done one after the other. The hardware only keeps
the order within a queue (and, with `interlock: ranges`, between overlapping scratchpad ranges). So before an
operation that touches bytes which another queue may still be using, that queue is waited for. Asynchronous
copies are the author's to order; only barriers and the end of the task know of them. A copy within NRAM that
is marked `with_compute` keeps its order with compute, as on parts whose compute pipe does such copies.

Enters: a function and the layout of its buffers. Leaves: the function with `sync` operations. At level 0 each
blocking operation is waited for at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from trilobite.processor.isa.row import DMA, IO, MOVE
from trilobite.processor.lang.cfg import Graph, Loop
from trilobite.processor.lang.intrinsics import contract
from trilobite.processor.lang.ir import Block, Buffer, Function, Op, Value
from trilobite.processor.lang.provenance import EVERYWHERE, Points, Provenance
from trilobite.processor.lang.scratchpad import Layout
from trilobite.processor.lang.types import LETTER_OF

QUEUES = ("io", "move", "matrix", "vector")
DRAM = ("gdram", "ldram", "code")
COMPUTE = frozenset(("matrix", "vector"))
# On an asynchronous copy within NRAM, which sources leave to the order of compute
WITH_COMPUTE = "with_compute"
ASYNC = "async"  # a mark that a queue holds copies whose order is the author's


@dataclass(frozen=True)
class Touch:
    """Bytes that an operation reads or writes: a buffer's, or anything in a space."""

    buffer: Buffer | None
    space: str
    writes: bool
    with_compute: bool = False  # of an asynchronous copy that keeps its order with compute, and with no other


State = dict[str, frozenset[Touch | str]]  # queue -> what it may still be doing
Need = tuple[tuple[Touch, ...], tuple[str, ...]]  # what an operation touches, and the queues it may go to


@dataclass(frozen=True)
class Effects:
    """What a call of a routine does: `needs` is what its operations touch, `meets` whether it comes to other
    cores, `leaves` what may still be under way behind it."""

    needs: tuple[Need, ...]
    meets: bool
    leaves: State


def order(
    function: Function,
    layout: Layout,
    interlocked: bool,
    level: int,
    called: Mapping[str, Effects] | None = None,
) -> Effects:
    """`called` knows the routines that the function calls. Gives what a call of this one does."""
    pass_ = _Order(function, layout, interlocked, called or {})
    left: State = {}
    if level == 0:
        pass_.eager(function)
    else:
        left = pass_.lazy(function)
    return pass_.effects(function, left)


class _Order:
    def __init__(
        self, function: Function, layout: Layout, interlocked: bool, called: Mapping[str, Effects]
    ) -> None:
        self.layout, self.interlocked, self.called = layout, interlocked, called
        self.provenance = Provenance(function)
        self.touches: dict[Op, tuple[Touch, ...]] = {op: self._touches(op) for op in function.ops()}

    # what an operation does
    def _touches(self, op: Op) -> tuple[Touch, ...]:
        if op.opcode == "tensor":
            promise = contract(op.attrs["row"])
            pairs = zip(promise.fields, op.operands, strict=True)
            found = [(promise.access(name), value) for name, value in pairs]
            return tuple(
                touch
                for access, value in found
                if access is not None
                for touch in self._touch(value, access.writes, access.spaces)
            )
        if op.opcode in ("load", "store", "atomic", "cas"):
            pointer = op.operands[1] if op.opcode == "store" else op.operands[0]
            return tuple(self._touch(pointer, op.opcode != "load", "".join(LETTER_OF.values())))
        return ()

    def _touch(self, pointer: Value, writes: bool, letters: str) -> list[Touch]:
        points: Points = self.provenance.of(pointer)
        found = [Touch(buffer, buffer.space, writes) for buffer in points.buffers]
        for space in points.spaces:
            possible = [s for s in LETTER_OF if LETTER_OF[s] in letters] if space == EVERYWHERE else [space]
            found += [Touch(None, s, writes) for s in possible]
        return found

    def queues(self, op: Op) -> tuple[str, ...]:
        """The queues that the operation may go to."""
        row = contract(op.attrs["row"]).row
        if row.queue != DMA:
            return (row.queue,)
        ends = [{t.space for t in self.touches[op] if t.writes == end} for end in (True, False)]
        if any(spaces and spaces <= set(DRAM) for spaces in ends):
            return (IO,)
        if all(spaces and not spaces & set(DRAM) for spaces in ends):
            return (MOVE,)
        return (IO, MOVE)

    # conflicts
    def _conflict(self, a: Touch, b: Touch) -> bool:
        if not (a.writes or b.writes) or a.space != b.space:
            return False
        if self.interlocked and a.space not in DRAM:
            return False
        if a.buffer is None or b.buffer is None or a.buffer is b.buffer:
            return True
        first, second = self.layout.offsets[a.buffer], self.layout.offsets[b.buffer]
        return first < second + b.buffer.bytes and second < first + a.buffer.bytes

    def _waits(self, op: Op, state: State) -> tuple[str, ...]:
        """The queues that must be empty before the operation."""
        if self._meets(op):
            return tuple(q for q in QUEUES if any(isinstance(t, Touch) for t in state.get(q, ())))
        if op.opcode == "call":
            needs = self.called[op.attrs["function"]].needs
            found = {queue for touches, own in needs for queue in self._busy_with(touches, own, state)}
            return tuple(queue for queue in QUEUES if queue in found)
        if not self.touches[op]:
            return ()
        return self._busy_with(self.touches[op], self._own(op), state)

    def _meets(self, op: Op) -> bool:
        """Whether other cores may see what this one has done before."""
        if op.opcode == "call":
            return self.called[op.attrs["function"]].meets
        return op.opcode in ("barrier", "atomic", "cas")

    def _own(self, op: Op) -> tuple[str, ...]:
        return self.queues(op) if op.opcode == "tensor" else ()

    def _busy_with(self, touches: tuple[Touch, ...], own: tuple[str, ...], state: State) -> tuple[str, ...]:
        """Queues other than its own that may still be at work on what an operation touches."""
        computes = bool(own) and set(own) <= COMPUTE
        found = []
        for queue in QUEUES:
            if own == (queue,):
                continue
            pending = [t for t in state.get(queue, ()) if isinstance(t, Touch)]
            pending = [t for t in pending if computes or not t.with_compute]
            if any(self._conflict(a, b) for a in pending for b in touches):
                found.append(queue)
        return tuple(found)

    def effects(self, function: Function, left: State) -> Effects:
        """What a call of the function does, once it is ordered."""
        needs: dict[Need, None] = {}
        for op in function.ops():
            if op.opcode == "call":
                needs |= dict.fromkeys(self.called[op.attrs["function"]].needs)
            elif self.touches.get(op):
                needs[self.touches[op], self._own(op)] = None
        return Effects(tuple(needs), any(self._meets(op) for op in function.ops()), left)

    def _after(self, op: Op, state: State) -> State:
        if op.opcode == "sync":
            done = op.attrs["queues"] or QUEUES
            return {queue: held for queue, held in state.items() if queue not in done}
        if op.opcode == "call":
            return _union(state, self.called[op.attrs["function"]].leaves)
        if op.opcode == "tensor":
            new: frozenset[Touch | str] = frozenset(self.touches[op])
            if op.attrs["async"]:
                near = (replace(t, with_compute=True) for t in self.touches[op])
                new = frozenset([ASYNC, *near]) if op.attrs.get(WITH_COMPUTE) else frozenset([ASYNC])
            return {**state, **{queue: state.get(queue, frozenset()) | new for queue in self.queues(op)}}
        return state

    # the two ways
    def eager(self, function: Function) -> None:
        copies = any(op.attrs.get(WITH_COMPUTE) for op in function.ops())
        for block in function.blocks:
            kept: list[Op] = []
            for op in block.ops:
                if copies and op.opcode == "tensor" and set(self.queues(op)) <= COMPUTE:
                    kept.append(_sync(block, op, (MOVE,)))
                kept.append(op)
                if op.opcode == "tensor" and not op.attrs["async"] and self._has_dependants(op):
                    kept.append(_sync(block, op, self.queues(op)))
            block.ops = kept

    def _has_dependants(self, op: Op) -> bool:
        return not self.interlocked or any(touch.space in DRAM for touch in self.touches[op])

    def lazy(self, function: Function) -> State:
        """Fixed point of what may be under way at each block's start, then the syncs that this asks for.

        Who calls a routine waits first for blocking operations that it would disturb; asynchronous copies
        may be under way when it begins. Gives what may be under way where the function returns.
        """
        graph = Graph(function)
        start: dict[Block, State] = {block: {} for block in graph.order}
        if function.is_routine:
            start[graph.order[0]] = {queue: frozenset([ASYNC]) for queue in QUEUES}
        left: State = {}
        loops = {loop.head: loop for loop in graph.loops}
        before: dict[Block, set[str]] = {}  # queues to wait for at a block's end, before a loop begins
        work = list(graph.order)
        while work:
            block = work.pop(0)
            state = self._through(block, start[block], None)
            for following in block.successors:
                loop = loops.get(following)
                if loop is not None and block not in loop.blocks:
                    before.setdefault(block, set()).update(self._needed_inside(loop, state))
                state = {q: held for q, held in state.items() if q not in before.get(block, ())}
                merged = _union(start[following], state)
                if merged != start[following]:
                    start[following] = merged
                    if following not in work:
                        work.append(following)
        for block in graph.order:
            kept: list[Op] = []
            state = self._through(block, start[block], kept)
            waits = tuple(q for q in QUEUES if q in before.get(block, ()) and state.get(q))
            if waits:
                kept.insert(len(kept) - 1, _sync(block, kept[-1], waits))
            block.ops = kept
            if kept[-1].opcode == "return":
                left = _union(left, state)
        return left

    def _needed_inside(self, loop: Loop, state: State) -> set[str]:
        """Queues whose work from before a loop some operation in it needs: better waited for once."""
        found: set[str] = set()
        for block in loop.blocks:
            for op in block.ops:
                if op.opcode != "sync":
                    found.update(self._waits(op, state))
        return found

    def _through(self, block: Block, state: State, kept: list[Op] | None) -> State:
        for op in block.ops:
            if op.opcode == "sync" and not any(state.get(q) for q in op.attrs["queues"] or QUEUES):
                continue  # there is nothing to wait for
            waits = self._waits(op, state) if op.opcode != "sync" else ()
            if waits:
                state = {queue: held for queue, held in state.items() if queue not in waits}
                if kept is not None:
                    kept.append(_sync(block, op, waits))
            state = self._after(op, state)
            if kept is not None:
                kept.append(op)
        return state


def _union(a: State, b: State) -> State:
    return {queue: a.get(queue, frozenset()) | b.get(queue, frozenset()) for queue in {*a, *b}}


def _sync(block: Block, op: Op, queues: tuple[str, ...]) -> Op:
    made = Op("sync", (), {"queues": queues}, location=op.location)
    made.block = block
    return made
