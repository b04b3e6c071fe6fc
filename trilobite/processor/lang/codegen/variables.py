"""Where the source language's variables are, instruction by instruction: what the debugger reads.

Enters: an allocated and emitted function. Leaves: ranges of instructions with the place of each variable.
At level 0 a variable has one home in the frame. At level 2 it is where its value is, until something else is
written there: a register, a word of the frame, a number, or an expression over those; or it is gone.
"""

from __future__ import annotations

from dataclasses import dataclass

from trilobite.processor.isa.address import LETTERS, address
from trilobite.processor.lang.cfg import Graph
from trilobite.processor.lang.codegen.emit import Emitted, Emitter
from trilobite.processor.lang.codegen.moves import Number, Register
from trilobite.processor.lang.ir import Block, Op, Result, Value, Variable
from trilobite.processor.lang.recipe import Recipe, recipe_of, settle
from trilobite.processor.lang.types import STACK

Noted = tuple[Recipe | None, tuple[Value, ...]]
Known = dict[Variable, Noted]
Held = dict[int, Value]  # what is in each register
GONE: Noted = (None, ())


@dataclass(frozen=True)
class VariablePlace:
    """From instruction `first` up to `last` the variable is what `recipe` makes of its parts.

    A part is ("register", number), ("frame", offset) or ("number", word). Without parts the variable has been
    set, and its value exists no more.
    """

    name: str
    scope: str
    type: str
    first: int
    last: int
    parts: tuple[tuple[str, int], ...]
    recipe: Recipe = 0


def homes_in_frame(emitter: Emitter, total: int) -> list[VariablePlace]:
    """Level 0: one place for the whole function."""
    return [
        VariablePlace(v.name, v.scope, _shown(v), 0, total, (("frame", emitter.slot_offset(slot)),))
        for v, slot in emitter.homes.items()
    ]


def noted_places(graph: Graph, emitter: Emitter, emitted: Emitted) -> list[VariablePlace]:
    """Level 2: from the notes, along every path on which they agree."""
    flow = _Flow(graph, emitter)
    found: list[VariablePlace] = []
    for block in graph.order:
        first, end = emitted.spans[block]
        known = dict(flow.start[block])
        opened = dict.fromkeys(known, first)
        for op in block.ops:
            at = emitted.places[op] + (op.opcode != "note")  # the instruction that writes still sees the old
            for variable, noted in flow.changes(op, known):
                if variable in known:
                    found += _range(emitter, variable, known[variable], opened[variable], min(at, end))
                known[variable], opened[variable] = noted, min(at, end)
        for variable, noted in known.items():
            found += _range(emitter, variable, noted, opened[variable], end)
    return found


class _Flow:
    """What is known about variables at each block's start: a forward analysis to its fixed point."""

    def __init__(self, graph: Graph, emitter: Emitter) -> None:
        self.graph, self.allocation = graph, emitter.allocation
        for block in graph.order:
            for op in block.ops:
                if op.opcode == "note":
                    settle(op, self._exists)
        self._forget_overwritten()
        self.start: dict[Block, Known] = {block: {} for block in graph.order}
        self._solve()

    def _exists(self, value: Value) -> bool:
        return value in self.allocation.registers or value in self.allocation.slots or _is_static(value)

    def _forget_overwritten(self) -> None:
        """A note of a value whose register another one has taken before says nothing."""
        held: dict[Block, Held] = {}
        changed = True
        while changed:
            changed = False
            for block in self.graph.order:
                end = self._hold(block, self._common(held, block))
                if held.get(block) != end:
                    held[block], changed = end, True
        for block in self.graph.order:
            self._hold(block, self._common(held, block), is_final=True)

    def _common(self, held: dict[Block, Held], block: Block) -> Held:
        """What every way to the block leaves in the same register."""
        states = [held[p] for p in self.graph.predecessors[block] if p in held]
        if not states:
            return {}
        return {at: value for at, value in states[0].items() if all(s.get(at) is value for s in states)}

    def _hold(self, block: Block, before: Held, is_final: bool = False) -> Held:
        now = dict(before)
        for arg in block.args:
            self._put(now, arg)
        for op in block.ops:
            if op.opcode == "call":
                written = self.allocation.written_by(op)
                now = {at: value for at, value in now.items() if not written >> at & 1}
            if op.opcode != "note":
                for result in op.results:
                    self._put(now, result)
            elif is_final and not all(self._is_intact(now, leaf) for leaf in op.operands):
                op.operands, op.attrs = [], {"variable": op.attrs["variable"]}
        return now

    def _put(self, now: Held, value: Value) -> None:
        first = self.allocation.registers.get(value)
        if first is None:
            return
        width = self.allocation.intervals[value].width if value in self.allocation.intervals else 1
        for register in range(first, first + width):
            now[register] = value

    def _is_intact(self, now: Held, leaf: Value) -> bool:
        register = self._register(leaf)
        return register < 0 or now.get(register) is leaf

    def _solve(self) -> None:
        out: dict[Block, Known] = {}
        changed = True
        while changed:
            changed = False
            for block in self.graph.order:
                begin = self._meet([out[p] for p in self.graph.predecessors[block] if p in out])
                for arg in block.args:
                    self._write(arg, begin)
                end = dict(begin)
                for op in block.ops:
                    end.update(self.changes(op, end))
                if self.start[block] != begin or out.get(block) != end:
                    self.start[block], out[block], changed = begin, end, True

    def _meet(self, states: list[Known]) -> Known:
        """A variable that two paths know differently is gone."""
        if not states:
            return {}
        return {
            variable: states[0].get(variable, GONE)
            if all(s.get(variable) == states[0].get(variable) for s in states)
            else GONE
            for state in states
            for variable in state
        }

    def changes(self, op: Op, known: Known) -> list[tuple[Variable, Noted]]:
        """Variables that the operation sets, or whose value it overwrites."""
        if op.opcode == "note":
            return [(op.attrs["variable"], (recipe_of(op), tuple(op.operands)))]
        lost = [variable for result in op.results for variable in self._hit(result, known)]
        if op.opcode == "call":
            lost += self._left_by(op, known)
        return [(variable, GONE) for variable in lost]

    def _left_by(self, call: Op, known: Known) -> list[Variable]:
        """Variables that need what was in a register that the call writes."""
        written = self.allocation.written_by(call)
        return [
            variable
            for variable, (_, leaves) in known.items()
            if any((at := self._register(leaf)) >= 0 and written >> at & 1 for leaf in leaves)
        ]

    def _write(self, value: Value, known: Known) -> None:
        known.update(dict.fromkeys(self._hit(value, known), GONE))

    def _hit(self, written: Value, known: Known) -> list[Variable]:
        """Variables that need what was where the value is written."""
        first = self.allocation.registers.get(written)
        width = self.allocation.intervals[written].width if written in self.allocation.intervals else 1
        taken = range(0) if first is None else range(first, first + width)
        return [
            variable
            for variable, (_, leaves) in known.items()
            if any(leaf is written or self._register(leaf) in taken for leaf in leaves)
        ]

    def _register(self, leaf: Value) -> int:
        """The register that a leaf needs, or -1."""
        return -1 if _is_static(leaf) else self.allocation.registers.get(leaf, -1)


def _range(emitter: Emitter, variable: Variable, noted: Noted, first: int, last: int) -> list[VariablePlace]:
    if first >= last:
        return []
    recipe, leaves = noted
    parts = tuple(_part(emitter, leaf) for leaf in leaves)
    kept = 0 if recipe is None else recipe
    return [VariablePlace(variable.name, variable.scope, _shown(variable), first, last, parts, kept)]


def _shown(variable: Variable) -> str:
    return variable.shown or variable.type.name


def _is_static(value: Value) -> bool:
    """Where a buffer lies is known without a register."""
    if not isinstance(value, Result) or value.op.opcode != "address":
        return False
    space: str = value.op.attrs["buffer"].space
    return space != STACK


def _part(emitter: Emitter, value: Value) -> tuple[str, int]:
    if isinstance(value, Result) and _is_static(value):
        buffer = value.op.attrs["buffer"]
        return "number", address(LETTERS[buffer.space], emitter.layout.offsets[buffer])
    at = emitter.place_of(value)
    if isinstance(at, Number):
        return "number", at.word
    return ("register", at.number) if isinstance(at, Register) else ("frame", emitter.slot_offset(at.number))
