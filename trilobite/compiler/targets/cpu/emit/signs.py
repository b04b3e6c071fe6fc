"""What a scalar graph shows about the signs of its values.

Enters: equations over scalars. Leaves: answers that hold for every number, NaN aside. It looks at how a value
is made, a few equations deep, and knows nothing of inputs.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from trilobite.ir.graph import Equation, Var


class Signs:
    """Signs of the values of some equations."""

    def __init__(self, equations: Iterable[Equation]) -> None:
        self._makers = {v: e for e in equations for v in e.outputs}

    def zero(self, v: Var) -> bool:
        """Is v at most zero?"""
        e = self._makers.get(v)
        if e is None:
            return False
        if e.primitive.name == "minimum":
            return any(self._number(x) <= 0 for x in e.inputs)
        if e.primitive.name == "neg":
            return self._never_negative(e.inputs[0])
        if e.primitive.name != "mul":
            return False
        return any(
            self._number(x) <= 0 and self._never_negative(y) for x, y in (e.inputs, reversed(e.inputs))
        )

    def _never_negative(self, v: Var) -> bool:
        e = self._makers.get(v)
        if e is None:
            return False
        return e.primitive.name == "abs" or (e.primitive.name == "mul" and e.inputs[0] is e.inputs[1])

    def _number(self, v: Var) -> float:
        """The constant that v is; NaN, which is on no side of anything, if it is none."""
        e = self._makers.get(v)
        if e is None or e.primitive.name != "full" or v.type.dtype.kind == "c":
            return float("nan")
        return float(np.asarray(e.attributes["value"]).astype(np.float64))
