"""Where the source language's variables are, instruction by instruction: what the debugger reads.

Enters: an allocated and emitted function. Leaves: ranges of instructions with the place of each variable.
At level 0 a variable has one home in the frame; at level 2 it is where its value is, while that is alive.
"""

from __future__ import annotations

from dataclasses import dataclass

from trilobite.processor.lang.cfg import Graph
from trilobite.processor.lang.codegen.emit import Emitted, Emitter
from trilobite.processor.lang.codegen.moves import Number, Register
from trilobite.processor.lang.ir import Block, Constant, Op, Value, Variable

Known = dict[Variable, Value]


@dataclass(frozen=True)
class VariablePlace:
    """From instruction `first` up to `last` the variable is in a register, at a frame offset, or a number."""

    name: str
    scope: str
    type: str
    first: int
    last: int
    kind: str  # "register", "frame", "number"
    where: int


def homes_in_frame(emitter: Emitter, total: int) -> list[VariablePlace]:
    """Level 0: one place for the whole function."""
    return [
        VariablePlace(v.name, v.scope, v.type.name, 0, total, "frame", emitter.slot_offset(slot))
        for v, slot in emitter.homes.items()
    ]


def noted_places(graph: Graph, emitter: Emitter, emitted: Emitted) -> list[VariablePlace]:
    """Level 2: from the notes, along every path on which they agree."""
    start = _agreed(graph)
    found: list[VariablePlace] = []
    for block in graph.order:
        known = dict(start[block])
        opened = {variable: emitted.spans[block][0] for variable in known}
        for op in block.ops:
            if op.opcode != "note":
                continue
            variable = op.attrs["variable"]
            at = emitted.places[op]
            if variable in known:
                found += _range(emitter, emitted, block, variable, known[variable], opened[variable], at)
            known[variable], opened[variable] = op.operands[0], at
        for variable, value in known.items():
            end = emitted.spans[block][1]
            found += _range(emitter, emitted, block, variable, value, opened[variable], end)
    return found


def _agreed(graph: Graph) -> dict[Block, Known]:
    """What every path to a block says about a variable; unknown where two paths differ."""
    out: dict[Block, Known | None] = dict.fromkeys(graph.order)
    start: dict[Block, Known] = {block: {} for block in graph.order}
    changed = True
    while changed:
        changed = False
        for block in graph.order:
            states = [s for s in (out[p] for p in graph.predecessors[block]) if s is not None]
            begin = dict(states[0]) if states else {}
            for other in states[1:]:
                begin = {v: value for v, value in begin.items() if other.get(v) is value}
            end = dict(begin)
            for op in block.ops:
                if op.opcode == "note":
                    end[op.attrs["variable"]] = op.operands[0]
            if start[block] != begin or out[block] != end:
                start[block], out[block], changed = begin, end, True
    return start


def _range(
    emitter: Emitter, emitted: Emitted, block: Block, variable: Variable, value: Value, first: int, last: int
) -> list[VariablePlace]:
    if not isinstance(value, Constant):
        interval = emitter.allocation.intervals.get(value)
        if interval is None:
            return []
        last = min(last, _end_of(emitter, emitted, block, interval.end))
    if first >= last:
        return []
    at = emitter.place_of(value)
    kind = "number" if isinstance(at, Number) else "register" if isinstance(at, Register) else "frame"
    where = (
        at.word if isinstance(at, Number) else at.number
        if isinstance(at, Register) else emitter.slot_offset(at.number)
    )  # fmt: skip
    return [VariablePlace(variable.name, variable.scope, variable.type.name, first, last, kind, where)]


def _end_of(emitter: Emitter, emitted: Emitted, block: Block, end: int) -> int:
    """The first instruction of the block behind the value's last use."""
    numbers = emitter.allocation.numbers
    behind: Op | None = next((op for op in block.ops if numbers[op] > end), None)
    return emitted.places[behind] if behind is not None else emitted.spans[block][1]
