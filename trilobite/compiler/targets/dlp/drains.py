"""What of an epilogue the matrix unit's drain can do: bias, scale, rounding and ReLU, as far as it begins so.

Enters: a contraction with the chain behind it. Leaves: the drain's part, and the equations that are left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trilobite.base.dtypes import bfloat16, float16, float32
from trilobite.compiler.targets.dlp.groups import ContractionPlan
from trilobite.ir.graph import Equation, Graph, Var


def drain_of(plan: ContractionPlan, region: Graph) -> tuple[dict[str, Any], Var, tuple[Equation, ...]]:
    """The beginning of the chain that the unit's drain can do as bias, scale and activation, the value that
    leaves it, and what is left to do."""
    assert plan.chain is not None
    sums, numbers = plan.equation.outputs[0], plan.chain.numbers
    rest, found = list(plan.chain.equations), dict[str, Any]()
    read = [v for e in rest for v in e.inputs] + list(region.outputs)
    for name, take in (("bias", _bias_of), ("scale", _scale_of)):
        operand = take(rest[0], sums, numbers) if rest and read.count(sums) == 1 else None
        if operand in plan.operands:
            found[name], sums = plan.operands.index(operand), rest.pop(0).outputs[0]
    if rest and found and read.count(sums) == 1 and _is_rounding(rest[0], sums):
        sums = rest.pop(0).outputs[0]
    for length in (1, 2):
        if rest and read.count(sums) == length and _is_relu(rest[:length], sums, numbers):
            found["activation"], sums = "relu", rest[length - 1].outputs[0]
            rest = rest[length:]
            break
    if rest and sums in region.outputs:
        return {}, sums, ()
    return found, sums, tuple(rest)


def _bias_of(e: Equation, sums: Var, numbers: Mapping[Var, Any]) -> Var | None:
    if e.primitive.name != "add" or e.inputs.count(sums) != 1:
        return None
    return e.inputs[1 - e.inputs.index(sums)]


def _is_rounding(e: Equation, sums: Var) -> bool:
    """Sums of floats that leave the unit in fewer bits."""
    to = e.outputs[0].type.dtype
    return e.primitive.name == "cast" and sums.type.dtype == float32 and to in (float16, bfloat16)


def _scale_of(e: Equation, sums: Var, numbers: Mapping[Var, Any]) -> Var | None:
    """A scale per channel that the unit rounds behind as the primitive means it."""
    if e.primitive.name not in ("rescale", "scaled") or e.inputs[0] is not sums:
        return None
    return e.inputs[1] if _is_zero(e.inputs[2], numbers) else None


def _is_zero(v: Var, numbers: Mapping[Var, Any]) -> bool:
    return v in numbers and float(np.asarray(numbers[v])) == 0.0


def _is_relu(equations: Sequence[Equation], x: Var, numbers: Mapping[Var, Any]) -> bool:
    """The larger of x and 0, NaN kept: as a maximum, or as 0 where x <= 0."""
    if len(equations) == 1 and equations[0].primitive.name == "maximum":
        a, b = equations[0].inputs
        return (a is x and _is_zero(b, numbers)) or (b is x and _is_zero(a, numbers))
    if [e.primitive.name for e in equations] != ["le", "select"]:
        return False
    test, choice = equations
    p, a, b = choice.inputs
    zeros = _is_zero(test.inputs[1], numbers) and _is_zero(a, numbers)
    return zeros and test.inputs[0] is x and p is test.outputs[0] and b is x
