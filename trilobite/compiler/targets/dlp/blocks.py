"""Images of which every core keeps a block in its own NRAM, from the group that makes them to those that read
them.

Enters: a graph of fusions, a machine. Leaves: homes. A block is some rows and columns with all channels: a
convolution of single places needs nothing else, so that nothing of such a value crosses the bus of a cluster.
All groups that touch it divide places among the cores in the same way and have all outputs each: that pays
where a core has about as many places as the array has rows, and where weights, which then go to all cores,
are smaller than what stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from trilobite.compiler.targets.dlp.contracted import contracted, is_like, is_move, readers_of
from trilobite.compiler.targets.dlp.interfaces import Home
from trilobite.compiler.targets.dlp.layouts import channels_last, result_order, row_major, wanted_orders
from trilobite.compiler.targets.dlp.parts import bytes_of
from trilobite.compiler.targets.dlp.shapes import extents
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.processor.machine import Machine

FILLED = 0.75  # of the array's rows that the places of a core fill at least
Blocks = tuple[int, int]


def blocks_of_values(graph: Graph, machine: Machine, clusters: int) -> dict[Var, Home]:
    """Values that may lie in blocks; groups between those that touch one are not looked at."""
    if not machine.core.mfu.rows or machine.core.pool_kib or machine.interlock == "ranges":
        return {}
    return _Search(graph, machine, clusters).found


class _Search:
    def __init__(self, graph: Graph, machine: Machine, clusters: int) -> None:
        self.machine, self.clusters = machine, clusters
        self.found: dict[Var, Home] = {}
        self.cut: dict[int, Blocks] = {}  # how a group divides places
        readers = readers_of(graph)
        for e in graph.equations:
            if len(e.outputs) != 1 or e.outputs[0] in graph.outputs:
                continue
            (v,) = e.outputs
            groups = [e, *readers.get(v, ())]
            blocks = self._blocks(v) if len(groups) > 1 else None
            if blocks is not None and self._may(groups, v, blocks) and self._pays(groups, v):
                self.found[v] = Home("nram", blocks=blocks)
                self.cut |= {id(g): blocks for g in groups}

    def _blocks(self, v: Var) -> Blocks | None:
        """Into how many rows and columns of blocks an image is cut: equal ones, as square as they can be."""
        shape, cores = extents(v), self.machine.cores_per_cluster
        if len(shape) != 4 or shape[0] != 1:
            return None
        choices = [
            (shape[2] // rows + shape[3] // columns, rows, columns)
            for rows, columns in (
                (self.clusters * n, cores // n) for n in range(1, cores + 1) if cores % n == 0
            )
            if shape[2] % rows == 0 and shape[3] % columns == 0
        ]
        return min(choices)[1:] if choices else None

    def _may(self, groups: Sequence[Equation], v: Var, blocks: Blocks) -> bool:
        """Can all of them divide places so, the first one to make it, the others to read it?"""
        if any(self.cut.get(id(g), blocks) != blocks or not self._fills(g, blocks) for g in groups):
            return False
        return self._makes(groups[0]) and all(self._reads(g, v, blocks) for g in groups[1:])

    def _fills(self, e: Equation, blocks: Blocks) -> bool:
        """Is it a convolution whose result has such blocks, with enough places for the array?"""
        plan = contracted(e, self.machine)
        if plan is None or plan.equation.primitive.name != "conv" or len(e.outputs) != 1:
            return False
        shape = extents(plan.equation.outputs[0])
        if (
            len(shape) != 4
            or shape[0] != 1
            or any(n % parts for n, parts in zip(shape[2:], blocks, strict=True))
        ):
            return False
        return prod(shape[2:]) >= FILLED * self.machine.core.mfu.rows * prod(blocks)

    def _makes(self, e: Equation) -> bool:
        """Does its result lie channels last?"""
        plan = contracted(e, self.machine)
        assert plan is not None
        head = plan.equation
        orders = wanted_orders(head, [row_major(len(x.type.shape)) for x in head.inputs])
        return result_order(head, orders) == channels_last(4)

    def _reads(self, e: Equation, v: Var, blocks: Blocks) -> bool:
        """At single places alone, or where its own result is added to it?"""
        plan, region = contracted(e, self.machine), e.attributes["region"]
        assert plan is not None
        head, order = plan.equation, channels_last(4)
        for r in (r for r, x in zip(region.inputs, e.inputs, strict=True) if x is v):
            if r is head.inputs[1] or any(r in x.inputs for x in region.equations if is_move(x)):
                return False
            if r is head.inputs[0] and not _is_pointwise(head, blocks):
                return False
            if r in plan.operands and not is_like(head, r, order):
                return False
        return True

    def _pays(self, groups: Sequence[Equation], v: Var) -> bool:
        """Is what stays, each time somebody writes or reads it, more than weights that all clusters need?"""
        weights = 0
        for g in groups:
            plan = contracted(g, self.machine)
            assert plan is not None
            weights += bytes_of(plan.equation.inputs[1])
        return weights <= len(groups) * bytes_of(v) // self.clusters


def _is_pointwise(head: Equation, blocks: Blocks) -> bool:
    """Does every place of the result need the one place of the image that lies in the same block?"""
    at, image, out = head.attributes, extents(head.inputs[0])[2:], extents(head.outputs[0])[2:]
    if set(extents(head.inputs[1])[2:]) != {1} or any((*at["low"], *at["high"])):
        return False
    steps = zip(image, out, at["stride"], blocks, strict=True)
    return all(n == places * stride and places % parts == 0 for n, places, stride, parts in steps)
