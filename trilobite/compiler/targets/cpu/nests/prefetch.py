"""Prefetching of rows: while the most expensive pass over a row computes, the next row is fetched.

Enters and leaves: a scheduled nest, with the same meaning. A first pass that computes little waits for
memory, and an expensive one after it leaves memory idle. So the expensive pass prefetches what the first one
reads of the next row, and the cache lines that later passes of its own row write.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from trilobite.compiler.targets.cpu.loops.index import Index, substitute, variable
from trilobite.compiler.targets.cpu.loops.ir import Ahead, Load, Loop, Nest, Statement
from trilobite.ir.primitives.call import graph_flops

DEAR = 8  # operations of an element from which a pass leaves memory idle
LEAST = 1 << 18  # bytes of a buffer that does not stay in a cache anyway


def prefetched(nest: Nest) -> Nest:
    top = nest.body[0] if len(nest.body) == 1 else None
    if not isinstance(top, Loop) or top.kind != "parallel":
        return nest
    passes = [n for n in top.body if isinstance(n, Loop) and n.kind == "vector"]
    if len(passes) < 2 or len({p.extent for p in passes}) > 1:
        return nest
    dear = max(range(len(passes)), key=lambda k: _work(passes[k]))
    if dear == 0 or _work(passes[dear]) < DEAR:
        return nest
    found = _Prefetch(nest, top, passes[dear].var)
    ahead = [*found.read(passes[0]), *(w for p in passes[dear + 1 :] for w in found.written(p))]
    body = tuple(replace(n, ahead=tuple(ahead)) if n is passes[dear] else n for n in top.body)
    return replace(nest, body=(replace(top, body=body),))


def _work(node: Loop) -> float:
    return sum(graph_flops(s.body) for s in node.body if isinstance(s, Statement))


class _Prefetch:
    """Places of a pass, as the dear one of the same row sees them."""

    def __init__(self, nest: Nest, top: Loop, var: str) -> None:
        self.nest, self.top, self.var = nest, top, var

    def read(self, node: Loop) -> Iterator[Ahead]:
        """What a pass reads of the next row."""
        loads = {leaf for s in node.body if isinstance(s, Statement) for leaf in s.leaves}
        for load in sorted((x for x in loads if isinstance(x, Load)), key=str):
            if not load.guards and self._far(load.buffer, load.index, node.var):
                yield self._place(load.buffer, load.index, node.var, 1)

    def written(self, node: Loop) -> Iterator[Ahead]:
        for s in node.body:
            for t in s.targets if isinstance(s, Statement) else ():
                if t.combine is None and self._far(t.buffer, t.index, node.var):
                    yield self._place(t.buffer, t.index, node.var, 0)

    def _far(self, name: str, index: tuple[Index, ...], var: str) -> bool:
        """Is it a row of something large in memory, element after element?"""
        buffer = self.nest.buffer(name)
        if buffer.kind != "argument" or len(index) != 1 or buffer.bytes < LEAST:
            return False
        (flat,) = index
        plain = {atom for atom, _ in flat.terms} == {self.top.var, var}
        return plain and flat.coefficient(var) == 1

    def _place(self, name: str, index: tuple[Index, ...], var: str, rows: int) -> Ahead:
        by = {var: variable(self.var), self.top.var: variable(self.top.var) + rows}
        return Ahead(name, substitute(index[0], by), write=not rows)
