"""Values that were made early are made again where they are needed: runs, because registers in a row cannot
be spilled, and whatever a word of the frame would not save anything for.

Enters: a legalised function and some of its pure operations. Leaves: the same function, in which each of
them is made anew right before every operation that takes it.
"""

from __future__ import annotations

from collections.abc import Iterable

from trilobite.processor.lang.ir import Function, Op, Value


def remake_at_uses(function: Function, early: Iterable[Op]) -> None:
    """A copy of the operation before each use; it goes itself."""
    again: dict[Value, Op] = {op.result: op for op in early}
    for block in function.blocks:
        kept: list[Op] = []
        for op in block.ops:
            if op.results and op.result in again:
                continue
            mapping: dict[Value, Value] = {}
            for value in op.uses() if op.opcode != "note" else ():
                if value in again and value not in mapping:
                    mapping[value] = _made_again(again, value, op, kept)
            op.replace_uses(mapping)
            kept.append(op)
        block.ops = kept


def _made_again(again: dict[Value, Op], value: Value, at: Op, kept: list[Op]) -> Value:
    """A copy of what makes the value, behind copies of what that takes."""
    old = again[value]
    operands = [_made_again(again, v, at, kept) if v in again else v for v in old.operands]
    copy = Op(old.opcode, operands, dict(old.attrs), [value.type], at.location)
    copy.block = at.block
    kept.append(copy)
    return copy.result
