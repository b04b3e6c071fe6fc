"""In which order the axes of values lie in memory.

A value's order names its axes from the slowest to the fastest in memory; row-major is (0, 1, 2, ...). The
matrix unit wants channels fastest, so results of convolutions lie so, and what follows keeps the order as
long as it can: chains, slices, pads, joins, reductions over whole runs. A transpose only renames axes. What
needs row-major gets a copy; the network writes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from trilobite.compiler.targets.dlp.interfaces import Home
from trilobite.compiler.targets.dlp.problems import are_matrices
from trilobite.compiler.targets.dlp.shapes import extents
from trilobite.ir.graph import Equation, Var

Order = tuple[int, ...]
CONVOLUTIONS = frozenset({"conv", "conv_input_grad", "conv_weight_grad"})
KEEPING = frozenset({"slice", "pad", "reverse", "update_slice", "concatenate"})
REDUCTIONS = frozenset({"reduce_sum", "reduce_prod", "reduce_max", "reduce_min"})


def row_major(rank: int) -> Order:
    return tuple(range(rank))


def channels_last(rank: int) -> Order:
    return (0, *range(2, rank), 1)


def plain(v: Var, order: Order) -> Order:
    """The order, or row-major where only axes of one element stand elsewhere."""
    shape = extents(v)
    moved = [a for a in order if shape[a] != 1]
    return row_major(len(order)) if moved == sorted(moved) else order


def strides_in(shape: Sequence[int], order: Order) -> tuple[int, ...]:
    """Elements from one index of each axis to the next."""
    found = [0] * len(shape)
    for place, axis in enumerate(order):
        found[axis] = prod(shape[a] for a in order[place + 1 :])
    return tuple(found)


class Layout:
    """Orders of a group's values, and homes of those that stay on chip."""

    def __init__(self, orders: Mapping[Var, Order], homes: Mapping[Var, Home] | None = None) -> None:
        self.orders, self.homes = dict(orders), dict(homes or {})

    def order(self, v: Var) -> Order:
        return self.orders.get(v, row_major(len(v.type.shape)))

    def strides(self, v: Var) -> tuple[int, ...]:
        shape, home = extents(v), self.homes.get(v)
        if home is not None and home.blocks is not None:
            shape = (*shape[:2], *(n // parts for n, parts in zip(shape[2:], home.blocks, strict=True)))
        return strides_in(shape, self.order(v))

    @property
    def key(self) -> tuple[object, ...]:
        return (*self.orders.values(), *(self.homes.get(v) for v in self.orders))


def wanted_orders(e: Equation, orders: Sequence[Order]) -> list[Order]:
    """The order that an equation wants each operand in, given those in which they lie."""
    name = e.primitive.name
    ranks = [len(v.type.shape) for v in e.inputs]
    if name in CONVOLUTIONS or name == "window_reduce":
        return [plain(v, channels_last(r)) for v, r in zip(e.inputs, ranks, strict=True)]
    if name in ("update_slice", "concatenate"):
        return [orders[0]] * len(orders) if len(set(ranks)) == 1 else list(orders)
    if name in ("slice", "pad", "reverse", "broadcast", "transpose"):
        return list(orders)
    if name == "dot":
        return [
            o if are_matrices(e, i, strides_in(extents(v), o)) else row_major(len(o))
            for i, (v, o) in enumerate(zip(e.inputs, orders, strict=True))
        ]
    if name in REDUCTIONS and _is_run(orders[0], e.attributes["axes"]):
        return list(orders)
    return [row_major(r) for r in ranks]


def _is_run(order: Order, axes: Sequence[int]) -> bool:
    """Do the axes follow one another in memory?"""
    places = sorted(order.index(a) for a in axes)
    return places == list(range(places[0], places[0] + len(places)))


def result_order(e: Equation, orders: Sequence[Order]) -> Order:
    """The order of the result, given those of the operands as they are wanted."""
    name, rank = e.primitive.name, len(e.outputs[0].type.shape)
    if name in CONVOLUTIONS or name == "window_reduce":
        return plain(e.outputs[0], channels_last(rank))
    if name in KEEPING:
        return orders[0]
    if name == "transpose":
        axes = e.attributes["axes"]
        return tuple(axes.index(a) for a in orders[0])
    if name in REDUCTIONS:
        axes = e.attributes["axes"]
        kept = [a for a in range(len(orders[0])) if a not in axes]
        return tuple(kept.index(a) for a in orders[0] if a not in axes)
    return row_major(rank)
