"""narrow_calls: calls that a target keeps whole return no operand of theirs, and no value twice.

Enters: a graph after `inline`. Leaves: the graph in which no call hands an operand through, or gives one
value twice: readers take the operand, or the first of the two. (The forward half of a composite gives its
residuals, most of which are its operands.)
"""

from __future__ import annotations

from trilobite.compiler.graph.draft import Draft
from trilobite.compiler.graph.rewrite import UNCOUNTED, Counters
from trilobite.ir.graph import Equation, Graph, Var


def narrow_calls(graph: Graph, counters: Counters = UNCOUNTED) -> Graph:
    """The graph with narrower calls."""
    draft = Draft(graph)
    for e in map(draft.current, graph.equations):
        draft.equations.append(_narrowed(e, draft.now, counters))
    return draft.finished()


def _narrowed(e: Equation, instead: dict[Var, Var], counters: Counters) -> Equation:
    if e.primitive.name != "call":
        return e
    body: Graph = e.attributes["graph"]
    known = dict(zip(body.inputs, e.inputs, strict=True))
    kept: list[tuple[Var, Var]] = []
    for inner, outer in zip(body.outputs, e.outputs, strict=True):
        if inner in known:
            instead[outer] = known[inner]
            counters["result"] += 1
        else:
            known[inner] = outer
            kept.append((inner, outer))
    if len(kept) == len(e.outputs):
        return e
    inner_graph = Graph(body.inputs, body.equations, [i for i, _ in kept], body.name)
    whole = {k: v for k, v in e.attributes.items() if k in ("name", "options", "target")}
    return Equation(
        e.primitive, e.inputs, {**whole, "graph": inner_graph}, tuple(o for _, o in kept), e.location
    )
