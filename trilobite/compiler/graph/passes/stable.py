"""Which values depend on stable inputs and constants alone: what a target computes once, not every run."""

from __future__ import annotations

from collections.abc import Collection

from trilobite.compiler.graph.passes.dce import has_effect
from trilobite.ir.graph import Graph, Var


def stable_values(graph: Graph, stable: Collection[int]) -> set[Var]:
    """The values that change only when one of these inputs does."""
    known = {graph.inputs[i] for i in stable}
    for e in graph.equations:
        if all(v in known for v in e.inputs) and not has_effect(e) and e.primitive.name != "barrier":
            known.update(e.outputs)
    return known
