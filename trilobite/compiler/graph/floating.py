"""Equations that every reader computes for itself instead of reading their results from memory.

Enters: a graph and a target's policy. Leaves: whether an equation floats, what it reads once its floating
operands are its own, and bodies with the copies that they need. Constants, broadcasts and counters float, and
so do short chains of cheap equations over one large value, and what belongs to its only reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trilobite.compiler.graph.passes.rules.pointwise import POINTWISE
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.types import Affine, size_of

if TYPE_CHECKING:
    from trilobite.compiler.graph.fuse import FusionPolicy

MOVES = frozenset({"constant", "full", "iota", "broadcast"})
_CHEAP = frozenset(
    "add sub mul neg abs maximum minimum select cast eq ne lt le gt ge and or xor not sign is_nan".split()
)


class Floating:
    """What floats so far, and who reads which value."""

    def __init__(self, graph: Graph, policy: FusionPolicy) -> None:
        self.policy = policy
        self.floating: dict[Var, Equation] = {}
        self.readers: dict[Var, int] = {}
        self.read_by: dict[Var, set[str]] = {}
        self.only_reader: dict[Var, Equation | None] = {}
        for e in graph.equations:
            for v in e.inputs:
                self.readers[v] = self.readers.get(v, 0) + 1
                self.read_by.setdefault(v, set()).add(e.primitive.name)
                self.only_reader[v] = None if v in self.only_reader else e
        self.results = set(graph.outputs)

    def _costs_nothing(self, e: Equation) -> bool:
        """A value that is made of nothing, or repeated, or widened where a product reads it."""
        moves = e.primitive.name in MOVES or self._is_widening(e)
        return moves and e.outputs[0] not in self.results

    def _is_widening(self, e: Equation) -> bool:
        """A cast to a wider dtype that products alone read: they take the small numbers as they are. So do
        kernels of which the target says so."""
        if e.primitive.name != "cast" or e.inputs[0].type.dtype.itemsize >= e.outputs[0].type.dtype.itemsize:
            return False
        readers = self.read_by.get(e.outputs[0], set())
        return readers <= {"dot"} or (self.policy.widens is not None and self.policy.widens(e, readers))

    def _only_widens(self, e: Equation) -> bool:
        """Does it make more bytes of one value, for elementwise readers alone?"""
        if not self.policy.narrow or e.primitive.name not in _CHEAP or e.outputs[0] in self.results:
            return False
        v, readers = e.outputs[0], self.read_by.get(e.outputs[0], set())
        if not readers or not readers <= POINTWISE or len(self._floating_behind(e)) >= self.policy.chain:
            return False
        sources = [u for u in dict.fromkeys(self._sources(e)) if u.type.shape == v.type.shape]
        return len(sources) == 1 and sources[0].type.dtype.itemsize < v.type.dtype.itemsize

    def _reads_codes(self, e: Equation) -> bool:
        """Numbers of a grid of bytes, for elementwise readers alone: codes are a quarter of their size."""
        if not self.policy.codes or e.primitive.name != "dequantise" or e.outputs[0] in self.results:
            return False
        q, scale, zero = e.inputs
        readers = self.read_by.get(e.outputs[0], set())
        known = scale.type.ndim == zero.type.ndim == 0 and q.type.ndim > 0
        return known and q.type.dtype.itemsize == 1 and bool(readers) and readers <= POINTWISE

    def _waits(self, e: Equation) -> bool:
        """Does it belong to the one equation that reads it? Begun on its own, its group would keep that
        reader from joining an older one, as the second of two rows that are interpolated between.
        """
        if e.primitive.name not in POINTWISE and e.primitive.name != "gather":
            return False
        if e.outputs[0] in self.results:
            return False
        reader = self.only_reader.get(e.outputs[0])
        if reader is None or reader.primitive.name not in POINTWISE:
            return False
        same = reader.outputs[0].type.shape == e.outputs[0].type.shape
        return same and len(self._floating_behind(e)) < self.policy.chain

    def _is_cheaper_again(self, e: Equation) -> bool:
        """Would each of several readers do better to compute this from the one large value behind it?"""
        if e.primitive.name not in _CHEAP:
            return False
        v = e.outputs[0]
        if v in self.results or self.readers.get(v, 0) < 2:
            return False
        behind = [f for f in self._floating_behind(e) if f.primitive.name not in MOVES]
        if len(behind) >= self.policy.chain or any(f.primitive.name not in _CHEAP for f in behind):
            return False
        sources = set(self._sources(e))
        if any(is_symbolic(u) for u in (v, *sources)):
            return len(sources) <= 1
        large = [u for u in sources if 4 * size_of(u.type.shape) > size_of(v.type.shape)]
        return len(large) <= 1

    def _floating_behind(self, e: Equation) -> list[Equation]:
        """The floating equations that a copy of this one brings along."""
        out: dict[Var, Equation] = {}
        pending = [v for v in e.inputs if v in self.floating]
        while pending:
            v = pending.pop()
            if v not in out:
                out[v] = self.floating[v]
                pending += [u for u in out[v].inputs if u in self.floating]
        return list(out.values())

    def _sources(self, e: Equation) -> list[Var]:
        """What an equation reads once its floating operands are its own."""
        out: list[Var] = []
        pending = list(e.inputs)
        while pending:
            v = pending.pop()
            if v in self.floating:
                pending += self.floating[v].inputs
            else:
                out.append(v)
        return out

    def _with_copies(self, body: Sequence[Equation], e: Equation) -> list[Equation]:
        """A body with one more equation, and before it the floating ones that it reads and the body lacks."""
        seen = {v for x in body for v in x.outputs}
        chain: list[Equation] = []
        pending = [v for v in e.inputs if v in self.floating and v not in seen]
        while pending:
            f = self.floating[pending.pop()]
            chain.append(f)
            pending += [v for v in f.inputs if v in self.floating and v not in seen]
        return [*body, *dict.fromkeys(reversed(chain)), e]


def is_symbolic(v: Var) -> bool:
    return any(isinstance(d, Affine) for d in v.type.shape)
