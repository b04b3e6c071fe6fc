"""Graphs of which the host runs a part: what the processor refuses, where the user allows that.

Enters: a graph with such operations. Leaves: an executable of parts in turn, some on the processor, the
others in the interpreter of the host. Values between parts of the processor stay in its memory. A loop or a
choice that contains such an operation runs on the host as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trilobite.base.errors import ArgumentError
from trilobite.compiler.graph.passes.dce import dce
from trilobite.compiler.graph.passes.inline import inline, specialise
from trilobite.compiler.targets.contract import NOBODY, Executable, Usage
from trilobite.compiler.targets.dlp.devices import shared_device
from trilobite.compiler.targets.dlp.refusals import REFUSED, refused
from trilobite.compiler.targets.dlp.resident import settle
from trilobite.ir.evaluate import run, sizes_of
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.transforms.cells import Cell
from trilobite.processor.machine import Machine
from trilobite.processor.sim.run import Run

Array = np.ndarray[Any, Any]
Make = Callable[[Graph, Usage], Executable]


@dataclass
class Part:
    """Equations that run in one place, and what they read of the parts before and of the inputs."""

    on_host: bool
    equations: list[Equation] = field(default_factory=list)
    inputs: tuple[Var, ...] = ()
    outputs: tuple[Var, ...] = ()

    def graph(self, name: str) -> Graph:
        return Graph(self.inputs, self.equations, self.outputs, name)


def split(graph: Graph) -> list[Part]:
    """As few parts as the order of values and of effects allows: each equation runs as early as it can."""
    parts: list[Part] = []
    when: dict[Var, int] = dict.fromkeys(graph.inputs, 0)
    last_effect = 0
    for e in graph.equations:
        on_host = bool(refused([e]))
        effect = e.primitive.effect or any(g.has_effects for _, g in e.regions())
        at = max([when[v] for v in e.inputs] + ([last_effect] if effect else []), default=0)
        while at >= len(parts) or parts[at].on_host != on_host:
            if at >= len(parts):
                parts.append(Part(bool(len(parts) % 2)))
            else:
                at += 1
        parts[at].equations.append(e)
        when.update(dict.fromkeys(e.outputs, at))
        last_effect = at if effect else last_effect
    _connect(graph, parts)
    return [p for p in parts if p.equations]


def _connect(graph: Graph, parts: Sequence[Part]) -> None:
    wanted = set(graph.outputs)
    for part in reversed(parts):
        made = {v for e in part.equations for v in e.outputs}
        read = dict.fromkeys(v for e in part.equations for v in e.inputs if v not in made)
        part.inputs, part.outputs = tuple(read), tuple(dict.fromkeys(v for v in made if v in wanted))
        order = {v: n for n, v in enumerate(v for e in part.equations for v in e.outputs)}
        part.outputs = tuple(sorted(part.outputs, key=lambda v: order[v]))
        wanted |= set(part.inputs)


class Split:
    """The parts for one choice of sizes, ready to run."""

    def __init__(self, graph: Graph, usage: Usage, make: Make) -> None:
        self.graph = dce(inline(graph))
        self.parts = split(self.graph)
        stable = {v for i, v in enumerate(self.graph.inputs) if i in usage.stable}
        self.made: list[Executable | None] = []
        for number, part in enumerate(self.parts):
            own = Usage(frozenset(i for i, v in enumerate(part.inputs) if v in stable), options=usage.options)
            made = None if part.on_host else make(part.graph(f"{graph.name}.{number}"), own)
            self.made.append(made)

    def run(self, values: Sequence[Any]) -> list[Any]:
        env: dict[Var, Any] = dict(zip(self.graph.inputs, values, strict=True))
        for part, made in zip(self.parts, self.made, strict=True):
            given = [env[v] for v in part.inputs]
            found = run(part.graph("host"), given) if made is None else made.run(given, [], 0)
            env.update(zip(part.outputs, found, strict=True))
        return _own([env[v] for v in self.graph.outputs], values)


def _own(found: Sequence[Any], given: Sequence[Any]) -> list[Any]:
    """Results in memory of their own."""
    taken, out = {id(v) for v in given}, []
    for x in found:
        out.append(np.array(x) if id(x) in taken else x)
        taken.add(id(x))
    return out


class Hosted(Executable):
    """A graph on a processor, with its host's help."""

    def __init__(self, graph: Graph, usage: Usage, machine: Machine, make: Make) -> None:
        self.graph, self.usage, self.machine, self._make = graph, usage, machine, make
        self._splits: dict[tuple[Any, ...], Split] = {}
        self.last: Split | None = None

    def _split(self, values: Sequence[Any]) -> Split:
        sizes = sizes_of(self.graph, values) if self.graph.symbols else {}
        key = tuple(sorted(sizes.items()))
        if key not in self._splits:
            graph = specialise(self.graph, sizes) if sizes else self.graph
            self._splits[key] = Split(graph, self.usage, self._make)
        return self._splits[key]

    def prepare(self, values: Sequence[Any], owners: Mapping[int, Cell] = NOBODY) -> None:
        """Splits, and moves state to the device. Parts are compiled when they first run, for only then their
        inputs are there."""
        shared = shared_device(self.machine)
        with shared.turn:
            self._split(values)
            for place, cell in owners.items():
                if place < len(values):
                    settle(shared.device, cell, values[place])

    def run(self, values: list[Any], old: list[Any], held: int) -> list[Any]:
        self.last = self._split(values)
        return self.last.run(values)

    def _known(self) -> Split:
        if self.last is None and self.graph.symbols:
            raise ArgumentError(
                f"{self.graph.name} has symbolic sizes and was never called",
                expected="a call, which decides them",
                remedy="call it once, then look",
            )
        return self.last or Split(self.graph, self.usage, self._make)

    def explain(self) -> list[str]:
        """The parts in order: what the host ran and why, and where the rest ran."""
        lines = []
        for part, made in zip(self._known().parts, self._known().made, strict=True):
            if made is not None:
                lines += made.explain()
                continue
            for e in part.equations:
                why = "; ".join(dict.fromkeys(REFUSED[x.primitive.name] for x in refused([e])))
                lines.append(f"  host    {e.primitive.name}: {why}    {e.location}")
        return lines

    @property
    def stages(self) -> Mapping[str, str]:
        found = {"graph": str(self.graph)}
        for number, (part, made) in enumerate(zip(self._known().parts, self._known().made, strict=True)):
            stages = {"host": str(part.graph(f"{self.graph.name}.{number}"))} if made is None else made.stages
            found |= {f"part {number}: {name}": text for name, text in stages.items()}
        return found

    @property
    def last_run(self) -> Run | None:
        """Of the processor's last part; `measured` counts all of them."""
        runs = [made.last_run for made in (self.last.made if self.last else ()) if made is not None]
        return runs[-1] if runs else None

    @property
    def measured(self) -> Mapping[str, float]:
        """Of all launches of the last call together; the host's time is not in it."""
        total: dict[str, float] = {}
        for made in self.last.made if self.last else ():
            for name, number in (made.measured if made is not None else {}).items():
                total[name] = total.get(name, 0) + number
        return total

    def profile(self, call: Callable[[], object], repeats: int, again: bool = False) -> Any:
        raise ArgumentError(
            f"a profile of {self.graph.name}, of which the host runs a part",
            expected="a function that the processor runs alone",
            remedy="put the parts into functions of their own; explain() says what the host runs",
        )
