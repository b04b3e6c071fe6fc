"""A graph compiled for a machine: the way from graph to program, and its runs on a device.

Enters: a recorded graph, a machine. Leaves: a `Compiled`: values in, results
out, with the run that gave them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from trilobite.base.errors import KernelError
from trilobite.compiler.graph.passes import Options
from trilobite.compiler.graph.pipeline import Compilation, run_stages
from trilobite.compiler.targets.dlp.kernels.attention import attention_of
from trilobite.compiler.targets.dlp.network import assemble
from trilobite.compiler.targets.dlp.packed import PackedWeight
from trilobite.compiler.targets.dlp.parts import Called, Network, Packed
from trilobite.compiler.targets.dlp.refusals import check
from trilobite.compiler.targets.dlp.resident import Link, address_of, allocated, resident_array
from trilobite.compiler.targets.dlp.stages import SHARED, own_passes
from trilobite.ir.graph import Graph
from trilobite.processor.device import Device, DeviceArray
from trilobite.processor.lang.codegen.compile import KernelProgram, compile_module
from trilobite.processor.lang.scratchpad import ScratchpadOverflow
from trilobite.processor.machine import Machine
from trilobite.processor.sim.run import Run

Array = np.ndarray[Any, Any]


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

    def __init__(self, graph: Graph, machine: Machine, options: Options, share: bool = True) -> None:
        self.graph, self.machine, self.options, self.share = graph, machine, options, share
        self.cores, self.task = cores_of(machine)

    @cached_property
    def compilation(self) -> Compilation:
        """The graph after each of the shared passes and of this target's own."""
        before = self._passed
        done = replace(before, stages=dict(before.stages), counters=dict(before.counters))
        for p in own_passes(self.machine):
            done.stages[p.name], done.counters[p.name] = p(done.latest, self.options)
        return done

    @cached_property
    def _passed(self) -> Compilation:
        check(self.graph)
        options = self.options._replace(claimed=lambda e: attention_of(e, self.machine) is not None)
        return run_stages(self.graph, [(p.name, p) for p in SHARED], options)

    @property
    def shared(self) -> Graph:
        """The graph behind the passes that all targets share."""
        return self._passed.latest

    @cached_property
    def network(self) -> Network:
        try:
            return self._assembled(ahead=True, near=True)
        except KernelError:  # a group does not fit beside what stays on chip
            return self._assembled(ahead=True, near=False)

    def _assembled(self, ahead: bool, near: bool) -> Network:
        stable = self.options.stable
        return assemble(self.compilation.latest, self.machine, self.cores, self.share, stable, ahead, near)

    @cached_property
    def program(self) -> KernelProgram:
        """The network's code. Where buffers of weights that come early, or values that stay on chip, do not
        fit after all, without them."""
        for near in (True, False):
            try:
                return compile_module(self.network.module, self.machine)
            except ScratchpadOverflow:
                self.network = self._assembled(ahead=False, near=near)
        return compile_module(self.network.module, self.machine)

    def stages(self) -> dict[str, str]:
        """Every level as text: the graph after each pass, groups, mappings, kernel IR, instructions."""
        found = {"graph": str(self.graph)}
        found |= {name: str(graph) for name, graph in self.compilation.stages.items()}
        found["mapping"] = "\n".join(map(mapping_line, self.network.calls)) + "\n"
        texts: dict[str, str] = {}
        compile_module(self.network.module, self.machine, stages=texts)
        return {**found, **texts}


def mapping_line(call: Called) -> str:
    """One call of a group, for people."""
    g = call.group
    why = f" ({g.why})" if g.why else ""
    return f"{call.number:4} {call.name:<24} {g.unit:<7} {g.mapping}{why}  # {call.location}"


class Loaded:
    """A program on a device, with its memory there."""

    def __init__(self, compiled: Compiled, device: Device) -> None:
        self.compiled, self.device = compiled, device
        network = compiled.network
        self.module = device.load(compiled.program)
        largest = ", ".join(f"{size} bytes of {kind}" for size, kind in network.largest[:3])
        what = f"the values between the operations of {compiled.graph.name} (the largest: {largest})"
        self.arena = allocated(device, network.arena, what)
        self.kept = self._kept(network)
        self.weights = [self._weight(c, at) for c, at in zip(network.constants, network.offsets, strict=True)
                        if isinstance(c, Packed)]  # fmt: skip
        self.table = device.empty((1 + network.arguments,), np.int64)
        self.inputs: dict[int, DeviceArray] = {}  # blocks for values that come from outside in every call
        self.link = Link()
        self.last_run: Run | None = None

    def run(self, values: Sequence[Array], traced: bool = True, checks: bool | None = None) -> list[Array]:
        """The results, as arrays in the device's memory."""
        c, blocks = self.compiled, self._fill_table(values)
        entry, dim = self.module["network"], (c.cores, 1, 1)
        self.last_run = self.device.launch(
            entry, [self.table], dim=dim, task=c.task, traced=traced, checks=checks
        )
        found = zip(blocks, self._result_types(), strict=True)
        return [resident_array(block, shape, dtype) for block, (shape, dtype) in found]

    def time(self, values: Sequence[Array]) -> Run:
        """Cycles and joules of a call with values like these, without computing one."""
        c, _blocks = self.compiled, self._fill_table(values)  # results keep their memory until it is done
        return self.device.time(self.module["network"], [self.table], dim=(c.cores, 1, 1), task=c.task)

    def _result_types(self) -> list[tuple[tuple[int, ...], Any]]:
        return [(tuple(map(int, t.shape)), t.dtype) for t in self.compiled.graph.output_types]

    def _fill_table(self, values: Sequence[Array]) -> list[DeviceArray]:
        """Where everything lies, for the entry; memory for the results."""
        self.link = Link()
        blocks = [self._result(i, shape, dtype) for i, (shape, dtype) in enumerate(self._result_types())]
        given = [self._address(i, value) for i, value in enumerate(values)]
        for weight in self.weights:
            self.link.to_device += weight.update(values[weight.packed.input])
        words = [*(a.address for a in (self.arena, *blocks)), *given, self.kept.address]
        self.table.write(np.array(words, np.int64))
        return blocks

    def apart(self) -> Loaded:
        """The same program with a routine for each call, so that a profile can tell equal groups apart."""
        c = self.compiled
        return Loaded(Compiled(c.graph, c.machine, c.options, share=False), self.device)

    def _result(self, place: int, shape: tuple[int, ...], dtype: Any) -> DeviceArray:
        size = prod(shape) * dtype.itemsize
        self.link.from_device += size
        return allocated(
            self.device, size, f"result {place} of {self.compiled.graph.name}, {dtype}{list(shape)}"
        )

    def _address(self, place: int, value: Array) -> int:
        """Where an input lies on the device; it is copied there if it does not."""
        found = address_of(self.device, value)
        if found is not None:
            return found
        raw = np.ascontiguousarray(value).reshape(-1).view(np.uint8) if value.size else np.zeros(1, np.uint8)
        held = self.inputs.get(place)
        if held is None or held.nbytes != raw.nbytes:
            what = f"input {place} of {self.compiled.graph.name}, {value.dtype}{list(value.shape)}"
            held = self.inputs[place] = allocated(self.device, raw.nbytes, what)
        held.write(raw)
        self.link.to_device += raw.nbytes
        return held.address

    def _kept(self, network: Network) -> DeviceArray:
        """The block of all that is loaded with the program: constants; weights come with the first call."""
        what = f"the {len(network.constants)} constants and packed weights of {self.compiled.graph.name}"
        block = allocated(self.device, network.kept, what)
        bytes_ = np.zeros(block.nbytes, np.uint8)
        for constant, at in zip(network.constants, network.offsets, strict=True):
            if isinstance(constant, np.ndarray):
                raw = np.ascontiguousarray(constant).reshape(-1).view(np.uint8)
                bytes_[at : at + raw.size] = raw
        block.write(bytes_)
        return block

    def _weight(self, packed: Packed, at: int) -> PackedWeight:
        """A weight's place in that block."""
        t, first = self.compiled.graph.inputs[packed.input].type, self.kept.address + at
        size = prod(int(n) for n in t.shape) * t.dtype.itemsize
        return PackedWeight(self.device.memory.gdram[first : first + size], packed)
