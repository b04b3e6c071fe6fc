"""Tensor instructions that are executed again: everything about an execution that its operands decide, kept.

Enters: a core, an instruction and the values of its registers. Leaves: a `Plan`, which repeats that very
execution: checked regions, views of the memory, the record for timing. Loops come back to the same operands,
so a plan is made once and run many times; plans live as long as the launch, during which no memory moves.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from trilobite.processor.isa.formats import I4, Array
from trilobite.processor.isa.row import Operands, Region
from trilobite.processor.sim.memory import store, typed
from trilobite.processor.sim.record import SyncRecord, TensorRecord
from trilobite.processor.sim.routines.calling import routine_call

if TYPE_CHECKING:
    from trilobite.processor.sim.core import Core
    from trilobite.processor.sim.prepared import Prepared

HOT = 64  # executions of one instruction before machine code of its own is worth its price
MOST = 1 << 14  # plans of one core; beyond this the operands do not come back


class Plan:
    """One instruction with given operands, ready to be executed any number of times."""

    __slots__ = ("arrays", "kernel", "live", "operands", "outputs", "prepared", "reads", "records",
                 "targets", "whole", "writes")  # fmt: skip

    def __init__(self, core: Core, prepared: Prepared, operands: Operands) -> None:
        row = prepared.row
        assert row.meaning is not None and row.writes is not None
        memory, place = core.memory, core.place
        self.prepared, self.operands, self.outputs = prepared, operands, prepared.outputs
        self.reads: tuple[Region, ...] = tuple(row.reads(operands)) if row.reads else ()
        self.writes: tuple[Region, ...] = tuple(row.writes(operands))
        self.targets = [memory.view(place, region) for region in self.writes]  # faults come before any change
        raws = [memory.view(place, region) for region in self.reads]
        self.arrays = [typed(raw, region) for raw, region in zip(raws, self.reads, strict=True)]
        # a copy of scattered bytes or of packed values does not follow the memory
        self.live = all(raw.flags.c_contiguous for raw in raws) and all(r.fmt is not I4 for r in self.reads)
        self.kernel = core.kernels.get(row.mnemonic, row.meaning)
        self.records: tuple[TensorRecord | SyncRecord, ...] = ()
        self.whole: Callable[[], bool] | None = None  # does all of it in one call, or refuses
        if self.live and core.kernels and prepared.heat >= HOT:
            self.whole = whole_call(self)

    def run(self, core: Core) -> list[int]:
        """Executes; gives the values of the registers that are written."""
        if self.whole is not None and self.whole():
            return []
        arrays = self.arrays
        if not self.live:
            arrays = [core.memory.read(core.place, region) for region in self.reads]
        results = self.kernel(self.operands, *arrays)
        for raw, region, values in zip(self.targets, self.writes, results, strict=False):
            store(raw, region, values)
        self.prepared.heat += 1
        if self.prepared.heat == HOT and self.live and core.kernels:
            self.whole = whole_call(self)
        return [int(value) for value in results[len(self.writes) :]] if self.outputs else []


def _copied(target: Array, source: Array) -> bool:
    np.copyto(target, source)
    return True


def whole_call(plan: Plan) -> Callable[[], bool] | None:
    """The execution as one call that gives the same bits, where there is such a call."""
    row = plan.prepared.row
    if plan.outputs or not all(raw.size for raw in plan.targets):
        return None
    if row.timing == "dma" and len(plan.targets) == 1:
        source, target = plan.arrays[0], plan.targets[0]
        if source.flags.c_contiguous and target.flags.c_contiguous:
            return partial(_copied, target.reshape(-1), source.reshape(-1).view(np.uint8))
        return None
    return routine_call(plan.prepared.instruction, plan.operands, plan.targets, plan.arrays)
