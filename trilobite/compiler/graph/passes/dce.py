"""dce: dead code is eliminated.

Enters: a graph. Leaves: the graph without equations whose results nobody reads. Effects stay. Control flow is
narrowed from both sides: results that nobody reads are not computed, carries that only feed themselves are
not carried, operands that no region reads are not passed. Inputs and results of the graph itself stay as they
are; claimed calls keep their form.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from typing import Any

from trilobite.compiler.graph.regions import CONTROL, know_effects
from trilobite.compiler.graph.rewrite import UNCOUNTED, Counters
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.types import Affine, Symbol, symbols_of

Task = Generator[Any, Any, Any]  # yields tasks whose results it waits for: regions may nest to any depth


def dce(graph: Graph, counters: Counters = UNCOUNTED) -> Graph:
    """The graph without dead code."""
    know_effects(graph)
    found: Graph = _finish(_pruned(graph, graph.outputs, counters))
    return found


def _finish(task: Task) -> Any:
    stack, value = [task], None
    while stack:
        try:
            stack.append(stack[-1].send(value))
            value = None
        except StopIteration as done:
            stack.pop()
            value = done.value
    return value


def has_effect(e: Equation) -> bool:
    """Does it, or something inside, reach outside of the graph? Regions are those of primitives with many
    results.
    """
    return e.primitive.effect or (e.primitive.multiple and any(g.has_effects for _, g in e.regions()))


def _pruned(graph: Graph, outputs: Sequence[Var], counters: Counters) -> Task:
    """The graph with these outputs, and what they need."""
    needed, kept = set(outputs), list[Equation]()
    for e in reversed(graph.equations):
        if not has_effect(e) and not any(v in needed for v in e.outputs):
            counters[e.primitive.name] += 1
            continue
        if e.primitive.name in CONTROL:
            e = yield _NARROW[e.primitive.name](e, needed, counters)
        kept.append(e)
        needed.update(e.inputs)
    kept.reverse()
    same = tuple(outputs) == graph.outputs and tuple(kept) == graph.equations
    return graph if same else Graph(graph.inputs, kept, outputs, graph.name)


# -- control flow: which results, carries and operands stay --------------------------------------------------


def _narrow_cond(e: Equation, needed: Collection[Var], counters: Counters) -> Task:
    branches: tuple[Graph, ...] = e.attributes["branches"]
    results = [i for i, v in enumerate(e.outputs) if v in needed]
    pruned: list[Graph] = []
    for b in branches:
        found = yield _pruned(b, [b.outputs[i] for i in results], counters)
        pruned.append(found)
    operands = sorted({i for b in pruned for i in _read(b)})
    new = tuple(_with_inputs(b, operands) for b in pruned)
    if all(a is b for a, b in zip(new, branches, strict=True)):
        return e
    _count(counters, e, results, [0, *(i + 1 for i in operands)])
    inputs = (e.inputs[0], *(e.inputs[i + 1] for i in operands))
    return _equation(e, inputs, {"branches": new}, results)


def _narrow_scan(e: Equation, needed: Collection[Var], counters: Counters) -> Task:
    body, k, c = e.attributes["body"], e.attributes["consts"], e.attributes["carries"]
    wanted = {i for i, v in enumerate(e.outputs) if v in needed}
    carries = _needed_carries(body, k, c, wanted, set())
    results = sorted(carries | {i for i in wanted if i >= c})
    pruned = yield _pruned(body, [body.outputs[i] for i in results], counters)
    read = _read(pruned)
    consts = [i for i in range(k) if i in read]
    xs = [i for i in range(k + c, len(e.inputs)) if i in read]
    operands = [*consts, *(k + i for i in sorted(carries)), *xs]
    new = _with_inputs(pruned, operands)
    if new is body:
        return e
    _count(counters, e, results, operands)
    attributes = {"body": new, "consts": len(consts), "carries": len(carries)}
    return _equation(e, tuple(e.inputs[i] for i in operands), attributes, results)


def _narrow_while(e: Equation, needed: Collection[Var], counters: Counters) -> Task:
    test, body, (a, b) = e.attributes["test"], e.attributes["body"], e.attributes["consts"]
    n = len(e.outputs)
    test = yield _pruned(test, test.outputs, counters)
    tested = {i - a for i in _read(test) if i >= a}
    wanted = {i for i, v in enumerate(e.outputs) if v in needed}
    carries = sorted(_needed_carries(body, b, n, wanted, tested))
    pruned = yield _pruned(body, [body.outputs[i] for i in carries], counters)
    for_test = [i for i in range(a) if i in _read(test)]
    for_body = [i for i in range(b) if i in _read(pruned)]
    new_test = _with_inputs(test, [*for_test, *(a + i for i in carries)])
    new_body = _with_inputs(pruned, [*for_body, *(b + i for i in carries)])
    if new_test is e.attributes["test"] and new_body is body:
        return e
    operands = [*for_test, *(a + i for i in for_body), *(a + b + i for i in carries)]
    _count(counters, e, carries, operands)
    attributes = {"test": new_test, "body": new_body, "consts": (len(for_test), len(for_body))}
    return _equation(e, tuple(e.inputs[i] for i in operands), attributes, carries)


_NARROW: Mapping[str, Callable[[Equation, Collection[Var], Counters], Task]] = {
    "cond": _narrow_cond,
    "scan": _narrow_scan,
    "while": _narrow_while,
}


def _needed_carries(body: Graph, consts: int, carries: int, wanted: set[int], tested: set[int]) -> set[int]:
    """Carries that a wanted result (or the loop's test) depends on, directly or through other carries."""
    place = {v: i - consts for i, v in enumerate(body.inputs) if consts <= i < consts + carries}
    found = {i for i in wanted if i < carries} | tested
    needed = {body.outputs[i] for i in wanted | found}
    while True:
        for e in reversed(body.equations):
            if has_effect(e) or any(v in needed for v in e.outputs):
                needed.update(e.inputs)
        more = {place[v] for v in needed if v in place} - found or _deciding(body, place, found)
        if not more:
            return found
        found |= more
        needed.update(body.outputs[i] for i in more)


def _deciding(body: Graph, place: Mapping[Var, int], found: set[int]) -> set[int]:
    """A further carry that alone decides a symbolic size."""
    if not body.symbols:
        return set()
    fixed = [v for v in body.inputs if v not in place or place[v] in found]
    loose = _symbols_used(body) - {s for v in fixed for s in symbols_of(v.type.shape)}
    return set([i for v, i in place.items() if symbols_of(v.type.shape) & loose][:1])


def _read(graph: Graph) -> set[int]:
    """The places of the inputs that something reads, or that alone decide a symbolic size."""
    read = {v for e in graph.equations for v in e.inputs} | set(graph.outputs)
    places = {i for i, v in enumerate(graph.inputs) if v in read}
    if graph.symbols:
        known = {s for i in places for s in symbols_of(graph.inputs[i].type.shape)}
        used = _symbols_used(graph)
        for i, v in enumerate(graph.inputs):
            if symbols_of(v.type.shape) & used - known:
                places.add(i)
                known |= symbols_of(v.type.shape)
    return places


def _symbols_used(graph: Graph) -> set[Symbol]:
    """The symbols in types and attributes of the equations."""
    sizes: list[Any] = [d for e in graph.equations for v in e.outputs for d in v.type.shape]
    pending = [value for e in graph.equations for value in e.attributes.values()]
    while pending:
        value = pending.pop()
        if isinstance(value, tuple):
            pending += value
        elif isinstance(value, Affine):
            sizes.append(value)
    return symbols_of(sizes)


def _with_inputs(graph: Graph, places: Sequence[int]) -> Graph:
    inputs = tuple(graph.inputs[i] for i in places)
    return graph if inputs == graph.inputs else Graph(inputs, graph.equations, graph.outputs, graph.name)


def _count(counters: Counters, e: Equation, results: Sequence[int], operands: Sequence[int]) -> None:
    counters[f"results of {e.primitive.name}"] += len(e.outputs) - len(results)
    counters[f"operands of {e.primitive.name}"] += len(e.inputs) - len(operands)


def _equation(
    e: Equation, inputs: tuple[Var, ...], attributes: Mapping[str, Any], results: Sequence[int]
) -> Equation:
    outputs = tuple(e.outputs[i] for i in results)
    return Equation(e.primitive, inputs, {**e.attributes, **attributes}, outputs, e.location)
