"""TFLite's IF and WHILE as ONNX's If and Loop: subgraphs become bodies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trilobite.inference.formats.assembly import Assembly
from trilobite.inference.formats.tensor_ops import Unknown
from trilobite.inference.formats.tflite.convert import Converter, Rule, label, sizes
from trilobite.inference.formats.tflite.file import Operator, Subgraph

Rules = Callable[[], dict[str, Rule]]
_DEEPEST = 8


def _graph(c: Converter, o: Operator, slot: int, takes: int, gives: int) -> Subgraph:
    """A subgraph that an option names. The first is the network itself, and nothing may call that."""
    number = int(c.option(o, slot, "i"))
    if not 0 < number < len(c.network.subgraphs) or _depth(c.a) >= _DEEPEST:
        raise Unknown(f"{o.name} with subgraph {number}, or nested more than {_DEEPEST} deep")
    found = c.network.subgraphs[number]
    if len(found.inputs) != takes or len(found.outputs) != gives:
        raise Unknown(f"{o.name} whose subgraph takes other values than it has")
    return found


def _depth(a: Assembly) -> int:
    depth, now = 0, a.outer
    while now is not None:
        now, depth = now.outer, depth + 1
    return depth


def _written(
    c: Converter, graph: Subgraph, a: Assembly, names: Sequence[str], rules: Rules
) -> tuple[Converter, list[str]]:
    """A subgraph's operations in an assembly, fed by these tensors; its results."""
    child = Converter(c.network, graph, a)
    for i, name in zip(graph.inputs, names, strict=True):
        child.feed(i, name)
    child.run(rules())
    return child, [child.layers.last(child.stored(i)) for i in graph.outputs]


def _give(inner: Assembly, graph: Subgraph, names: Sequence[str]) -> None:
    for n, (i, name) in enumerate(zip(graph.outputs, names, strict=True)):
        v = graph.values[i]
        inner.add_output(label(v, f"result_{n}"), name, v.dtype, sizes(v))


def _if(c: Converter, o: Operator, rules: Rules) -> None:
    outer = [c.layers.last(c.stored(i)) for i in o.inputs[1:]]
    bodies = []
    for slot in (0, 1):
        graph = _graph(c, o, slot, len(outer), len(o.outputs))
        inner = c.a.inner(f"branch_{slot}")
        _give(inner, graph, _written(c, graph, inner, outer, rules)[1])
        bodies.append(inner.graph())
    chosen = c.a.node("Reshape", c.layers.last(c.stored(o.inputs[0])), c.a.constant(np.zeros(0, np.int64)))
    names = c.a.many("If", [chosen], len(o.outputs), then_branch=bodies[0], else_branch=bodies[1])
    _keep(c, o, names)


def _keep(c: Converter, o: Operator, names: Sequence[str]) -> None:
    for k, name in enumerate(names):
        c.keep(o, c.layers.made(name, len(c.graph.values[o.outputs[k]].shape)), k)


def _while(c: Converter, o: Operator, rules: Rules) -> None:
    """The test stands before the loop, for its first step, and at the end of the body, for the next."""
    count = len(o.inputs)
    test, body = _graph(c, o, 0, count, 1), _graph(c, o, 1, count, count)
    start = [c.layers.last(c.stored(i)) for i in o.inputs]
    first = _truth(c.a, _written(c, test, c.a, start, rules)[1][0])
    inner = c.a.inner("step")
    inner.add_input("number", np.int64, [])
    inner.add_input("go_on", np.bool_, [])
    states = [inner.add_input("state", v.dtype, sizes(v)) for v in (body.values[i] for i in body.inputs)]
    results = _written(c, body, inner, states, rules)[1]
    again = _truth(inner, _written(c, test, inner, results, rules)[1][0])
    inner.add_output("again", again, np.bool_, [])
    _give(inner, body, results)
    _keep(c, o, c.a.many("Loop", ["", first, *start], count, body=inner.graph()))


def _truth(a: Assembly, name: str) -> str:
    """A test as a scalar."""
    return a.node("Reshape", name, a.constant(np.zeros(0, np.int64)))


def rows(rules: Rules) -> dict[str, Any]:
    return {"IF": lambda c, o: _if(c, o, rules), "WHILE": lambda c, o: _while(c, o, rules)}
