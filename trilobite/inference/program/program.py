"""A program: the steps that run a graph, in order.

Enters: a graph whose operators are all known. Leaves: `run(values) -> outputs`. Compiled graphs and host
operations alternate; what a later step derives from shapes it derives again from the tensors themselves, so
that each compiled graph can be recorded on its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from trilobite.base.forks import renewed_in_child
from trilobite.inference.model import Graph, Node
from trilobite.inference.operators import registry
from trilobite.inference.program.control import CONTROL
from trilobite.inference.program.inline import NotRecorded
from trilobite.inference.program.partition import Kind, Placed, kind_of, partition
from trilobite.inference.program.steps import Compiled, Host, Pair, Step
from trilobite.inference.program.values import Known, as_array


class _Group:
    """The nodes of one level, and all that are run with them."""

    def __init__(self, here: Sequence[Placed], nodes: Sequence[Placed]) -> None:
        self.here, self.nodes = here, nodes
        self.is_host = here[0].host or all(p.shaped for p in here)

    def reads(self, constants: Mapping[str, Known]) -> list[str]:
        nodes = self.here if self.is_host else self.nodes
        made = set() if self.is_host else {o for p in nodes for o in p.node.outputs}
        found = (n for p in nodes for n in p.node.reads() if n not in made and n not in constants)
        return list(dict.fromkeys(found))


class Program:
    """Steps for one graph on one target. Graphs inside nodes become programs of their own."""

    def __init__(
        self,
        graph: Graph,
        target: str,
        constants: Mapping[str, Known] | None = None,
        outer: Mapping[str, Kind] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.graph, self.target, self.options = graph, target, options
        self.outputs = [o.name for o in graph.outputs]
        self._results = tuple(self.outputs)
        self.apart: dict[Node, str] = {}  # loops that could not be recorded in their place, and why
        self._around = constants or {}, {**(outer or {}), **{i.name: kind_of(i.type) for i in graph.inputs}}
        self._lock = renewed_in_child(threading.Lock())
        self._plan()

    def _plan(self) -> None:
        found = partition(self.graph, *self._around, self.apart)
        used = set(self.outputs).union(*(p.node.reads() for p in found.placed))
        self.constants = {k: v for k, v in found.constants.items() if k in used}
        self.kinds, self.folded = found.kinds, found.folded
        self._by_output = {o: p for p in found.placed for o in p.node.outputs if o}
        self.steps = self._steps(found.placed)
        self._planned = self.steps, self._last_reads()

    # -- making ----------------------------------------------------------------------------------------------

    def _steps(self, placed: Sequence[Placed]) -> list[Step]:
        levels = [[p for p in placed if p.level == n] for n in sorted({p.level for p in placed})]
        groups = [_Group(here, self._gathered(here, placed)) for here in levels]
        out: list[Step] = []
        for group in groups:
            if group.is_host:
                out += [self._host(p) for p in group.here]
                continue
            wanted = set(self.outputs).union(*(g.reads(self.constants) for g in groups if g is not group))
            out.append(self._compiled(group, wanted))
        return out

    def _gathered(self, here: Sequence[Placed], placed: Sequence[Placed]) -> list[Placed]:
        """Nodes of a level, and before them those of others that compute shapes it needs."""
        own = {o for p in here for o in p.node.outputs if o}
        borrowed, mine = self._shape_sources(here, own), set(map(id, here))
        return [p for p in placed if id(p) in borrowed or id(p) in mine]

    def _host(self, p: Placed) -> Step:
        if p.row.subgraphs:
            return CONTROL[p.node.op](p.node, self)
        return Host((p.node, p.row), self.constants)

    def _compiled(self, group: _Group, wanted: set[str]) -> Step:
        makes = [o for p in group.here for o in p.node.outputs if o in wanted]
        pairs: list[Pair] = [(p.node, p.row) for p in group.nodes]
        reads, name = group.reads(self.constants), self.graph.name or "graph"
        return Compiled(pairs, reads, makes, self.constants, self.target, self.options, name)

    def _shape_sources(self, here: Sequence[Placed], own: set[str]) -> set[int]:
        """Placed nodes of other steps that compute shapes which nodes here need."""
        found: set[int] = set()
        todo = [n for p in here for n in p.node.reads()]
        while todo:
            name = todo.pop()
            p = self._by_output.get(name)
            if p is None or name in own or not p.shaped or id(p) in found:
                continue
            found.add(id(p))
            todo += p.node.reads()
        return found

    def _last_reads(self) -> list[list[str]]:
        """Per step, the values that nothing reads afterwards."""
        alive, out = set(self.outputs), []
        for step in reversed(self.steps):
            names = dict.fromkeys((*step.reads, *step.makes))
            out.append([n for n in names if n not in alive])
            alive.update(names)
        return out[::-1]

    # -- running ---------------------------------------------------------------------------------------------

    def run(
        self,
        values: Mapping[str, Any],
        outputs: Iterable[str] | None = None,
        before: Callable[[Step, Mapping[str, Any]], None] | None = None,
    ) -> list[Any]:
        """The outputs, for values of all inputs and of what the graph takes from outside. `before` is called
        with every step and what is there for it; it may raise to end the run.
        """
        plan = self._planned
        try:
            return self._run(plan, values, outputs, before)
        except NotRecorded as refused:
            with self._lock:
                if self._planned is plan:  # else another thread has found it, too
                    self.apart[refused.node] = refused.what
                    self._plan()
        return self.run(values, outputs, before)

    def _run(
        self,
        plan: tuple[list[Step], list[list[str]]],
        values: Mapping[str, Any],
        outputs: Iterable[str] | None,
        before: Callable[[Step, Mapping[str, Any]], None] | None,
    ) -> list[Any]:
        if len(plan[0]) == 1 and outputs is None and before is None and plan[0][0].makes == self._results:
            return list(plan[0][0].run(values))  # most programs are one compiled graph
        there = dict(values)
        for step, dying in zip(*plan, strict=True):
            if before is not None:
                before(step, there)
            there.update(zip(step.makes, step.run(there), strict=True))
            for name in dying:
                there.pop(name, None)
        return [self._output(n, there) for n in (self.outputs if outputs is None else outputs)]

    def _output(self, name: str, there: Mapping[str, Any]) -> Any:
        if name in there:
            return there[name]
        return np.copy(as_array(self.constants[name])) if name in self.constants else None

    def weights(self) -> int:
        """Bytes of constants, those of bodies not counted."""
        return sum(c.array.nbytes for c in self.constants.values())

    def describe(self, indent: str = "") -> list[str]:
        lines = [line for step in self.steps for line in step.describe()]
        why = [f"{node.label()} runs on the host, because: {reason}" for node, reason in self.apart.items()]
        return [indent + line for line in (*lines, *why)]


def unsupported(graph: Graph) -> list[str]:
    """Nodes, also of bodies, whose operator the table does not have, or not with so many operands."""
    out: list[str] = []
    for node in graph.nodes:
        row = registry.find(node.domain, node.op, node.version)
        if row is None:
            out.append(f"{node.label()}, operator set {node.version}{registry.way_out(node.domain, node.op)}")
        elif not row.subgraphs and (asked := row.beyond(node)):
            out.append(f"{node.label()}, operator set {node.version}, with {asked}")
        for body in node.bodies():
            out += unsupported(body)
    return out
