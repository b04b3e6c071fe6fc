"""Operations whose results nobody uses disappear.

A note keeps no value alive: the debugger shows what is there or follows from it, it does not make the program
slower.
"""

from __future__ import annotations

from trilobite.processor.lang.cfg import remove_unreachable
from trilobite.processor.lang.ir import Constant, Function, Result, Value
from trilobite.processor.lang.ops import PURE
from trilobite.processor.lang.recipe import settle

# Reading a variable or memory has no effect of its own: a load that would fault is a fault only if its value
# matters.
DROPPED = PURE | {"get", "note", "load"}


def remove_dead_code(function: Function) -> bool:
    """Marks from effects backwards, then sweeps. A block argument is needed only if something reads it."""
    remove_unreachable(function)
    passed = _passed(function)
    needed: set[Value] = set()
    work: list[Value] = []
    for block in function.blocks:
        for op in block.ops:
            if op.opcode not in DROPPED:
                work += op.operands
    while work:
        value = work.pop()
        if value not in needed and not isinstance(value, Constant):
            needed.add(value)
            work += value.op.operands if isinstance(value, Result) else passed.get(value, ())
    return _sweep(function, needed)


def _passed(function: Function) -> dict[Value, list[Value]]:
    """What each block argument may be."""
    found: dict[Value, list[Value]] = {}
    for block in function.blocks:
        for target in block.ops[-1].targets:
            for arg, value in zip(target.block.args, target.args, strict=True):
                found.setdefault(arg, []).append(value)
    return found


def _sweep(function: Function, needed: set[Value]) -> bool:
    changed = False
    entry = function.blocks[0]
    for block in function.blocks:
        for target in block.ops[-1].targets:
            pairs = zip(target.block.args, target.args, strict=True)
            target.args = [value for arg, value in pairs if arg in needed]
    for block in function.blocks:
        if block is not entry:
            changed |= any(arg not in needed for arg in block.args)
            block.args = [arg for arg in block.args if arg in needed]
        kept = []
        for op in block.ops:
            if op.opcode == "note":
                settle(op, needed.__contains__)
            elif op.opcode in DROPPED and op.results[0] not in needed:
                continue
            kept.append(op)
        changed |= len(kept) != len(block.ops)
        block.ops = kept
    return changed
