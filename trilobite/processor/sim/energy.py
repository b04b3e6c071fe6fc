"""Energy by action counts: what was done, times what one action costs at the part's process node.

Enters: a machine, a trace, a time. Leaves: joules per unit and in all. Costs are Horowitz's at 45 nm and
0.9 V (ISSCC 2014); those marked `between` are interpolated from them by us. On-chip costs are scaled to the
part's node by (nm / 45) ** 0.57, which takes the published int8 and fp32 multipliers from 45 to 7 nm within
a tenth; DRAM is not scaled. A scratchpad access costs what one of its banks costs. Idle power is the part's
published figure, if any.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log

from trilobite.processor.isa.address import split
from trilobite.processor.isa.row import ACC, CODE, GDRAM, LDRAM, NRAM, SRAM, WRAM, Region
from trilobite.processor.machine import Machine
from trilobite.processor.machine.description import Scratchpad, SharedMemory
from trilobite.processor.sim.record import ScalarRecord, TensorRecord, Trace
from trilobite.processor.sim.timing.cost import dram_bytes, useful_macs

NODE_EXPONENT = 0.57
# picojoules at 45 nm of one multiply-accumulate: the multiplier and the adder of its accumulator
MAC_PJ = {
    "int4": 0.05 + 0.1,  # between: a quarter of the int8 multiplier
    "int8": 0.2 + 0.1,
    "int16": 0.8 + 0.1,  # between: four int8 multipliers
    "fp8": 0.3 + 0.9,  # between: an int4 multiplier with exponents
    "fp16": 1.1 + 0.9,
    "bf16": 1.1 + 0.9,  # between: as fp16
    "tf32": 1.1 + 0.9,  # between: as fp16, ten bits of fraction
    "fp32": 3.7 + 0.9,
}
LANE_PJ_PER_BYTE = 0.9 / 4  # an fp32 addition a four-byte lane; more passes count as more bytes
SCALAR_PJ = 20.0  # between: fetch, decode and a 64-bit operation
SRAM_POINTS = ((8, 10.0), (32, 20.0), (1024, 100.0))  # KiB, pJ a 64-bit access
DRAM_PJ_PER_BYTE = 1300.0 / 8  # the lower end of the published range


@dataclass
class Energy:
    """Joules by unit. `total` includes the idle power over the launch's time."""

    joules: dict[str, float] = field(default_factory=dict)

    def add(self, unit: str, picojoules: float) -> None:
        self.joules[unit] = self.joules.get(unit, 0.0) + picojoules * 1e-12

    @property
    def total(self) -> float:
        return sum(self.joules.values())


def bank_pj_per_byte(pad: Scratchpad | SharedMemory) -> float:
    """Straight between the published points on logarithmic axes, and on beyond them."""
    size = pad.bytes / 1024 / pad.banks
    low, high = (
        (SRAM_POINTS[0], SRAM_POINTS[1]) if size <= SRAM_POINTS[1][0] else (SRAM_POINTS[1], SRAM_POINTS[2])
    )
    slope = log(high[1] / low[1]) / log(high[0] / low[0])
    return float(low[1] * (size / low[0]) ** slope / 8)


def energy_of(machine: Machine, trace: Trace, seconds: float) -> Energy:
    """Dynamic energy of every action of the trace, and idle energy over the time."""
    result = Energy()
    scale = (machine.process_nm / 45) ** NODE_EXPONENT
    core = machine.core
    pads: dict[str, Scratchpad | SharedMemory] = {
        NRAM: core.nram,
        WRAM: core.wram,
        ACC: core.acc,
        SRAM: machine.sram,
    }
    access = {space: bank_pj_per_byte(pad) * scale for space, pad in pads.items() if pad.bytes}
    for traced in trace.cores:
        for record in traced.records:
            if isinstance(record, ScalarRecord):
                result.add("scalar", SCALAR_PJ * scale * sum(record.counts))
            elif isinstance(record, TensorRecord):
                _units(result, record, scale)
                for is_write, regions in ((False, record.reads), (True, record.writes)):
                    for region in regions:
                        _memory(result, machine, region, is_write, access)
    result.add("idle", machine.power.idle_watts * seconds * 1e12)
    return result


def _units(result: Energy, record: TensorRecord, scale: float) -> None:
    macs = useful_macs(record)
    if macs:
        rate = max((MAC_PJ[fmt.rate] for fmt in record.formats[1:3]), default=0.0)
        result.add("matrix", macs * rate * scale)
    elif record.queue == "vector":
        widest = max((region.bytes for region in (*record.reads, *record.writes)), default=0)
        result.add("vector", LANE_PJ_PER_BYTE * scale * record.work.get("bytes", widest))


def _memory(
    result: Energy, machine: Machine, region: Region, is_write: bool, access: dict[str, float]
) -> None:
    space = split(region.address)[0]
    if space in (GDRAM, LDRAM, CODE):
        result.add("dram", DRAM_PJ_PER_BYTE * dram_bytes(machine, region, is_write))
    elif space in access:
        result.add(
            {NRAM: "nram", WRAM: "wram", ACC: "acc", SRAM: "sram"}[space], access[space] * region.bytes
        )
