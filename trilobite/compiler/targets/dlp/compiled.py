"""A graph compiled for a machine: the way from graph to program, and its runs on a device.

Enters: a recorded graph, a machine. Leaves: a `Compiled`: values in, results
out, with the run that gave them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from trilobite.base.errors import DeviceError
from trilobite.compiler.graph.passes import PASSES, Options
from trilobite.compiler.graph.pipeline import Compilation, run_stages
from trilobite.compiler.targets.dlp.complex import split_complex
from trilobite.compiler.targets.dlp.expand import expand
from trilobite.compiler.targets.dlp.groups import group
from trilobite.compiler.targets.dlp.network import At, Network, assemble
from trilobite.compiler.targets.dlp.refusals import check
from trilobite.ir.graph import Graph
from trilobite.processor.device import Device, DeviceArray
from trilobite.processor.lang.codegen.compile import KernelProgram, compile_module
from trilobite.processor.machine import Machine
from trilobite.processor.sim.run import Run

Array = np.ndarray[Any, Any]
_SKIPPED = frozenset({"linear_to_conv", "mixed_precision", "rematerialise"})


def cores_of(machine: Machine) -> tuple[int, str]:
    """How many cores a launch has, and as which kind of task."""
    if machine.cores == 1:
        return 1, "block"
    span = 1
    while span * 2 <= min(machine.clusters, 16):
        span *= 2
    return span * machine.cores_per_cluster, f"union{span}"


class Compiled:
    """One program for one machine."""

    def __init__(self, graph: Graph, machine: Machine, options: Options) -> None:
        self.graph, self.machine, self.options = graph, machine, options
        self.cores, self.task = cores_of(machine)
        self.texts: dict[str, str] = {}

    @cached_property
    def compilation(self) -> Compilation:
        """The graph after each of the shared passes and of this target's own."""
        check(self.graph)
        stages = [(p.name, p) for p in PASSES if p.name not in _SKIPPED]
        done = run_stages(self.graph, stages, self.options)
        own: tuple[tuple[str, Callable[[Graph], Graph]], ...] = (
            ("expand", self._expanded),
            ("complex", split_complex),
            ("expanded", self._expanded),
            ("groups", group),
        )
        for name, change in own:
            done.stages[name], done.counters[name] = change(done.latest), {}
        return done

    def _expanded(self, graph: Graph) -> Graph:
        return expand(graph, self.machine)

    @cached_property
    def network(self) -> Network:
        return assemble(self.compilation.latest, self.machine, self.cores)

    @cached_property
    def program(self) -> KernelProgram:
        return compile_module(self.network.module, self.machine)


class Loaded:
    """A program on a device, with its memory there."""

    def __init__(self, compiled: Compiled, device: Device) -> None:
        self.compiled, self.device = compiled, device
        network = compiled.network
        self.module = device.load(compiled.program)
        self.arena = device.empty((max(network.arena, 1),), np.uint8)
        self.constants = [_on_device(device, c) for c in network.constants]
        self.table = device.empty((1 + network.arguments,), np.int64)
        self.inputs: list[DeviceArray | None] = [None] * len(compiled.graph.inputs)
        self.last_run: Run | None = None

    def run(self, values: Sequence[Array], traced: bool = True, checks: bool | None = None) -> list[Array]:
        for i, value in enumerate(values):
            self._give(i, np.ascontiguousarray(value))
        words = [self.arena, *self.inputs, *self.constants]
        self.table.write(np.array([a.address if a is not None else 0 for a in words], np.int64))
        c = self.compiled
        self.last_run = self.device.launch(
            self.module["network"],
            [self.table],
            dim=(c.cores, 1, 1),
            task=c.task,
            traced=traced,
            checks=checks,
        )
        types = c.graph.output_types
        found = zip(c.network.outputs, types, strict=True)
        return [self._taken(at, tuple(map(int, t.shape)), t.dtype) for at, t in found]

    def _give(self, place: int, value: Array) -> None:
        raw = value.reshape(-1).view(np.uint8) if value.size else np.zeros(1, np.uint8)
        held = self.inputs[place]
        if held is None or held.nbytes != raw.nbytes:
            held = self.inputs[place] = self.device.empty(raw.shape, np.uint8)
        held.write(raw)

    def _taken(self, at: At, shape: tuple[int, ...], dtype: Any) -> Array:
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        if at.place is None:
            raise DeviceError("a result has no place of its own", remedy="report this graph")
        if at.place.space == "arena":
            source: DeviceArray | None = self.arena
        else:
            source = [*self.inputs, *self.constants][at.place.index]
        assert source is not None
        first = source.address + at.place.offset
        raw = self.device.memory.gdram[first : first + size]
        found: Array = raw.copy().view(dtype).reshape(shape)
        return found


def _on_device(device: Device, array: Array) -> DeviceArray:
    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return device.array(raw if raw.size else np.zeros(1, np.uint8))
