"""Where pointers may point: the buffers and memory spaces behind each of them.

Enters: a function. Leaves: for any pointer the set of buffers it may come from, or the spaces it may lie in
where that is all that is known. A pointer that went through memory may point anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from trilobite.processor.lang.ir import Argument, Block, Buffer, Constant, Function, Op, Result, Target, Value
from trilobite.processor.lang.types import ANY_SPACE, Pointer, is_pointer

EVERYWHERE = ANY_SPACE


@dataclass(frozen=True)
class Points:
    """Buffers a pointer may come from, and whole spaces (`any` for all of them)."""

    buffers: frozenset[Buffer] = frozenset()
    spaces: frozenset[str] = frozenset()

    def __or__(self, other: Points) -> Points:
        return Points(self.buffers | other.buffers, self.spaces | other.spaces)


NOWHERE = Points()


class Provenance:
    """Answers are cached; a circle of block arguments adds nothing to itself."""

    def __init__(self, function: Function) -> None:
        self._incoming: dict[Block, list[Target]] = {}
        for op in function.ops():
            for target in op.targets:
                self._incoming.setdefault(target.block, []).append(target)
        self._known: dict[Value, Points] = {}
        self._entry = function.blocks[0]

    def of(self, value: Value) -> Points:
        if value not in self._known:
            self._known[value] = self._search(value)
        return self._known[value]

    def _search(self, value: Value) -> Points:
        """Follows the pointer back over everything that only moves it."""
        found, seen, work = NOWHERE, {value}, [value]
        while work:
            sources, direct = self._step(work.pop())
            if direct is not NOWHERE:
                found = direct if found is NOWHERE else found | direct
            for source in sources:
                if source not in seen:
                    seen.add(source)
                    work.append(source)
        return found

    def _step(self, value: Value) -> tuple[list[Value], Points]:
        if isinstance(value, Constant):
            return [], NOWHERE if value.value == 0 else Points(spaces=frozenset([EVERYWHERE]))
        if isinstance(value, Argument):
            if value.block is self._entry:
                return [], _by_type(value)
            place = value.block.args.index(value)
            return [target.args[place] for target in self._incoming.get(value.block, [])], NOWHERE
        assert isinstance(value, Result)
        return self._behind(value.op, value)

    def _behind(self, op: Op, value: Value) -> tuple[list[Value], Points]:
        if op.opcode == "address":
            return [], Points(buffers=frozenset([op.attrs["buffer"]]))
        if op.opcode == "offset":
            return [op.operands[0]], NOWHERE
        if op.opcode == "select":
            return op.operands[1:], NOWHERE
        if op.opcode == "cast" and is_pointer(op.operands[0].type):
            return [op.operands[0]], NOWHERE
        if op.opcode == "constant":
            return self._step(op.attrs["value"])
        return [], _by_type(value)


def _by_type(value: Value) -> Points:
    space = value.type.space if isinstance(value.type, Pointer) else EVERYWHERE
    return Points(spaces=frozenset([space]))
