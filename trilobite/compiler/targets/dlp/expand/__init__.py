"""expand: every primitive in terms of those that have a kernel.

Enters: a graph after the shared passes. Leaves: a graph of the same meaning (floats within rounding) in fewer
primitives: elementwise rows of the vector unit on formats that it computes, moves of data, reductions over
one run of axes, rows by index, sorted lines, products, control flow. A rule is a function over values that
binds primitives; `terms` has the words. Rules stand by family, one module each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    special,
    windows,
)
from trilobite.compiler.targets.dlp.expand.rule import Rule, expand_graph
from trilobite.ir.graph import Equation, Graph

RULES: Mapping[str, Sequence[Rule]] = {}


def _collected(*families: Any) -> dict[str, list[Rule]]:
    found: dict[str, list[Rule]] = {}
    for family in families:
        for name, rule in family.RULES.items():
            found.setdefault(name, []).append(rule)
    return found


RULES = _collected(
    arrays, contraction, elementwise, fourier, indexing, matrices, order, quantised, random, reductions,
    special, windows,
)  # fmt: skip


def _rule_for(e: Equation) -> Callable[..., Any] | None:
    for rule in RULES.get(e.primitive.name, ()):
        made = rule(e)
        if made is not None:
            return made
    return narrow.rule(e)


def expand(graph: Graph) -> Graph:
    """The graph in primitives that have kernels, those within control flow too."""
    return expand_graph(graph, _rule_for)


__all__ = ["expand"]
