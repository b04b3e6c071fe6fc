"""inline: calls become their bodies, unless the target keeps them whole.

Enters: a graph with `call` equations, and who is claimed. Leaves: a graph whose only calls are claimed ones.
A call's own derivative rules (forward, backward, push) go with it: derivatives are done by now. Symbolic
sizes of a body that a call fixes become numbers. Bodies are flattened once each, inner ones first, however
often they are called. Barriers stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from trilobite.base.locations import UNKNOWN, Location
from trilobite.compiler.graph.draft import Draft, spliced
from trilobite.compiler.graph.regions import control_regions, on_every_graph, outer_first, with_regions
from trilobite.compiler.graph.rewrite import UNCOUNTED, Counters
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.transforms.composite import composites
from trilobite.ir.types import Symbol, TensorType, bind_symbols, substitute, symbols_of

Claimed = Callable[[Equation], bool]


def nobody(e: Equation) -> bool:
    """A target that keeps no call whole."""
    return False


def inline(graph: Graph, claimed: Claimed = nobody, counters: Counters = UNCOUNTED) -> Graph:
    """The graph with the bodies of all calls that nobody claims in their place."""

    def inner(e: Equation) -> Sequence[Graph]:
        if e.primitive.name != "call":
            return control_regions(e)
        return () if claimed(e) else (e.attributes["graph"],)

    flat: dict[int, Graph] = {}
    for g in reversed(outer_first(graph, inner)):
        flat[id(g)] = _flattened(g, inner, flat, counters)
    return flat[id(graph)]


def _flattened(
    graph: Graph, inner: Callable[[Equation], Sequence[Graph]], flat: Mapping[int, Graph], counters: Counters
) -> Graph:
    """The graph, given what the graphs inside have become."""
    draft = Draft(graph)
    for e in map(draft.current, graph.equations):
        regions = inner(e)
        if e.primitive.name == "call" and regions:
            body = flat[id(regions[0])]
            sizes = _bound(body, e)
            body = specialise(body, sizes) if sizes else body
            equations, results = spliced(body, e.inputs, partial(_place, e))
            draft.equations += equations
            draft.put(e.outputs, results)
            counters[f"call {e.attributes['name']}"] += 1
        else:
            draft.equations.append(with_regions(e, lambda r: flat[id(r)]) if regions else e)
    return draft.finished()


def _bound(body: Graph, e: Equation) -> dict[Symbol, int]:
    """The symbols that the call fixes; none where the caller has the same symbols."""
    if not body.symbols or any(symbols_of(v.type.shape) for v in e.inputs):
        return {}
    declared, actual = (t.shape for t in body.input_types), [v.type.shape for v in e.inputs]
    return bind_symbols(zip(declared, actual, strict=True))


def _place(e: Equation, b: Equation) -> Location:
    """A composite's body is recorded once and shared, so its user's line is that of the call."""
    own = b.location is not UNKNOWN and not _is_composite(e.attributes["name"])
    return b.location if own or e.location is UNKNOWN else e.location


def _is_composite(name: str) -> bool:
    """Derived calls carry the name with endings: `softmax.fwd`, `linalg.solve.bwd`."""
    parts = name.split(".")
    return any(".".join(parts[:n]) in composites for n in range(1, len(parts) + 1))


def specialise(graph: Graph, sizes: Mapping[Symbol, int]) -> Graph:
    """The graph, and the regions in it, with symbols replaced by numbers."""
    return on_every_graph(graph, lambda g: _specialised(g, sizes))


def _specialised(graph: Graph, sizes: Mapping[Symbol, int]) -> Graph:
    now: dict[Var, Var] = {}

    def fresh(v: Var) -> Var:
        now[v] = Var(TensorType(substitute(v.type.shape, sizes), v.type.dtype))
        return now[v]

    inputs = [fresh(v) for v in graph.inputs]
    equations = []
    for e in graph.equations:
        operands = tuple(now[v] for v in e.inputs)
        attributes = {k: _fixed(v, sizes) for k, v in e.attributes.items()}
        outputs = tuple(fresh(v) for v in e.outputs)
        equations.append(Equation(e.primitive, operands, attributes, outputs, e.location))
    return Graph(inputs, equations, [now[v] for v in graph.outputs], graph.name)


def _fixed(value: Any, sizes: Mapping[Symbol, int]) -> Any:
    if isinstance(value, TensorType):
        return TensorType(substitute(value.shape, sizes), value.dtype)
    if isinstance(value, tuple) and not any(isinstance(v, Graph) for v in value):
        return tuple(_fixed(v, sizes) for v in value)
    return value if isinstance(value, (tuple, Graph)) else substitute(value, sizes)
