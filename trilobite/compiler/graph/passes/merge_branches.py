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

from trilobite.compiler.graph.passes.fold_batch_norm import has_only_channels
from trilobite.compiler.graph.passes.stable import stable_values
from trilobite.compiler.graph.pipeline import USUAL
from trilobite.compiler.graph.regions import bytes_of, uses
from trilobite.compiler.graph.rewrite import UNCOUNTED, Counters
from trilobite.ir.graph import Equation, Graph, Var, exact
from trilobite.ir.primitive import table
from trilobite.ir.primitives.dot import free_axes
from trilobite.ir.types import Affine, Dim, TensorType


class Form(NamedTuple):
    """Along which axis weights lie side by side, and along which their results do."""

    weights: int
    result: int


class Branch(NamedTuple):
    """A product, and what adds its bias if that alone reads it."""

    product: Equation
    shift: Equation | None = None
    bias: Var | None = None

    @property
    def end(self) -> Equation:
        return self.product if self.shift is None else self.shift


def merge_branches(
    graph: Graph,
    stable: Collection[int] = (),
    counters: Counters = UNCOUNTED,
    *,
    largest: int = USUAL.merged,
) -> Graph:
    """The graph with parallel products of one operand as one."""
    groups = _Finder(graph, stable).groups(largest) if stable else []
    if not groups:
        return graph
    first = {id(g[0].product): g for g in groups}
    gone = {id(e) for g in groups for branch in g for e in (branch.product, branch.end)}
    equations: list[Equation] = []
    for e in graph.equations:
        if id(e) in first:
            equations += _merged(first[id(e)])
            counters[e.primitive.name] += len(first[id(e)])
        elif id(e) not in gone:
            equations.append(e)
    return Graph(graph.inputs, equations, graph.outputs, graph.name)


class _Finder:
    def __init__(self, graph: Graph, stable: Collection[int]) -> None:
        self.graph, self.stable, self.readers = graph, stable_values(graph, stable), uses(graph)
        self.made = {v: i for i, e in enumerate(graph.equations) for v in e.outputs}
        self.reader = {v: e for e in graph.equations for v in e.inputs}

    def groups(self, largest: int) -> list[list[Branch]]:
        """Products that can be one, each group's in order; small enough together."""
        found: dict[Hashable, list[Branch]] = {}
        for e in self.graph.equations:
            form = form_of(e)
            if form is None or e.inputs[1] not in self.stable or e.outputs[0] in self.stable:
                continue
            group = found.setdefault(_key(e, form), [])
            if not group or self._is_there(e.inputs[1], group[0].product):
                group.append(Branch(e))
        groups = [self._with_biases(g) for g in found.values() if len(g) > 1]
        return [g for g in groups if sum(bytes_of(b.product.outputs[0].type) for b in g) <= largest]

    def _is_there(self, v: Var, head: Equation) -> bool:
        """The merged product stands where the first one did, so what it reads must be there by then."""
        return self.made.get(v, -1) < self.made[head.outputs[0]]

    def _with_biases(self, group: list[Branch]) -> list[Branch]:
        """Each product with its bias, if every one has one."""
        shifted = [self._shifted(b.product) for b in group]
        ready = all(b.bias is not None and self._is_there(b.bias, group[0].product) for b in shifted)
        return shifted if ready else group

    def _shifted(self, e: Equation) -> Branch:
        form, (product,) = form_of(e), e.outputs
        shift = self.reader.get(product) if self.readers[product] == 1 else None
        if form is None or shift is None or shift.primitive.name != "add":
            return Branch(e)
        other = shift.inputs[1] if shift.inputs[0] is product else shift.inputs[0]
        bias = self._vector(other, form.result)
        return Branch(e) if bias is None else Branch(e, shift, bias)

    def _vector(self, v: Var, axis: int) -> Var | None:
        """The stable vector that a value repeats along all other axes (or that has no other axes)."""
        wide = self.graph.equations[self.made[v]] if v in self.made else None
        if wide is None or wide.inputs == () or wide.inputs[0] not in self.stable:
            return None
        source = wide.inputs[0]
        repeats = wide.primitive.name == "broadcast" and wide.attributes["axes"] == (axis,)
        shows = wide.primitive.name == "reshape" and has_only_channels(v.type.shape, (axis,))
        return source if (repeats or shows) and source.type.shape == (v.type.shape[axis],) else None


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


def _merged(group: Sequence[Branch]) -> list[Equation]:
    head = group[0].product
    form = form_of(head)
    assert form is not None
    weights = _joined([b.product.inputs[1] for b in group], form.weights)
    wide = _joined([b.product.outputs[0] for b in group], form.result)
    inputs = (head.inputs[0], weights.outputs[0])
    out = [weights, Equation(head.primitive, inputs, head.attributes, wide.outputs, head.location)]
    whole = wide.outputs[0]
    if group[0].bias is not None:
        whole = _add_biases(out, group, whole, form)
    at: Dim = 0
    for e in (b.end for b in group):
        shape = e.outputs[0].type.shape
        start = tuple(at if i == form.result else 0 for i in range(len(shape)))
        stop = tuple(at + d if i == form.result else d for i, d in enumerate(shape))
        attributes = {"start": start, "stop": stop, "step": (1,) * len(shape)}
        out.append(Equation(table["slice"], (whole,), attributes, e.outputs, e.location))
        at = at + shape[form.result]
    return out


def _add_biases(out: list[Equation], group: Sequence[Branch], product: Var, form: Form) -> Var:
    biases = _joined([b.bias for b in group if b.bias is not None], 0)
    spread, total = Var(product.type), Var(product.type)
    attributes = {"shape": product.type.shape, "axes": (form.result,)}
    place = group[0].end.location
    out += [
        biases,
        Equation(table["broadcast"], biases.outputs, attributes, (spread,), place),
        Equation(table["add"], (product, spread), {}, (total,), place),
    ]
    return total


def _joined(values: Sequence[Var], axis: int) -> Equation:
    """Values side by side."""
    types = [v.type for v in values]
    shape = list(types[0].shape)
    shape[axis] = sum((t.shape[axis] for t in types[1:]), start=shape[axis])
    joined = Var(TensorType(tuple(shape), types[0].dtype))
    return Equation(table["concatenate"], tuple(values), {"axis": axis}, (joined,))
