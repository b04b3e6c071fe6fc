"""merge_branches: products of one value with several weights become one wider product, where it pays.

Enters: a graph, and which inputs are stable. Leaves: the graph in which dots (or convolutions) that read the
same operand, with stable weights of the same form, are one with the weights side by side, and slices of its
result. The weights are put together once, since they are stable. It pays for small results (the query, key
and value of one token; the gates of a cell; several small heads), where starting a kernel and reading the
operand cost more than slicing; a large result would be written and read once more for its slices.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import NamedTuple

from trilobite.compiler.passes.stable import stable_values
from trilobite.compiler.regions import extent
from trilobite.compiler.rewrite import Counters
from trilobite.ir.graph import Equation, Graph, Var, exact
from trilobite.ir.primitive import table
from trilobite.ir.primitives.dot import free_axes
from trilobite.ir.types import Affine, Dim, TensorType

LARGEST = 1 << 16  # bytes of all results together up to which slices cost next to nothing


class Form(NamedTuple):
    """Along which axis weights lie side by side, and along which their results do."""

    weights: int
    result: int


def merge_branches(
    graph: Graph, stable: Collection[int] = (), counters: Counters | None = None, *, largest: int = LARGEST
) -> Graph:
    """The graph with parallel products of one operand as one."""
    groups = _groups(graph, stable, largest) if stable else []
    if not groups:
        return graph
    first = {id(g[0]): g for g in groups}
    gone = {id(e) for g in groups for e in g}
    equations: list[Equation] = []
    for e in graph.equations:
        if id(e) in first:
            equations += _merged(first[id(e)])
            if counters is not None:
                counters[e.primitive.name] += len(first[id(e)])
        elif id(e) not in gone:
            equations.append(e)
    return Graph(graph.inputs, equations, graph.outputs, graph.name)


def _groups(graph: Graph, stable: Collection[int], largest: int) -> list[list[Equation]]:
    """Products that can be one, each group's in order; small enough together."""
    fixed = stable_values(graph, stable)
    made = {v: i for i, e in enumerate(graph.equations) for v in e.outputs}
    found: dict[Hashable, list[tuple[int, Equation]]] = {}
    for i, e in enumerate(graph.equations):
        form = form_of(e)
        if form is None or e.inputs[1] not in fixed or e.outputs[0] in fixed:
            continue
        group = found.setdefault(_key(e, form), [])
        # The merged product stands where the first one did, so its weights must be there by then.
        if not group or made.get(e.inputs[1], -1) < group[0][0]:
            group.append((i, e))
    groups = [[e for _, e in g] for g in found.values() if len(g) > 1]
    return [g for g in groups if sum(_bytes(e.outputs[0].type) for e in g) <= largest]


def form_of(e: Equation) -> Form | None:
    """For a product whose second operand can be widened: its form."""
    w = e.inputs[1] if len(e.inputs) > 1 else None
    if w is None:
        return None
    if e.primitive.name == "conv":
        return Form(0, 1) if e.attributes["groups"] == 1 else None
    if e.primitive.name != "dot" or any(e.attributes["batch"]):
        return None
    free = free_axes(w.type.ndim, e.attributes["contract"][1])
    symbolic = len(free) == 1 and isinstance(w.type.shape[free[0]], Affine)
    return Form(free[0], e.outputs[0].type.ndim - 1) if len(free) == 1 and not symbolic else None


def _key(e: Equation, form: Form) -> Hashable:
    """Equal for products of one operand whose weights differ in width alone."""
    w = e.inputs[1].type
    beside = tuple(d for i, d in enumerate(w.shape) if i != form.weights)
    attributes = tuple((k, exact(e.attributes[k])) for k in sorted(e.attributes))
    return e.primitive.name, e.inputs[0], attributes, beside, w.dtype


def _bytes(t: TensorType) -> float:
    return extent(t.shape) * t.dtype.itemsize


def _merged(group: Sequence[Equation]) -> list[Equation]:
    head = group[0]
    form = form_of(head)
    assert form is not None
    weights, wide = _joined(group, form.weights, 1), _joined(group, form.result, None)
    parts = tuple(e.inputs[1] for e in group)
    out = [
        Equation(table["concatenate"], parts, {"axis": form.weights}, (weights,), head.location),
        Equation(head.primitive, (head.inputs[0], weights), head.attributes, (wide,), head.location),
    ]
    at: Dim = 0
    for e in group:
        shape = e.outputs[0].type.shape
        start = tuple(at if i == form.result else 0 for i in range(len(shape)))
        stop = tuple(at + d if i == form.result else d for i, d in enumerate(shape))
        attributes = {"start": start, "stop": stop, "step": (1,) * len(shape)}
        out.append(Equation(table["slice"], (wide,), attributes, e.outputs, e.location))
        at = at + shape[form.result]
    return out


def _joined(group: Sequence[Equation], axis: int, operand: int | None) -> Var:
    """A value as wide as those of all products together: their results, or an operand."""
    types = [(e.outputs[0] if operand is None else e.inputs[operand]).type for e in group]
    shape = list(types[0].shape)
    shape[axis] = sum((t.shape[axis] for t in types[1:]), start=shape[axis])
    return Var(TensorType(tuple(shape), types[0].dtype))
