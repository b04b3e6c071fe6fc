"""Which buffers are needed at the same time.

Enters: a function. Leaves: for each buffer the others whose bytes must be elsewhere. A buffer is live where
it was touched before and is used again without a `begin` in between. Buffers of asynchronous copies, of SRAM,
those that another routine filled, and those whose address goes through memory are live all the time.
"""

from __future__ import annotations

from trilobite.base.errors import KernelError
from trilobite.processor.lang.calls import reached
from trilobite.processor.lang.cfg import Graph
from trilobite.processor.lang.ir import Block, Buffer, Function, KernelModule, Op
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
    fixed = {b for b in buffers if b.space in ("sram", "ldram", STACK) or b.handed} | uses.escaped
    found: dict[Buffer, set[Buffer]] = {buffer: set(fixed) for buffer in buffers}
    for buffer in fixed:
        found.setdefault(buffer, set()).update(buffers)
    for buffer, others in uses.at_once().items():
        if buffer in found:  # one that begins and whose address nobody takes needs no place
            found[buffer].update(found.keys() & others)
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


def layout_of_module(module: KernelModule, machine: Machine, share: bool) -> Layout:
    """One layout for entries and routines: buffers of functions of which neither reaches the other share.
    What several routines use keeps clear of everything, but for what one hands to the next."""
    users = _users(module)
    buffers = [buffer for buffer in module.buffers.values() if buffer in users]
    if not share:
        try:
            return place(buffers, machine)
        except KernelError:
            pass
    return place(buffers, machine, _together_in_module(module, users, buffers, share))


def _users(module: KernelModule) -> dict[Buffer, list[str]]:
    """The functions that use each buffer."""
    found: dict[Buffer, list[str]] = {}
    for name, function in module.functions.items():
        for op in function.ops():
            if op.opcode in ("address", "keep") and name not in found.setdefault(op.attrs["buffer"], []):
                found[op.attrs["buffer"]].append(name)
    return found


def _together_in_module(
    module: KernelModule, users: dict[Buffer, list[str]], buffers: list[Buffer], is_promoted: bool
) -> dict[Buffer, set[Buffer]]:
    found: dict[Buffer, set[Buffer]] = {buffer: set() for buffer in buffers}
    reach = {name: reached(module, name) for name in module.functions}
    for name, function in module.functions.items():
        if not is_promoted:
            function = clone_function(function)
            promote(function)
        mine = [buffer for buffer in buffers if name in users[buffer]]
        for buffer, others in together(function, mine).items():
            found[buffer] |= others
    # whoever gave a handed buffer its place knows when it is in use
    free = [b for b in buffers if not (b.handed and b.offset is not None)]
    common = [b for b in free if len(users[b]) > 1 and not b.handed]
    firsts: dict[str, list[Buffer]] = {}
    for buffer in free:
        firsts.setdefault(users[buffer][0], []).append(buffer)
    for name, mine in firsts.items():
        beside = [
            b for other in firsts if other in reach[name] or name in reach[other] for b in firsts[other]
        ]
        for buffer in mine:
            found[buffer].update(free if buffer in common else (*common, *beside))
    return found


class _Uses:
    """What every block does to buffers, in order: those that begin anew and those that are touched. A set of
    buffers is a number with a bit for each."""

    def __init__(self, function: Function, graph: Graph) -> None:
        self.graph = graph
        self.bits: dict[Buffer, int] = {}
        self.events: dict[Block, list[tuple[int, int]]] = {}
        self.escaped: set[Buffer] = set()
        self._provenance = Provenance(function)
        for block in graph.order:
            seen = [(self._begins(op), self._touches(op)) for op in block.ops]
            self.events[block] = [event for event in seen if event != (0, 0)]

    def _bit(self, buffer: Buffer) -> int:
        return self.bits.setdefault(buffer, 1 << len(self.bits))

    def _begins(self, op: Op) -> int:
        return self._bit(op.attrs["buffer"]) if op.opcode == "begin" else 0

    def _touches(self, op: Op) -> int:
        found = 0
        if op.opcode not in MOVES_POINTERS:
            gives_away = self._gives_away(op)
            for value in op.operands:
                if is_pointer(value.type):
                    buffers = self._provenance.of(value).buffers
                    found |= sum(self._bit(buffer) for buffer in buffers)
                    if gives_away:
                        self.escaped |= buffers
        return found

    def _gives_away(self, op: Op) -> bool:
        """Its bytes are in use beyond this place in the text."""
        if op.opcode == "tensor":
            return bool(op.attrs["async"])
        if op.opcode == "store":
            return is_pointer(op.operands[0].type)
        return op.opcode in ("call", "set", "print", "return", "cast")

    def at_once(self) -> dict[Buffer, list[Buffer]]:
        """For every buffer those that hold something, and will be read, where it is touched."""
        after, before = self._needed_behind(), self._touched_before()
        found = dict.fromkeys(self.bits, 0)
        for block in self.graph.order:
            needed = [after[block]]
            for begun, touched in reversed(self.events[block]):
                needed.append((needed[-1] | touched) & ~begun)
            held = before[block]
            for (begun, touched), behind in zip(self.events[block], reversed(needed[:-1]), strict=True):
                held = (held & ~begun) | touched
                live = (held & behind) | touched
                for buffer in self._of(touched):
                    found[buffer] |= live
                for buffer in self._of(live):
                    found[buffer] |= touched
        return {buffer: [b for b in self._of(found[buffer]) if b is not buffer] for buffer in found}

    def _of(self, bits: int) -> list[Buffer]:
        return [buffer for buffer, bit in self.bits.items() if bit & bits]

    def _needed_behind(self) -> dict[Block, int]:
        """Buffers that are touched behind each block before they begin anew."""
        into = dict.fromkeys(self.graph.order, 0)
        behind = dict.fromkeys(self.graph.order, 0)
        changed = True
        while changed:
            changed = False
            for block in reversed(self.graph.order):
                for following in block.successors:
                    behind[block] |= into[following]
                live = behind[block]
                for begun, touched in reversed(self.events[block]):
                    live = (live | touched) & ~begun
                if live != into[block]:
                    into[block], changed = live, True
        return behind

    def _touched_before(self) -> dict[Block, int]:
        """Buffers that hold something at each block's start."""
        out = dict.fromkeys(self.graph.order, 0)
        before = dict.fromkeys(self.graph.order, 0)
        changed = True
        while changed:
            changed = False
            for block in self.graph.order:
                for other in self.graph.predecessors[block]:
                    before[block] |= out[other]
                held = before[block]
                for begun, touched in self.events[block]:
                    held = (held & ~begun) | touched
                if held != out[block]:
                    out[block], changed = held, True
        return before
