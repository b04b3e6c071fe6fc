"""hoist: out of a scan what every round computes alike, and what it only adds up.

Enters: a graph with scans. Leaves: the graph in which
  - a result that is the same in every round is repeated outside, and a sequence that repeats one value is a
    constant of the loop,
  - equations that read constants of the loop alone run once, before it,
  - sums that a carry collects (the slopes of a recurrent layer's weights) are one product or one sum over all
    rounds, behind it. That changes the order of additions, within the accuracy of any sum.
Nested scans are treated from the inside out. It leaves `while` and `cond` alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from trilobite.compiler.regions import extent, on_every_graph
from trilobite.compiler.rewrite import Counters
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitive import result_types, table
from trilobite.ir.types import Dim, TensorType

_FREE = frozenset({"broadcast", "constant", "full", "iota", "reshape", "stop_gradient"})


@dataclass
class _Carry:
    inside: Var
    start: Var
    result: Var
    final: Var


@dataclass
class _Scan:
    """A scan taken apart: every value inside beside the one outside that it belongs to."""

    consts: list[tuple[Var, Var]]
    carries: list[_Carry]
    sequences: list[tuple[Var, Var]]
    stacks: list[tuple[Var, Var]]
    equations: list[Equation]
    origin: Equation

    @staticmethod
    def of(e: Equation) -> _Scan:
        a, body = e.attributes, e.attributes["body"]
        n, k = a["consts"], a["carries"]
        inner = list(zip(body.inputs, e.inputs, strict=True))
        carries = [
            _Carry(*pair, result, final)
            for pair, result, final in zip(inner[n : n + k], body.outputs[:k], e.outputs[:k], strict=True)
        ]
        stacks = list(zip(body.outputs[k:], e.outputs[k:], strict=True))
        return _Scan(inner[:n], carries, inner[n + k :], stacks, list(body.equations), e)

    @property
    def length(self) -> Dim:
        length: Dim = self.origin.attributes["length"]
        return length

    def uses(self) -> Counter[Var]:
        found = Counter(v for e in self.equations for v in e.inputs)
        found.update([*(c.result for c in self.carries), *(v for v, _ in self.stacks)])
        return found

    def stacked(self, v: Var) -> Var:
        """The values of v in all rounds, as a value outside."""
        for inside, outside in (*self.sequences, *self.stacks):
            if inside is v:
                return outside
        outside = Var(TensorType((self.length, *v.type.shape), v.type.dtype))
        self.stacks.append((v, outside))
        return outside

    def equation(self) -> Equation:
        """The scan put together again, without what nothing inside needs any more."""
        outputs = [*(c.result for c in self.carries), *(v for v, _ in self.stacks)]
        needed, kept = set(outputs), []
        for e in reversed(self.equations):
            if e.primitive.effect or any(v in needed for v in e.outputs):
                needed.update(e.inputs)
                kept.append(e)
        consts = [p for p in self.consts if p[0] in needed]
        sequences = [p for p in self.sequences if p[0] in needed]
        pairs = [*consts, *((c.inside, c.start) for c in self.carries), *sequences]
        old = self.origin
        body = Graph([i for i, _ in pairs], kept[::-1], outputs, old.attributes["body"].name)
        attributes = {**old.attributes, "body": body, "consts": len(consts), "carries": len(self.carries)}
        results = (*(c.final for c in self.carries), *(o for _, o in self.stacks))
        return Equation(old.primitive, tuple(o for _, o in pairs), attributes, results, old.location)


class _Hoister:
    def __init__(self, graph: Graph, counters: Counters, inside: Callable[[Graph, set[Var]], Graph]) -> None:
        self.graph, self.counters, self.inside = graph, counters, inside
        self.made: dict[Var, Equation] = {}
        self.out: list[Equation] = []
        self.instead: dict[Var, Var] = {}

    def run(self) -> Graph:
        for e in self.graph.equations:
            if any(v in self.instead for v in e.inputs):
                ins = tuple(self.instead.get(v, v) for v in e.inputs)
                e = Equation(e.primitive, ins, e.attributes, e.outputs, e.location)
            if e.primitive.name == "scan":
                self.scan(e)
            else:
                self.append(e)
        outputs = [self.instead.get(v, v) for v in self.graph.outputs]
        return Graph(self.graph.inputs, self.out, outputs, self.graph.name)

    def append(self, e: Equation) -> None:
        self.out.append(e)
        for v in e.outputs:
            self.made[v] = e

    def make(
        self, name: str, inputs: Sequence[Var], at: Equation, into: Var | None = None, **attrs: object
    ) -> Var:
        primitive = table[name]
        (kind,) = result_types(primitive, [v.type for v in inputs], attrs)
        out = Var(kind) if into is None else into
        self.append(Equation(primitive, tuple(inputs), attrs, (out,), at.location))
        return out

    def scan(self, e: Equation) -> None:
        s = _Scan.of(e)
        after: list[Callable[[], None]] = []
        self.repeated_sequences(s)
        s.equations = list(self.inside(_body(s), {v for v, _ in s.consts}).equations)
        self.invariants(s)
        self.sums(s, after)
        self.repeated_results(s, after)
        self.append(s.equation())
        for later in after:
            later()

    # -- what is alike in every round ------------------------------------------------------------------------

    def repeated_sequences(self, s: _Scan) -> None:
        for inside, outside in list(s.sequences):
            e = self.made.get(outside)
            if e is None or e.primitive.name != "broadcast" or 0 in e.attributes["axes"]:
                continue
            axes = tuple(a - 1 for a in e.attributes["axes"])
            shape = outside.type.shape[1:]
            whole = axes == tuple(range(len(shape))) and e.inputs[0].type.shape == shape
            one = e.inputs[0] if whole else self.make("broadcast", e.inputs, e, shape=shape, axes=axes)
            s.sequences.remove((inside, outside))
            s.consts.append((inside, one))
            self.counters["sequence that repeats"] += 1

    def repeated_results(self, s: _Scan, after: list[Callable[[], None]]) -> None:
        outer = dict(s.consts)
        along = dict(s.sequences)
        for inside, outside in list(s.stacks):
            if inside in along:
                self.instead[outside] = along[inside]
            elif inside in outer:
                shape = outside.type.shape
                after.append(partial(self._repeat, outer[inside], outside, shape, s.origin))
            else:
                continue
            s.stacks.remove((inside, outside))
            self.counters["result that repeats"] += 1

    def _repeat(self, v: Var, into: Var, shape: Sequence[Dim], at: Equation) -> None:
        self.make("broadcast", [v], at, into, shape=tuple(shape), axes=tuple(range(1, len(shape))))

    def invariants(self, s: _Scan) -> None:
        """Equations over constants of the loop, with the free ones that they read, run before it."""
        outer = dict(s.consts)
        makers = {v: e for e in s.equations for v in e.outputs}
        known = set(outer)
        for e in s.equations:
            if all(v in known for v in e.inputs) and not e.primitive.effect and not any(e.regions()):
                known.update(e.outputs)
        for e in list(s.equations):
            if not e.inputs or e.primitive.name in _FREE or not all(v in known for v in e.outputs):
                continue
            copies = {v: Var(v.type) for v in e.outputs}
            ins = tuple(self._outside(v, outer, makers) for v in e.inputs)
            self.append(Equation(e.primitive, ins, e.attributes, tuple(copies.values()), e.location))
            outer.update(copies)
            s.consts += copies.items()
            s.equations.remove(e)
            self.counters["equation that is alike in every round"] += 1

    def _outside(self, v: Var, outer: dict[Var, Var], makers: dict[Var, Equation]) -> Var:
        """A constant of the loop outside of it; a free equation is copied."""
        if v not in outer:
            e = makers[v]
            ins = tuple(self._outside(u, outer, makers) for u in e.inputs)
            outer[v] = Var(v.type)
            self.append(Equation(e.primitive, ins, e.attributes, (outer[v],), e.location))
        return outer[v]

    # -- sums ------------------------------------------------------------------------------------------------

    def sums(self, s: _Scan, after: list[Callable[[], None]]) -> None:
        makers, uses = {v: e for e in s.equations for v in e.outputs}, s.uses()
        consts = {v for v, _ in s.consts}
        for c in list(s.carries):
            added = _added(c, makers, uses)
            maker = None if added is None else makers.get(added)
            if maker is None or any(v in consts for v in maker.inputs) or not _pays(maker, s.length):
                continue
            whole = _over_rounds(maker)
            if whole is None:
                continue
            s.carries.remove(c)
            operands = [s.stacked(v) for v in maker.inputs]
            after.append(partial(self._total, c, maker, operands, whole))
            self.counters["sum over rounds"] += 1

    def _total(
        self, c: _Carry, maker: Equation, operands: Sequence[Var], attributes: dict[str, object]
    ) -> None:
        zero = self._is_zero(c.start)
        total = self.make(maker.primitive.name, operands, maker, c.final if zero else None, **attributes)
        if not zero:
            self.make("add", [c.start, total], maker, c.final)

    def _is_zero(self, v: Var) -> bool:
        e = self.made.get(v)
        while e is not None and e.primitive.name == "broadcast":
            e = self.made.get(e.inputs[0])
        if e is None:
            return False
        if e.primitive.name == "full":
            return bool(e.attributes["value"] == 0)
        return e.primitive.name == "constant" and not e.attributes["value"].array.any()


def _body(s: _Scan) -> Graph:
    """The loop's body as a graph of its own."""
    inputs = [*(v for v, _ in s.consts), *(c.inside for c in s.carries), *(v for v, _ in s.sequences)]
    outputs = [*(c.result for c in s.carries), *(v for v, _ in s.stacks)]
    return Graph(inputs, s.equations, outputs, s.origin.attributes["body"].name)


def _added(c: _Carry, makers: dict[Var, Equation], uses: Counter[Var]) -> Var | None:
    """What a carry grows by in each round, if growing is all that happens to it."""
    e = makers.get(c.result)
    if e is None or e.primitive.name != "add" or uses[c.inside] != 1 or uses[c.result] != 1:
        return None
    others = [v for v in e.inputs if v is not c.inside]
    return others[0] if len(others) == 1 and uses[others[0]] == 1 else None


def _over_rounds(maker: Equation) -> dict[str, object] | None:
    """The attributes of the same equation over all rounds at once."""
    a = maker.attributes
    if maker.primitive.name == "reduce_sum":
        return {"axes": (0, *(i + 1 for i in a["axes"]))}
    if maker.primitive.name == "dot" and a["batch"] == ((), ()):
        contract = tuple((0, *(i + 1 for i in side)) for side in a["contract"])
        return {"contract": contract, "batch": ((), ()), "dtype": a["dtype"]}
    return None


def _pays(maker: Equation, length: Dim) -> bool:
    """Is what must be kept of all rounds no more than a few times what each round would read and write?"""
    rounds = extent((length,))
    kept = sum(extent(v.type.shape) for v in maker.inputs) * rounds
    return kept <= 4 * rounds * extent(maker.outputs[0].type.shape) or kept <= 1 << 22


def hoist(
    graph: Graph,
    counters: Counters | None = None,
    inside: Callable[[Graph, set[Var]], Graph] = lambda g, _: g,
) -> Graph:
    """The graph with lighter scans. `inside` may rewrite a body, given its constants, before they are looked
    at: what it makes of constants alone leaves the loop.
    """
    counted = Counters() if counters is None else counters
    return on_every_graph(graph, lambda g: _Hoister(g, counted, inside).run())
