"""hoist_scan: loop-invariant code of a scan, and what can be done for all its steps at once, moves outside.

Enters: a graph. Leaves: the graph whose scans
  - take what is the same in every step as a constant: sequences that repeat one value, carries that nothing
    changes; and give it repeated, instead of stacking it step by step (a weight that the backward pass reads
    would be stacked as often as there are steps),
  - compute before the loop what depends on constants alone, and products of a sequence with a constant,
  - leave sums over steps to one product after it: carry + dot(aₜ, bₜ) in every step becomes one dot that
    also contracts the steps (the gradient of a recurrent weight), and so for sums over axes.
Products and sums are then taken in other blocks and orders, which changes bits within rounding of the terms;
the rest changes none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from trilobite.compiler.graph.draft import Draft
from trilobite.compiler.graph.passes.dce import has_effect
from trilobite.compiler.graph.regions import bytes_of, on_every_graph
from trilobite.compiler.graph.rewrite import UNCOUNTED, Counters
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitive import table
from trilobite.ir.types import TensorType

# Cheaper to do again in every step than to read from memory.
_FREE = frozenset({"broadcast", "reshape", "full", "constant", "iota", "stop_gradient"})


class Pair(NamedTuple):
    """A value outside of the loop, and what it is called inside."""

    outer: Var
    inner: Var


class Carry(NamedTuple):
    start: Var
    inner: Var
    next: Var
    end: Var


def hoist_scan(graph: Graph, counters: Counters = UNCOUNTED) -> Graph:
    """The graph with less in its loops."""
    return on_every_graph(graph, lambda g: _hoisted(g, counters))


def _hoisted(graph: Graph, counters: Counters) -> Graph:
    return with_loops(graph, "scan", lambda e, makers: _Loop(e, makers, counters).run())


Written = tuple[list[Equation], Mapping[Var, Var]]
"""What stands in a loop's place, and which of its results are other values now."""


def with_loops(
    graph: Graph, name: str, write: Callable[[Equation, Mapping[Var, Equation]], Written]
) -> Graph:
    """The graph with its loops of this name written anew; `write` also gets what makes each value before."""
    if not any(e.primitive.name == name for e in graph.equations):
        return graph
    draft = Draft(graph)
    makers: dict[Var, Equation] = {}
    for e in map(draft.current, graph.equations):
        written = [e]
        if e.primitive.name == name:
            written, changed = write(e, makers)
            draft.now.update(changed)
        draft.equations += written
        makers.update((v, w) for w in written for v in w.outputs)
    return draft.finished()


class _Loop:
    """A scan taken apart."""

    def __init__(self, e: Equation, makers: Mapping[Var, Equation], counters: Counters) -> None:
        body: Graph = e.attributes["body"]
        k, c = e.attributes["consts"], e.attributes["carries"]
        pairs = [Pair(*p) for p in zip(e.inputs, body.inputs, strict=True)]
        self.equation, self.body, self.makers, self.counters = e, body, makers, counters
        self.consts, self.xs = pairs[:k], pairs[k + c :]
        ends = zip(pairs[k : k + c], body.outputs, e.outputs, strict=False)
        self.carries = [Carry(p.outer, p.inner, new, end) for p, new, end in ends]
        self.ys = [Pair(*p) for p in zip(e.outputs[c:], body.outputs[c:], strict=True)]
        self.steps = list(body.equations)
        self.before: list[Equation] = []
        self.after: list[Equation] = []
        self.now: dict[Var, Var] = {}  # results that are other values outside
        self.changed = False

    def run(self) -> Written:
        self._repeated_sequences()
        self._still_carries()
        outside = self._invariant_steps()
        self._invariant_results(outside)
        self._products_of_sequences()
        self._sums()
        if not self.changed:
            return [self.equation], {}
        return [*self.before, *self._loop(), *self.after], self.now

    def _fired(self, what: str) -> None:
        self.counters[what] += 1
        self.changed = True

    def _make(self, where: list[Equation], name: str, *inputs: Var, **attributes: Any) -> Var:
        where.append(Equation.of(name, inputs, attributes, self.equation.location))
        return where[-1].outputs[0]

    def _loop(self) -> list[Equation]:
        """The scan put together again; nothing if it gives nothing."""
        outputs = (*(c.end for c in self.carries), *(y.outer for y in self.ys))
        if not outputs and not has_effect(self.equation):
            return []
        inner = (
            *(p.inner for p in self.consts),
            *(c.inner for c in self.carries),
            *(p.inner for p in self.xs),
        )
        outer = (
            *(p.outer for p in self.consts),
            *(c.start for c in self.carries),
            *(p.outer for p in self.xs),
        )
        results = (*(c.next for c in self.carries), *(y.inner for y in self.ys))
        body = Graph(inner, self.steps, results, self.body.name)
        sizes = {"body": body, "consts": len(self.consts), "carries": len(self.carries)}
        e = self.equation
        return [Equation(e.primitive, outer, {**e.attributes, **sizes}, outputs, e.location)]

    # -- what is the same in every step ----------------------------------------------------------------------

    def _repeated_sequences(self) -> None:
        """A sequence that repeats one value along the steps is a constant."""
        for p in list(self.xs):
            value = self._every_element(p)
            if value is not None:
                self.xs.remove(p)
                self.consts.append(Pair(value, p.inner))
                self._fired("sequence -> constant")

    def _every_element(self, p: Pair) -> Var | None:
        e = self.makers.get(p.outer)
        if e is None:
            return None
        if e.primitive.name == "full":
            return self._make(self.before, "full", **{**e.attributes, "shape": p.inner.type.shape})
        if e.primitive.name != "broadcast" or 0 in e.attributes["axes"]:
            return None
        if e.inputs[0].type == p.inner.type:
            return e.inputs[0]
        axes = tuple(a - 1 for a in e.attributes["axes"])
        return self._make(self.before, "broadcast", e.inputs[0], shape=p.inner.type.shape, axes=axes)

    def _still_carries(self) -> None:
        """A carry that each step hands on as it is, is a constant."""
        for c in list(self.carries):
            if c.next is c.inner:
                self.carries.remove(c)
                self.consts.append(Pair(c.start, c.inner))
                self.now[c.end] = c.start
                self._fired("carry -> constant")

    def _invariant_steps(self) -> dict[Var, Var]:
        """Steps over constants alone happen before the loop; what each of their values is outside."""
        found = invariant_steps(self.steps, self.consts)
        self.steps = found.kept
        self.before += found.before
        self.consts += found.consts
        for _ in range(found.moved):
            self._fired("step -> before the loop")
        return found.outside

    def _invariant_results(self, outside: Mapping[Var, Var]) -> None:
        """A result that is the same in every step is repeated, not stacked; an element of a sequence gives
        the sequence.
        """
        sequences = {p.inner: p.outer for p in self.xs}
        for y in list(self.ys):
            if y.inner in sequences:
                self.now[y.outer] = sequences[y.inner]
            elif y.inner in outside:
                value = outside[y.inner]
                axes = tuple(range(1, y.outer.type.ndim))
                attributes = {"shape": y.outer.type.shape, "axes": axes}
                self.after.append(
                    Equation(table["broadcast"], (value,), attributes, (y.outer,), self.equation.location)
                )
            else:
                continue
            self.ys.remove(y)
            self._fired("result -> repeated")

    # -- products of all steps at once -----------------------------------------------------------------------

    def _products_of_sequences(self) -> None:
        """dot(xₜ, w) with a constant w, for all steps before the loop: one large product for many small."""
        sequences, fixed = {p.inner: p.outer for p in self.xs}, {p.inner: p.outer for p in self.consts}
        kept: list[Equation] = []
        for e in self.steps:
            fits = e.primitive.name == "dot" and e.inputs[0] in sequences and e.inputs[1] in fixed
            if not fits or any(e.attributes["batch"]):
                kept.append(e)
                continue
            cx, cy = e.attributes["contract"]
            operands = (sequences[e.inputs[0]], fixed[e.inputs[1]])
            attributes = {**e.attributes, "contract": (_shifted(cx), cy)}
            sequence = self._make(self.before, "dot", *operands, **attributes)
            self.xs.append(Pair(sequence, e.outputs[0]))
            self._fired("product -> before the loop")
        self.steps = kept

    # -- sums over steps -------------------------------------------------------------------------------------

    def _sums(self) -> None:
        """carry + term(aₜ, ...) in every step becomes start + the term over all steps, after the loop."""
        makers = {v: e for e in self.steps for v in e.outputs}
        for c in list(self.carries):
            readers = self._readers()
            term = _term(c, makers, readers)
            stacked = None if term is None else self._stacked(term, c)
            if term is None or stacked is None:
                continue
            total = self._make(self.after, term.primitive.name, *stacked, **_over_steps(term))
            add = (c.start, total)
            self.after.append(Equation(table["add"], add, {}, (c.end,), self.equation.location))
            self.carries.remove(c)
            self.steps = [e for e in self.steps if e is not makers[c.next] and e is not term]
            self._fired(f"sum of {term.primitive.name}")

    def _readers(self) -> Counter[Var]:
        read = Counter(v for e in self.steps for v in e.inputs)
        read.update(c.next for c in self.carries)
        read.update(y.inner for y in self.ys)
        return read

    def _stacked(self, term: Equation, c: Carry) -> list[Var] | None:
        """The term's operands for all steps; None if stacking them costs more than carrying the sum."""
        known = {p.inner: p.outer for p in (*self.xs, *self.ys)}
        fixed = {p.inner for p in self.consts}
        if any(v in fixed for v in term.inputs):
            return None
        new = [v for v in dict.fromkeys(term.inputs) if v not in known]
        if sum(bytes_of(v.type) for v in new) > 2 * bytes_of(c.inner.type):
            return None
        length = self.equation.attributes["length"]
        for v in new:
            known[v] = Var(TensorType((length, *v.type.shape), v.type.dtype))
            self.ys.append(Pair(known[v], v))
        return [known[v] for v in term.inputs]


class Invariant(NamedTuple):
    """The steps of a loop's body, parted."""

    kept: list[Equation]
    before: list[Equation]
    moved: int  # how many of the steps are before the loop alone
    consts: list[Pair]  # their values, new constants of the loop
    outside: dict[Var, Var]  # what each value that does not change is outside


def invariant_steps(steps: Sequence[Equation], consts: Sequence[Pair]) -> Invariant:
    """What steps over constants alone become: those that cost nothing are in the loop and before it."""
    found = Invariant([], [], 0, [], {p.inner: p.outer for p in consts})
    moved = 0
    for e in steps:
        if has_effect(e) or e.primitive.name == "barrier" or not all(v in found.outside for v in e.inputs):
            found.kept.append(e)
            continue
        fresh = tuple(Var(v.type) for v in e.outputs)
        inputs = tuple(found.outside[v] for v in e.inputs)
        found.before.append(Equation(e.primitive, inputs, e.attributes, fresh, e.location))
        found.outside.update(zip(e.outputs, fresh, strict=True))
        if e.primitive.name in _FREE:
            found.kept.append(e)
            continue
        found.consts.extend(Pair(o, v) for o, v in zip(fresh, e.outputs, strict=True))
        moved += 1
    return found._replace(moved=moved)


def _term(c: Carry, makers: Mapping[Var, Equation], readers: Counter[Var]) -> Equation | None:
    """What a carry grows by in every step, if that is a dot or a sum, and nothing else reads any of it."""
    add = makers.get(c.next)
    if add is None or add.primitive.name != "add" or c.inner not in add.inputs or readers[c.next] != 1:
        return None
    other = add.inputs[1] if add.inputs[0] is c.inner else add.inputs[0]
    term = makers.get(other)
    if term is None or readers[c.inner] != 1 or readers[other] != 1:
        return None
    return term if term.primitive.name in ("dot", "reduce_sum") else None


def _over_steps(term: Equation) -> dict[str, Any]:
    """The term's attributes with the axis of steps, which is the first, contracted too."""
    a = term.attributes
    if term.primitive.name == "reduce_sum":
        return {"axes": (0, *_shifted(a["axes"]))}
    (cx, cy), (bx, by) = a["contract"], a["batch"]
    contract = ((0, *_shifted(cx)), (0, *_shifted(cy)))
    return {"contract": contract, "batch": (_shifted(bx), _shifted(by)), "dtype": a["dtype"]}


def _shifted(axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(a + 1 for a in axes)
