"""Clamps of numbers that are rounded to codes become clamps of the codes: a byte an element instead of four.

Enters: an expanded graph. Leaves: one in which `to_grid(maximum(x, 0))`, or of `select(x <= 0, 0, x)`, is
`maximum(to_grid(x), 0)`, where the scale is known and positive and the zero point is 0: rounding and
saturation keep order, 0 is its own code, and NaN is code 0 either way. What nobody reads any more stays
behind.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitive import table


def clamp_codes(graph: Graph) -> Graph:
    made = {v: e for e in graph.equations for v in e.outputs}
    equations: list[Equation] = []
    for e in graph.equations:
        source = _rectified(e, made) if e.primitive.name == "to_grid" else None
        if source is None:
            equations.append(e)
            continue
        (out,) = e.outputs
        code, zero = Var(out.type), Var(out.type)
        full = {"shape": out.type.shape, "value": 0, "dtype": out.type.dtype}
        equations += [
            Equation(e.primitive, (source, *e.inputs[1:]), e.attributes, (code,), e.location),
            Equation(table["full"], (), full, (zero,), e.location),
            Equation(table["maximum"], (code, zero), {}, (out,), e.location),
        ]
    if len(equations) == len(graph.equations):
        return graph
    return Graph(graph.inputs, equations, graph.outputs, graph.name)


def _rectified(e: Equation, made: Mapping[Var, Equation]) -> Var | None:
    """x, where the equation rounds the larger of x and 0."""
    x, scale, zero = e.inputs
    before = made.get(x)
    step = _number(scale, made)
    if before is None or _number(zero, made) != 0 or step is None or not 0 < step < np.inf:
        return None
    if before.primitive.name == "select":
        return _chosen(before, made)
    if before.primitive.name != "maximum":
        return None
    a, b = before.inputs
    if _number(b, made) == 0:
        return a
    return b if _number(a, made) == 0 else None


def _chosen(e: Equation, made: Mapping[Var, Equation]) -> Var | None:
    """x of a choice of 0 where x <= 0 (or x < 0), else x."""
    test, x = made.get(e.inputs[0]), e.inputs[2]
    if test is None or test.primitive.name not in ("le", "lt") or _number(e.inputs[1], made) != 0:
        return None
    return x if test.inputs[0] is x and _number(test.inputs[1], made) == 0 else None


def _number(v: Var, made: Mapping[Var, Equation]) -> float | None:
    """What every element is, if that is known."""
    e = made.get(v)
    while e is not None and e.primitive.name == "broadcast":
        e = made.get(e.inputs[0])
    if e is None or e.primitive.name not in ("full", "constant"):
        return None
    value = e.attributes["value"]
    array = np.asarray(value.array if e.primitive.name == "constant" else value)
    return float(array.reshape(-1)[0]) if array.size == 1 and array.dtype.kind in "iufb" else None
