"""Regions: bodies of calls, loops and branches are split as the graph around them is.

A call whose body needs no collective stays a call, so that targets still know what it is; another one becomes
its body. Carries of a loop settle on one placement, partial sums included: gradients that a loop adds up are
summed over ranks once, behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trilobite.cluster.sharding.conversion import marks
from trilobite.cluster.sharding.partition import Partition, Walk, partition
from trilobite.cluster.sharding.placements import Placement, canonical, fits
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitives import table
from trilobite.ir.types import TensorType

ROUNDS = 4  # in which carries may still change


def split_region(walk: Walk, e: Equation) -> None:
    {"call": _call, "scan": _scan, "cond": _cond, "while": _while}[e.primitive.name](walk, e)


def _summed(walk: Walk, v: Var) -> Placement:
    """Where a value lies, its partial sums taken."""
    p = walk.homes[v]
    for a in p.partials:
        p = p.with_axis(a, None)
    return canonical(v.type, p, walk.place.mesh)


def _get(walk: Walk, e: Equation, v: Var, p: Placement) -> Var:
    why = f"{e.primitive.name} takes it {p.text(walk.place.names)}"
    return walk.get(v, p, why, e)


def _define(walk: Walk, e: Equation, outs: Sequence[Placement], made: Sequence[Var]) -> None:
    for v, p, local in zip(e.outputs, outs, made, strict=True):
        walk.define(v, p, local)


# -- calls ---------------------------------------------------------------------------------------------------


def _call(walk: Walk, e: Equation) -> None:
    from trilobite.compiler.graph.passes.inline import _bound, specialise

    body: Graph = e.attributes["graph"]
    sizes = _bound(body, e)
    if sizes:
        body = specialise(body, sizes)
    ins = [_summed(walk, v) for v in e.inputs]
    inner = partition(body, walk.place, ins, [None] * len(body.outputs), partial=True)
    inputs = tuple(_get(walk, e, v, p) for v, p in zip(e.inputs, ins, strict=True))
    walk.add_inner(inner)
    if any(q.primitive.effect or marks(q) for q in inner.graph.equations):
        made = _spliced(walk, e, inner, inputs)
    else:
        made = tuple(Var(v.type) for v in inner.graph.outputs)
        kept = {k: e.attributes[k] for k in ("name", "options") if k in e.attributes}
        attributes = {**kept, "graph": inner.graph, "target": ""}
        walk.equations.append(Equation(table["call"], inputs, attributes, made, e.location))
    _define(walk, e, inner.outs, made)


def _spliced(walk: Walk, e: Equation, inner: Partition, inputs: Sequence[Var]) -> tuple[Var, ...]:
    now = dict(zip(inner.graph.inputs, inputs, strict=True))
    for q in inner.graph.equations:
        outputs = tuple(Var(v.type) for v in q.outputs)
        taken = tuple(now[v] for v in q.inputs)
        walk.equations.append(Equation(q.primitive, taken, q.attributes, outputs, e.location))
        walk.made_by |= {new: inner.made_by[v] for v, new in zip(q.outputs, outputs, strict=True)
                         if v in inner.made_by}  # fmt: skip
        now.update(zip(q.outputs, outputs, strict=True))
    return tuple(now[v] for v in inner.graph.outputs)


# -- loops ---------------------------------------------------------------------------------------------------


def _inside(p: Placement) -> Placement:
    """Of a sequence, one element: a side that splits the sequence itself gathers it."""
    axes = tuple((None if entry == 0 else entry - 1) if type(entry) is int else entry for entry in p.axes)
    return Placement(axes, p.units[1:])


def _outside(p: Placement) -> Placement:
    axes = tuple(entry + 1 if type(entry) is int else entry for entry in p.axes)
    return Placement(axes, (1, *p.units))


def _settle(
    walk: Walk, body: Graph, fixed: Sequence[Placement], carries: list[Placement], xs: Sequence[Placement],
    partial: bool,
) -> tuple[list[Placement], Partition]:  # fmt: skip
    """Carries that the body leaves as it finds them."""
    n, types = len(carries), body.output_types
    rest = [None] * (len(body.outputs) - n)
    for round_ in range(ROUNDS):
        free = partition(body, walk.place, [*fixed, *carries, *xs], [None] * len(body.outputs), partial)
        if list(free.outs[:n]) == carries:
            break
        carries = [
            _meet(walk, t, have, new, first=round_ < ROUNDS - 2)
            for t, have, new in zip(types[:n], carries, free.outs[:n], strict=True)
        ]
    pins: list[Any] = [*carries, *rest]
    return carries, partition(body, walk.place, [*fixed, *carries, *xs], pins, partial)


def _meet(walk: Walk, t: TensorType, have: Placement, new: Placement, first: bool) -> Placement:
    """What came out, while there is hope; later, whole along every side where they differ."""
    if have == new or first:
        return new
    axes = tuple(a if a == b else None for a, b in zip(have.axes, new.axes, strict=True))
    found = canonical(t, Placement(axes, new.units), walk.place.mesh)
    return found if fits(t, found, walk.place.mesh) else walk.place.whole(t)


def _scan(walk: Walk, e: Equation) -> None:
    k, c, body = e.attributes["consts"], e.attributes["carries"], e.attributes["body"]
    homes = [_summed(walk, v) for v in e.inputs]
    fixed, xs = homes[:k], [_inside(p) for p in homes[k + c :]]
    carries, inner = _settle(walk, body, fixed, homes[k : k + c], xs, partial=True)
    places = [*fixed, *carries, *(_outside(p) for p in xs)]
    inputs = tuple(_get(walk, e, v, p) for v, p in zip(e.inputs, places, strict=True))
    walk.add_inner(inner, int(e.attributes["length"]))
    length = e.attributes["length"]
    ys = [TensorType((length, *v.type.shape), v.type.dtype) for v in inner.graph.outputs[c:]]
    made = tuple(Var(t) for t in (*(v.type for v in inner.graph.outputs[:c]), *ys))
    walk.equations.append(
        Equation(e.primitive, inputs, {**e.attributes, "body": inner.graph}, made, e.location)
    )
    _define(walk, e, [*carries, *(_outside(p) for p in inner.outs[c:])], made)


def _while(walk: Walk, e: Equation) -> None:
    (a, b), test, body = e.attributes["consts"], e.attributes["test"], e.attributes["body"]
    homes = [_summed(walk, v) for v in e.inputs]
    for_test, for_body = homes[:a], homes[a : a + b]
    carries, inner = _settle(walk, body, for_body, homes[a + b :], [], partial=False)
    decided = walk.place.whole(test.output_types[0])
    asked = partition(test, walk.place, [*for_test, *carries], [decided])
    places = [*for_test, *for_body, *carries]
    inputs = tuple(_get(walk, e, v, p) for v, p in zip(e.inputs, places, strict=True))
    walk.add_inner(inner)
    walk.add_inner(asked)
    made = tuple(Var(v.type) for v in inner.graph.outputs)
    attributes = {**e.attributes, "test": asked.graph, "body": inner.graph}
    walk.equations.append(Equation(e.primitive, inputs, attributes, made, e.location))
    _define(walk, e, carries, made)


def _cond(walk: Walk, e: Equation) -> None:
    """Branches leave their results where the first one does."""
    branches: tuple[Graph, ...] = e.attributes["branches"]
    index, *values = e.inputs
    ins = [_summed(walk, v) for v in values]
    first = partition(branches[0], walk.place, ins, [None] * len(branches[0].outputs))
    pins: list[Any] = list(first.outs)
    made_of = [partition(g, walk.place, ins, pins) for g in branches]
    inputs = (
        _get(walk, e, index, walk.place.whole(index.type)),
        *(_get(walk, e, v, p) for v, p in zip(values, ins, strict=True)),
    )
    walk.add_inner(max(made_of, key=lambda m: m.seconds))
    made = tuple(Var(v.type) for v in made_of[0].graph.outputs)
    attributes = {"branches": tuple(m.graph for m in made_of)}
    walk.equations.append(Equation(e.primitive, inputs, attributes, made, e.location))
    _define(walk, e, pins, made)
