"""Who holds memory between kernels: values of a fused graph, from their maker to their last reader.

Enters: a graph of fusions, in the order in which they run. Leaves: rows (owner, first, last, bytes) over
kernel numbers. Inputs, weights and constants stay outside: they are there before and behind a run. Views take
no memory of their own, and keep alive what they look at.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.types import Symbol, substitute
from trilobite.report.graphs import label_of

Row = tuple[str, float, float, float]


def alive(graph: Graph) -> list[Row]:
    """Sizes that are symbols count at their largest."""
    roots: dict[Var, Var] = {}
    first: dict[Var, int] = {}
    last: dict[Var, int] = {}
    owners: dict[Var, str] = {}
    for number, equation in enumerate(graph.equations):
        for v in equation.inputs:
            last[roots.get(v, v)] = number
        for v in equation.outputs:
            if _is_view(equation):
                roots[v] = roots.get(equation.inputs[0], equation.inputs[0])
                continue
            roots[v], first[v], last[v] = v, number, number
            owners[v] = owner_of(equation)
    for v in graph.outputs:
        last[roots.get(v, v)] = len(graph.equations)
    largest = {s: s.upper for s in graph.symbols}
    return [(owners[v], float(n), float(last[v] + 1), float(_bytes(v, largest))) for v, n in first.items()]


def owner_of(equation: Equation) -> str:
    module = equation.location.module
    label = label_of(equation)
    return f"{module}: {label}" if module else label


def _is_view(equation: Equation) -> bool:
    return bool(equation.inputs) and equation.attributes.get("kind") == "alias"


def _bytes(v: Var, largest: Mapping[Symbol, int]) -> int:
    return prod(int(substitute(n, largest)) for n in v.type.shape) * v.type.dtype.itemsize
