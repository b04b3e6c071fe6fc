"""The target `dlp`: a graph to one program of a processor, and its runs.

Enters: a machine (a preset's name, a YAML file, a description) and recorded graphs. Leaves: executables whose
`last_run` has cycles, joules and the timeline of the last call. Graphs with symbolic sizes are compiled once,
for their bounds; what has no such form is compiled for each choice of sizes, and the last few stay.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from trilobite.base.collection import uncollected
from trilobite.base.errors import ArgumentError
from trilobite.compiler.graph.bounded import Bounded, bound
from trilobite.compiler.graph.bounded.scope import at_bounds
from trilobite.compiler.graph.fuse import FusionPolicy
from trilobite.compiler.graph.passes import Options, Pass
from trilobite.compiler.graph.passes.dce import dce
from trilobite.compiler.graph.passes.inline import inline, specialise
from trilobite.compiler.graph.passes.split_stable import split_stable
from trilobite.compiler.graph.pipeline import Sizes
from trilobite.compiler.targets.contract import NOBODY, Executable, Target, Usage
from trilobite.compiler.targets.dlp.compiled import Compiled, Loaded
from trilobite.compiler.targets.dlp.devices import shared_device
from trilobite.compiler.targets.dlp.groups import policy
from trilobite.compiler.targets.dlp.hosted import Hosted
from trilobite.compiler.targets.dlp.packed import Parted
from trilobite.compiler.targets.dlp.parts import Called
from trilobite.compiler.targets.dlp.profile import Profile, cycles_by_function, owners, profile_of
from trilobite.compiler.targets.dlp.refusals import check, refused
from trilobite.compiler.targets.dlp.resident import settle
from trilobite.compiler.targets.dlp.sized import Sized, too_large
from trilobite.compiler.targets.dlp.stages import SHARED, own_passes
from trilobite.ir.evaluate import sizes_of
from trilobite.ir.graph import Graph
from trilobite.ir.transforms.cells import Cell
from trilobite.ir.types import Symbol
from trilobite.processor.device import Device
from trilobite.processor.machine import Machine, load_machine, preset_names
from trilobite.processor.sim.run import Run

CHOICES = ("checks", "host", "sizes", "skip")
KEPT = 16  # choices of symbolic sizes whose programs stay on the device, each with an arena
Program = Loaded | Parted | Sized
SIZES = Sizes(scaled=1 << 18, merged=1 << 16)  # the other figures are of passes that it leaves out


class Processed(Executable):
    """A graph on a processor."""

    def __init__(self, graph: Graph, machine: Machine, usage: Usage) -> None:
        self.graph, self.machine, self.usage = graph, machine, usage
        chosen = dict(usage.options)
        self.checks = bool(chosen.get("checks", False)) or None
        self.options = Options(sizes=SIZES, stable=usage.stable, skip=frozenset(chosen.get("skip", ())))
        self.bounded: Bounded | None = None
        self.each = "as asked for" if chosen.get("sizes") == "each" else ""  # why sizes have programs each
        self.made: dict[tuple[tuple[Symbol, int], ...], Program] = {}
        self.last: Program | None = None
        self._key: tuple[tuple[Symbol, int], ...] = ()

    def _loaded(self, values: Sequence[Any]) -> Program:
        sizes: Mapping[Symbol, int] = sizes_of(self.graph, values) if self.graph.symbols else {}
        if sizes and self._for_all() is not None:
            sizes = {}
        key = self._key = tuple(sorted(sizes.items()))
        if key in self.made:
            self.made[key] = self.made.pop(key)  # the last that was used stands last
        else:
            while len(self.made) >= KEPT:
                del self.made[next(iter(self.made))]
            with uncollected():
                self.made[key] = self._load(specialise(self.graph, sizes) if sizes else self.graph)
        return self.made[key]

    def _for_all(self) -> Bounded | None:
        """The graph at the bounds of its symbols; None where each choice of sizes has a program."""
        if self.each == "" and self.bounded is None:
            found = bound(inline(self.graph))
            if isinstance(found, str):
                self.each = found
            else:
                self.each = too_large(found, self.machine)
                self.bounded = found if not self.each else None
        return self.bounded

    def _load(self, graph: Graph) -> Program:
        """What depends on weights alone becomes a program of its own."""
        device = shared_device(self.machine).device
        if graph.symbols:
            assert self.bounded is not None
            return Sized(graph, self.bounded, self._program(self.bounded.graph, device), device)
        return self._program(graph, device)

    def _program(self, graph: Graph, device: Device) -> Loaded | Parted:
        whole = Compiled(graph, self.machine, self.options)
        stable = self.options.stable
        halves = split_stable(whole.shared, stable) if stable else None
        if halves is None:
            return Loaded(whole, device)
        still = frozenset(n for n, i in enumerate(halves.kept) if i in stable)
        made = frozenset(range(len(halves.kept), len(halves.second.inputs)))
        later = self.options._replace(stable=still | made)
        first = Compiled(halves.first, self.machine, self.options._replace(stable=frozenset()))
        second = Compiled(halves.second, self.machine, later)
        return Parted(halves, Loaded(first, device), Loaded(second, device))

    def prepare(self, values: Sequence[Any], owners: Mapping[int, Cell] = NOBODY) -> None:
        """Compiles, and moves state to the device: a weight that nobody outside holds stays there."""
        shared = shared_device(self.machine)
        with shared.turn:
            self._loaded(values)
            for place, cell in owners.items():
                if place < len(values):
                    settle(shared.device, cell, values[place])

    def run(self, values: list[Any], old: list[Any], held: int) -> list[Any]:
        with shared_device(self.machine).turn:
            self.last = self._loaded(values)
            return self.last.run(values, checks=self.checks)

    def time(self, values: Sequence[Any]) -> Run:
        """Cycles and joules of a call with values of these shapes, without computing any. Where the program
        decides by values (a loop until a condition holds), `DataDependence` says so."""
        with shared_device(self.machine).turn:
            return self._loaded(values).time(values)

    @property
    def last_run(self) -> Run | None:
        """Cycles, joules, stalls and timeline of the last call."""
        return None if self.last is None else self.last.last_run

    @property
    def stages(self) -> Mapping[str, str]:
        return self._compiled().stages()

    def _compiled(self) -> Compiled:
        """The program of the last call; of a graph that never ran, if its sizes are known."""
        if self.last is not None:
            return self.last.compiled
        bounded = self._for_all() if self.graph.symbols else None
        if bounded is not None:
            return Compiled(bounded.graph, self.machine, self.options)
        if self.graph.symbols:
            raise ArgumentError(
                f"{self.graph.name} has symbolic sizes and was never called",
                expected="a call, which decides them",
                remedy="call it once, then look",
            )
        return Compiled(self.graph, self.machine, self.options)

    def explain(self) -> list[str]:
        """Where each operation runs, by which mapping, and its share of the last run's cycles."""
        compiled = self._compiled()
        calls = compiled.network.calls
        shares = _shares(self.last_run, calls) if self.last_run is not None else {}
        lines = []
        last = self.last.program if isinstance(self.last, Sized) else self.last
        if self.graph.symbols:
            lines.append(f"  {self._sizes_said()}")
        if isinstance(last, Parted):
            many = len(last.first.compiled.network.calls)
            lines.append(f"  {many} groups on weights alone run again only when a weight has changed")
        for call in calls:
            share = f"{shares[call.group.function]:6.1%} " if shares else ""
            names = " ".join(dict.fromkeys(call.primitives))
            why = f"; {call.group.why}" if call.group.why else ""
            lines.append(
                f"  {share}{call.group.unit:<7} {names}: {call.group.mapping}{why}    {call.location}"
            )
        return lines

    def _sizes_said(self) -> str:
        """How this graph's symbolic sizes are compiled."""
        made = self._for_all()
        if made is None:
            return f"compiled for each choice of sizes, of which {KEPT} are kept: {self.each}"
        each = ", ".join(f"{s.name} up to {s.upper}" for s in sorted(self.graph.symbols) if s.of is None)
        return f"compiled once for {each}; the sizes of a call are arguments"

    def memory(self) -> Memory:
        """Device memory that the program needs: values between operations, constants, inputs and results."""
        network = self._compiled().network
        sizes = [
            sum(prod(at_bounds(t).shape) * t.dtype.itemsize for t in types)
            for types in (self.graph.input_types, self.graph.output_types)
        ]
        return Memory(
            network.arena, sum(c.nbytes for c in network.constants if isinstance(c, np.ndarray)), *sizes
        )

    def profile(self, call: Callable[[], object], repeats: int = 1, again: bool = False) -> Profile:
        """The cycles of one run of `call`, group by group: equal groups get functions of their own."""
        call()
        assert self.last is not None
        whole, self.made = self.made, {self._key: self.last.apart()}
        try:
            call()
        finally:
            self.made = whole
        assert self.last.last_run is not None
        compiled = self.last.compiled
        found = profile_of(self.last.last_run, compiled.network.calls, self.machine)
        source = compiled
        if isinstance(self.last, Sized) and isinstance(self.last.program, Parted):
            source = Compiled(self.last.made.graph, self.machine, self.options)
        elif isinstance(self.last, Parted):
            graph = specialise(self.graph, dict(self._key)) if self._key else self.graph
            source = Compiled(graph, self.machine, self.options)
        return replace(found, compiled=compiled, whole=source)

    @property
    def measured(self) -> Mapping[str, float]:
        run = self.last_run
        if run is None:
            return {}
        assert self.last is not None
        link = self.last.link
        return {
            "seconds": run.seconds, "cycles": run.cycles, "joules": run.energy.total,
            "bytes to device": link.to_device, "bytes from device": link.from_device,
        }  # fmt: skip


def _shares(run: Run, calls: Sequence[Called]) -> dict[str, float]:
    """Of each function, its part of the run's cycles."""
    functions = list(dict.fromkeys(call.group.function for call in calls))
    cycles = cycles_by_function(run, owners(run, functions), len(functions))
    return {name: spent / max(run.cycles, 1) for name, spent in zip(functions, cycles, strict=False)}


@dataclass(frozen=True)
class Memory:
    """Bytes of device memory, by what they are for."""

    arena: int
    constants: int
    inputs: int
    outputs: int

    @property
    def total(self) -> int:
        return self.arena + self.constants + self.inputs + self.outputs

    def __str__(self) -> str:
        parts = ("arena", "constants", "inputs", "outputs")
        return f"{self.total} bytes: " + ", ".join(f"{name} {getattr(self, name)}" for name in parts)


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
        asked = dict(usage.options).get("sizes", "once")
        if asked not in ("once", "each"):
            raise ArgumentError(
                f"the option sizes={asked!r}",
                expected='"once": one program for all sizes; "each": one for each choice of them',
            )
        if not dict(usage.options).get("host", False):
            check(graph)
        return graph, usage

    def passes(self) -> Sequence[Pass]:
        return (*SHARED, *own_passes(self.machine))

    def fusion(self) -> FusionPolicy:
        return policy(self.machine)

    def load(self, lowered: tuple[Graph, Usage]) -> Executable:
        graph, usage = lowered
        if dict(usage.options).get("host", False) and refused(dce(graph).equations):
            return Hosted(graph, usage, self.machine, lambda part, of: Processed(part, self.machine, of))
        return Processed(graph, self.machine, usage)


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
