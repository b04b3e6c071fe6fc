"""grow_joins: joins that extend one another become one value that grows in place.

Enters: a graph. Leaves: the graph in which concatenations of `a`, of `a, b`, of `a, b, c` (a dense block; a
sequence that gets longer) are one value as wide as the longest, into which each operand is written once, and
slices of it. Joined anew each time, n operands would be moved n² / 2 times.

What reads a join reads the newest form of the value that stands before it, so an older form is dead by the
time the next operand is written, and the plan lets both have the same memory. Where it cannot, the older form
is copied: slower, never wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field

from trilobite.base.records import dataclass
from trilobite.compiler.graph.rewrite import UNCOUNTED, Counters
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitive import table
from trilobite.ir.types import Affine, Dim, TensorType, size_of

FEWEST = 3  # joins of a family: two are as quick each by itself
# How many times an operand's size the whole must be for writing only that operand (see nests.groups)
PART = 4
LEAST = 1 << 12  # elements of the longest join below which nothing is gained


@dataclass
class _Family:
    """Joins along one axis, each of which begins with all the operands of the one before."""

    axis: int
    operands: list[Var]
    joins: list[Equation] = field(default_factory=list)
    counts: dict[Var, int] = field(default_factory=dict)  # of a join's result: how many of the operands

    @property
    def whole(self) -> TensorType:
        return self.joins[-1].outputs[0].type

    def pays(self) -> bool:
        if len(self.joins) < FEWEST or size_of(self.whole.shape) < LEAST:
            return False
        return all(PART * size_of(v.type.shape) <= size_of(self.whole.shape) for v in self._written())

    def _written(self) -> Sequence[Var]:
        return self.operands[self.counts[self.joins[0].outputs[0]] :]


def grow_joins(graph: Graph, counters: Counters = UNCOUNTED) -> Graph:
    """The graph with families of joins as values that grow."""
    families = [f for f in _families(graph) if f.pays()]
    if not families:
        return graph
    rewriting = _Rewriting(families)
    equations = [new for e in graph.equations for new in rewriting.rewritten(e)]
    outputs, last = rewriting.read(graph.outputs)
    counters["join that grows"] += sum(len(f.joins) for f in families)
    return Graph(graph.inputs, [*equations, *last], outputs, graph.name)


def _families(graph: Graph) -> list[_Family]:
    """In order of the graph; a join belongs to the first family that it extends."""
    found: list[_Family] = []
    flat: dict[Var, tuple[int, list[Var]]] = {}
    for e in graph.equations:
        if e.primitive.name != "concatenate" or _is_symbolic(e):
            continue
        axis, operands = e.attributes["axis"], _flattened(e, flat)
        flat[e.outputs[0]] = axis, operands
        family = next((f for f in found if f.axis == axis and _extends(operands, f.operands)), None)
        if family is None:
            family = _Family(axis, [])
            found.append(family)
        family.operands = operands
        family.joins.append(e)
        family.counts[e.outputs[0]] = len(operands)
    return found


def _is_symbolic(e: Equation) -> bool:
    return any(isinstance(d, Affine) for d in e.outputs[0].type.shape)


def _flattened(e: Equation, flat: dict[Var, tuple[int, list[Var]]]) -> list[Var]:
    """The operands, with those of joins along the same axis in their places."""
    out: list[Var] = []
    for v in e.inputs:
        axis, operands = flat.get(v, (None, [v]))
        out += operands if axis == e.attributes["axis"] else [v]
    return out


def _extends(operands: Sequence[Var], prefix: Sequence[Var]) -> bool:
    return len(operands) > len(prefix) and all(a is b for a, b in zip(operands, prefix, strict=False))


class _Rewriting:
    """One walk over the equations: which form of each family is the newest, and what was sliced of it."""

    def __init__(self, families: Sequence[_Family]) -> None:
        self.family = {e.outputs[0]: f for f in families for e in f.joins}
        self.newest: dict[int, Var] = {}  # by the family's identity
        self.slices: dict[tuple[Var, Var], Var] = {}  # of a form, for a join

    def rewritten(self, e: Equation) -> Iterator[Equation]:
        family = self.family.get(e.outputs[0]) if e.outputs else None
        if family is not None:
            yield from self._grown(family, e)
            return
        inputs, slices = self.read(e.inputs)
        yield from slices
        yield e.reading(inputs)

    def read(self, values: Sequence[Var]) -> tuple[tuple[Var, ...], list[Equation]]:
        """The values as they are now, with the slices that are new."""
        new: list[Equation] = []
        return tuple(self._read(v, new) for v in values), new

    def _read(self, v: Var, new: list[Equation]) -> Var:
        family = self.family.get(v)
        if family is None:
            return v
        form = self.newest[id(family)]
        if v.type == form.type:
            return form
        if (form, v) not in self.slices:
            out = self.slices[form, v] = Var(v.type)
            zeros = (0,) * v.type.ndim
            attributes = {"start": zeros, "stop": v.type.shape, "step": (1,) * v.type.ndim}
            new.append(Equation(table["slice"], (form,), attributes, (out,), family.joins[0].location))
        return self.slices[form, v]

    def _grown(self, family: _Family, e: Equation) -> Iterator[Equation]:
        """The operands that this join adds, written into the value, or the value's beginning."""
        before = self.newest.get(id(family))
        if before is None:
            yield from self._begun(family, e)
            return
        known = family.counts[family.joins[self._place(family, e) - 1].outputs[0]]
        added = family.operands[known : family.counts[e.outputs[0]]]
        at = _width(family.operands[:known], family.axis)
        inputs, slices = self.read(added)
        yield from slices
        for v in inputs:
            zeros = (0,) * v.type.ndim
            start = (*zeros[: family.axis], at, *zeros[family.axis + 1 :])
            stop = tuple(a + d for a, d in zip(start, v.type.shape, strict=True))
            attributes = {"start": start, "stop": stop, "step": (1,) * v.type.ndim}
            form = Var(family.whole)
            yield Equation(table["update_slice"], (before, v), attributes, (form,), e.location)
            before, at = form, at + v.type.shape[family.axis]
        self.newest[id(family)] = before

    def _place(self, family: _Family, e: Equation) -> int:
        return next(i for i, join in enumerate(family.joins) if join is e)

    def _begun(self, family: _Family, e: Equation) -> Iterator[Equation]:
        """The first join with room behind it."""
        inputs, slices = self.read(e.inputs)
        yield from slices
        first, whole, axis = e.outputs[0].type.shape, family.whole, family.axis
        shape = (*first[:axis], whole.shape[axis] - first[axis], *first[axis + 1 :])
        room, form = Var(TensorType(shape, whole.dtype)), Var(whole)
        attributes = {"value": 0, "shape": shape, "dtype": whole.dtype}
        yield Equation(table["full"], (), attributes, (room,), e.location)
        yield Equation(e.primitive, (*inputs, room), e.attributes, (form,), e.location)
        self.newest[id(family)] = form


def _width(operands: Sequence[Var], axis: int) -> Dim:
    total: Dim = 0
    for v in operands:
        total = total + v.type.shape[axis]
    return total
