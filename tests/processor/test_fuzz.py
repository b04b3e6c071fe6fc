"""Random lawful instructions on random registers: they work or fault by name, and never end otherwise."""

from __future__ import annotations

import random

import numpy as np

from trilobite.base.errors import ProcessorFault
from trilobite.processor.device import Device
from trilobite.processor.isa.address import address
from trilobite.processor.isa.encode import Instruction, unlawful
from trilobite.processor.isa.program import Program
from trilobite.processor.isa.row import Operand, Row
from trilobite.processor.isa.table import TABLE
from trilobite.processor.sim.chip import Chip
from trilobite.processor.sim.kernels import KERNELS
from trilobite.processor.sim.run import Run

RANDOM = random.Random(4)
NUMBERS = set("n m k s mask p count start step value".split())
ODD = (0, (1 << 64) - 1, (1 << 64) - 3, 1 << 40, 1 << 62, 0xDEADBEEFCAFEF00D)


def register(operand: Operand) -> int:
    """$0 to $17 hold addresses, $18 to $31 numbers."""
    if operand.fields:
        return RANDOM.randrange(18, 32)
    if operand.name in NUMBERS or operand.kind == "out":
        return RANDOM.randrange(18, 32)
    return RANDOM.choice([*range(10)] * 3 + [*range(10, 14)] * 3 + [*range(14, 32)])


def instruction(row: Row) -> Instruction:
    while True:
        immediate = RANDOM.choice([0, 1, 2, -1, 8, 64, RANDOM.randrange(-(1 << 31), 1 << 31)])
        found = Instruction(
            row,
            tuple(register(operand) for operand in row.registers),
            RANDOM.choice(row.formats) if row.formats else (),
            tuple(RANDOM.choice(flag.choices) for flag in row.flags),
            immediate if row.immediate else 0,
        )
        if unlawful(found) is None:
            return found


def values(base: int) -> list[int]:
    def number() -> int:
        return RANDOM.randrange(9) if RANDOM.random() < 0.93 else RANDOM.choice(ODD)

    spaces = ["N"] * 10 + ["W"] * 4 + ["S"] * 2
    places = [address(space, 64 * RANDOM.randrange(100)) for space in spaces]
    return [*places, base, base + 256, *(number() for _ in range(14))]


def test_instructions_work_or_fault_by_name() -> None:
    device = Device("dlp-m")
    array = device.array(np.random.default_rng(0).standard_normal(4096).astype(np.float32))
    worked: set[str] = set()
    for _ in range(6):
        for row in TABLE:
            program = Program((instruction(row),), b"%d of %s\0", {}, {}, ("fuzz",))
            chip = Chip(device.machine, device.memory, KERNELS, RANDOM.random() < 0.1)
            try:
                execution = chip.execute(program, 0, values(array.address), limit=500)
            except ProcessorFault as fault:
                assert "where: " in str(fault) and "remedy: " in str(fault)
                continue
            worked.add(row.mnemonic)
            run = Run(device.machine, program, execution)
            assert all(line.total == run.cycles for line in run.stalls)
    assert len(worked) > 100
