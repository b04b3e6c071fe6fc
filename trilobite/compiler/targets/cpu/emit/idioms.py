"""Several equations that have a cheaper form together than one by one.

Enters: a scalar graph. Leaves: forms by the variable that they make, and the variables that nobody computes
then. GELU is written with both of them:

    x/2·(1 + tanh u) = x/(1 + exp(-2u))     fewer operations, and no loss where tanh is close to -1
    1 + erf u        = erfc(-u)             one polynomial and one exponential for both sides of 1
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from trilobite.base.dtypes import bfloat16, float16, float32, float64
from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.emit.exponential import weighted
from trilobite.compiler.targets.cpu.emit.special import one_and_erf
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.native.llvm.text import Text, Value

_IN_FLOAT = frozenset({float16, bfloat16, float32})  # and not rounded after every operation


@dataclass(frozen=True)
class Weighted:
    """x/(1 + exp(factor·u))."""

    x: Var
    u: Var
    factor: float
    inside: tuple[Var, ...]  # what nobody computes now

    def value(self, t: Text, env: Mapping[Var, Value]) -> Value:
        return weighted(t, env[self.x], t.fmul(env[self.u], self.factor))


@dataclass(frozen=True)
class OneAndErf:
    """1 + erf(u)."""

    u: Var
    inside: tuple[Var, ...]

    def value(self, t: Text, env: Mapping[Var, Value]) -> Value:
        return one_and_erf(t, env[self.u])


class Idioms:
    """Those of one scalar graph, by the variable that they make."""

    def __init__(self, body: Graph) -> None:
        self.found: dict[Var, Weighted | OneAndErf] = {}
        self.inside: set[Var] = set()
        if all(e.primitive.name not in ("tanh", "erf") for e in body.equations):
            return
        self._makers = {e.outputs[0]: e for e in body.equations}
        self._uses = Counter(v for e in body.equations for v in e.inputs)
        self._uses.update(body.outputs)
        for e in body.equations:
            form = self._weighted(e) or self._one_and_erf(e)
            if form is not None:
                self.found[e.outputs[0]] = form
                self.inside |= set(form.inside)

    def _weighted(self, e: Equation) -> Weighted | None:
        if e.primitive.name != "mul" or e.outputs[0].type.dtype not in _IN_FLOAT | {float64}:
            return None
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
            return Weighted(x, u, -2.0 * factor, tuple(inside))
        return None

    def _one_and_erf(self, e: Equation) -> OneAndErf | None:
        if e.primitive.name != "add" or e.outputs[0].type.dtype not in _IN_FLOAT:
            return None
        for v, c in (e.inputs, reversed(e.inputs)):
            erf = self._alone(v, "erf")
            if erf is not None and self._number(c) == 1.0:
                return OneAndErf(erf.inputs[0], (v,))
        return None

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
