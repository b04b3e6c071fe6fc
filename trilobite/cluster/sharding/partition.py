"""The walk: a graph of whole tensors becomes one rank's graph of parts.

Enters: a graph, where its inputs lie, and where outputs must. Leaves: the rank's graph, where its outputs
lie, and all collectives with their bytes and reasons. Decisions look at whole types alone, so that all ranks
decide alike and meet in the same collectives. The walk is repeated while values are found that all their
readers want split although they were computed whole; the cheapest walk counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from trilobite.base.errors import ClusterError
from trilobite.base.locations import Location
from trilobite.cluster.sharding import rules_indexed, rules_products  # noqa: F401  (they enter their rules)
from trilobite.cluster.sharding.choice import Chooser, Operand, hints
from trilobite.cluster.sharding.collectives import (
    REDUCTIONS,
    Collective,
    line_of,
    replace_times,
    size_text,
    sums_early,
)
from trilobite.cluster.sharding.conversion import Converter, Costs, Step
from trilobite.cluster.sharding.placements import (
    Coordinates,
    Placement,
    canonical,
    local_type,
    ranges,
    whole,
)
from trilobite.cluster.sharding.rules import REGIONS, RULES, Rule, Splitting
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitive import result_types, table
from trilobite.ir.types import TensorType, size_of

WALKS = 4  # at most, for one graph


@dataclass
class Partition:
    """One rank's graph. `work` is the seconds that its computation takes by the costs of the primitives."""

    graph: Graph
    ins: tuple[Placement, ...]
    outs: tuple[Placement, ...]
    collectives: list[Collective]
    work: float
    homes: dict[Var, Placement] = field(default_factory=dict)
    made_by: dict[Var, Collective] = field(default_factory=dict)  # results of collectives outside loops

    @cached_property
    def seconds(self) -> float:
        return self.work + sum(c.seconds * c.times for c in self.collectives)


Pin = Placement | None


@dataclass(frozen=True)
class Place:
    """A rank of a mesh, for whom graphs are split."""

    mesh: tuple[int, ...]
    names: tuple[str, ...]
    at: Coordinates
    costs: Costs = field(default_factory=Costs)
    on_paper: bool = False  # nothing will run: collectives have no members

    @cached_property
    def converter(self) -> Converter:
        return Converter(self.mesh, self.at, self.costs, self.on_paper)

    @cached_property
    def known(self) -> dict[Any, tuple[Graph, Partition]]:
        return {}

    def whole(self, t: TensorType) -> Placement:
        return whole(len(self.mesh), t.ndim)


def partition(
    graph: Graph, place: Place, ins: Sequence[Placement], pins: Sequence[Pin], partial: bool = False
) -> Partition:
    """Split a graph. `pins` say where outputs must lie, None where they may choose; without `partial`, no
    output is a partial sum unless its pin says so.
    """
    key = (id(graph), tuple(ins), tuple(pins), partial)
    if key not in place.known:
        place.known[key] = graph, _best_walk(graph, place, ins, pins, partial)  # its id is its own meanwhile
    return place.known[key][1]


def _best_walk(
    graph: Graph, place: Place, ins: Sequence[Placement], pins: Sequence[Pin], partial: bool
) -> Partition:
    wanted = {v: p for v, p in zip(graph.outputs, pins, strict=True) if p is not None}
    best: Partition | None = None
    for _ in range(2 if place.on_paper else WALKS):
        walk = Walk(graph, place, ins, wanted)
        made = walk.run(pins, partial)
        if best is None or made.seconds < best.seconds:
            best = made
        found = walk.hints()
        new = {**found, **wanted}
        if new == wanted:
            break
        wanted = new
    return best  # type: ignore[return-value]


class Walk:
    """One pass over a graph."""

    def __init__(
        self, graph: Graph, place: Place, ins: Sequence[Placement], wanted: Mapping[Var, Placement]
    ) -> None:
        self.graph, self.place, self.wanted = graph, place, wanted
        self.converter, self.chooser = place.converter, Chooser(place.converter)
        self.equations: list[Equation] = []
        self.step = -1  # the equation of the whole graph that is being split
        self.begins = [0]  # where the equations of each step begin
        self.when: dict[tuple[Var, Placement], int] = {}  # the step at which a value is there, so placed
        self.early: dict[Equation, int] = {}  # sums, and the step behind which they can begin
        self.collectives: list[Collective] = []
        self.made_by: dict[Var, Collective] = {}
        self.work = 0.0
        self.homes: dict[Var, Placement] = {}
        self.made_whole: dict[Var, Placement] = {}  # where it lay when it was made
        self.there: dict[Var, dict[Placement, Var]] = {}
        self.requests: dict[Var, list[Placement]] = {}
        self.linear = _linear_uses(graph)
        self.ins = tuple(canonical(v.type, p, place.mesh) for v, p in zip(graph.inputs, ins, strict=True))
        self.inputs = [
            self.define(v, p, Var(local_type(v.type, p, place.mesh, place.at)))
            for v, p in zip(graph.inputs, self.ins, strict=True)
        ]

    def run(self, pins: Sequence[Pin], partial: bool) -> Partition:
        from trilobite.cluster.sharding.regions import split_region

        for step, e in enumerate(self.graph.equations):
            self.step = step
            self.begins.append(len(self.equations))
            if e.primitive.name in REGIONS:
                split_region(self, e)
            else:
                self.equation(e)
        self.step += 1
        self.begins.append(len(self.equations))
        outs = [self._settled(v, pin, partial) for v, pin in zip(self.graph.outputs, pins, strict=True)]
        outputs = [
            self.get(v, p, f"result {i}", None)
            for i, (v, p) in enumerate(zip(self.graph.outputs, outs, strict=True))
        ]
        graph = Graph(
            self.inputs, sums_early(self.equations, self.begins, self.early), outputs, self.graph.name
        )
        return Partition(
            graph, self.ins, tuple(outs), self.collectives, self.work, dict(self.homes), self.made_by
        )

    def hints(self) -> dict[Var, Placement]:
        return hints(self.requests, self.made_whole)  # type: ignore[arg-type, return-value]

    def _settled(self, v: Var, pin: Pin, partial: bool) -> Placement:
        if pin is not None:
            return canonical(v.type, pin, self.place.mesh)
        p = self.homes[v]
        for a in p.partials:
            if not (partial and p.axes[a] == "sum"):
                p = p.with_axis(a, None)
        return canonical(v.type, p, self.place.mesh)

    # -- values ----------------------------------------------------------------------------------------------

    def define(self, v: Var, p: Placement, local: Var) -> Var:
        self.homes[v] = self.made_whole[v] = p
        self.there[v] = {p: local}
        self.when[v, p] = self.step
        return local

    def get(self, v: Var, target: Placement, why: str, e: Equation | None) -> Var:
        """This rank's part of a value in a placement."""
        self.requests.setdefault(v, []).append(target)
        there = self.there[v]
        if target in there:
            return there[target]
        source = min(there, key=lambda p: self.converter.seconds(v.type, p, target))
        local, at = there[source], self.when[v, source]
        for s in self.converter.steps(v.type, source, target):
            local = self._taken(s, local, v, why, e)
            there.setdefault(s.placement, local)
            if s.primitive in REDUCTIONS:
                self.early[self.equations[-1]] = at
            else:
                at = self.step
            self.when.setdefault((v, s.placement), at)
        there[target] = local
        self.when.setdefault((v, target), at)
        if self.homes[v].partials and not target.partials:
            self.homes[v] = target  # the sum is taken: nobody needs its parts again
        return local

    def _taken(self, s: Step, local: Var, v: Var, why: str, e: Equation | None) -> Var:
        where = line_of(e, self.graph, v)
        if s.primitive == "":
            return local
        inputs = () if s.primitive == "full" else (local,)
        if self.place.on_paper:  # collectives have no members there, who would say what comes out
            out = Var(self._local(v, s.placement))
            self.equations.append(Equation(table[s.primitive], inputs, s.attributes, (out,), where))
        else:
            out = self.emit(s.primitive, *inputs, where=where, **s.attributes)
        if s.sides:
            self._note(out, s.primitive, s.sides, v.type, s.nbytes, s.seconds, where, why)
        return out

    def _note(
        self, out: Var, name: str, sides: tuple[int, ...], t: TensorType, nbytes: float, seconds: float,
        where: Location, why: str,
    ) -> None:  # fmt: skip
        latency = max(0.0, seconds - nbytes / self.place.costs.link(sides).bandwidth)
        names = tuple(self.place.names[a] for a in sides)
        made = Collective(name, names, t, nbytes, seconds, where, why, latency=latency)
        self.collectives.append(made)
        self.made_by[out] = made

    def emit(self, name: str, *values: Var, where: Location, **attributes: Any) -> Var:
        primitive, types = table[name], [v.type for v in values]
        permuted = self.place.on_paper and name == "cluster_permute"
        out = Var(types[0] if permuted else result_types(primitive, types, attributes)[0])
        self.equations.append(Equation(primitive, values, attributes, (out,), where))
        return out

    def operand(self, v: Var) -> Operand:
        there = self.there[v]

        def seconds(target: Placement) -> float:
            if target in there:
                return 0.0
            return min(self.converter.seconds(v.type, p, target) for p in there)

        return Operand(id(v), v.type, self.homes[v], seconds, self.linear.get(v, True))

    # -- equations -------------------------------------------------------------------------------------------

    def equation(self, e: Equation) -> None:
        rule = self._rule(e)
        types = [v.type for v in e.outputs]
        work = self._work(e)
        ins, outs, chosen = self.chooser.choose(
            rule, [self.operand(v) for v in e.inputs], types, [self.wanted.get(v) for v in e.outputs], work
        )
        for a, n in enumerate(self.place.mesh):
            if any(a in sides for sides in chosen.sides.values()):
                work /= n
        self.work += work
        name = e.primitive.name
        inputs = tuple(
            self.get(v, p, self._why(rule, i, v, p, name), e)
            for i, (v, p) in enumerate(zip(e.inputs, ins, strict=True))
        )
        special = next((f for f in rule.lowerings if f in chosen.sides), None)
        if special is None:
            made = self._plain(e, rule, inputs, outs)
        else:
            made = self._lowered(e, rule, inputs, ins, outs, special, chosen.sides[special][0])
        for v, p, local in zip(e.outputs, outs, made, strict=True):
            self.define(v, p, local)

    def _rule(self, e: Equation) -> Rule:
        name = e.primitive.name
        known = self.graph.__dict__.setdefault("_sharding_rules", {})
        if id(e) in known:  # the graph keeps its equations, so ids are theirs
            found: Rule = known[id(e)]
            return found
        if name not in RULES:
            raise ClusterError(
                f"{name} inside a sharded function",
                where=e.location,
                expected="operations on whole tensors: collectives are inserted",
                remedy="take it out, or write the whole function by hand with collectives, under tb.jit",
            )
        made = known[id(e)] = RULES[name](
            [v.type for v in e.inputs], [v.type for v in e.outputs], e.attributes
        )
        return made

    def _work(self, e: Equation) -> float:
        types, outs = [v.type for v in e.inputs], [v.type for v in e.outputs]
        nbytes = sum(float(size_of(t.shape)) * t.dtype.itemsize for t in (*types, *outs))
        costs = self.place.costs
        return max(e.primitive.cost(types, outs, e.attributes) / costs.flops, nbytes / costs.memory)

    def _why(self, rule: Rule, i: int, v: Var, p: Placement, name: str) -> str:
        lies, names = self.homes[v], self.place.names
        return f"operand {i} of {name} is {lies.text(names)}, needed {p.text(names)}"

    def _local(self, v: Var, p: Placement) -> TensorType:
        return local_type(v.type, p, self.place.mesh, self.place.at)

    def _attributes(
        self, e: Equation, rule: Rule, inputs: Sequence[Var], outs: Sequence[Placement]
    ) -> Mapping[str, Any]:
        shapes = [self._local(v, p).shape for v, p in zip(e.outputs, outs, strict=True)]
        return rule.localised(e.attributes, [v.type for v in inputs], shapes)  # type: ignore[arg-type]

    def _plain(
        self, e: Equation, rule: Rule, inputs: tuple[Var, ...], outs: Sequence[Placement]
    ) -> tuple[Var, ...]:
        attributes = self._attributes(e, rule, inputs, outs)
        if e.primitive.name == "print" and any(self.place.at):
            return ()  # the first rank says it
        types = [self._local(v, p) for v, p in zip(e.outputs, outs, strict=True)]
        if not self.place.on_paper:
            found = result_types(e.primitive, [v.type for v in inputs], attributes)
            assert tuple(types) == found, (e.primitive.name, types, found)
        made = tuple(Var(t) for t in types)
        self.equations.append(Equation(e.primitive, inputs, attributes, made, e.location))
        return made

    def _lowered(
        self, e: Equation, rule: Rule, inputs: tuple[Var, ...], ins: Sequence[Placement],
        outs: Sequence[Placement], factor: int, side: int,
    ) -> tuple[Var, ...]:  # fmt: skip
        def emit(name: str, *values: Var, **attributes: Any) -> Var:
            return self.emit(name, *values, where=e.location, **attributes)

        def shift(x: Var, by: int) -> Var:
            n = self.place.mesh[side]
            pairs = tuple((k, k + by) for k in range(n) if 0 <= k + by < n)
            nbytes = float(size_of(x.type.shape)) * x.type.dtype.itemsize
            seconds = self.place.costs.collective("cluster_permute", nbytes, n, (side,))
            why = f"{e.primitive.name} split along space reads rows of its neighbours"
            out = emit("cluster_permute", x, groups=self.converter.groups((side,)), pairs=pairs)
            self._note(out, "cluster_permute", (side,), x.type, nbytes, seconds, e.location, why)
            return out

        mesh, at = self.place.mesh, self.place.at
        held = [ranges(v.type.shape, p, mesh, at) for v, p in zip(e.inputs, ins, strict=True)]  # type: ignore[arg-type]
        attributes = self._attributes(e, rule, inputs, outs)
        s = Splitting(e, inputs, attributes, held, mesh[side], at[side], emit, shift)
        made = rule.lowerings[factor](s, factor)
        if not self.place.on_paper:
            for v, p, local in zip(e.outputs, outs, made, strict=True):
                assert self._local(v, p) == local.type, (e.primitive.name, self._local(v, p), local.type)
        return made

    def add_inner(self, inner: Partition, times: int = 1) -> None:
        """Collectives and work of a region that stands in this graph."""
        self.collectives += [replace_times(c, times) for c in inner.collectives]
        self.work += inner.work * times


_SUMS = ("add", "sub", "concatenate")  # the same partial sum twice is none the worse


def _linear_uses(graph: Graph) -> dict[Var, bool]:
    """May a value stay a partial sum: do all its readers take one?"""
    cached: dict[Var, bool] | None = graph.__dict__.get("_linear_uses")
    if cached is not None:
        return cached
    out: dict[Var, bool] = {}
    for e in graph.equations:
        rule = RULES.get(e.primitive.name)
        linear: frozenset[int] = frozenset()
        if rule is not None and e.inputs:
            made = rule([v.type for v in e.inputs], [v.type for v in e.outputs], e.attributes)
            linear = frozenset(i for some in made.linear for i in some)
        for i, v in enumerate(e.inputs):
            again = sum(w is v for w in e.inputs) > 1 and e.primitive.name not in _SUMS
            out[v] = out.get(v, True) and i in linear and not again
    graph.__dict__["_linear_uses"] = out
    return out


__all__ = ["Collective", "Partition", "Place", "partition", "size_text"]
