"""The target `dlp`: a graph to one program of a processor, and its runs.

Enters: a machine (a preset's name, a YAML file, a description) and recorded graphs. Leaves: executables whose
`last_run` has cycles, joules and the timeline of the last call. Graphs with symbolic sizes are compiled for
each choice of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from trilobite.base.errors import ArgumentError
from trilobite.compiler.graph.passes import Options
from trilobite.compiler.graph.passes.inline import specialise
from trilobite.compiler.targets.contract import Executable, Target, Usage
from trilobite.compiler.targets.dlp.compiled import Compiled, Loaded
from trilobite.compiler.targets.dlp.devices import shared_device
from trilobite.compiler.targets.dlp.refusals import check
from trilobite.ir.evaluate import sizes_of
from trilobite.ir.graph import Graph
from trilobite.ir.types import Symbol
from trilobite.processor.machine import Machine, load_machine, preset_names
from trilobite.processor.sim.run import Run

CHOICES = ("checks", "skip")


class Processed(Executable):
    """A graph on a processor."""

    def __init__(self, graph: Graph, machine: Machine, usage: Usage) -> None:
        self.graph, self.machine, self.usage = graph, machine, usage
        chosen = dict(usage.options)
        self.checks = bool(chosen.get("checks", False)) or None
        self.options = Options(stable=usage.stable, skip=frozenset(chosen.get("skip", ())))
        self.made: dict[tuple[tuple[Symbol, int], ...], Loaded] = {}
        self.last: Loaded | None = None

    def _loaded(self, values: Sequence[Any]) -> Loaded:
        sizes: Mapping[Symbol, int] = sizes_of(self.graph, values) if self.graph.symbols else {}
        key = tuple(sorted(sizes.items()))
        if key not in self.made:
            graph = specialise(self.graph, sizes) if sizes else self.graph
            self.made[key] = Loaded(
                Compiled(graph, self.machine, self.options), shared_device(self.machine).device
            )
        return self.made[key]

    def prepare(self, values: Sequence[Any], owners: Any = None) -> None:
        with shared_device(self.machine).turn:
            self._loaded(values)

    def run(self, values: list[Any], old: list[Any], held: int) -> list[Any]:
        with shared_device(self.machine).turn:
            self.last = self._loaded(values)
            return self.last.run(values, checks=self.checks)

    @property
    def last_run(self) -> Run | None:
        """Cycles, joules, stalls and timeline of the last call."""
        return None if self.last is None else self.last.last_run

    @property
    def measured(self) -> Mapping[str, float]:
        run = self.last_run
        if run is None:
            return {}
        return {"seconds": run.seconds, "cycles": run.cycles, "joules": run.energy.total}


class Processor(Target):
    """A machine that graphs run on."""

    def __init__(self, machine: Machine, name: str) -> None:
        self.machine, self.name = machine, name

    def lower(self, graph: Graph, usage: Usage) -> tuple[Graph, Usage]:
        wrong = [name for name, _ in usage.options if name not in CHOICES]
        if wrong:
            raise ArgumentError(
                f"the target {self.name!r} has no option {wrong[0]!r}",
                expected=f"one of {', '.join(CHOICES)}",
                remedy='for example tb.jit(f, target="dlp:dlp-s", options={"checks": True})',
            )
        check(graph)
        return graph, usage

    def load(self, lowered: tuple[Graph, Usage]) -> Processed:
        return Processed(lowered[0], self.machine, lowered[1])


def dlp(argument: object) -> Target:
    """The target of a machine: by the name of a preset, a YAML file, or its description."""
    if argument == "":
        raise ArgumentError(
            "the target 'dlp' without a machine",
            expected='a preset or a file behind a colon: "dlp:dlp-s", "dlp:part.yaml"',
            remedy="trilobite machines lists the presets",
        )
    machine = argument if isinstance(argument, Machine) else load_machine(str(argument))
    return Processor(machine, f"dlp:{machine.name}{_mark(machine)}")


def _mark(machine: Machine) -> str:
    """What tells a machine from the preset of its name."""
    if machine.name in preset_names() and load_machine(machine.name) == machine:
        return ""
    return f"#{hashlib.sha256(repr(machine).encode()).hexdigest()[:12]}"
