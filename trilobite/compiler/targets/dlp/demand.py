"""How much groups want of DRAM: what a mapping pays for it, and what comes next.

Enters: a graph of fusions, a machine. Leaves: for each group the cycles of DRAM for the weights behind it,
and the price of DRAM around it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from trilobite.compiler.targets.dlp.contraction.predict import PRICES
from trilobite.compiler.targets.dlp.groups import contraction_plan
from trilobite.compiler.targets.dlp.parts import bytes_of
from trilobite.compiler.targets.dlp.shapes import extents
from trilobite.compiler.targets.dlp.vector.formats import format_of
from trilobite.ir.graph import Equation, Graph
from trilobite.processor.machine import Machine

WINDOW = 8  # groups whose weights compete for DRAM
USUAL = 4  # times the array's least cycles that groups take


@dataclass(frozen=True)
class Demand:
    """What groups want of the machine, in cycles: of DRAM for their weights, of the array at its peak."""

    dram: float = 0.0
    array: float = 0.0


def _demand(e: Equation, graph: Graph, machine: Machine, cores: int) -> Demand:
    """Of a contraction whose weights are an input; nothing of another group."""
    plan = contraction_plan(e.attributes["region"]) if e.attributes["kind"] == "contraction" else ""
    if isinstance(plan, str):
        return Demand()
    head, names = plan.equation, dict(zip(e.attributes["region"].inputs, e.inputs, strict=True))
    right, out = names[head.inputs[1]], head.outputs[0]
    if right not in graph.inputs:
        return Demand()
    outputs = extents(out)[1] if head.primitive.name == "conv" else 1
    terms = prod(extents(right)) // max(1, outputs)
    if head.primitive.name == "dot":
        terms = prod(extents(right)[axis] for axis in head.attributes["contract"][1])
    rates = machine.core.mfu.macs_per_cycle
    rate = rates.get(format_of(head.inputs[0].type.dtype).rate, machine.core.vfu.bytes_per_cycle / 4)
    return Demand(bytes_of(right) / machine.dram_bytes_per_cycle, prod(extents(out)) * terms / (rate * cores))


def demands_behind(graph: Graph, machine: Machine, cores: int) -> list[tuple[float, int]]:
    """Of each equation: cycles of DRAM for the weights of the contraction behind it, if nothing stands
    between them; and the price of DRAM around it, as `Beside` has it: the part of the time in which it would
    be busy with the weights of the next groups if these took the usual time."""
    found, behind, window = list[tuple[float, int]](), 0.0, list[Demand]()
    for e in reversed(graph.equations):
        if e.primitive.name == "constant" or e.attributes["kind"] == "alias":
            found.append((behind, 0))
            continue
        window = [_demand(e, graph, machine, cores), *window[: WINDOW - 1]]
        dram, array = sum(d.dram for d in window), sum(d.array for d in window)
        found.append((behind, round(PRICES * dram / (dram + USUAL * array)) if array else 0))
        behind = window[0].dram
    return found[::-1]
