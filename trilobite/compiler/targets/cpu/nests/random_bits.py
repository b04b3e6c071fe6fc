"""Random bits, element by element: the rule of `random_bits` for `reader`.

Word i of a stream is word i mod 4 of block counter + i div 4, so each element is a function of its number
alone, and bits need no memory: whoever turns them into numbers computes them. All arithmetic is on 64-bit
integers that hold 32-bit words.
"""

from __future__ import annotations

from typing import Any

from trilobite.base.dtypes import bool_, uint32, uint64
from trilobite.compiler.targets.cpu.loops.index import Index
from trilobite.compiler.targets.cpu.loops.ir import Position
from trilobite.compiler.targets.cpu.nests.reader import Indices, Reader, Rule
from trilobite.compiler.targets.cpu.nests.scalars import Scalars
from trilobite.ir.graph import Equation, Var
from trilobite.ir.primitive import table
from trilobite.ir.primitives.random import MULTIPLIERS, ROUNDS, WEYL

_LOW = 0xFFFFFFFF


class _Words:
    """Arithmetic on words."""

    def __init__(self, scalars: Scalars) -> None:
        self.scalars = scalars

    def number(self, n: Any) -> Var:
        return self.scalars.number(int(n), uint64)

    def apply(self, name: str, x: Var, y: Var) -> Var:
        return self.scalars.apply(table[name], (x, y), uint64, {})

    def low(self, x: Var) -> Var:
        return self.apply("and", x, self.number(_LOW))

    def high(self, x: Var) -> Var:
        return self.apply("shift_right", x, self.number(32))

    def xor(self, x: Var, *others: Var) -> Var:
        for y in others:
            x = self.apply("xor", x, y)
        return x

    def rounds(self, counter: list[Var], key: list[Var]) -> list[Var]:
        """Philox: four words from four words of counter and two of key."""
        c0, c1, c2, c3 = counter
        k0, k1 = key
        for _ in range(ROUNDS):
            # Both factors visibly below 2^32: one instruction multiplies them.
            p0 = self.apply("mul", self.low(c0), self.number(MULTIPLIERS[0]))
            p1 = self.apply("mul", self.low(c2), self.number(MULTIPLIERS[1]))
            c0, c1, c2, c3 = (
                self.xor(self.high(p1), c1, k0), self.low(p1), self.xor(self.high(p0), c3, k1), self.low(p0),
            )  # fmt: skip
            k0 = self.low(self.apply("add", k0, self.number(WEYL[0])))
            k1 = self.low(self.apply("add", k1, self.number(WEYL[1])))
        return [c0, c1, c2, c3]


def random_bits(r: Reader, e: Equation, index: Indices, guards: Indices) -> Rule:
    key, counter = e.inputs
    lead = key.type.ndim - 1
    words: list[Var] = []
    for v in (key, counter):
        for k in range(2):
            words += [(yield v, (*index[:lead], Index(k)), guards)]
    w = _Words(r.scalars)
    k0, k1, low, high = (r.scalars.cast(v, uint64) for v in words)
    number = Index(0)
    for i, d in zip(index[lead:], e.attributes["shape"], strict=True):
        number = number * d + i
    place = r.scalars.leaf(Position(number, uint64), uint64)
    first = w.apply("or", low, w.apply("shift_left", high, w.number(32)))
    block = w.apply("add", first, w.apply("shift_right", place, w.number(2)))
    stream = w.number(e.attributes["stream"])
    found = w.rounds([w.low(block), w.high(block), w.number(0), stream], [k0, k1])
    which = w.apply("and", place, w.number(3))
    out = found[3]
    for k in (2, 1, 0):
        here = r.scalars.apply(table["eq"], (which, w.number(k)), bool_, {})
        out = r.scalars.select(here, found[k], out)
    return r.scalars.cast(out, uint32)
