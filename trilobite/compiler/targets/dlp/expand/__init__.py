"""expand: every primitive in terms of those that have a kernel.

Enters: a graph after the shared passes. Leaves: a graph of the same meaning (floats within rounding) in fewer
primitives: elementwise rows of the vector unit on formats that it computes, moves of data, reductions over
one run of axes, rows by index, sorted lines, products, control flow. A rule is a function over values that
binds primitives; `terms` has the words. Rules stand by family, one module each. May import this target's
`contraction`, `kernels` and `vector` (what they take), `primitives`, `problems` and `shapes`,
`compiler.graph`, `processor` and `ir`. Read `rule.py` first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from trilobite.compiler.targets.dlp.expand import (
    arrays,
    contraction,
    elementwise,
    fourier,
    indexing,
    matrices,
    narrow,
    order,
    quantised,
    random,
    reductions,
    singular,
    special,
    windows,
)
from trilobite.compiler.targets.dlp.expand.rule import Rule, expand_graph
from trilobite.ir.graph import Equation, Graph
from trilobite.processor.machine import Machine


def _collected(*families: Mapping[str, Rule]) -> dict[str, list[Rule]]:
    found: dict[str, list[Rule]] = {}
    for family in families:
        for name, rule in family.items():
            found.setdefault(name, []).append(rule)
    return found


_FAMILIES = (
    arrays, elementwise, fourier, matrices, order, quantised, random, reductions, singular, special,
    windows,
)  # fmt: skip
_SHARED = [family.RULES for family in _FAMILIES]


def expand(graph: Graph, machine: Machine) -> Graph:
    """The graph in primitives that have kernels on a machine, those within control flow too."""
    rules = _collected(*_SHARED, indexing.rules(machine), contraction.rules(machine))

    def rule_for(e: Equation) -> Callable[..., Any] | None:
        for rule in rules.get(e.primitive.name, ()):
            made = rule(e)
            if made is not None:
                return made
        return narrow.rule(e)

    return expand_graph(graph, rule_for)


__all__ = ["expand"]
