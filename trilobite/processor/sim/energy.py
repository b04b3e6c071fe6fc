"""Energy by action counts: what was done, times what one action costs at the part's process node.

Enters: a machine, a trace, a time. Leaves: joules per unit and in all, and which of them rest on a default.
Costs are Horowitz's at 45 nm and 0.9 V (ISSCC 2014); where he gives none, ours are derived from his as the
entry says, and marked as defaults. On-chip costs are scaled to the
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
from trilobite.processor.sim.actions import scalar_actions, tensor_actions
from trilobite.processor.sim.record import TensorRecord, Trace
from trilobite.processor.sim.timing.caches import cache_misses
from trilobite.processor.sim.timing.cost import useful_macs
from trilobite.processor.sim.timing.dram import dram_bytes

NODE_EXPONENT = 0.57
REGISTER_ACCESSES = 4  # of an element's register file for a product: two operands, a sum read and written
PUBLISHED = "published"


@dataclass(frozen=True)
class Entry:
    """One action: its cost at 45 nm (DRAM: at any node), and where that comes from."""

    picojoules: float
    source: str = PUBLISHED


# a multiply-accumulate: the multiplier and the adder of its accumulator
MACS = {
    "int4": Entry(0.05 + 0.1, "default: a quarter of the int8 multiplier"),
    "int8": Entry(0.2 + 0.1),
    "int16": Entry(0.8 + 0.1, "default: four int8 multipliers"),
    "fp8": Entry(0.3 + 0.9, "default: an int4 multiplier with exponents"),
    "fp16": Entry(1.1 + 0.9),
    "bf16": Entry(1.1 + 0.9, "default: as fp16"),
    "tf32": Entry(1.1 + 0.9, "default: as fp16, ten bits of fraction"),
    "fp32": Entry(3.7 + 0.9),
}
LANE_BYTE = Entry(0.9 / 4, "default: an fp32 addition a four-byte lane; more passes count as more bytes")
SCALAR = Entry(20.0, "default: fetch, decode and a 64-bit operation")
DRAM_BYTE = Entry(1300.0 / 8)  # the lower end of the published range
SRAM_POINTS = ((8, 10.0), (32, 20.0), (1024, 100.0))  # KiB, pJ a 64-bit access; published


def energy_table(machine: Machine) -> list[tuple[str, float, str]]:
    """Every action of a machine: its name, picojoules at the machine's node, and where that comes from."""
    scale = (machine.process_nm / 45) ** NODE_EXPONENT
    rows = [(f"{name} multiply-accumulate", MACS[name].picojoules * scale, MACS[name].source)
            for name in machine.core.mfu.macs_per_cycle]  # fmt: skip
    rows.append(("vector byte", LANE_BYTE.picojoules * scale, LANE_BYTE.source))
    rows.append(("scalar instruction", SCALAR.picojoules * scale, SCALAR.source))
    for name, pad in (("nram", machine.core.nram), ("wram", machine.core.wram), ("acc", machine.core.acc),
                      ("sram", machine.sram)):  # fmt: skip
        if pad.bytes:
            source = "default: between the published sizes, a bank an access"
            rows.append((f"{name} byte", bank_pj_per_byte(pad) * scale, source))
    return [*rows, ("dram byte", DRAM_BYTE.picojoules, DRAM_BYTE.source)]


@dataclass
class Energy:
    """Joules by unit. `total` includes the idle power over the launch's time.

    `defaults` names the units whose cost is not published, with the reason for the figure taken.
    """

    joules: dict[str, float] = field(default_factory=dict)
    defaults: dict[str, str] = field(default_factory=dict)

    def add(self, unit: str, picojoules: float) -> None:
        self.joules[unit] = self.joules.get(unit, 0.0) + picojoules * 1e-12

    def spend(self, unit: str, entry: Entry, amount: float) -> None:
        """So many actions of one kind."""
        self.add(unit, entry.picojoules * amount)
        if entry.source != PUBLISHED:
            self.defaults[unit] = entry.source

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
    if core.pool_kib:
        pads[NRAM] = pads[WRAM] = Scratchpad(core.pool_kib, core.nram.banks)
    access = {space: bank_pj_per_byte(pad) * scale for space, pad in pads.items() if pad.bytes}
    cache = bank_pj_per_byte(SharedMemory(machine.llc.kib)) * scale if machine.llc.kib else 0.0
    scalars = scalar_actions(trace.cores)
    if scalars:
        result.spend("scalar", SCALAR, scale * scalars)
    for record, count in tensor_actions(trace.cores, machine.dram.granule_bytes):
        _units(result, machine, record, scale * count)
        for is_write, regions in ((False, record.reads), (True, record.writes)):
            for region in regions:
                _memory(result, machine, region, is_write, access, cache, count)
    if machine.llc.kib:
        missing = sum(sum(filter(None, misses)) for misses in cache_misses(machine, trace))
        result.spend("dram", DRAM_BYTE, missing)
    result.add("idle", machine.power.idle_watts * seconds * 1e12)
    if not machine.power.idle_watts:
        result.defaults["idle"] = "default: none is published, 0 is taken"
    return result


def switching_share(machine: Machine) -> float:
    """Of the multipliers' work, what is left where zeros are skipped (half of sparse weights) or gated."""
    mfu, activity = machine.core.mfu, machine.activity
    weights = 1.0 if mfu.zero_gating not in ("weights", "both") else 1 - activity.zero_weights
    inputs = 1.0 if mfu.zero_gating not in ("activations", "both") else 1 - activity.zero_activations
    return (0.5 if mfu.sparse else weights) * inputs


def _units(result: Energy, machine: Machine, record: TensorRecord, scale: float) -> None:
    macs = useful_macs(record)
    if macs:
        entries = [MACS[fmt.rate] for fmt in record.formats[1:3]]
        dearest = max(entries, key=lambda entry: entry.picojoules)
        done = macs * scale * switching_share(machine)
        result.spend("matrix", dearest, done)
        if machine.core.mfu.register_bytes:
            file = SharedMemory(1)
            each = bank_pj_per_byte(file) * (machine.core.mfu.register_bytes / file.bytes) ** 0.5
            result.add("registers", done * each * REGISTER_ACCESSES * record.formats[1].bits / 8)
            result.defaults["registers"] = "default: below the published sizes, by the root of the size"
    elif record.queue == "vector":
        widest = max((region.bytes for region in (*record.reads, *record.writes)), default=0)
        result.spend("vector", LANE_BYTE, scale * record.work.get("bytes", widest))


def _memory(
    result: Energy,
    machine: Machine,
    region: Region,
    is_write: bool,
    access: dict[str, float],
    cache: float,
    count: int,
) -> None:
    """So many times the access to a region."""
    space = split(region.address)[0]
    if space in (GDRAM, LDRAM, CODE) and cache:  # what misses the cache is counted by the record
        result.add("llc", cache * region.bytes * count)
        result.defaults["llc"] = "default: beyond the published sizes, one bank"
    elif space in (GDRAM, LDRAM, CODE):
        result.spend("dram", DRAM_BYTE, dram_bytes(machine, region, is_write) * count)
    elif space in access:
        name = {NRAM: "nram", WRAM: "wram", ACC: "acc", SRAM: "sram"}[space]
        result.add(name, access[space] * region.bytes * count)
