"""Fewer, longer loops: adjacent loops that walk through memory as one become one.

Enters and leaves: a nest, with the same meaning. Buffers become flat first, so that an access is one index.
"""

from __future__ import annotations

from dataclasses import replace

from trilobite.compiler.targets.cpu.loops.index import Index, Indirect, product, times
from trilobite.compiler.targets.cpu.loops.ir import (
    Buffer,
    Leaf,
    Load,
    Loop,
    Nest,
    Node,
    Position,
    Statement,
    Target,
    Test,
    node_indices,
    rewritten,
    substituted,
    walk,
)
from trilobite.ir.types import Dim


def flattened(nest: Nest) -> Nest:
    """Every buffer with one axis."""
    flat = _Flat(nest)
    body = rewritten(nest.body, lambda n: (flat.statement(n),) if isinstance(n, Statement) else (n,))
    buffers = tuple(Buffer(b.name, b.dtype, (_span(b),), (), b.kind) for b in nest.buffers)
    return Nest(nest.name, buffers, body, nest.unless_same)


def _span(b: Buffer) -> Dim:
    """Elements from the first to the last."""
    last: Dim = 1
    for d, step in zip(b.shape, b.steps, strict=True):
        if d == 0:
            return 0
        last = last + times(d - 1, step)
    return last


class _Flat:
    """Accesses by several indices as accesses by one."""

    def __init__(self, nest: Nest) -> None:
        self.buffers = {b.name: b for b in nest.buffers}

    def place(self, name: str, index: tuple[Index, ...]) -> tuple[Index, ...]:
        return (self.buffers[name].flat(tuple(map(self.index, index))),)

    def index(self, index: Index) -> Index:
        """Loads inside an index become flat too."""
        if not any(True for _ in index.loads()):
            return index
        out = Index(index.constant)
        for atom, c in index.terms:
            if isinstance(atom, Indirect):
                atom = Indirect(self.load(atom.load), atom.low, atom.high)
            elif not isinstance(atom, str):
                atom = type(atom)(self.index(atom.index), atom.by)
            out = out + Index(0, ((atom, c),))
        return out

    def load(self, each: Load) -> Load:
        guards = tuple(map(self.index, each.guards))
        return Load(each.buffer, self.place(each.buffer, each.index), guards, each.fill)

    def leaf(self, leaf: Leaf) -> Leaf:
        if isinstance(leaf, Load):
            return self.load(leaf)
        if isinstance(leaf, Position):
            return Position(self.index(leaf.index), leaf.dtype)
        return Test(tuple(map(self.index, leaf.guards)))

    def statement(self, s: Statement) -> Statement:
        targets = tuple(Target(t.buffer, self.place(t.buffer, t.index), t.combine) for t in s.targets)
        return Statement(tuple(map(self.leaf, s.leaves)), s.body, targets)


def collapsed(nest: Nest) -> Nest:
    """The nest with loops joined wherever every index allows it, and loops of one iteration gone."""
    nest = flattened(nest)
    return replace(nest, body=rewritten(nest.body, _join))


def _join(node: Node) -> tuple[Node, ...]:
    if not isinstance(node, Loop) or node.kind != "serial":
        return (node,)
    if node.extent == (Index(1),):
        return substituted(node.body, {node.var: Index(0)})
    if len(node.body) != 1 or not isinstance(node.body[0], Loop):
        return (node,)
    child = node.body[0]
    n = _plain(child)
    m = _plain(node)
    if n is None or m is None or child.kind != "serial":
        return (node,)
    total = product(m, n)
    if total is None or not all(
        _joinable(i, node.var, child.var, n) for each in walk(child.body) for i in node_indices(each)
    ):
        return (node,)
    body = substituted(child.body, {node.var: Index(0)})
    joined = Loop(child.var, (Index(total),), body)
    return (joined,)


def _plain(node: Loop) -> Dim | None:
    (first, *rest) = node.extent
    return first.constant if not rest and first.is_constant else None


def _joinable(index: Index, outer: str, inner: str, n: Dim) -> bool:
    """Is the index one of n * outer + inner alone?"""
    if not index.variables & {outer, inner}:
        return True
    a, b = index.coefficient(outer), index.coefficient(inner)
    scaled = product(b, n)
    if scaled is None or a != scaled:
        return False
    for atom, _ in index.terms:
        if isinstance(atom, str):
            continue
        inside = atom.load.indices if isinstance(atom, Indirect) else (atom.index,)
        if not all(_joinable(i, outer, inner, n) for i in inside):
            return False
    return True
