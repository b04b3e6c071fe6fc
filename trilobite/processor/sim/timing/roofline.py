"""T0: closed forms and roofline, over many candidates at once.

Enters: a machine, and shapes as integers or NumPy arrays of them. Leaves: cycles of the same type. It knows
no queues; it is the lower bound that T1 can never beat.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trilobite.processor.isa.address import split
from trilobite.processor.isa.formats import Array
from trilobite.processor.isa.row import MATRIX, VECTOR
from trilobite.processor.machine import Machine
from trilobite.processor.sim.actions import tensor_actions
from trilobite.processor.sim.record import TensorRecord, Trace
from trilobite.processor.sim.timing.arrays import product_cycles
from trilobite.processor.sim.timing.caches import cache_misses
from trilobite.processor.sim.timing.cost import (
    BANDWIDTH,
    DRAM_SPACES,
    MATRIX_UNIT,
    VECTOR_UNIT,
    useful_macs,
)


@dataclass(frozen=True)
class Roofline:
    """A launch against its roofs: useful operations of both units, bytes, and the cycles each needs at
    least. The units work beside each other, so the slower of the two is the roof of arithmetic."""

    macs: int
    dram_bytes: int
    matrix_cycles: float
    memory_cycles: float
    elements: int = 0  # of vector work
    vector_cycles: float = 0.0

    @property
    def compute_cycles(self) -> float:
        return max(self.matrix_cycles, self.vector_cycles)

    @property
    def cycles(self) -> float:
        return max(self.compute_cycles, self.memory_cycles)

    @property
    def operations(self) -> int:
        """A multiply-accumulate is two, a vector element one."""
        return 2 * self.macs + self.elements

    @property
    def part(self) -> str:
        """What the highest of the roofs is: a part of the machine."""
        roofs = ((self.memory_cycles, BANDWIDTH), (self.matrix_cycles, MATRIX_UNIT),
                 (self.vector_cycles, VECTOR_UNIT))  # fmt: skip
        return max(roofs, key=lambda roof: roof[0])[1]

    @property
    def intensity(self) -> float:
        """Operations per DRAM byte."""
        return self.operations / self.dram_bytes if self.dram_bytes else float("inf")


def roofline(machine: Machine, trace: Trace) -> Roofline:
    """What the trace's work costs at least on the whole part: nothing else than peak and bandwidth."""
    macs = moved = elements = 0
    spent = {MATRIX: 0.0, VECTOR: 0.0}
    for record, count in tensor_actions(trace.cores, machine.dram.granule_bytes):
        useful = useful_macs(record)
        macs += count * useful
        elements += count * (0 if useful else vector_elements(record))
        unit, cycles = at_peak(machine, record)
        if unit:
            spent[unit] += count * cycles
        moved += count * dram_traffic(record)
    if machine.llc.kib:
        moved = sum(sum(filter(None, misses)) for misses in cache_misses(machine, trace))
    matrix, vector = (spent[unit] / machine.cores for unit in (MATRIX, VECTOR))
    return Roofline(macs, moved, matrix, moved / machine.dram_bytes_per_cycle, elements, vector)


def vector_elements(record: TensorRecord) -> int:
    """Elements that pass the lanes of the vector unit."""
    if record.queue != VECTOR:
        return 0
    if "bytes" in record.work:  # windows: every tap passes the lanes
        return record.work["bytes"] * 8 // record.formats[0].bits
    return max((region.count for region in (*record.reads, *record.writes)), default=0)


def at_peak(machine: Machine, record: TensorRecord) -> tuple[str, float]:
    """The unit that runs an instruction, and the cycles that its operations take at the unit's peak."""
    if record.queue not in (MATRIX, VECTOR):
        return "", 0.0
    widest = max((region.bytes for region in (*record.reads, *record.writes)), default=0)
    if record.timing == "matrix":
        rates = [machine.core.mfu.macs_per_cycle.get(fmt.rate, 0) for fmt in record.formats[1:3]]
        if all(rates):
            return MATRIX, useful_macs(record) / min(rates)
        widest = record.formats[1].bytes(useful_macs(record))  # its terms pass the vector unit's lanes
    return VECTOR, record.work.get("bytes", widest) / machine.core.vfu.bytes_per_cycle


def dram_traffic(record: TensorRecord) -> int:
    """Bytes asked of DRAM, before granules."""
    return sum(r.bytes for r in (*record.reads, *record.writes) if split(r.address)[0] in DRAM_SPACES)


def product_bounds(
    machine: Machine, rate_format: str, element_bytes: int, m: Array, n: Array, k: Array
) -> Array:
    """Cycles of many products at once: the array's closed form or compulsory bytes, whichever is longer."""
    m, n, k = (np.asarray(x, np.int64) for x in (m, n, k))
    moved = (m * k + k * n + m * n) * element_bytes
    memory = np.ceil(moved / machine.dram_bytes_per_cycle).astype(np.int64)
    return np.asarray(np.maximum(product_cycles(machine.core.mfu, rate_format, m, n, k), memory))
