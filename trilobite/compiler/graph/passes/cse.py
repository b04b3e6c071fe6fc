"""cse: common subexpressions are computed once.

Enters: a graph. Leaves: the graph in which equal equations over equal values are one (the earlier one, with
its line). A sum is equal to the sum with its operands exchanged. Barriers are never merged, so what
checkpointing computes again stays computed again; neither is what has effects. Random bits are a function of
key and counter, so equal ones may be.
"""

from __future__ import annotations

from collections.abc import Hashable

from trilobite.compiler.graph.draft import Draft
from trilobite.compiler.graph.passes.dce import has_effect
from trilobite.compiler.graph.regions import know_effects, on_every_graph
from trilobite.compiler.graph.rewrite import UNCOUNTED, Counters
from trilobite.ir.graph import Equation, Graph, Var, exact

# Exchanging the operands of these changes no bit. (maximum of 0.0 and -0.0 is the second one.)
COMMUTATIVE = frozenset({"add", "mul", "and", "or", "xor", "eq", "ne"})


def cse(graph: Graph, counters: Counters = UNCOUNTED) -> Graph:
    """The graph without repeated work."""
    know_effects(graph)
    return on_every_graph(graph, lambda g: _merged(g, counters))


def _merged(graph: Graph, counters: Counters) -> Graph:
    number: dict[Var, int] = {v: i for i, v in enumerate(graph.inputs)}
    first: dict[Hashable, Equation] = {}
    draft = Draft(graph)
    for e in map(draft.current, graph.equations):
        earlier = e if _is_apart(e) else first.setdefault(_key(e, number), e)
        if earlier is not e:
            draft.put(e.outputs, earlier.outputs)
            counters[e.primitive.name] += 1
            continue
        for v in e.outputs:
            number[v] = len(number)
        draft.equations.append(e)
    return draft.finished()


def _is_apart(e: Equation) -> bool:
    return e.primitive.name == "barrier" or has_effect(e)


def _key(e: Equation, number: dict[Var, int]) -> Hashable:
    """Equal for equations that give the same results."""
    operands = [number[v] for v in e.inputs]
    if e.primitive.name in COMMUTATIVE:
        operands.sort()
    attributes = tuple((k, exact(e.attributes[k])) for k in sorted(e.attributes))
    return e.primitive.name, tuple(operands), attributes, tuple(v.type for v in e.outputs)
