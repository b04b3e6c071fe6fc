"""A graph with symbolic sizes at its bounds, equation by equation.

Enters: a graph without calls. Leaves: a `Bounded`, or why there is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from trilobite.base.dtypes import int64
from trilobite.base.errors import TrilobiteError
from trilobite.compiler.graph.bounded import moves, places, sums
from trilobite.compiler.graph.bounded.control import CONTROL
from trilobite.compiler.graph.bounded.scope import OneByOne, Rule, Scope, at_bounds, fitted, is_symbolic
from trilobite.compiler.graph.draft import spliced
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import FAMILIES
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import Affine, TensorType

_POINTWISE = "bits cast comparison complex elementwise exponential quantise special trigonometric"
POINTWISE = frozenset(name for family in _POINTWISE.split() for name in FAMILIES[family].split()) | {
    "stop_gradient", "barrier",
}  # fmt: skip
RULES: dict[str, Rule] = {**moves.RULES, **sums.RULES, **places.RULES}


class Bounded(NamedTuple):
    """A graph of known sizes; behind its other inputs it takes what sizes are in a run."""

    graph: Graph
    sizes: tuple[Affine, ...]


def bound(graph: Graph) -> Bounded | str:
    """The graph at its bounds, or the first reason why it has no such form."""
    sizes = tuple(sorted(_sizes(graph), key=str))
    inputs = [Var(at_bounds(t)) for t in graph.input_types]
    numbers = {d: Var(TensorType((), int64)) for d in sizes}
    env = dict(zip(graph.inputs, inputs, strict=True))
    made = {v: e for e in graph.equations for v in e.outputs}
    equations: list[Equation] = []
    try:
        for e in graph.equations:
            added, found = _placed(e, [env[v] for v in e.inputs], numbers, made)
            equations += added
            env.update(zip(e.outputs, found, strict=True))
    except OneByOne as why:
        return f"{why} ({e.location})"
    except TrilobiteError as error:
        return f"{e.primitive.name} at the largest sizes: {error} ({e.location})"
    whole = Graph([*inputs, *numbers.values()], equations, [env[v] for v in graph.outputs], graph.name)
    return Bounded(whole, sizes)


def _sizes(graph: Graph) -> set[Affine]:
    """All sizes that a run decides, in the graph and in its regions: the host works them out."""
    found: set[Affine] = set()
    pending: list[Any] = [graph]
    while pending:
        x = pending.pop()
        if isinstance(x, Affine):
            found.add(x)
        elif isinstance(x, TensorType):
            pending += x.shape
        elif isinstance(x, Graph):
            pending += [v.type for v in x.inputs]
            pending += [v.type for e in x.equations for v in e.outputs]
            pending += [a for e in x.equations for a in e.attributes.values()]
        elif isinstance(x, tuple):
            pending += x
    return found


def _placed(
    e: Equation, inputs: Sequence[Var], numbers: Mapping[Affine, Var], made: Mapping[Var, Equation]
) -> tuple[list[Equation], list[Var]]:
    """What stands for one equation, and the names of its results."""
    if not _depends(e):
        outputs = tuple(Var(v.type) for v in e.outputs)
        return [Equation(e.primitive, tuple(inputs), e.attributes, outputs, e.location)], list(outputs)
    n, operands = len(numbers), [*numbers.values(), *inputs]

    def body(*values: Value) -> list[Value]:
        return _results(Scope(dict(zip(numbers, values[:n], strict=True)), made), e, values[n:])

    recorded = record_graph(body, [v.type for v in operands], e.primitive.name)
    return spliced(recorded, operands, lambda _: e.location)


def _depends(e: Equation) -> bool:
    """Does a size of the run matter to it?"""
    types = any(is_symbolic(v.type) for v in (*e.inputs, *e.outputs))
    return types or is_symbolic(tuple(e.attributes.values())) or any(g.symbols for _, g in e.regions())


def _results(s: Scope, e: Equation, values: Sequence[Value]) -> list[Value]:
    name = e.primitive.name
    found: Any
    if name in CONTROL:
        found = CONTROL[name](s, e, values, _inside)
    elif name in POINTWISE:
        found = e.primitive(*values, **{k: at_bounds(v) for k, v in e.attributes.items()})
    elif name in RULES:
        found = RULES[name](s, e, values)
    else:
        raise OneByOne(f"{name} has no form at the largest sizes")
    each = list(found) if isinstance(found, (tuple, list)) else [found]
    return [fitted(x, at_bounds(v.type).shape) for x, v in zip(each, e.outputs, strict=True)]


def _inside(graph: Graph, s: Scope, values: Sequence[Value]) -> list[Value]:
    """The results of a region."""
    env = dict(zip(graph.inputs, values, strict=True))
    for e in graph.equations:
        given = [env[v] for v in e.inputs]
        if _depends(e):
            found = _results(s, e, given)
        else:
            made = e.primitive(*given, **e.attributes)
            found = list(made) if e.primitive.multiple else [made]
        env.update(zip(e.outputs, found, strict=True))
    return [env[v] for v in graph.outputs]
