"""T0: closed forms and roofline, over many candidates at once.

Enters: a machine, and shapes as integers or NumPy arrays of them. Leaves: cycles of the same type. It knows
no queues; it is the lower bound that T1 can never beat.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trilobite.processor.isa.address import split
from trilobite.processor.isa.formats import Array
from trilobite.processor.machine import Machine
from trilobite.processor.sim.record import TensorRecord, Trace
from trilobite.processor.sim.timing.cost import DRAM_SPACES, cost_of, useful_macs
from trilobite.processor.sim.timing.foresight import cache_misses


@dataclass(frozen=True)
class Roofline:
    """A launch against its two roofs: useful operations, bytes, and the cycles each needs at least."""

    macs: int
    dram_bytes: int
    compute_cycles: float
    memory_cycles: float

    @property
    def cycles(self) -> float:
        return max(self.compute_cycles, self.memory_cycles)

    @property
    def intensity(self) -> float:
        """Operations per DRAM byte."""
        return 2 * self.macs / self.dram_bytes if self.dram_bytes else float("inf")


def roofline(machine: Machine, trace: Trace) -> Roofline:
    """What the trace's work costs at least on the whole part: nothing else than peak and bandwidth."""
    macs = moved = 0
    compute = 0.0
    for core, misses in zip(trace.cores, cache_misses(machine, trace), strict=True):
        for record, missing in zip(core.records, misses, strict=True):
            if not isinstance(record, TensorRecord):
                continue
            useful = useful_macs(record)
            macs += useful
            rates = [machine.core.mfu.macs_per_cycle.get(fmt.rate, 0) for fmt in record.formats[1:3]]
            if useful and all(rates):
                compute += useful / min(rates)
            moved += dram_traffic(record) if missing is None else missing
    return Roofline(macs, moved, compute / machine.cores, moved / machine.dram_bytes_per_cycle)


def dram_traffic(record: TensorRecord) -> int:
    """Bytes asked of DRAM, before granules."""
    return sum(r.bytes for r in (*record.reads, *record.writes) if split(r.address)[0] in DRAM_SPACES)


def unit_cycles(machine: Machine, trace: Trace) -> dict[str, int]:
    """Busy cycles per queue, the largest over the cores: a bound that no overlap can beat."""
    largest: dict[str, int] = {}
    for core in trace.cores:
        busy: dict[str, int] = {}
        for record in core.records:
            if isinstance(record, TensorRecord):
                busy[record.queue] = (
                    busy.get(record.queue, 0) + cost_of(machine, record, core.cluster).interval
                )
        for queue, cycles in busy.items():
            largest[queue] = max(largest.get(queue, 0), cycles)
    return largest


def gemm_candidates(
    machine: Machine, rate_format: str, element_bytes: int, m: Array, n: Array, k: Array
) -> Array:
    """Cycles of many products at once: the array's closed form or DRAM traffic, whichever is longer."""
    mfu = machine.core.mfu
    scale = mfu.rows * mfu.cols * mfu.count
    rate = mfu.macs_per_cycle[rate_format]
    m, n, k = (np.asarray(x, np.int64) for x in (m, n, k))
    if mfu.geometry == "adder-tree":
        steps = -(-(-(-k // mfu.rows) * -(-n // mfu.cols) * m) // mfu.count)
        compute = -(-steps * scale // rate) + 2 + (mfu.rows - 1).bit_length()
    elif mfu.geometry == "systolic-os":
        tiles = -(-(-(-m // mfu.rows) * -(-n // mfu.cols)) // mfu.count)
        compute = tiles * (-(-k * scale // rate) + mfu.rows + mfu.cols - 2) - 1
    else:
        tiles = -(-(-(-k // mfu.rows) * -(-n // mfu.cols)) // mfu.count)
        rows = -(-m * scale // rate)
        single = tiles * (2 * mfu.rows + mfu.cols + rows - 2) - 1
        double = mfu.rows + (tiles - 1) * np.maximum(rows, mfu.rows) + rows + mfu.rows + mfu.cols - 3
        compute = single if mfu.weight_buffers == 1 else double
    moved = (m * k + k * n + m * n) * element_bytes
    memory = np.ceil(moved / machine.dram_bytes_per_cycle).astype(np.int64)
    return np.asarray(np.maximum(compute, memory))
