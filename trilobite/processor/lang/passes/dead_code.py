"""Operations whose results nobody uses disappear, and so do notes that would keep a value alive.

A note keeps its value only where something else does: the debugger shows what is there, it does not make the
program slower.
"""

from __future__ import annotations

from trilobite.processor.lang.cfg import remove_unreachable
from trilobite.processor.lang.ir import Constant, Function, Op, Result, Value
from trilobite.processor.lang.ops import PURE


def remove_dead_code(function: Function) -> bool:
    """Marks from effects backwards, then sweeps."""
    remove_unreachable(function)
    needed: set[Value] = set()
    work: list[Op] = [op for op in function.ops() if op.opcode not in PURE and not _droppable(op)]
    alive = set(work)
    while work:
        for value in work.pop().uses():
            needed.add(value)
            if isinstance(value, Result) and value.op not in alive:
                alive.add(value.op)
                work.append(value.op)
    changed = False
    for block in function.blocks:
        kept = [op for op in block.ops if op in alive or _shown(op, needed)]
        changed |= len(kept) != len(block.ops)
        block.ops = kept
    return changed


def _droppable(op: Op) -> bool:
    """Reading a variable or memory has no effect of its own (a load that would fault is a fault all the same
    only if its value matters)."""
    return op.opcode in ("get", "note", "load")


def _shown(op: Op, needed: set[Value]) -> bool:
    if op.opcode != "note":
        return False
    return isinstance(op.operands[0], Constant) or op.operands[0] in needed
