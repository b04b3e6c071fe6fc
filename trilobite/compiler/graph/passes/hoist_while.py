"""hoist_while: loop-invariant code of a `while` moves before the loop.

Enters: a graph. Leaves: the graph whose loops take carries that nothing changes as constants, and compute
what their test or body makes of constants alone before the first round. A loop may have no round at all: what
is computed in vain then reaches nobody, for steps with effects stay where they are. It changes no bits, and a
loop that never ends stays one.
"""

from __future__ import annotations

from trilobite.compiler.graph.passes.hoist_scan import Pair, Written, invariant_steps, with_loops
from trilobite.compiler.graph.regions import on_every_graph
from trilobite.compiler.graph.rewrite import UNCOUNTED, Counters
from trilobite.ir.graph import Equation, Graph, Var


def hoist_while(graph: Graph, counters: Counters = UNCOUNTED) -> Graph:
    """The graph with less in its loops."""
    return on_every_graph(graph, lambda g: with_loops(g, "while", lambda e, _: _written(e, counters)))


class _Region:
    """Test or body: what is constant in it, its carries, its steps."""

    def __init__(self, graph: Graph, outer: tuple[Var, ...]) -> None:
        self.graph = graph
        self.consts = [Pair(*p) for p in zip(outer, graph.inputs, strict=False)]
        self.carries = list(graph.inputs[len(outer) :])
        self.before: list[Equation] = []
        self.steps = list(graph.equations)

    def hold(self, i: int, start: Var) -> None:
        """Carry i stays what it was at the start."""
        self.consts.append(Pair(start, self.carries[i]))

    def drop(self, carries: set[int]) -> None:
        self.carries = [v for i, v in enumerate(self.carries) if i not in carries]

    def hoist(self) -> int:
        found = invariant_steps(self.steps, self.consts)
        self.steps, self.before = found.kept, found.before
        self.consts += found.consts
        return found.moved

    def closed(self, outputs: list[Var]) -> Graph:
        inputs = (*(p.inner for p in self.consts), *self.carries)
        return Graph(inputs, self.steps, outputs, self.graph.name)


def _written(e: Equation, counters: Counters) -> Written:
    a, b = e.attributes["consts"]
    test = _Region(e.attributes["test"], e.inputs[:a])
    body = _Region(e.attributes["body"], e.inputs[a : a + b])
    starts, results = e.inputs[a + b :], body.graph.outputs
    still = {i for i, v in enumerate(results) if v is body.carries[i]}
    if len(still) == len(results):
        return [e], {}
    for i in sorted(still):
        test.hold(i, starts[i])
        body.hold(i, starts[i])
    test.drop(still)
    body.drop(still)
    moved = test.hoist() + body.hoist()
    if not still and not moved:
        return [e], {}
    counters["carry -> constant"] += len(still)
    counters["step -> before the loop"] += moved
    left = [i for i in range(len(results)) if i not in still]
    attributes = {
        "test": test.closed(list(test.graph.outputs)),
        "body": body.closed([results[i] for i in left]),
        "consts": (len(test.consts), len(body.consts)),
    }
    inputs = (
        *(p.outer for p in test.consts),
        *(p.outer for p in body.consts),
        *(starts[i] for i in left),
    )
    loop = Equation(e.primitive, inputs, attributes, tuple(e.outputs[i] for i in left), e.location)
    return [*test.before, *body.before, loop], {e.outputs[i]: starts[i] for i in still}
