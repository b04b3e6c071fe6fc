"""Which outputs may overwrite which inputs.

Enters: the scheduled nests of a region, in order. Leaves: pairs (output, input) that may share one buffer:
every element of the input is read for the last time no later than the element that takes its place is
written, whatever the order of units.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TypeVar

from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.loops.index import Index, bounds
from trilobite.compiler.targets.cpu.loops.ir import (
    Buffer,
    Load,
    Loop,
    Micro,
    Nest,
    Node,
    Statement,
    Target,
    ranges_of,
)

Access = TypeVar("Access", Load, Target)


@dataclass(frozen=True)
class _Use:
    """A statement that reads or writes a buffer, with its place in the text and the loops around it, and what
    it reads there (`loads`) or where it writes (`targets`).
    """

    nest: int
    order: int
    statement: Statement
    around: tuple[str, ...]
    loads: tuple[Load, ...] = ()
    targets: tuple[Target, ...] = ()


def shared(nests: Sequence[Nest], inputs: int, outputs: int) -> tuple[tuple[int, int], ...]:
    """All pairs; the plan knows which operands die, and takes each operand and each result at most once."""
    reads: dict[str, list[_Use]] = {}
    writes: dict[str, list[_Use]] = {}
    for k, nest in enumerate(nests):
        for order, (s, around) in enumerate(_statements(nest.body, ())):
            use = partial(_Use, k, order, s, around)
            for name, loads in _by_buffer(s.loads()).items():
                reads.setdefault(name, []).append(use(loads=tuple(loads)))
            for name, targets in _by_buffer(s.targets).items():
                writes.setdefault(name, []).append(use(targets=tuple(targets)))
    buffers = {b.name: b for nest in nests for b in nest.arguments}
    xs = [(i, buffers[f"x{i}"]) for i in range(inputs) if f"x{i}" in buffers]
    # A join is written part by part, under other names, though what follows may read it whole.
    ys = [(k, buffers[f"y{k}"]) for k in range(outputs) if f"y{k}" in writes]
    return tuple(
        (k, i)
        for k, y in ys
        for i, x in xs
        if _same_size(x, y) and _may_share(nests, reads.get(x.name, []), writes[y.name])
    )


def _by_buffer(uses: Iterable[Access]) -> dict[str, list[Access]]:
    found: dict[str, list[Access]] = {}
    for use in uses:
        found.setdefault(use.buffer, []).append(use)
    return found


def _statements(nodes: tuple[Node, ...], around: tuple[str, ...]) -> list[tuple[Statement, tuple[str, ...]]]:
    out: list[tuple[Statement, tuple[str, ...]]] = []
    for node in nodes:
        if isinstance(node, Loop):
            out += _statements(node.body, (*around, node.var))
        elif isinstance(node, Micro):
            out += _statements(node.meaning, around)
        else:
            out.append((node, around))
    return out


def _same_size(x: Buffer, y: Buffer) -> bool:
    return x.shape == y.shape and x.dtype.itemsize == y.dtype.itemsize


def _may_share(nests: Sequence[Nest], reads: Sequence[_Use], writes: Sequence[_Use]) -> bool:
    first = min(u.nest for u in writes)
    if any(u.nest > first for u in reads):
        return False
    here = [u for u in reads if u.nest == first]
    if not here:
        return True
    there = [u for u in writes if u.nest == first]
    if len(there) != 1:
        return False
    (write,) = there
    (target,) = write.targets
    once = all(any(v in i.variables for i in target.index) for v in write.around)
    if target.combine is not None or not once:
        return False
    return all(_is_before(nests[first], u, write, target.index) for u in here)


def _is_before(nest: Nest, read: _Use, write: _Use, target: tuple[Index, ...]) -> bool:
    """Is what this statement reads never overwritten before?"""
    if read.statement is write.statement:
        # The same element, by the same iteration, which reads before it writes.
        return all(load.index == target and load in read.statement.leaves for load in read.loads)
    apart = read.order < write.order and read.around[-1:] != write.around[-1:]
    both = [v for v, w in zip(read.around, write.around, strict=False) if v == w]
    return apart and bool(both) and all(_same_row(nest, both, load, target) for load in read.loads)


def _same_row(nest: Nest, both: Sequence[str], load: Load, target: tuple[Index, ...]) -> bool:
    """Does each iteration of the loops around both read only of the row that it alone writes?"""
    if len(load.index) != 1 or len(target) != 1:
        return False
    ranges = ranges_of(nest.body)
    pair = (load.index[0], target[0])
    for v in both:  # rows of rows: each lies within the one around it
        step = target[0].coefficient(v)
        if not isinstance(step, int) or step < 1 or load.index[0].coefficient(v) != step:
            return False
        pair = (pair[0].without(v), pair[1].without(v))
        for rest in pair:
            span = bounds(rest, ranges)
            if v in rest.variables or span is None or span[0] < 0 or span[1] >= step:
                return False
    return True
