"""Joins: the sum of two tiles with what stands before and behind it, as one instruction.

Enters: the equations of a chain. Leaves: the same with one `join` for every sum whose second operand is made
of codes, or that a ReLU or a quantisation follows: the unit passes over a tile once instead of up to five
times. Only what nobody else reads is taken in, and the bits stay: a join rounds at each of its steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trilobite.base.dtypes import DType, bfloat16, float16, float32, int8, int16, uint8
from trilobite.base.reciprocals import exact_reciprocal
from trilobite.compiler.targets.dlp.primitives import join
from trilobite.ir.graph import Equation, Var
from trilobite.ir.primitives.common import integer_range

CODES = (int8, uint8, int16)
FLOATS = (float32, float16, bfloat16)
Number = int | float


@dataclass(frozen=True)
class _Join:
    """What one join stands for, and the equation whose result it gives."""

    a: Var
    b: Var
    last: Equation
    steps: Mapping[str, Any]
    taken: tuple[Equation, ...]  # but for the last

    def further(self, last: Equation, **steps: Any) -> _Join:
        more = {**self.steps, **steps, "dtype": last.outputs[0].type.dtype}
        return replace(self, last=last, steps=more, taken=(*self.taken, self.last))


class _Reader:
    def __init__(
        self, equations: Sequence[Equation], results: Sequence[Var], numbers: Mapping[Var, Number]
    ) -> None:
        self.numbers = numbers
        self.reads = Counter([v for e in equations for v in e.inputs] + list(results))
        self.made = {v: e for e in equations for v in e.outputs}
        self.reader = {v: e for e in equations for v in e.inputs}
        self.results = frozenset(results)

    def number(self, v: Var) -> float | None:
        return float(self.numbers[v]) if v in self.numbers else None

    def next(self, e: Equation) -> Equation | None:
        """The only reader of what an equation gives."""
        v = e.outputs[0]
        return self.reader.get(v) if self.reads[v] == 1 and v not in self.results else None

    def before(self, v: Var, name: str) -> Equation | None:
        """The equation of this name that makes a value for nobody else."""
        e = self.made.get(v)
        alone = self.reads[v] == 1 and v not in self.results
        return e if e is not None and alone and e.primitive.name == name else None

    def join(self, e: Equation) -> _Join | None:
        if e.primitive.name != "add" or e.outputs[0].type.dtype not in FLOATS:
            return None
        if any(v in self.numbers for v in e.inputs):
            return None
        x, y = e.inputs
        found = self._of_codes(e, x, y) or self._of_codes(e, y, x)
        first = found or _Join(x, y, e, _plain(e.outputs[0].type.dtype), ())
        whole = self._rectified(self._quantised(self._rectified(first)))
        return whole if found is not None or whole is not first else None

    def _of_codes(self, e: Equation, x: Var, y: Var) -> _Join | None:
        """Codes without their zero point times their scale, added to x."""
        product = self.before(y, "mul")
        if product is None or y.type.dtype != float32:
            return None
        for v, by in (product.inputs, product.inputs[::-1]):
            scale, zero, taken = self.number(by), 0.0, [product]
            less = self.before(v, "sub")
            if less is not None and less.inputs[1] in self.numbers:
                zero, v, taken = float(self.numbers[less.inputs[1]]), less.inputs[0], [less, product]
            cast = self.before(v, "cast")
            if scale is None or cast is None or cast.inputs[0].type.dtype not in CODES:
                continue
            steps = {**_plain(float32), "b_zero": zero, "b_scale": scale}
            return _Join(x, cast.inputs[0], e, steps, (cast, *taken))
        return None

    def _rectified(self, found: _Join) -> _Join:
        """With a ReLU behind it: of codes, which rise with the sum, the larger one of the zero point."""
        e = self.next(found.last)
        zero = found.steps["out_zero"]  # is 0 of floats
        if e is None or e.primitive.name != "maximum" or zero not in map(self.number, e.inputs):
            return found
        return found.further(e, relu=True)

    def _quantised(self, found: _Join) -> _Join:
        e = self.next(found.last)
        if e is None or e.primitive.name != "to_grid" or e.inputs[0] is not found.last.outputs[0]:
            return found
        step, zero, dtype = self.number(e.inputs[1]), self.number(e.inputs[2]), e.outputs[0].type.dtype
        if step is None or zero is None or dtype not in CODES:
            return found
        low, high = integer_range(dtype)
        by = exact_reciprocal(step, int(low - zero), int(high - zero))
        return found if by is None else found.further(e, out_scale=by, out_zero=zero)


def _plain(dtype: DType) -> dict[str, Any]:
    """The sum alone: what is added last keeps the sign of a zero."""
    scales = {"b_zero": 0.0, "b_scale": 1.0, "out_scale": 1.0, "out_zero": -0.0}
    return {**scales, "relu": False, "dtype": dtype}


def joined(
    equations: Sequence[Equation], results: Sequence[Var], numbers: Mapping[Var, Number]
) -> tuple[Equation, ...]:
    """The equations with joins, each where the last of what it stands for was."""
    reader, skipped, made = _Reader(equations, results, numbers), set[int](), dict[int, Equation]()
    for e in equations:
        found = reader.join(e)
        if found is not None:
            skipped.update(map(id, found.taken))
            last, inputs = found.last, (found.a, found.b)
            made[id(last)] = Equation(join, inputs, found.steps, last.outputs, last.location)
    return tuple(made.get(id(e), e) for e in equations if id(e) not in skipped)
