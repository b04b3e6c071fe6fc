"""Poison: what is still under way is not there yet, and looks like it.

Enters: the instructions of queues and what waits for them. Leaves: memory in which every destination of an
instruction that its core has not yet waited for holds a canary. The real bytes are kept aside until the
SYNC, so a program that waits where it must computes what it always did, and one that does not sees NaN and
-1. An instruction finds the results of those before it in its own queue; a full queue has finished its
oldest one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trilobite.processor.isa.formats import Array
from trilobite.processor.isa.row import QUEUES, Region
from trilobite.processor.machine import Machine
from trilobite.processor.sim.core import Core
from trilobite.processor.sim.memory import Memory, Place

CANARY = 0xFF  # NaN in every float format, -1 in every signed one
Destination = tuple[Array, Array]  # the bytes in memory, and what belongs there


class Poison:
    def __init__(self, machine: Machine, memory: Memory) -> None:
        self.memory, self.depth = memory, machine.core.queues.depth
        self.is_on = machine.interlock == "none"  # elsewhere the hardware makes everyone wait
        self._pending: dict[tuple[Place, str], list[list[Destination]]] = {}
        self._current: tuple[tuple[Place, str], list[Array]] | None = None

    def tensor(self, core: Core, queue: str, writes: Sequence[Region]) -> None:
        """Before the instruction: its own queue's results are there."""
        key = (core.place, queue)
        for destinations in self._pending.get(key, []):
            _deposit(destinations)
        views = [self.memory.view(core.place, write) for write in writes if write.count]
        self._current = key, views

    def after(self, core: Core) -> None:
        if self._current is None:
            return
        key, views = self._current
        self._current = None
        queue = self._pending.setdefault(key, [])
        queue.append([(view, view.copy()) for view in views])
        if len(queue) > self.depth:
            queue.pop(0)
        for destinations in queue:
            for view, _ in destinations:
                view[...] = np.uint8(CANARY)

    def sync(self, core: Core, queues: Sequence[str] = QUEUES) -> None:
        for queue in queues:
            for destinations in self._pending.pop((core.place, queue), []):
                _deposit(destinations)

    def close(self) -> None:
        for queue in self._pending.values():
            for destinations in queue:
                _deposit(destinations)
        self._pending.clear()


def _deposit(destinations: Sequence[Destination]) -> None:
    for view, values in destinations:
        view[...] = values
