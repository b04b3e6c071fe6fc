"""share_kernels: fusions that differ in numbers alone read these from memory, and are one kernel.

Enters: a graph of fusions. Leaves: the same, where many regions would be equal but for floats that stand in
them (the steps of a schedule, written out: x * a[t] + b[t]); these floats are 0-d constants beside the
fusions then. Fewer than `_MANY` keep their numbers, which cost no operand there. Integers stay: what computes
places is looked through by those who lower it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from trilobite.ir.graph import Dense, Equation, Graph, Var, exact
from trilobite.ir.primitives.creation import constant
from trilobite.ir.primitives.shape import broadcast
from trilobite.ir.types import TensorType

if TYPE_CHECKING:
    from trilobite.compiler.graph.fuse import Kind

_MANY = 4  # kernels that are compiled as they are: less than one that serves all would save
_MOST = 24  # numbers of one region that become operands
_READERS = frozenset("add sub mul div maximum minimum select eq ne lt le gt ge".split())
_FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})


def share_kernels(graph: Graph, kinds: Mapping[str, Kind]) -> Graph:
    families: dict[Any, list[int]] = {}
    for at, e in enumerate(graph.equations):
        if e.attributes.get("kind") in kinds and _numbers(e.attributes["region"]):
            families.setdefault(_without_numbers(e.attributes["region"]), []).append(at)
    out: list[list[Equation]] = [[e] for e in graph.equations]
    for members in families.values():
        regions = [graph.equations[at].attributes["region"] for at in members]
        differing = _differing(regions)
        if differing:
            kind = kinds[graph.equations[members[0]].attributes["kind"]]
            for at in members:
                out[at] = _shared(graph.equations[at], differing, kind)
    if all(len(es) == 1 for es in out):
        return graph
    return Graph(graph.inputs, [e for es in out for e in es], graph.outputs, graph.name)


def _numbers(region: Graph) -> list[int]:
    """Which equations are floats that only arithmetic reads."""
    found = {
        e.outputs[0]: i
        for i, e in enumerate(region.equations)
        if e.primitive.name == "full" and e.attributes["dtype"].name in _FLOATS
    }
    for e in region.equations if found else ():
        if e.primitive.name not in _READERS:
            for v in e.inputs:
                found.pop(v, None)
    for v in region.outputs:
        found.pop(v, None)
    return list(found.values())


def _without_numbers(region: Graph) -> Any:
    """What regions that differ in numbers alone have in common."""
    inputs, rows, outputs = region.key
    numbers = set(_numbers(region))
    kept = tuple(("full", row[3]) if i in numbers else row for i, row in enumerate(rows))
    return inputs, kept, outputs


def _differing(regions: Sequence[Graph]) -> list[int]:
    """The equations whose numbers are not the same everywhere, if there are kernels to be saved."""
    if len(regions) <= _MANY or len(set(regions)) <= _MANY:
        return []
    out = [
        i
        for i in _numbers(regions[0])
        if len({exact(r.equations[i].attributes["value"]) for r in regions}) > 1
    ]
    return out if len(out) <= _MOST else []


def _shared(e: Equation, differing: Sequence[int], kind: Kind) -> list[Equation]:
    """The fusion with these numbers as operands, and before it their constants; as it is if its kind cannot
    have them.
    """
    region: Graph = e.attributes["region"]
    body, constants = list(region.equations), []
    for i in differing:
        f = body[i]
        number = np.asarray(f.primitive.evaluate(**{**f.attributes, "shape": ()}))
        operand = Var(TensorType((), f.attributes["dtype"]))
        constants.append(Equation(constant, (), {"value": Dense(number)}, (operand,), f.location))
        shape = {"shape": f.outputs[0].type.shape, "axes": ()}
        body[i] = Equation(broadcast, (operand,), shape, f.outputs, f.location)
    operands = tuple(c.outputs[0] for c in constants)
    changed = Graph((*region.inputs, *operands), body, region.outputs, region.name)
    if kind.accepts(changed) is not None:
        return [e]
    attributes = {**e.attributes, "region": changed}
    return [*constants, Equation(e.primitive, (*e.inputs, *operands), attributes, e.outputs, e.location)]
