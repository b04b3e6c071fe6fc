"""mixed_precision: operands of large products in a shorter format, on request.

Enters: a graph, and the dtype to keep operands in. Leaves: the graph whose float32 products (dot, conv and
its gradients) read operands cast to that dtype and still add in float32, as products of short floats do here.
Small products stay: there the casts cost more than they save. What is added, normalised or exponentiated
stays in float32. This rounds every operand, so nothing but the user's wish starts it.
"""

from __future__ import annotations

from trilobite.base.dtypes import BY_NAME, DType, bfloat16, float16, float32
from trilobite.base.errors import ArgumentError
from trilobite.compiler.graph.pipeline import USUAL
from trilobite.compiler.graph.regions import extent, on_every_graph
from trilobite.compiler.graph.rewrite import UNCOUNTED, Counters
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitive import table
from trilobite.ir.types import TensorType

_PRODUCTS = frozenset({"dot", "conv", "conv_input_grad", "conv_weight_grad"})
_SHORT = (bfloat16, float16)


def mixed_precision(
    graph: Graph, dtype: str = "", counters: Counters = UNCOUNTED, *, fewest: int = USUAL.shortened
) -> Graph:
    """The graph with operands of large products in a short format; unchanged for no dtype."""
    if not dtype:
        return graph
    short = BY_NAME.get(dtype)
    if short not in _SHORT:
        raise ArgumentError(
            f"mixed precision with operands in {dtype}",
            expected=f"one of {', '.join(d.name for d in _SHORT)}",
            remedy='mixed_precision="bfloat16", or none for float32 throughout',
        )
    return on_every_graph(graph, lambda g: _shortened(g, short, fewest, counters))


def _shortened(graph: Graph, short: DType, fewest: int, counters: Counters) -> Graph:
    cast: dict[Var, Var] = {}  # each operand is cast once, before its first reader
    equations: list[Equation] = []
    for e in graph.equations:
        if not _is_large(e, fewest):
            equations.append(e)
            continue
        for v in e.inputs:
            if v not in cast:
                cast[v] = Var(TensorType(v.type.shape, short))
                equations.append(Equation(table["cast"], (v,), {"dtype": short}, (cast[v],), e.location))
        equations.append(e.reading(tuple(cast[v] for v in e.inputs)))
        counters[e.primitive.name] += 1
    return Graph(graph.inputs, equations, graph.outputs, graph.name) if cast else graph


def _is_large(e: Equation, fewest: int) -> bool:
    return (
        e.primitive.name in _PRODUCTS
        and all(v.type.dtype == float32 for v in (*e.inputs, *e.outputs))
        and min(extent(v.type.shape) for v in e.inputs) >= fewest
    )
