"""A bias of 16 bits is added to sums of 32: the matrix unit keeps and drains them so.

Enters: an expanded graph. Leaves: one in which a product of 16-bit floats that only a bias per channel reads
gives its float32 sums; the bias is added to those, and the total is rounded once. The result is closer to the
exact one, and the unit's drain can do all of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from trilobite.base.dtypes import bfloat16, float16, float32
from trilobite.compiler.targets.dlp.groups import CONTRACTIONS
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitive import table
from trilobite.ir.types import TensorType

_HALF = (float16, bfloat16)


def widen_sums(graph: Graph) -> Graph:
    made = {v: e for e in graph.equations for v in e.outputs}
    reads: dict[Var, int] = {}
    for e in graph.equations:
        for v in e.inputs:
            reads[v] = reads.get(v, 0) + 1
    place = {v: n for n, e in enumerate(graph.equations) for v in e.outputs}
    biased: dict[Var, _Sums] = {}
    for e in graph.equations:
        found = _biased(e, made)
        if found is None or reads[found.sums] != 1 or found.sums in graph.outputs:
            continue
        if place.get(found.bias, -1) < place[found.sums]:
            biased[e.outputs[0]] = found
    heads = {found.sums: found for found in biased.values()}
    equations: list[Equation] = []
    for e in graph.equations:
        first = e.outputs[0] if e.outputs else None
        if first in heads:
            equations += heads[first].product(e)
        elif first in biased:
            equations += biased[first].total(e)
        else:
            equations.append(e)
    return Graph(graph.inputs, equations, graph.outputs, graph.name) if biased else graph


class _Sums:
    """A product, its bias spread by an equation, and both as float32."""

    def __init__(self, sums: Var, spread: Equation) -> None:
        self.sums, self.spread, self.bias = sums, spread, spread.inputs[0]
        self.wide_sums, self.wide_bias = (Var(TensorType(v.type.shape, float32)) for v in (sums, self.bias))

    def product(self, e: Equation) -> list[Equation]:
        """The bias first: what stands between a product and its epilogue would part them."""
        attributes = {**e.attributes, "dtype": float32}
        return [
            Equation(table["cast"], (self.bias,), {"dtype": float32}, (self.wide_bias,), e.location),
            Equation(e.primitive, e.inputs, attributes, (self.wide_sums,), e.location),
        ]

    def total(self, e: Equation) -> list[Equation]:
        (out,) = e.outputs
        full, total = (Var(TensorType(out.type.shape, float32)) for _ in range(2))
        spread = self.spread.attributes
        return [
            Equation(table["broadcast"], (self.wide_bias,), spread, (full,), e.location),
            Equation(table["add"], (self.wide_sums, full), {}, (total,), e.location),
            Equation(table["cast"], (total,), {"dtype": out.type.dtype}, (out,), e.location),
        ]


def _biased(e: Equation, made: Mapping[Var, Equation]) -> _Sums | None:
    """An addition of a bias per channel to a product of 16-bit floats."""
    if e.primitive.name != "add" or e.outputs[0].type.dtype not in _HALF:
        return None
    for sums, bias in (e.inputs, e.inputs[::-1]):
        product, spread = made.get(sums), made.get(bias)
        if product is None or spread is None or spread.primitive.name != "broadcast":
            continue
        narrow = product.primitive.name in CONTRACTIONS and product.inputs[0].type.dtype in _HALF
        if narrow and spread.inputs[0].type.ndim == 1:
            return _Sums(sums, spread)
    return None
