"""The order of equations where it decides what is written to memory.

Enters: an expanded graph. Leaves: the same equations in another order. Where two products meet in one
elementwise equation, as at the end of a residual block, the one that stands last takes the meeting into its
epilogue, and the other is written to memory: so the one that is narrower in memory stands first.
"""

from __future__ import annotations

from collections.abc import Mapping

from trilobite.compiler.targets.dlp.groups import CONTRACTIONS
from trilobite.compiler.targets.dlp.vector.rows import ROWS
from trilobite.ir.graph import Equation, Graph, Var


def narrow_first(graph: Graph) -> Graph:
    """Chains behind a product that one meeting alone reads move to it, if what they meet is narrower."""
    made = {v: e for e in graph.equations for v in e.outputs}
    readers: dict[Var, list[Equation]] = {}
    for e in graph.equations:
        for v in e.inputs:
            readers.setdefault(v, []).append(e)
    place = {id(e): n for n, e in enumerate(graph.equations)}
    results, moved = set(graph.outputs), dict[int, int]()  # an equation's place, and the one it moves to
    for e in graph.equations:
        if e.primitive.name not in ROWS or len(e.inputs) != 2:
            continue
        chains = [_chain(v, made) for v in e.inputs]
        if not all(chains):
            continue
        first, last = sorted(chains, key=lambda chain: place[id(chain[0])])
        values = [v for x in first for v in x.outputs]
        alone = all(v not in results and all(r is e or r in first for r in readers[v]) for v in values)
        if alone and not set(map(id, first)) & set(map(id, last)) and _narrowest(first) > _narrowest(last):
            moved |= {place[id(x)]: place[id(e)] for x in first}
    if not moved:
        return graph
    order = sorted(range(len(graph.equations)), key=lambda n: (moved.get(n, n), n not in moved, n))
    return Graph(graph.inputs, [graph.equations[n] for n in order], graph.outputs, graph.name)


def _chain(v: Var, made: Mapping[Var, Equation]) -> list[Equation]:
    """From a product to the value, if elementwise equations of its shape alone lead there."""
    found: list[Equation] = []
    while v in made:
        e = made[v]
        found.append(e)
        if e.primitive.name in CONTRACTIONS:
            return found[::-1]
        before = [u for u in e.inputs if u.type.shape == v.type.shape and _leads(u, made)]
        if e.primitive.name not in ROWS or len(before) != 1:
            return []
        v = before[0]
    return []


def _leads(v: Var, made: Mapping[Var, Equation]) -> bool:
    """Is it computed, not a number or a vector spread out?"""
    return v in made and made[v].primitive.name not in ("full", "constant", "broadcast", "iota")


def _narrowest(chain: list[Equation]) -> int:
    """Bytes of an element where the chain is narrowest: there it would be written."""
    return min(v.type.dtype.itemsize for e in chain for v in e.outputs)
