"""Changes of how a nest runs, as plain rewrites: split, fuse, reorder, kinds. Nothing is checked here.

`schedule` checks dependences and calls these; default schedules, legal by how their nests are built, call
them directly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from trilobite.compiler.targets.cpu.loops.index import (
    Index,
    Quotient,
    Remainder,
    atom_index,
    lower,
    product,
    variable,
)
from trilobite.compiler.targets.cpu.loops.ir import Loop, Nest, Node, rewritten, substituted
from trilobite.ir.types import Dim


def on_loop(nest: Nest, var: str, change: Callable[[Loop], tuple[Node, ...]]) -> Nest:
    """The nest with one loop replaced."""

    def each(node: Node) -> tuple[Node, ...]:
        return change(node) if isinstance(node, Loop) and node.var == var else (node,)

    return replace(nest, body=rewritten(nest.body, each))


def split_loop(node: Loop, size: int) -> Loop:
    """Blocks of `size` iterations: an outer loop over blocks, an inner one inside; the last may be short."""
    outer, inner = f"{node.var}_o", f"{node.var}_i"
    at = variable(outer) * size + variable(inner)
    body = substituted(node.body, {node.var: at})
    blocks = tuple(_pieces(e, size) for e in node.extent)
    rest = tuple(e - variable(outer) * size for e in node.extent if not _divides(e, size))
    if node.start:
        # Blocks before the first iteration and behind the last are empty, so bounds of other loops need not
        # count.
        blocks = tuple(b for b, e in zip(blocks, node.extent, strict=True) if e.is_constant) or blocks
    extent = (Index(size), *rest)
    start = tuple(s - variable(outer) * size for s in node.start)
    return Loop(outer, blocks, (replace(node, var=inner, extent=extent, start=start, body=body),))


def _divides(e: Index, size: int) -> bool:
    return e.is_constant and isinstance(e.constant, int) and e.constant % size == 0


def _pieces(e: Index, size: int) -> Index:
    """e / size, rounded up."""
    if e.is_constant and isinstance(e.constant, int):
        return Index(-(-e.constant // size))
    return atom_index(Quotient(e + (size - 1), size))


def extent_of(node: Loop) -> Dim | None:
    """The number of iterations where no other loop decides it."""
    if len(node.extent) == 1 and node.extent[0].is_constant and not node.start:
        return node.extent[0].constant
    return None


def fuse_pair(node: Loop) -> Loop | None:
    """A loop and the only loop in it as one, whose variable is taken apart again; None if extents forbid."""
    child = node.body[0]
    assert isinstance(child, Loop)
    m, n = extent_of(node), extent_of(child)  # none of a skewed loop
    total = None if m is None or n is None else product(m, n)
    if total is None or n is None or lower(n) < 1:
        return None
    var = f"{node.var}_{child.var}"
    both = variable(var)
    parts = {node.var: atom_index(Quotient(both, n)), child.var: atom_index(Remainder(both, n))}
    return Loop(var, (Index(total),), substituted(child.body, parts), node.kind)


def interchange_pair(node: Loop) -> Loop | None:
    """The loop inside becomes the loop outside. Bounds of it that grow or shrink with the other's
    iterations by one become bounds of the other; None where they do so otherwise, or no other bound is left.
    """
    child = node.body[0]
    assert isinstance(child, Loop)
    outer = node.var
    free = tuple(e for e in child.extent if outer not in e.variables)
    moved = _Bounds(node, child.var)
    for e in child.extent:  # child < e
        if outer in e.variables and not moved.below(e):
            return None
    for s in child.start:  # child >= s
        if outer in s.variables and not moved.not_before(s):
            return None
    if not free:
        return None
    kept = tuple(s for s in child.start if outer not in s.variables)
    inner = replace(node, extent=moved.extent, start=moved.start, body=child.body)
    return replace(child, extent=free, start=kept, body=(inner,))


class _Bounds:
    """The bounds of a loop that becomes the inner one, with those that the other one brings."""

    def __init__(self, node: Loop, other: str) -> None:
        self.var, self.other = node.var, variable(other)
        self.extent, self.start = node.extent, node.start

    def below(self, e: Index) -> bool:
        """other < e"""
        c, rest = e.coefficient(self.var), e.without(self.var)
        if c == 1:  # other < var + rest
            self.start = (*self.start, self.other - rest + 1)
        elif c == -1:  # var < rest - other
            self.extent = (*self.extent, rest - self.other)
            self.start = self.start or (Index(0),)
        return self._is_plain(c, rest)

    def not_before(self, s: Index) -> bool:
        """other >= s"""
        c, rest = s.coefficient(self.var), s.without(self.var)
        if c == 1:  # var <= other - rest
            self.extent = (*self.extent, self.other - rest + 1)
            self.start = self.start or (Index(0),)
        elif c == -1:  # var >= rest - other
            self.start = (*self.start, rest - self.other)
        return self._is_plain(c, rest)

    def _is_plain(self, c: Dim, rest: Index) -> bool:
        return c in (1, -1) and self.var not in rest.variables


def join_pair(nest: Nest, first: Loop, second: Loop) -> Nest:
    """The nest with two loops of equal extents beside each other as one, named as the second."""
    body = (*substituted(first.body, {first.var: variable(second.var)}), *second.body)

    def change(node: Node) -> tuple[Node, ...]:
        if node == second:
            return (replace(second, body=body),)
        return () if node == first else (node,)

    return replace(nest, body=rewritten(nest.body, change))


def skew_loop(node: Loop, by: Loop, factor: int) -> Loop | None:
    """A loop whose iterations begin `factor` later with each iteration of another; None where that has no
    fixed end.
    """
    last, iterations = extent_of(by), extent_of(node)
    if not isinstance(last, int) or not isinstance(iterations, int) or factor < 1:
        return None
    new = f"{node.var}_{by.var}"
    late = variable(by.var) * factor
    body = substituted(node.body, {node.var: variable(new) - late})
    extent = (late + iterations, Index(iterations + factor * max(last - 1, 0)))
    return replace(node, var=new, extent=extent, start=(late,), body=body)
