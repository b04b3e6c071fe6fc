"""rematerialise: cheap values are computed again instead of kept, on request.

Enters: a graph and a number of bytes. Leaves: the graph in which, as long as the values alive at some point
take more than that, cheap ones that are read both before and after that point (activations that the backward
pass reads) are computed again behind a barrier, just before they are read again. What is chosen first saves
most bytes per operation. Bits do not change: the same operations run on the same operands, twice.

The model of memory: a value lives from its equation to its last reader; broadcasts, reshapes and constants
take no memory and keep alive what they read; inputs of the graph are not counted. Fusion keeps fewer values
than this, so the bound is from above. Regions of control flow are one equation each.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import NamedTuple

from trilobite.base.dtypes import bits
from trilobite.base.records import dataclass
from trilobite.compiler.graph.passes.rules.pointwise import POINTWISE
from trilobite.compiler.graph.regions import extent
from trilobite.compiler.graph.rewrite import UNCOUNTED, Counters
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitive import table
from trilobite.ir.types import Affine, TensorType

_VIEWS = frozenset({"broadcast", "reshape", "stop_gradient", "barrier"})
_SOURCES = frozenset({"constant", "full", "iota"})
_CHEAP = (
    POINTWISE | _VIEWS | _SOURCES | {"transpose", "slice", "pad", "reverse", "concatenate", "random_bits"}
)
_LONGEST = 12  # equations that computing one value again may take
_ROUNDS = 16
_NEAR = 8  # equations within which a value that is read again is not worth giving up


class Gap(NamedTuple):
    """A time in which a value is alive and nobody reads it."""

    start: int
    end: int


@dataclass(frozen=True)
class Choice:
    """A value to give up between two of its readers."""

    value: Var
    gap: Gap
    saved: float
    cost: float


def rematerialise(graph: Graph, budget: int = 0, counters: Counters = UNCOUNTED) -> Graph:
    """The graph within that many bytes, or as near as cheap values allow; unchanged for a budget of 0."""
    for _ in range(_ROUNDS if budget else 0):
        lives = Lives(graph)
        point, most = lives.peak()
        chosen = _chosen(lives, point, most - budget)
        if most <= budget or not chosen:
            break
        new = _Writer(graph, lives, chosen).run()
        if Lives(new).peak()[1] >= most:
            break
        graph = new
        counters["values"] += len(chosen)
        counters["bytes"] += int(sum(c.saved for c in chosen.values()))
    return graph


def peak_bytes(graph: Graph) -> float:
    """The most bytes of values alive at one time, by the model above."""
    return Lives(graph).peak()[1]


# -- who lives when ------------------------------------------------------------------------------------------


class Lives:
    """When each value is made and read; views stand for what they show."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.makers: dict[Var, Equation] = {}
        self.made: dict[Var, int] = {}
        self.reads: dict[Var, list[int]] = {}
        self.shown: dict[Var, Var] = {}  # what a view shows
        for i, e in enumerate(graph.equations):
            for v in {self.behind(v) for v in e.inputs}:
                self.reads.setdefault(v, []).append(i)
            for v in e.outputs:
                self.makers[v], self.made[v] = e, i
            if e.primitive.name in _VIEWS:
                self.shown[e.outputs[0]] = self.behind(e.inputs[0])
        for v in graph.outputs:
            self.reads.setdefault(self.behind(v), []).append(len(graph.equations))

    def behind(self, v: Var) -> Var:
        return self.shown.get(v, v)

    def size(self, v: Var) -> float:
        """Bytes that a value takes; views, constants and inputs take none."""
        e = self.makers.get(v)
        if e is None or e.primitive.name in _VIEWS or e.primitive.name in _SOURCES:
            return 0.0
        return extent(v.type.shape) * max(bits(v.type.dtype), 8) / 8

    def last(self, v: Var) -> int:
        return self.reads.get(v, [self.made.get(v, 0)])[-1]

    def peak(self) -> tuple[int, float]:
        """The equation during which most bytes are alive, and how many."""
        change = [0.0] * (len(self.graph.equations) + 2)
        for v in self.makers:
            size = self.size(v)
            change[self.made[v]] += size
            change[self.last(v) + 1] -= size
        now, best = 0.0, (0, 0.0)
        for i, delta in enumerate(change):
            now += delta
            if now > best[1]:
                best = (i, now)
        return best

    def gap(self, v: Var, point: int) -> Gap | None:
        """The time around a point in which nobody reads a value, if it is alive then and long enough."""
        if v not in self.made or self.made[v] >= point:
            return None
        times = [self.made[v], *self.reads.get(v, [])]
        i = bisect_right(times, point)
        if i == len(times) or times[i - 1] == point or times[i] == len(self.graph.equations):
            return None
        return Gap(times[i - 1], times[i]) if times[i] - times[i - 1] > _NEAR else None

    def again(self, v: Var, at: int) -> list[Equation] | None:
        """The equations that make a value again from what is alive at a later time; None if they are dear."""
        needed: dict[int, Equation] = {}
        pending = [v]
        while pending:
            e = self.makers.get(pending.pop())
            if e is None or id(e) in needed:
                continue
            if e.primitive.name not in _CHEAP or len(needed) == _LONGEST:
                return None
            needed[id(e)] = e
            pending += [u for u in e.inputs if self.last(self.behind(u)) < at]
        return list(needed.values())


def _chosen(lives: Lives, point: int, excess: float) -> dict[Var, Choice]:
    """Values to give up around the peak: those that save most per operation, until enough is saved."""
    found: list[Choice] = []
    for v in lives.makers:
        gap = lives.gap(v, point) if lives.size(v) else None
        equations = lives.again(v, gap.end) if gap else None
        if gap and equations:
            cost = sum(_operations(e) for e in equations)
            found.append(Choice(v, gap, lives.size(v), cost))
    found.sort(key=lambda c: c.cost / c.saved)
    chosen: dict[Var, Choice] = {}
    for c in found:
        if excess <= 0:
            break
        chosen[c.value] = c
        excess -= c.saved
    return chosen


def _operations(e: Equation) -> float:
    """Operations, and one per element written; of symbolic sizes the most there can be."""
    inputs, outputs = ([_at_most(v.type) for v in values] for values in (e.inputs, e.outputs))
    return e.primitive.cost(inputs, outputs, e.attributes) + sum(extent(t.shape) for t in outputs)


def _at_most(t: TensorType) -> TensorType:
    return TensorType(tuple(d.bounds()[1] if isinstance(d, Affine) else d for d in t.shape), t.dtype)


# -- writing -------------------------------------------------------------------------------------------------


class _Writer:
    def __init__(self, graph: Graph, lives: Lives, chosen: Mapping[Var, Choice]) -> None:
        self.graph, self.lives, self.chosen = graph, lives, chosen
        self.equations: list[Equation] = []
        self.copies: dict[Var, Var] = {}
        self.barriers: dict[Var, Var] = {}

    def run(self) -> Graph:
        for i, e in enumerate(self.graph.equations):
            # operands first: what they need comes before the equation
            inputs = tuple(self._now(v, i) for v in e.inputs)
            self.equations.append(e.reading(inputs))
        return Graph(self.graph.inputs, self.equations, self.graph.outputs, self.graph.name)

    def _now(self, v: Var, at: int) -> Var:
        """What stands for a value at this time: itself, or a copy made by now."""
        if not self._is_gone(v, at):
            return v
        for e in self._in_order(v, at):
            fresh = tuple(Var(u.type) for u in e.outputs)
            inputs = tuple(
                self.copies[u] if u in self.copies else self._behind_barrier(u, e) for u in e.inputs
            )
            self.equations.append(Equation(e.primitive, inputs, e.attributes, fresh, e.location))
            self.copies.update(zip(e.outputs, fresh, strict=True))
        return self.copies[v]

    def _is_gone(self, v: Var, at: int) -> bool:
        """Is it, or what it shows, given up by then?"""
        choice = self.chosen.get(self.lives.behind(v))
        return choice is not None and at > choice.gap.start

    def _in_order(self, v: Var, at: int) -> list[Equation]:
        """What has to run for a copy of a value, in the order of the graph."""
        lives = self.lives
        needed: dict[int, Equation] = {}
        pending = [v]
        while pending:
            u = pending.pop()
            e = lives.makers.get(u)
            if e is None or u in self.copies or id(e) in needed:
                continue
            needed[id(e)] = e
            pending += [w for w in e.inputs if self._is_gone(w, at) or lives.last(lives.behind(w)) < at]
        return sorted(needed.values(), key=lambda e: lives.made[e.outputs[0]])

    def _behind_barrier(self, v: Var, e: Equation) -> Var:
        """The operand of a copy, so that nothing merges the copy with the first one."""
        if v not in self.barriers:
            self.barriers[v] = Var(v.type)
            self.equations.append(Equation(table["barrier"], (v,), {}, (self.barriers[v],), e.location))
        return self.barriers[v]
