"""In which order of axes a group gets its operands and leaves its results.

Enters: an assembler that writes the entry, and a group. Leaves: its operands in the orders that it wants,
with copies where they lie otherwise, and the order of its results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilobite.compiler.targets.dlp.groups import ContractionPlan, contraction_plan
from trilobite.compiler.targets.dlp.layouts import Order, result_order, row_major, wanted_orders
from trilobite.compiler.targets.dlp.shapes import extents
from trilobite.ir.graph import Equation, Graph, Var

if TYPE_CHECKING:
    from trilobite.compiler.targets.dlp.network import Assembler


def arranged(a: Assembler, e: Equation, kind: str, region: Graph) -> tuple[list[Var], Order]:
    """A group's operands in the orders it wants, and the order of its results."""
    if kind == "loops":
        shape = extents(e.outputs[0])
        full = [a.order(v) for v in e.inputs if extents(v) == shape]
        found = next((o for o in full if o != row_major(len(o))), row_major(len(shape)))
        return [a.ordered(v, found) if extents(v) == shape else v for v in e.inputs], found
    if kind == "contraction":
        return _with_epilogue(a, e, region)
    *before, inner = region.equations
    taken = before[0].inputs if before else inner.inputs  # what it casts lies as what it reduces
    given = dict(zip(region.inputs, e.inputs, strict=True))
    orders = [a.order(given[v]) for v in taken]
    wanted = wanted_orders(inner, orders)
    ready = {v: a.ordered(given[v], w) for v, w in zip(taken, wanted, strict=True)}
    return [ready[v] for v in region.inputs], result_order(inner, wanted)


def _with_epilogue(a: Assembler, e: Equation, region: Graph) -> tuple[list[Var], Order]:
    """The product's operands as it wants them, what has the result's shape in the result's order."""
    plan = contraction_plan(region)
    assert isinstance(plan, ContractionPlan)
    inner, given = plan.equation, dict(zip(region.inputs, e.inputs, strict=True))
    wanted = wanted_orders(inner, [a.order(given[v]) for v in inner.inputs])
    ready = {v: a.ordered(given[v], w) for v, w in zip(inner.inputs, wanted, strict=True)}
    result, shape = result_order(inner, wanted), extents(inner.outputs[0])
    for v in region.inputs:
        if v not in ready:
            whole = extents(v) == shape
            ready[v] = a.ordered(given[v], result if whole else row_major(len(v.type.shape)))
    return [ready[v] for v in region.inputs], result
