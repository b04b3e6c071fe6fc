"""How one equation becomes several: a rule's function is recorded and its graph takes the equation's place.

A rule gets an equation and gives None (it stays as it is) or a function of values that binds what stands for
it. What it binds is looked at again, until no rule has anything to say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trilobite.compiler.graph.regions import on_every_graph
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.transforms.record import record_graph

Rule = Callable[[Equation], Callable[..., Any] | None]
_DEPTH = 64  # rules that may follow from one another; the tables end far below


def expand_graph(graph: Graph, rule: Rule) -> Graph:
    return on_every_graph(graph, lambda g: _expanded(g, rule))


def _expanded(graph: Graph, rule: Rule) -> Graph:
    equations: list[Equation] = []
    now: dict[Var, Var] = {}
    for e in graph.equations:
        _place(e, rule, now, equations, 0)
    if not now and len(equations) == len(graph.equations):
        return graph
    return Graph(graph.inputs, equations, [now.get(v, v) for v in graph.outputs], graph.name)


def _place(e: Equation, rule: Rule, now: dict[Var, Var], out: list[Equation], depth: int) -> None:
    inputs = tuple(now.get(v, v) for v in e.inputs)
    if inputs != e.inputs:
        e = Equation(e.primitive, inputs, e.attributes, e.outputs, e.location)
    made = rule(e) if depth < _DEPTH else None
    if made is None:
        out.append(e)
        return
    body = _recorded(e, made)
    inside: dict[Var, Var] = dict(zip(body.inputs, e.inputs, strict=True))
    for b in body.equations:
        outputs = tuple(Var(v.type) for v in b.outputs)
        moved = Equation(b.primitive, tuple(inside[v] for v in b.inputs), b.attributes, outputs, e.location)
        _place(expanded_regions(moved, rule), rule, inside, out, depth + 1)
        for old, new in zip(b.outputs, outputs, strict=True):
            inside[old] = inside.get(new, new)
    for v, result in zip(e.outputs, body.outputs, strict=True):
        now[v] = inside[result]


def expanded_regions(e: Equation, rule: Rule) -> Equation:
    from trilobite.compiler.graph.regions import CONTROL, with_regions

    if e.primitive.name not in CONTROL:
        return e
    return with_regions(e, lambda g: expand_graph(g, rule))


def _recorded(e: Equation, made: Callable[..., Any]) -> Graph:
    def body(*values: Any) -> list[Any]:
        found = made(*values)
        return list(found) if isinstance(found, (tuple, list)) else [found]

    return record_graph(body, [v.type for v in e.inputs], e.primitive.name)
