"""Regions as ONNX bodies: cond as If, scan as Scan, while as Loop; a call is written out in place.

A body reads what surrounds it by name, so constants of a region are not passed but seen. Results of a body
are made in it: what only passes through is copied by an Identity.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onnx import TensorProto, helper

from trilobite.base.dtypes import bool_, int32
from trilobite.inference.export.movement import turned
from trilobite.inference.export.scope import Model, Scope, value_info
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.types import TensorType

Walk = Callable[[Scope, Graph], None]


def _seen(parent: Scope, model: Model, inner: Sequence[Var], outer: Sequence[Var]) -> Scope:
    """A body's scope that sees these variables of its surroundings."""
    child = Scope(model)
    for i, o in zip(inner, outer, strict=True):
        child.set(i, parent.name(o))
        if o in parent.known:
            child.known[i] = parent.known[o]
    return child


def cond(s: Scope, e: Equation, walk: Walk) -> None:
    index, *values = e.inputs
    for v in values:
        s.name(v)
    names = _choose(s, s.name(index), values, e.attributes["branches"], 0, walk)
    for v, name in zip(e.outputs, names, strict=True):
        s.set(v, name)


def _branch(s: Scope, graph: Graph, values: Sequence[Var], walk: Walk) -> Any:
    child = _seen(s, s.model, graph.inputs, values)
    walk(child, graph)
    return child.body("branch", [], child.outputs_of(graph.outputs), graph.output_types)


def _choose(
    s: Scope, index: str, values: Sequence[Var], branches: Sequence[Graph], first: int, walk: Walk
) -> list[str]:
    """The first branch where the index is at most its number, else one of the others."""
    graph, types = branches[first], branches[first].output_types
    if first == len(branches) - 1:
        return _only(s, graph, values, walk)
    taken = _branch(s, graph, values, walk)
    if first == len(branches) - 2:
        other = _branch(s, branches[first + 1], values, walk)
    else:
        child = _nested(s, values)
        names = _choose(child, index, values, branches, first + 1, walk)
        other = child.body("branch", [], names, types)
    chosen = s.emit("LessOrEqual", index, s.constant(first, int32))
    return s.emit_many("If", [chosen], len(types), then_branch=taken, else_branch=other)


def _nested(s: Scope, values: Sequence[Var]) -> Scope:
    return _seen(s, s.model, values, values)


def _only(s: Scope, graph: Graph, values: Sequence[Var], walk: Walk) -> list[str]:
    child = s.within(graph.inputs, values)
    walk(child, graph)
    return [child.name(v) for v in graph.outputs]


def _entries(child: Scope, variables: Sequence[Var]) -> list[Any]:
    """Inputs of a body, one for each variable."""
    infos = []
    for v in variables:
        name = child.model.fresh("state")
        child.set(v, name)
        infos.append(value_info(name, v.type.dtype, v.type.shape))
    return infos


def scan(s: Scope, e: Equation, walk: Walk) -> None:
    a = e.attributes
    body, k, c = a["body"], a["consts"], a["carries"]
    if len(e.inputs) == k + c:
        return _counted(s, e, walk)
    child = _seen(s, s.model, body.inputs[:k], e.inputs[:k])
    infos = _entries(child, body.inputs[k:])
    walk(child, body)
    outputs = child.outputs_of(body.outputs)
    sequences, stacked = len(e.inputs) - k - c, len(body.outputs) - c
    ways = {"num_scan_inputs": sequences}
    if a["reverse"]:
        ways |= {"scan_input_directions": [1] * sequences, "scan_output_directions": [1] * stacked}
    inner = child.body("step", infos, outputs, body.output_types)
    names = s.emit_many("Scan", [s.name(v) for v in e.inputs[k:]], len(e.outputs), body=inner, **ways)
    for v, name in zip(e.outputs, names, strict=True):
        s.set(v, name)
    return None


def _counted(s: Scope, e: Equation, walk: Walk) -> None:
    """A scan over nothing but a length: a Loop, whose stacked results are turned where it runs backwards."""
    a = e.attributes
    body, k, c = a["body"], a["consts"], a["carries"]
    child = _seen(s, s.model, body.inputs[:k], e.inputs[:k])
    step, go = _loop_entries(child)
    infos = [step, go, *_entries(child, body.inputs[k:])]
    walk(child, body)
    still = child.emit("Identity", go.name)
    outputs = [still, *child.outputs_of(body.outputs)]
    types = [TensorType((), bool_), *body.output_types]
    inner = child.body("step", infos, outputs, types)
    trips = s.emit("Squeeze", s.model.extent(a["length"]), s.ints(0))
    names = s.emit_many(
        "Loop",
        [trips, s.constant(True, bool_), *(s.name(v) for v in e.inputs[k:])],
        len(e.outputs),
        body=inner,
    )
    for i, (v, name) in enumerate(zip(e.outputs, names, strict=True)):
        s.set(v, turned(s, name, [0]) if a["reverse"] and i >= c else name)


def _loop_entries(child: Scope) -> tuple[Any, Any]:
    step = helper.make_tensor_value_info(child.model.fresh("step"), TensorProto.INT64, [])
    go = helper.make_tensor_value_info(child.model.fresh("go_on"), TensorProto.BOOL, [])
    return step, go


def while_(s: Scope, e: Equation, walk: Walk) -> None:
    """The test stands before the loop, for its first step, and at the end of the body, for the next."""
    (a, b), test, body = e.attributes["consts"], e.attributes["test"], e.attributes["body"]
    carries = e.inputs[a + b :]
    before = s.within(test.inputs, [*e.inputs[:a], *carries])
    walk(before, test)
    first = before.name(test.outputs[0])
    child = _seen(s, s.model, e.inputs, e.inputs)
    step, go = _loop_entries(child)
    for i, o in zip(body.inputs[:b], e.inputs[a : a + b], strict=True):
        child.alias(i, o)
    infos = [step, go, *_entries(child, body.inputs[b:])]
    walk(child, body)
    again = _again(child, test, e.inputs[:a], body.outputs, walk)
    outputs = [again, *child.outputs_of(body.outputs)]
    inner = child.body("step", infos, outputs, [TensorType((), bool_), *body.output_types])
    names = s.emit_many("Loop", ["", first, *(s.name(v) for v in carries)], len(e.outputs), body=inner)
    for v, name in zip(e.outputs, names, strict=True):
        s.set(v, name)


def _again(child: Scope, test: Graph, consts: Sequence[Var], carries: Sequence[Var], walk: Walk) -> str:
    """The test on the new values, in variables of its own: the same graph may stand here twice."""
    inner = child.within(test.inputs, [*consts, *carries])
    walk(inner, test)
    return inner.emit("Identity", inner.name(test.outputs[0]))


ROWS: dict[str, Callable[[Scope, Equation, Walk], None]] = {"cond": cond, "scan": scan, "while": while_}
