"""Groups whose operands and results may stay on chip: contractions, and who reads what they make.

Enters: equations of a graph of fusions. Leaves: their plans, the readers of each value, and whether an
operand of an epilogue lies as the result does.
"""

from __future__ import annotations

from trilobite.compiler.targets.dlp.contraction import accepts
from trilobite.compiler.targets.dlp.groups import ContractionPlan, contraction_plan
from trilobite.compiler.targets.dlp.layouts import Order, result_order, row_major, wanted_orders
from trilobite.compiler.targets.dlp.problems import convolution_of, is_planar, product_of
from trilobite.compiler.targets.dlp.shapes import extents
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.processor.machine import Machine


def readers_of(graph: Graph) -> dict[Var, list[Equation]]:
    found: dict[Var, list[Equation]] = {}
    for e in graph.equations:
        for v in dict.fromkeys(e.inputs):
            found.setdefault(v, []).append(e)
    return found


def contracted(e: Equation, machine: Machine) -> ContractionPlan | None:
    """Of a group that the matrix unit runs, one of whose operands may be at home on chip."""
    if e.primitive.name != "fusion" or e.attributes["kind"] != "contraction":
        return None
    found = contraction_plan(e.attributes["region"])
    if isinstance(found, str):
        return None
    head = found.equation
    if head.primitive.name == "dot":
        return found if accepts(product_of(head), machine) is None else None
    at = head.attributes
    usual = at["groups"] == 1 and set(at["x_dilation"]) <= {1} and min(*at["low"], *at["high"]) >= 0
    if head.primitive.name != "conv" or not usual or not is_planar(head):
        return None
    return found if accepts(convolution_of(head), machine) is None else None


def is_move(e: Equation) -> bool:
    return e.primitive.name in ("broadcast", "transpose")


def is_like(head: Equation, operand: Var, order: Order) -> bool:
    """Has an operand of the epilogue the shape and the order of the product's own result?"""
    orders = wanted_orders(head, [row_major(len(x.type.shape)) for x in head.inputs])
    return extents(operand) == extents(head.outputs[0]) and result_order(head, orders) == order
