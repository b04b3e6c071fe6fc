"""Ranges of units as ranges of panels, batch entry by batch entry: how all kernels of this room begin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from trilobite.compiler.targets.cpu.contraction.gemm.words import ProductWords
from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import constant


@contextmanager
def panels_of_units(t: Text, w: ProductWords[Value], panels: Value) -> Iterator[tuple[Value, Value, Value]]:
    """For every batch entry that the range of units touches: its number, and its first and last panel."""
    batches = constant("i64", 1)
    for axis in w.batch:
        batches = t.mul(batches, axis.size)
    total = t.mul(batches, panels)
    start, stop = (t.udiv(t.mul(total, u), w.units) for u in (t.begin, t.end))
    with t.when(t.icmp("slt", start, stop)):
        after = t.add(t.udiv(t.sub(stop, 1), panels), 1)
        with t.loop(t.udiv(start, panels), after, name="batch") as batch:
            origin = t.mul(batch.index, panels)
            low, high = t.smax(t.sub(start, origin), 0), t.smin(t.sub(stop, origin), panels)
            yield batch.index, low, high


def operands(t: Text, w: ProductWords[Value], batch: Value) -> tuple[Value, Value]:
    """Where this batch entry of A and of B begins."""
    axes = w.batch
    return (
        strided(t, w.a, batch, [(axis.size, axis.a) for axis in axes]),
        strided(t, w.b, batch, [(axis.size, axis.b) for axis in axes]),
    )


def strided(t: Text, base: Value, number: Value, axes: Sequence[tuple[Value, Value]]) -> Value:
    """Where an entry begins, counted over axes of these sizes and strides in bytes, the last one fastest."""
    at, rest = base, number
    for i in range(len(axes) - 1, -1, -1):
        size, stride = axes[i]
        here = rest if i == 0 else t.urem(rest, size)
        at = t.address(at, t.mul(here, stride))
        rest = rest if i == 0 else t.udiv(rest, size)
    return at
