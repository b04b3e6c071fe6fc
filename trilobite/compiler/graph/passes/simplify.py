"""simplify: canonical forms and algebra, by the tables in `rules`.

Enters: a graph. Leaves: a graph that gives the same bits, except where a rule says that it rounds otherwise
(exact=False); with `reassociate` sums and products of numbers may also be taken in another order. Only local
algebra happens here: constants of many elements are fold_constants' business, work moved to smaller shapes
is sink_shapes'.
"""

from __future__ import annotations

from trilobite.compiler.graph.passes.rules import arithmetic, casts, choice, pointwise, reductions, shapes
from trilobite.compiler.graph.rewrite import UNCOUNTED, Counters, by_head, rewrite
from trilobite.ir.graph import Graph

TABLE = (
    *shapes.RULES,
    *casts.RULES,
    *arithmetic.RULES,
    *choice.RULES,
    *reductions.RULES,
    *pointwise.NUMBERS,
)
_PLAIN = by_head(TABLE)
_REASSOCIATING = by_head(TABLE, arithmetic.REASSOCIATE)


def simplify(graph: Graph, counters: Counters = UNCOUNTED, *, reassociate: bool = False) -> Graph:
    """The graph in simpler terms."""
    return rewrite(graph, _REASSOCIATING if reassociate else _PLAIN, counters)
