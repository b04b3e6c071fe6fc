"""A launch that is timed without computing data.

Enters: a machine, the memory of a device, a program and a task grid. Leaves: the trace, as `Chip.execute`
gives it; the device's memory is as it was.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np

from trilobite.processor.isa.program import Program
from trilobite.processor.machine import Machine
from trilobite.processor.sim.chip import Chip, Execution, Launch
from trilobite.processor.sim.core import Core
from trilobite.processor.sim.core_code import CoreCode
from trilobite.processor.sim.dry import DRY_HANDLERS, DryCore, DryMemory
from trilobite.processor.sim.memory import Memory, Place
from trilobite.processor.sim.stepped import SteppedCode

_STEPPED: WeakKeyDictionary[Program, SteppedCode] = WeakKeyDictionary()


class DryLaunch(Launch):
    """A launch whose cores only note tensor instructions."""

    def __init__(
        self,
        machine: Machine,
        memory: DryMemory,
        program: Program,
        limit: int | None,
        trace_limit: int | None = None,
    ) -> None:
        super().__init__(Chip(machine, memory, {}, translate=False), program, True, limit, trace_limit)
        self.memory, self.handlers = memory, DRY_HANDLERS

    def _core(self, place: Place) -> Core:
        if place not in self.cores:
            core = DryCore(place, self.memory, {})
            if self.program not in _STEPPED:
                _STEPPED[self.program] = SteppedCode(self.code, is_dry=True)
            code = CoreCode(_STEPPED[self.program], self.memory, place)
            code.follow(core.shadow)
            core.native = code
            self.cores[place] = core
        return self.cores[place]


def execute_dry(
    machine: Machine,
    memory: Memory,
    program: Program,
    entry: int,
    arguments: Sequence[int],
    dim: tuple[int, int, int] = (1, 1, 1),
    task: str = "block",
    seed: int = 0,
    limit: int | None = None,
    trace_limit: int | None = None,
) -> Execution:
    """Runs control and scalar code of the launch; `DataDependence` if a tensor's value decides its course."""
    own = DryMemory(memory)
    launch = DryLaunch(machine, own, program, limit, trace_limit)
    try:
        with np.errstate(all="ignore"):
            deque(launch.cores_in_order(entry, arguments, dim, task, seed), maxlen=0)
    finally:
        own.restore()
    return launch.result()
