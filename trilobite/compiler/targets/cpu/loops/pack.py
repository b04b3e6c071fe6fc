"""Packing: what a loop reads of a buffer, copied into a local buffer that lies as the loop reads it.

Enters: a nest, a buffer, a loop. Leaves: the nest with a copy at the start of each iteration of the loop. The
local buffer has one axis per loop inside that moves the access, in the order of the loops.
"""

from __future__ import annotations

from dataclasses import replace

from trilobite.base.errors import IRError
from trilobite.compiler.targets.cpu.loops.combine import scalar_graph
from trilobite.compiler.targets.cpu.loops.index import Index, variable
from trilobite.compiler.targets.cpu.loops.ir import (
    Buffer,
    Leaf,
    Load,
    Loop,
    Nest,
    Node,
    Statement,
    Target,
    loops,
    rewritten,
    statements,
)
from trilobite.compiler.targets.cpu.loops.transform import on_loop
from trilobite.ir.graph import Graph


def packed(nest: Nest, buffer: str, node: Loop) -> Nest:
    """The nest with `buffer` packed at `node`; every load of it inside must be the same access."""
    found = {
        leaf for s in statements(node.body) for leaf in s.leaves
        if isinstance(leaf, Load) and leaf.buffer == buffer
    }  # fmt: skip
    if len(found) != 1 or any(load.guards for load in found):
        raise _refused(nest, buffer, node, f"it is read in {len(found)} ways", "one access without guards")
    (load,) = found
    moved = {v for i in load.index for v in i.variables}
    inner = [each for each in loops(node.body) if each.var in moved]
    sizes = [_largest(each) for each in inner]
    if any(n is None for n in sizes):
        raise _refused(
            nest, buffer, node, "a loop inside has no fixed bound", "loops with fixed bounds inside"
        )
    tile = Buffer(
        f"{buffer}_at_{node.var}", nest.buffer(buffer).dtype, tuple(n for n in sizes if n), kind="local"
    )
    copy = _copy(nest, load, tile, inner)
    used = tuple(variable(each.var) for each in inner)
    body = rewritten(node.body, lambda n: (_redirected(n, load, Load(tile.name, used)),))
    changed = on_loop(nest, node.var, lambda n: (replace(n, body=(copy, *body)),))
    return replace(changed, buffers=(*nest.buffers, tile))


def _refused(nest: Nest, buffer: str, node: Loop, why: str, expected: str) -> IRError:
    return IRError(
        f"{buffer} cannot be packed inside {node.var}: {why}",
        where=f"nest {nest.name}",
        expected=expected,
        remedy="pack at another loop, or split the loops inside by fixed sizes",
    )


def _largest(node: Loop) -> int | None:
    known = [e.constant for e in node.extent if e.is_constant and isinstance(e.constant, int)]
    return min(known) if known and not node.start else None


def _copy(nest: Nest, load: Load, tile: Buffer, inner: list[Loop]) -> Node:
    """Loops of their own, with names of their own."""
    own = {each.var: variable(f"{each.var}_p") for each in inner}
    source = load.substituted(own)
    target = Target(tile.name, tuple(own[each.var] for each in inner))
    node: Node = Statement((source,), identity_graph(nest.buffer(load.buffer)), (target,))
    for each in reversed(inner):
        extent = tuple(Index(e.constant, e.terms) for e in each.extent)
        node = Loop(f"{each.var}_p", extent, (node,))
    return node


def identity_graph(buffer: Buffer) -> Graph:
    """A scalar as it is."""
    return scalar_graph("stop_gradient", buffer.dtype, 1)


def _redirected(node: Node, old: Load, new: Load) -> Node:
    if not isinstance(node, Statement):
        return node
    leaves: tuple[Leaf, ...] = tuple(new if leaf == old else leaf for leaf in node.leaves)
    return replace(node, leaves=leaves)
