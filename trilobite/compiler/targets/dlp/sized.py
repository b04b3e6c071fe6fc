"""A program for every size: it is compiled for the largest, and the sizes of a run are arguments.

Enters: a program at the bounds of a graph's symbols (`compiler/graph/bounded`), values of any sizes within
them. Leaves: results of their real sizes. Inputs lie at the front of blocks as large as they can become; what
lies behind them changes no result.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from trilobite.compiler.graph.bounded import Bounded
from trilobite.compiler.graph.bounded.scope import at_bounds, is_symbolic
from trilobite.compiler.targets.dlp.compiled import Compiled, Loaded
from trilobite.compiler.targets.dlp.packed import Parted
from trilobite.compiler.targets.dlp.resident import Link, allocated, resident_array
from trilobite.ir.evaluate import sizes_of
from trilobite.ir.graph import Graph
from trilobite.ir.types import TensorType, substitute
from trilobite.processor.device import Device
from trilobite.processor.machine import Machine
from trilobite.processor.sim.run import Run

Array = np.ndarray[Any, Any]
PART = 16  # one of so many parts of a machine's memory is the most that one value may need
MOST = 1 << 28  # bytes of one value; beyond, the sizes that come are likely far below the bound
OPEN = 1 << 13  # a size that may be larger was not bounded by somebody who knows what comes


def too_large(made: Bounded, machine: Machine) -> str:
    """Why a graph at its bounds is not for a machine; nothing, if it is."""
    for d in made.sizes:
        if d.bounds()[1] > OPEN:
            return f"{d} may be as large as {d.bounds()[1]}, more than {OPEN}"
    most = min(machine.dram.gib * 2**30 // PART, MOST)
    values = [*made.graph.inputs, *(v for e in made.graph.equations for v in e.outputs)]
    for v in values:
        size = prod(map(int, v.type.shape)) * v.type.dtype.itemsize
        if size > most:
            return f"{v.type}, the largest it can be, takes {size} bytes, more than {most}"
    return ""


class Sized:
    """A program at its bounds on a device."""

    def __init__(self, graph: Graph, made: Bounded, program: Loaded | Parted, device: Device) -> None:
        self.graph, self.made, self.program, self.device = graph, made, program, device
        self.blocks: dict[int, Array] = {}  # of inputs whose size the run decides, at their bounds
        self._carried = 0

    @property
    def compiled(self) -> Compiled:
        return self.program.compiled

    @property
    def last_run(self) -> Run | None:
        return self.program.last_run

    @property
    def link(self) -> Link:
        """What the program copied, and what came to its blocks; results leave in their real sizes."""
        own, many = self.program.link, [prod(shape) * t.dtype.itemsize for shape, t in self._results]
        return Link(own.to_device + self._carried, sum(many))

    def run(self, values: Sequence[Array], traced: bool = True, checks: bool | None = None) -> list[Array]:
        found = self.program.run(self._given(values), traced, checks)
        pairs = zip(found, self._results, strict=True)
        return [np.ascontiguousarray(x[tuple(map(slice, shape))]) if is_symbolic(t) else x
                for x, (shape, t) in pairs]  # fmt: skip

    def time(self, values: Sequence[Array]) -> Run:
        """Cycles and joules of a call with values of these sizes, without computing one."""
        return self.program.time(self._given(values))

    def apart(self) -> Sized:
        return Sized(self.graph, self.made, self.program.apart(), self.device)

    def _given(self, values: Sequence[Array]) -> list[Array]:
        """The values at the front of their blocks, and the sizes."""
        sizes = sizes_of(self.graph, values)
        self._results = [(substitute(tuple(t.shape), sizes), t) for t in self.graph.output_types]
        self._carried = 0
        pairs = enumerate(zip(self.graph.input_types, values, strict=True))
        given = [self._at_front(i, t, x) if is_symbolic(t) else x for i, (t, x) in pairs]
        return [*given, *(np.asarray(d.value(sizes), np.int64) for d in self.made.sizes)]

    def _at_front(self, place: int, t: TensorType, value: Array) -> Array:
        if place not in self.blocks:
            largest = at_bounds(t)
            size = prod(largest.shape) * t.dtype.itemsize
            what = f"input {place} of {self.graph.name}, {t.dtype}{list(largest.shape)} at its largest"
            block = allocated(self.device, size, what)
            block.write(np.zeros(block.nbytes, np.uint8))
            self.blocks[place] = resident_array(block, largest.shape, t.dtype)
        whole = self.blocks[place]
        whole[tuple(map(slice, value.shape))] = value
        self._carried += value.nbytes
        return whole
