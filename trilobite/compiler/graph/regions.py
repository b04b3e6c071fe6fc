"""Graphs inside graphs, and what passes ask of a graph as a whole.

A pass looks into the regions of control flow (cond, while, scan). Bodies of calls that a target keeps whole,
and of fusions, are left alone: whoever claimed them relies on their form. Nothing recurses over depth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.types import Affine, TensorType

ALIASES = frozenset({"reshape", "stop_gradient", "barrier"})
"""Equations whose result is their operand under another type: no step, the same memory."""

CONTROL = frozenset({"cond", "while", "scan"})  # whose regions passes look into


Inner = Callable[[Equation], Sequence[Graph]]


def control_regions(e: Equation) -> Sequence[Graph]:
    return [g for _, g in e.regions()] if e.primitive.name in CONTROL else ()


def outer_first(graph: Graph, inner: Inner = control_regions) -> list[Graph]:
    """The graph and what `inner` finds in its equations, at any depth; each once, before what it contains."""
    contains: dict[int, list[Graph]] = {}
    waiting: Counter[int] = Counter()
    pending = [graph]
    while pending:
        g = pending.pop()
        if id(g) in contains:
            continue
        contains[id(g)] = [r for e in g.equations for r in inner(e)]
        waiting.update(map(id, contains[id(g)]))
        pending += contains[id(g)]
    ready, order = [graph], []
    while ready:
        order.append(ready.pop())
        for r in contains[id(order[-1])]:
            waiting[id(r)] -= 1
            if waiting[id(r)] == 0:
                ready.append(r)
    return order


def know_effects(graph: Graph) -> None:
    """Ask inner graphs first whether they have effects, so that asking an outer one does not recurse."""
    for g in reversed(outer_first(graph, _regions)):
        _ = g.has_effects


def _regions(e: Equation) -> Sequence[Graph]:
    return [r for _, r in e.regions()] if e.primitive.multiple else ()


def with_regions(e: Equation, new: Callable[[Graph], Graph]) -> Equation:
    """The equation with its regions replaced."""
    attributes = {k: _replaced(v, new) for k, v in e.attributes.items()}
    if all(attributes[k] is e.attributes[k] for k in attributes):
        return e
    return Equation(e.primitive, e.inputs, attributes, e.outputs, e.location)


def _replaced(value: Any, new: Callable[[Graph], Graph]) -> Any:
    if isinstance(value, Graph):
        return new(value)
    if isinstance(value, tuple) and any(isinstance(v, Graph) for v in value):
        graphs = tuple(_replaced(v, new) for v in value)
        return value if all(a is b for a, b in zip(value, graphs, strict=True)) else graphs
    return value


def on_every_graph(graph: Graph, change: Callable[[Graph], Graph]) -> Graph:
    """Apply a change to the regions of control flow, inner ones first, and to the graph itself."""
    done: dict[int, Graph] = {}
    for g in reversed(outer_first(graph)):
        equations = [with_regions(e, lambda r: done[id(r)]) if control_regions(e) else e for e in g.equations]
        changed = any(a is not b for a, b in zip(equations, g.equations, strict=True))
        done[id(g)] = change(Graph(g.inputs, equations, g.outputs, g.name) if changed else g)
    return done[id(graph)]


def extent(shape: Sequence[Any]) -> float:
    """How many elements, at most: of symbolic sizes their upper bounds."""
    total = 1.0
    for d in shape:
        total *= d.bounds()[1] if isinstance(d, Affine) else d
    return total


def bytes_of(t: TensorType) -> float:
    """How many bytes, at most."""
    return extent(t.shape) * t.dtype.itemsize


def uses(graph: Graph) -> Counter[Var]:
    """How often each value is read, results of the graph included."""
    return Counter(_reads(graph))


def _reads(graph: Graph) -> Iterator[Var]:
    for e in graph.equations:
        yield from e.inputs
    yield from graph.outputs
