"""Regions prepared for nests: argmax and argmin become two reductions, an exponential of what is at most zero
becomes a cheaper one, dead equations are removed.

Enters and leaves: a region, with the same meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trilobite.base.dtypes import DType, bool_, int32, int64
from trilobite.compiler.targets.cpu.loops.index import upper
from trilobite.compiler.targets.cpu.nests.classes import ARGUMENTS, COMBINE
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitive import table


def prepared(region: Graph) -> Graph:
    equations: list[Equation] = []
    makers = producers(region)
    for e in _live(region):
        if e.primitive.name in ARGUMENTS:
            _place_of_extreme(e, equations)
        elif e.primitive.name in COMBINE and not e.attributes["axes"]:
            equations.append(Equation(table["stop_gradient"], e.inputs, {}, e.outputs, e.location))
        elif e.primitive.name == "exp" and _below_maximum(e.inputs[0], makers):
            _exp_below_one(e, equations)
        else:
            equations.append(e)
    return Graph(region.inputs, equations, region.outputs, region.name)


def _live(region: Graph) -> list[Equation]:
    needed, kept = set(region.outputs), []
    for e in reversed(region.equations):
        if needed & set(e.outputs):
            needed |= set(e.inputs)
            kept.append(e)
    return kept[::-1]


def _place_of_extreme(e: Equation, out: list[Equation]) -> None:
    """The first place whose element equals the extreme (or is NaN: NaN wins): a least number of places."""

    def bind(name: str, *inputs: Var, **attributes: Any) -> Var:
        out.append(Equation.of(name, inputs, attributes, e.location))
        return out[-1].outputs[0]

    x, axis = e.inputs[0], e.attributes["axis"]
    shape = x.type.shape
    kept = tuple(i for i in range(len(shape)) if i != axis)
    extreme = bind(ARGUMENTS[e.primitive.name][1], x, axes=(axis,))
    spread = bind("broadcast", extreme, shape=shape, axes=kept)
    hit = bind("eq", x, spread)
    if x.type.dtype != bool_ and x.type.dtype.kind not in "iu":
        hit = bind("or", hit, bind("ne", x, x))
    number: DType = int32 if upper(shape[axis]) < 2**31 - 1 else int64
    place = bind("iota", shape=shape, dtype=number, axis=axis)
    none = bind("full", shape=shape, dtype=number, value=2 ** (8 * number.itemsize - 1) - 1)
    first = bind("reduce_min", bind("select", hit, place, none), axes=(axis,))
    out.append(Equation(table["cast"], (first,), {"dtype": int64}, e.outputs, e.location))


def _below_maximum(v: Var, makers: Mapping[Var, Equation]) -> bool:
    """Is v a number less the largest of some that it is among?"""
    difference = makers.get(v)
    if difference is None or difference.primitive.name != "sub":
        return False
    x, spread = difference.inputs[0], makers.get(difference.inputs[1])
    if spread is None or spread.primitive.name != "broadcast":
        return False
    largest = makers.get(spread.inputs[0])
    if largest is None or largest.primitive.name != "reduce_max" or largest.inputs[0] is not x:
        return False
    axes = largest.attributes["axes"]
    return tuple(spread.attributes["axes"]) == tuple(a for a in range(x.type.ndim) if a not in axes)


def _exp_below_one(e: Equation, out: list[Equation]) -> None:
    """exp(-|x|): of what is below zero no other number, but whoever emits it sees that nothing overflows."""
    x = e.inputs[0]
    size, held = Var(x.type), Var(x.type)
    out.append(Equation(table["abs"], (x,), {}, (size,), e.location))
    out.append(Equation(table["neg"], (size,), {}, (held,), e.location))
    out.append(e.reading((held,)))


def producers(region: Graph) -> Mapping[Var, Equation]:
    return {v: e for e in region.equations for v in e.outputs}
