"""Which buffers are needed at the same time.

Enters: a function. Leaves: for each buffer the others whose bytes must be elsewhere. A buffer is live where
it was touched before and is used again without a `begin` in between. Buffers of asynchronous copies, of SRAM,
and those whose address goes through memory are live all the time.
"""

from __future__ import annotations

from trilobite.base.errors import KernelError
from trilobite.processor.lang.cfg import Graph
from trilobite.processor.lang.ir import Block, Buffer, Function, Op
from trilobite.processor.lang.passes.clone import clone_function
from trilobite.processor.lang.passes.promote import promote
from trilobite.processor.lang.provenance import Provenance
from trilobite.processor.lang.scratchpad import Layout, place
from trilobite.processor.lang.types import STACK, is_pointer
from trilobite.processor.machine import Machine

MOVES_POINTERS = ("offset", "select", "cast", "note", "run", "branch", "jump")


def together(function: Function, buffers: list[Buffer]) -> dict[Buffer, set[Buffer]]:
    """Pairs that may not share a byte."""
    graph = Graph(function)
    uses = _Uses(function, graph)
    fixed = {b for b in buffers if b.space in ("sram", "ldram", STACK)} | uses.escaped
    found: dict[Buffer, set[Buffer]] = {buffer: set(fixed) for buffer in buffers}
    for buffer in fixed:
        found.setdefault(buffer, set()).update(buffers)
    after = uses.needed_behind()
    touched = uses.touched_before()
    for block in graph.order:
        _conflicts(block, uses, after[block], touched[block], found)
    return found


def layout_of(function: Function, buffers: list[Buffer], machine: Machine, share: bool) -> Layout:
    """Places for the buffers; without `share` bytes of their own, unless only sharing makes them fit."""
    if share:
        return place(buffers, machine, together(function, buffers))
    try:
        return place(buffers, machine)
    except KernelError:
        seen = clone_function(function)  # in which pointers are values, so that one sees where they point
        promote(seen)
        return place(buffers, machine, together(seen, buffers))


class _Uses:
    """For every operation the buffers it touches, begins, or gives away for good."""

    def __init__(self, function: Function, graph: Graph) -> None:
        self.graph = graph
        provenance = Provenance(function)
        self.touches: dict[Op, frozenset[Buffer]] = {}
        self.escaped: set[Buffer] = set()
        for op in function.ops():
            found: frozenset[Buffer] = frozenset()
            for value in op.operands:
                if is_pointer(value.type) and op.opcode not in MOVES_POINTERS:
                    found |= provenance.of(value).buffers
            self.touches[op] = found
            if self._gives_away(op):
                self.escaped |= found

    def _gives_away(self, op: Op) -> bool:
        """Its bytes are in use beyond this place in the text."""
        if op.opcode == "tensor":
            return bool(op.attrs["async"])
        if op.opcode == "store":
            return is_pointer(op.operands[0].type)
        return op.opcode in ("call", "set", "print", "return", "cast")

    def begins(self, op: Op) -> Buffer | None:
        found = op.attrs["buffer"] if op.opcode == "begin" else None
        return found if isinstance(found, Buffer) else None

    def needed_behind(self) -> dict[Block, set[Buffer]]:
        """Buffers that are touched behind each block before they begin anew."""
        into: dict[Block, set[Buffer]] = {block: set() for block in self.graph.order}
        changed = True
        while changed:
            changed = False
            for block in reversed(self.graph.order):
                live = set().union(*(into[s] for s in block.successors)) if block.successors else set()
                for op in reversed(block.ops):
                    live |= self.touches[op]
                    live.discard(self.begins(op))
                if live - into[block]:
                    into[block] |= live
                    changed = True
        return {b: set().union(*(into[s] for s in b.successors), set()) for b in self.graph.order}

    def touched_before(self) -> dict[Block, set[Buffer]]:
        """Buffers that hold something at each block's start."""
        out: dict[Block, set[Buffer]] = {block: set() for block in self.graph.order}
        before: dict[Block, set[Buffer]] = {block: set() for block in self.graph.order}
        changed = True
        while changed:
            changed = False
            for block in self.graph.order:
                before[block] = set().union(*(out[p] for p in self.graph.predecessors[block]), set())
                held = set(before[block])
                for op in block.ops:
                    held.discard(self.begins(op))
                    held |= self.touches[op]
                if held - out[block]:
                    out[block] |= held
                    changed = True
        return before


def _conflicts(
    block: Block, uses: _Uses, after: set[Buffer], touched: set[Buffer], found: dict[Buffer, set[Buffer]]
) -> None:
    needed: list[set[Buffer]] = []
    live = set(after)
    for op in reversed(block.ops):
        needed.append(set(live))
        live |= uses.touches[op]
        live.discard(uses.begins(op))
    held = set(touched)
    for op, behind in zip(block.ops, reversed(needed), strict=True):
        held.discard(uses.begins(op))
        held |= uses.touches[op]
        at_once = (held & behind) | uses.touches[op]
        for buffer in uses.touches[op]:
            found[buffer] |= at_once - {buffer}
            for other in at_once:
                found[other].add(buffer)
