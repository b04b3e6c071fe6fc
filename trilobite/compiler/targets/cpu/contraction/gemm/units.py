"""Ranges of units as ranges of panels, batch entry by batch entry: how all kernels of this room begin."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from trilobite.compiler.targets.cpu.contraction.gemm.problem import Problem
from trilobite.compiler.targets.cpu.emit.text import Text, Value
from trilobite.compiler.targets.cpu.emit.types import constant


@contextmanager
def panels_of_units(
    t: Text, p: Problem, w: dict[str, Value], panels: Value
) -> Iterator[tuple[Value, Value, Value]]:
    """For every batch entry that the range of units touches: its number, and its first and last panel."""
    batches = constant("i64", 1)
    for i in range(len(p.batch)):
        batches = t.mul(batches, w[f"batch{i}"])
    total = t.mul(batches, panels)
    start, stop = (t.udiv(t.mul(total, u), w["units"]) for u in (t.begin, t.end))
    with t.when(t.icmp("slt", start, stop)):
        after = t.add(t.udiv(t.sub(stop, 1), panels), 1)
        with t.loop(t.udiv(start, panels), after, name="batch") as batch:
            origin = t.mul(batch.index, panels)
            low, high = t.smax(t.sub(start, origin), 0), t.smin(t.sub(stop, origin), panels)
            yield batch.index, low, high


def operand(t: Text, p: Problem, w: dict[str, Value], side: str, batch: Value) -> Value:
    """Where this batch entry of A or B begins."""
    at, rest = w[side], batch
    for i in range(len(p.batch) - 1, -1, -1):
        here = rest if i == 0 else t.urem(rest, w[f"batch{i}"])
        at = t.address(at, t.mul(here, w[f"{side}_batch{i}"]))
        rest = rest if i == 0 else t.udiv(rest, w[f"batch{i}"])
    return at
