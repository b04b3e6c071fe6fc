"""Several equations that have a cheaper form together than one by one.

Enters: the equations of a scalar graph, and what it gives. Leaves: the equation at the end of each idiom with
what its form needs, and the equations that nobody else asks for. One idiom so far: x/2·(1 + tanh u), which is
x/(1 + exp(-2u)): fewer operations, and no loss where tanh is close to -1. GELU is written so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from trilobite.base.dtypes import bfloat16, float16, float32, float64
from trilobite.ir.graph import Equation, Graph, Var

_ROUNDED_LAST = frozenset({float16, bfloat16, float32, float64})  # not after every operation


@dataclass(frozen=True)
class Weighted:
    """x/(1 + exp(factor·u))."""

    x: Var
    u: Var
    factor: float
    inside: tuple[Var, ...]  # what nobody computes now


class Idioms:
    """Those of one scalar graph, by the variable that they make."""

    def __init__(self, body: Graph) -> None:
        self._makers = {e.outputs[0]: e for e in body.equations}
        self._uses = Counter(v for e in body.equations for v in e.inputs)
        self._uses.update(body.outputs)
        self.found: dict[Var, Weighted] = {}
        if any(e.primitive.name == "tanh" for e in body.equations):
            for e in body.equations:
                self._look(e)
        self.inside = {v for form in self.found.values() for v in form.inside}

    def _look(self, e: Equation) -> None:
        if e.primitive.name != "mul" or e.outputs[0].type.dtype not in _ROUNDED_LAST:
            return
        for half, more in (e.inputs, reversed(e.inputs)):
            x, above = self._with_number(half, "mul", 0.5), self._with_number(more, "add", 1.0)
            tanh = None if above is None else self._alone(above, "tanh")
            if x is None or above is None or tanh is None:
                continue
            inside, inner = [half, more, above], tanh.inputs[0]
            # u itself is often something times a number, and -2 times that number is as exact.
            u, factor = next(self._beside(inner, "mul"), (inner, 1.0))
            if u is not inner:
                inside.append(inner)
            self.found[e.outputs[0]] = Weighted(x, u, -2.0 * factor, tuple(inside))
            return

    def _alone(self, v: Var, name: str) -> Equation | None:
        """The equation that makes v, if it is this primitive and v is used once."""
        e = self._makers.get(v)
        return e if e is not None and e.primitive.name == name and self._uses[v] == 1 else None

    def _beside(self, v: Var, name: str) -> Iterator[tuple[Var, float]]:
        """Operands and the numbers beside them, of v used once."""
        e = self._alone(v, name)
        for x, c in () if e is None else (e.inputs, e.inputs[::-1]):
            number = self._number(c)
            if number is not None:
                yield x, number

    def _with_number(self, v: Var, name: str, number: float) -> Var | None:
        return next((x for x, n in self._beside(v, name) if n == number), None)

    def _number(self, v: Var) -> float | None:
        e = self._makers.get(v)
        if e is None or e.primitive.name != "full":
            return None
        return float(np.asarray(e.attributes["value"]).astype(v.type.dtype).astype(np.float64))
