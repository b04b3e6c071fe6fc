"""Runs that were made early are made again where they are needed: registers in a row cannot be spilled.

Enters: a legalised function and some of its runs. Leaves: the same function, in which each of them is made
anew right before every operation that takes it.
"""

from __future__ import annotations

from collections.abc import Iterable

from trilobite.processor.lang.ir import Function, Op, Value


def remake_at_uses(function: Function, runs: Iterable[Op]) -> None:
    """A copy of the run before each use; the run itself goes."""
    again: dict[Value, Op] = {run.result: run for run in runs}
    for block in function.blocks:
        kept: list[Op] = []
        for op in block.ops:
            if any(op is run for run in again.values()):
                continue
            mapping: dict[Value, Value] = {}
            for value in op.operands:
                if value in again and value not in mapping:
                    copy = Op("run", list(again[value].operands), dict(again[value].attrs),
                              [value.type], op.location)  # fmt: skip
                    copy.block = block
                    kept.append(copy)
                    mapping[value] = copy.result
            op.replace_uses(mapping)
            kept.append(op)
        block.ops = kept
