"""Area by counted parts: multipliers, lanes and memory cells, at the part's process node.

Enters: a machine. Leaves: square millimetres per unit. Every figure is a default: operators synthesised at
45 nm, as tables beside Horowitz's energies print them (no reference of this project holds them), memories as
six-transistor cells of 0.346 um2 over an array efficiency of one half. All shrink with the node's square.
Control, wires, pads and input-output are not counted, so a die is larger; tests hold the parts below the
published dies.
"""

from __future__ import annotations

from dataclasses import dataclass

from trilobite.processor.machine import Machine

MULTIPLIER_UM2 = {
    "int4": 282 / 4,  # default: a quarter of the int8 multiplier
    "int8": 282,
    "int16": 4 * 282,  # default: four int8 multipliers
    "fp8": 1640 / 4,  # default: a quarter of the fp16 multiplier
    "fp16": 1640,
    "bf16": 1640,  # default: as fp16
    "tf32": 1640,  # default: as fp16, ten bits of fraction
    "fp32": 7700,
}
INTEGER_ADDER_UM2, FLOAT_ADDER_UM2 = 137, 4184  # 32 bits: what accumulates
CELL_UM2, ARRAY_EFFICIENCY = 0.346, 0.5


@dataclass(frozen=True)
class Area:
    """Square millimetres by unit, of the whole part."""

    mm2: dict[str, float]

    @property
    def total(self) -> float:
        return sum(self.mm2.values())


def area_of(machine: Machine) -> Area:
    """Units of every core and cluster; a matrix unit is as large as its dearest format makes it."""
    shrink = (machine.process_nm / 45) ** 2 * 1e-6
    core = machine.core
    macs = max(rate * _mac(name) for name, rate in core.mfu.macs_per_cycle.items())
    lanes = core.vfu.bytes_per_cycle / 4 * (MULTIPLIER_UM2["fp32"] + FLOAT_ADDER_UM2)
    cell = CELL_UM2 / ARRAY_EFFICIENCY * 8
    found = {
        "matrix": macs * machine.cores,
        "vector": lanes * machine.cores,
        "nram": (0 if core.pool_kib else core.nram.bytes) * cell * machine.cores,
        "wram": (0 if core.pool_kib else core.wram.bytes) * cell * machine.cores,
        "pool": core.pool_kib * 1024 * cell * machine.cores,
        "acc": core.acc.bytes * cell * machine.cores,
        "sram": machine.sram.bytes * cell * machine.clusters,
        "llc": machine.llc.kib * 1024 * cell,
        "fetch": core.fetch.kib * 1024 * cell * machine.cores,
    }
    return Area({unit: um2 * shrink for unit, um2 in found.items() if um2})


def _mac(name: str) -> float:
    return MULTIPLIER_UM2[name] + (INTEGER_ADDER_UM2 if name.startswith("int") else FLOAT_ADDER_UM2)
