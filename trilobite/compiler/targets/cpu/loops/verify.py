"""What holds for every nest: names are known, variables are in scope, bodies have the right types, and every
access whose bounds are known lies inside its buffer.
"""

from __future__ import annotations

from collections.abc import Iterator

from trilobite.base.errors import IRError
from trilobite.compiler.targets.cpu.loops.index import Index, Quotient, Remainder, atom_index, bounds
from trilobite.compiler.targets.cpu.loops.ir import (
    COMBINES,
    Loop,
    Micro,
    Nest,
    Node,
    Statement,
    leaf_dtype,
    loops,
    node_indices,
    ranges_of,
)
from trilobite.compiler.targets.cpu.loops.text import loop_line, statement_lines


def verify(nest: Nest) -> None:
    """Raises `IRError` for the first thing that does not hold."""
    names = [b.name for b in nest.buffers]
    twice = {n for n in names if names.count(n) > 1}
    if twice:
        raise _error(nest, f"two buffers are named {min(twice)!r}", "names that differ")
    _Check(nest).nodes(nest.body, ())


def _is_reached(index: Index) -> bool:
    """Are both bounds of an index values that it takes? Where a variable stands in several terms, as in
    i - 4 (i div 4), they hold, but are wider than that.
    """
    used = [v for atom, _ in index.terms for v in atom_index(atom).variables]
    inner = [atom.index for atom, _ in index.terms if isinstance(atom, (Quotient, Remainder))]
    return len(used) == len(set(used)) and all(map(_is_reached, inner))


def _error(nest: Nest, what: str, expected: str, node: Node | None = None) -> IRError:
    place = f"nest {nest.name}"
    if isinstance(node, Loop):
        place += f", loop `{loop_line(node)}`"
    elif isinstance(node, Statement):
        place += f", statement `{'; '.join(statement_lines(node))}`"
    remedy = "this is a fault of whoever built or scheduled the nest; print it before and after"
    return IRError(what, where=place, expected=expected, remedy=remedy)


class _Check:
    def __init__(self, nest: Nest) -> None:
        self.nest, self.ranges = nest, ranges_of(nest.body)
        self.buffers = {b.name: b for b in nest.buffers}

    def nodes(self, nodes: tuple[Node, ...], scope: tuple[str, ...]) -> None:
        for node in nodes:
            if isinstance(node, Micro):
                self.nodes(node.meaning, scope)
                continue
            for i in node_indices(node):
                self._scope(i, scope, node)
            if isinstance(node, Loop):
                self._loop(node, scope)
                self.nodes(node.body, (*scope, node.var))
            else:
                self._statement(node)

    def _scope(self, index: Index, scope: tuple[str, ...], node: Node) -> None:
        strange = sorted(index.variables - set(scope))
        if strange:
            raise _error(
                self.nest, f"the variable {strange[0]!r} belongs to no loop around", f"one of {scope}", node
            )

    def _loop(self, node: Loop, scope: tuple[str, ...]) -> None:
        if node.var in scope:
            raise _error(self.nest, f"two loops inside each other are named {node.var!r}", "a new name", node)
        if node.kind == "parallel" and scope:
            raise _error(
                self.nest, f"the parallel loop {node.var!r} is not outermost", "no loop around it", node
            )
        if node.kind == "vector" and (node.lanes < 2 or node.lanes & (node.lanes - 1)):
            raise _error(self.nest, f"{node.lanes} lanes", "a power of two above 1", node)

    def _statement(self, s: Statement) -> None:
        if len(s.leaves) != len(s.body.inputs) or len(s.targets) != len(s.body.outputs):
            counts = f"{len(s.leaves)} leaves and {len(s.targets)} targets"
            wanted = f"{len(s.body.inputs)} and {len(s.body.outputs)}, as the body has"
            raise _error(self.nest, counts, wanted, s)
        for name, index, guarded in self._places(s):
            self._inside(name, index, guarded, s)
        for leaf, v in zip(s.leaves, s.body.inputs, strict=True):
            if leaf_dtype(self.nest, leaf) != v.type.dtype or v.type.shape != ():
                found = leaf_dtype(self.nest, leaf)
                raise _error(self.nest, f"{leaf} is {found}", f"{v.type}, as the body has", s)
        for t, v in zip(s.targets, s.body.outputs, strict=True):
            if self.buffers[t.buffer].dtype != v.type.dtype:
                found = self.buffers[t.buffer].dtype
                raise _error(self.nest, f"{t.buffer} holds {found}", f"{v.type.dtype}, as the body gives", s)
            if t.combine is not None and t.combine not in COMBINES:
                raise _error(
                    self.nest, f"results combine by {t.combine!r}", f"one of {', '.join(COMBINES)}", s
                )

    def _places(self, s: Statement) -> Iterator[tuple[str, tuple[Index, ...], bool]]:
        for load in s.loads():
            yield load.buffer, load.index, bool(load.guards)
        for t in s.targets:
            yield t.buffer, t.index, False

    def _inside(self, name: str, index: tuple[Index, ...], guarded: bool, s: Statement) -> None:
        buffer = self.buffers.get(name)
        if buffer is None:
            raise _error(self.nest, f"there is no buffer {name!r}", f"one of {', '.join(self.buffers)}", s)
        if len(index) != len(buffer.shape):
            raise _error(self.nest, f"{len(index)} indices into {name}", f"{len(buffer.shape)}", s)
        if guarded or not self._all_run(s):
            return
        for i, d in zip(index, buffer.shape, strict=True):
            span = bounds(i, self.ranges)
            if span is None or not isinstance(d, int) or not _is_reached(i):
                continue
            if span[0] < 0 or span[1] >= d:
                what = f"the index {i} of {name} is in {span[0]}..{span[1]}"
                raise _error(self.nest, what, f"0..{d - 1}", s)

    def _all_run(self, s: Statement) -> bool:
        """Bounds say something only where every loop runs, and no extent depends on another loop."""
        used = {v for i in node_indices(s) for v in i.variables}
        if any(self.ranges.get(v, 1) == 0 for v in self.ranges):
            return False
        return all(v in self.ranges for v in used) and not self._cut(used)

    def _cut(self, used: set[str]) -> bool:
        """Does a bound beside the plain one leave out iterations of these variables?"""
        for each in loops(self.nest.body):
            if len(each.extent) > 1 or each.start:
                decide = {each.var}.union(*(i.variables for i in (*each.extent, *each.start)))
                if decide & used:
                    return True
        return False
