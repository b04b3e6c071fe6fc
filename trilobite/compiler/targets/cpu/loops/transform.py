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
    """Blocks of `size` turns: an outer loop over blocks, an inner one inside; the last may be short."""
    outer, inner = f"{node.var}_o", f"{node.var}_i"
    at = variable(outer) * size + variable(inner)
    body = substituted(node.body, {node.var: at})
    blocks = tuple(_pieces(e, size) for e in node.extent)
    rest = tuple(e - variable(outer) * size for e in node.extent if not _divides(e, size))
    extent = (Index(size), *rest)
    return Loop(outer, blocks, (replace(node, var=inner, extent=extent, body=body),))


def _divides(e: Index, size: int) -> bool:
    return e.is_constant and isinstance(e.constant, int) and e.constant % size == 0


def _pieces(e: Index, size: int) -> Index:
    """e / size, rounded up."""
    if e.is_constant and isinstance(e.constant, int):
        return Index(-(-e.constant // size))
    return atom_index(Quotient(e + (size - 1), size))


def extent_of(node: Loop) -> Dim | None:
    """The number of turns where no other loop decides it."""
    if len(node.extent) == 1 and node.extent[0].is_constant:
        return node.extent[0].constant
    return None


def fuse_pair(node: Loop) -> Loop | None:
    """A loop and the only loop in it as one, whose variable is taken apart again; None if extents forbid."""
    child = node.body[0]
    assert isinstance(child, Loop)
    m, n = extent_of(node), extent_of(child)
    total = None if m is None or n is None else product(m, n)
    if total is None or n is None or lower(n) < 1:
        return None
    var = f"{node.var}_{child.var}"
    both = variable(var)
    parts = {node.var: atom_index(Quotient(both, n)), child.var: atom_index(Remainder(both, n))}
    return Loop(var, (Index(total),), substituted(child.body, parts), node.kind)


def interchange_pair(node: Loop) -> Loop:
    """The loop inside becomes the loop outside."""
    child = node.body[0]
    assert isinstance(child, Loop)
    return replace(child, body=(replace(node, body=child.body),))
