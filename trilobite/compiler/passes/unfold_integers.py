"""unfold_integers: convolutions of small integers as one product of matrices.

Enters: a graph with `conv` equations. Leaves: the graph in which those of 8-bit integers, without groups and
without spread inputs, are a product: the values under every tap side by side, times the filters. Small
integers are the one case where that pays: the copy is a quarter of what sums of 32 bits take, and products of
matrices multiply pairs of them in one instruction. Exact, as all arithmetic of integers here.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from trilobite.base.dtypes import int8, uint8
from trilobite.compiler.regions import on_every_graph
from trilobite.compiler.rewrite import Counters
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitive import result_types, table
from trilobite.ir.types import Affine

_SMALL = (int8, uint8)
_WIDE = 32  # channels from which a product per tap is long enough


def unfold_integers(graph: Graph, counters: Counters | None = None) -> Graph:
    """The graph without convolutions of small integers."""
    counted = Counters() if counters is None else counters
    return on_every_graph(graph, lambda g: _Unfolder(g, counted).run())


class _Unfolder:
    def __init__(self, graph: Graph, counters: Counters) -> None:
        self.graph, self.counters = graph, counters
        self.out: list[Equation] = []

    def run(self) -> Graph:
        if not any(_is_small(e) for e in self.graph.equations):
            return self.graph
        for e in self.graph.equations:
            if _is_small(e):
                self.unfold(e)
                self.counters["conv"] += 1
            else:
                self.out.append(e)
        return Graph(self.graph.inputs, self.out, self.graph.outputs, self.graph.name)

    def make(self, at: Equation, name: str, *inputs: Var, into: Var | None = None, **attributes: Any) -> Var:
        (kind,) = result_types(table[name], [v.type for v in inputs], attributes)
        out = Var(kind) if into is None else into
        self.out.append(Equation(table[name], inputs, attributes, (out,), at.location))
        return out

    def unfold(self, e: Equation) -> None:
        x, w = e.inputs
        a, rank = e.attributes, x.type.ndim - 2
        space = e.outputs[0].type.shape[2:]
        last = self.make(e, "transpose", x, axes=(0, *range(2, rank + 2), 1))
        if any((*a["low"], *a["high"])):
            low, high = (0, *a["low"], 0), (0, *a["high"], 0)
            none = (0,) * (rank + 2)
            last = self.make(e, "pad", last, low=low, high=high, between=none, value=0)
        taps = [self.tap(e, last, tap, space) for tap in product(*(range(n) for n in w.type.shape[2:]))]
        filters = self.make(e, "transpose", w, axes=(0, *range(2, rank + 2), 1))
        joined = len(taps) == 1 or x.type.shape[1] < _WIDE
        sums = self.together(e, taps, filters) if joined else self.one_by_one(e, taps, filters)
        order = (0, rank + 1, *range(1, rank + 1))
        self.make(e, "transpose", sums, axes=order, into=e.outputs[0])

    def together(self, e: Equation, taps: Sequence[Var], filters: Var) -> Var:
        """One product over all taps: their values side by side."""
        axis = taps[0].type.ndim - 1
        rows = taps[0] if len(taps) == 1 else self.make(e, "concatenate", *taps, axis=axis)
        flat = self.make(e, "reshape", filters, shape=(filters.type.shape[0], rows.type.shape[-1]))
        return self.product(e, rows, flat)

    def one_by_one(self, e: Equation, taps: Sequence[Var], filters: Var) -> Var:
        """A product per tap, each added to those before: with many channels that costs less than joining."""
        count, channels = filters.type.shape[0], filters.type.shape[-1]
        flat = self.make(e, "reshape", filters, shape=(count, len(taps), channels))
        sums: Var | None = None
        for n, rows in enumerate(taps):
            stop = (count, n + 1, channels)
            one = self.make(e, "slice", flat, start=(0, n, 0), stop=stop, step=(1, 1, 1))
            out = self.product(e, rows, self.make(e, "reshape", one, shape=(count, channels)))
            sums = out if sums is None else self.make(e, "add", out, sums)
        assert sums is not None
        return sums

    def product(self, e: Equation, rows: Var, filters: Var) -> Var:
        contract = ((rows.type.ndim - 1,), (1,))
        return self.make(
            e, "dot", rows, filters, contract=contract, batch=((), ()), dtype=e.attributes["dtype"]
        )

    def tap(self, e: Equation, x: Var, at: tuple[int, ...], space: tuple[Any, ...]) -> Var:
        """What one tap of the filters meets: a window of the image, at the stride of the result."""
        a = e.attributes
        first = tuple(i * d for i, d in zip(at, a["w_dilation"], strict=True))
        stop = tuple(f + (n - 1) * s + 1 for f, n, s in zip(first, space, a["stride"], strict=True))
        batch, channels = x.type.shape[0], x.type.shape[-1]
        return self.make(
            e, "slice", x,
            start=(0, *first, 0), stop=(batch, *stop, channels), step=(1, *a["stride"], 1),
        )  # fmt: skip


def _is_small(e: Equation) -> bool:
    if e.primitive.name != "conv" or e.inputs[0].type.dtype not in _SMALL or e.attributes["groups"] != 1:
        return False
    shapes = (*e.inputs[0].type.shape, *e.inputs[1].type.shape, *e.outputs[0].type.shape)
    if any(isinstance(d, Affine) or d == 0 for d in shapes):
        return False
    return (
        all(d == 1 for d in e.attributes["x_dilation"])
        and min(*e.attributes["low"], *e.attributes["high"]) >= 0
    )
