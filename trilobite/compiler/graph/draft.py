"""A graph while it is written anew: what every pass that walks over equations does alike.

Enters: a graph, and its equations in order, as they are or in other words. Leaves: a graph in which readers
of a value read what stands for it now; the graph itself, where nothing has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from trilobite.base.locations import Location
from trilobite.ir.graph import Equation, Graph, Var


class Draft:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.equations: list[Equation] = []
        self.now: dict[Var, Var] = {}  # what stands for a value of the old graph

    def current(self, e: Equation) -> Equation:
        """An equation that reads what stands for its operands."""
        if not any(v in self.now for v in e.inputs):
            return e
        return e.reading(tuple(self.now.get(v, v) for v in e.inputs))

    def put(self, values: Iterable[Var], instead: Iterable[Var]) -> None:
        """From now on readers of some values read others."""
        self.now.update(zip(values, instead, strict=True))

    def finished(self) -> Graph:
        graph, outputs = self.graph, [self.now.get(v, v) for v in self.graph.outputs]
        same = len(self.equations) == len(graph.equations) and outputs == list(graph.outputs)
        if same and all(a is b for a, b in zip(self.equations, graph.equations, strict=True)):
            return graph
        return Graph(graph.inputs, self.equations, outputs, graph.name)


def spliced(
    body: Graph, operands: Sequence[Var], location: Callable[[Equation], Location]
) -> tuple[list[Equation], list[Var]]:
    """A body's equations under fresh names, reading these operands; and what its results are called."""
    now = dict(zip(body.inputs, operands, strict=True))
    equations: list[Equation] = []
    for e in body.equations:
        outputs = tuple(Var(v.type) for v in e.outputs)
        inputs = tuple(now[v] for v in e.inputs)
        equations.append(Equation(e.primitive, inputs, e.attributes, outputs, location(e)))
        now.update(zip(e.outputs, outputs, strict=True))
    return equations, [now[v] for v in body.outputs]
