"""Operations whose results nobody uses disappear.

A note keeps no value alive: the debugger shows what is there or follows from it, it does not make the program
slower.
"""

from __future__ import annotations

from trilobite.processor.lang.cfg import remove_unreachable
from trilobite.processor.lang.ir import Function, Op, Result, Value
from trilobite.processor.lang.ops import PURE
from trilobite.processor.lang.recipe import settle


def remove_dead_code(function: Function) -> bool:
    """Marks from effects backwards, then sweeps. A block argument is needed only if something reads it."""
    remove_unreachable(function)
    passed = _passed(function)
    needed: set[Value] = set()
    work: list[Value] = []
    for op in function.ops():
        if op.opcode not in PURE and not _droppable(op):
            work.extend(op.operands)
    while work:
        value = work.pop()
        if value in needed:
            continue
        needed.add(value)
        if isinstance(value, Result):
            work.extend(value.op.operands)
        work.extend(passed.get(value, ()))
    return _sweep(function, needed)


def _passed(function: Function) -> dict[Value, list[Value]]:
    """What each block argument may be."""
    found: dict[Value, list[Value]] = {}
    for op in function.ops():
        for target in op.targets:
            for arg, value in zip(target.block.args, target.args, strict=True):
                found.setdefault(arg, []).append(value)
    return found


def _sweep(function: Function, needed: set[Value]) -> bool:
    changed = False
    entry = function.blocks[0]
    for op in function.ops():
        for target in op.targets:
            pairs = zip(target.block.args, target.args, strict=True)
            target.args = [value for arg, value in pairs if arg in needed]
    for block in function.blocks:
        if block is not entry:
            changed |= any(arg not in needed for arg in block.args)
            block.args = [arg for arg in block.args if arg in needed]
        kept = [op for op in block.ops if _stays(op, needed)]
        changed |= len(kept) != len(block.ops)
        block.ops = kept
    return changed


def _stays(op: Op, needed: set[Value]) -> bool:
    if op.opcode == "note":
        settle(op, needed.__contains__)
        return True
    if op.opcode in PURE or _droppable(op):
        return any(result in needed for result in op.results)
    return True


def _droppable(op: Op) -> bool:
    """Reading a variable or memory has no effect of its own (a load that would fault is a fault all the same
    only if its value matters)."""
    return op.opcode in ("get", "note", "load")
