"""Accumulators in registers: what a reduction carries from iteration to iteration, and what it makes of it
at the end.

Enters: the numbers of the iterations, as scalars or vectors. Leaves: one scalar. Sums and the like carry
what they have so far. Extremes of floats carry three things that cost less than to ask at every number
whether it is NaN or the other zero: the extreme of those that are numbers, whether one was none, and all
signs together.
"""

from __future__ import annotations

from trilobite.base.dtypes import DType, is_float
from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.emit.scalar import emit_scalars
from trilobite.compiler.targets.cpu.loops.combine import scalar_graph
from trilobite.native.llvm.text import Text, Value, constant, element_of
from trilobite.native.llvm.types import integer_like, lanes_of

Parts = list[Value]


@dataclass(frozen=True)
class Combined:
    """One number, combined by the primitive itself."""

    text: Text
    combine: str
    dtype: DType

    def start(self, identity: Value) -> Parts:
        return [identity]

    def take(self, found: Parts, x: Value) -> Parts:
        return self.merged(found, [x])

    def merged(self, a: Parts, b: Parts) -> Parts:
        graph = scalar_graph(self.combine, self.dtype)
        return emit_scalars(self.text, graph, [*a, *b], lanes_of(a[0].type))

    def result(self, found: Parts) -> Value:
        return found[0]


@dataclass(frozen=True)
class Extreme(Combined):
    """The extreme, ones where a number was NaN, and the signs of all: whether all are negative decides
    which zero is the largest, whether any is, which is the least.
    """

    def start(self, identity: Value) -> Parts:
        whole = integer_like(identity.type)
        return [identity, constant(whole, 0), constant(whole, -1 if self._largest else 0)]

    @property
    def _largest(self) -> bool:
        return self.combine == "maximum"

    def take(self, found: Parts, x: Value) -> Parts:
        t = self.text
        bits = t.bits(x)
        wrong = t.convert("sext", t.fcmp("uno", x, x), element_of(bits.type))
        return self.merged(found, [x, wrong, bits])

    def merged(self, a: Parts, b: Parts) -> Parts:
        t = self.text
        # If either is NaN, the first: it never is.
        further = t.fmax(b[0], a[0]) if self._largest else t.fmin(b[0], a[0])
        signs = t.and_(a[2], b[2]) if self._largest else t.or_(a[2], b[2])
        return [further, t.or_(a[1], b[1]), signs]

    def result(self, found: Parts) -> Value:
        t, (extreme, wrong, signs) = self.text, found
        zero = t.copysign(constant(extreme.type, 0.0), t.as_float(signs))
        out = t.select(t.fcmp("oeq", extreme, 0.0), zero, extreme)
        return t.select(t.icmp("ne", wrong, 0), constant(extreme.type, float("nan")), out)


def accumulator(text: Text, combine: str, dtype: DType) -> Combined:
    if combine in ("maximum", "minimum") and is_float(dtype):
        return Extreme(text, combine, dtype)
    return Combined(text, combine, dtype)


def folded(text: Text, by: Combined, parts: Parts) -> Parts:
    """All lanes into one, always in the same order: low half with high half until one is left."""
    while lanes_of(parts[0].type) > 1:
        halves = [text.halves(p) for p in parts]
        parts = by.merged([low for low, _ in halves], [high for _, high in halves])
    return [text.extract(p, 0) if lanes_of(p.type) else p for p in parts]
