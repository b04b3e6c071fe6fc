"""Tensor instructions inside translated code: the bytes, records, counts and faults of the meanings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.processor.timing_model import replay_by_model
from trilobite.base.errors import ProcessorFault
from trilobite.processor.device import Device
from trilobite.processor.isa.address import address
from trilobite.processor.isa.assembler import assemble_program
from trilobite.processor.isa.disassembler import instruction_text
from trilobite.processor.isa.encode import Instruction, unlawful
from trilobite.processor.isa.row import NRAM, WRAM
from trilobite.processor.isa.table import TABLE
from trilobite.processor.sim import chip as chip_module
from trilobite.processor.sim import sites
from trilobite.processor.sim.chip import Chip
from trilobite.processor.sim.kernels import KERNELS
from trilobite.processor.sim.log import Log
from trilobite.processor.sim.prepared import Prepared
from trilobite.processor.sim.timing.native import replay

FIRST = 10  # register of the first operand
INDEXED = ("VGATH", "VSCAT")  # random indices are faults


def candidates() -> list[Instruction]:
    found = []
    for row in TABLE:
        if not row.is_tensor:
            continue
        registers = tuple(range(FIRST, FIRST + len(row.registers)))
        for formats in row.formats or ((),):
            instruction = Instruction(
                row, registers, formats, tuple(flag.choices[0] for flag in row.flags), 0
            )
            site = None if unlawful(instruction) else sites.site_of(Prepared(instruction), 0)
            if site is not None and not site.is_formed and row.mnemonic not in INDEXED:
                found.append(instruction)
    return found


CANDIDATES = candidates()
COPIES = [instruction for instruction in CANDIDATES if instruction.row.timing == "dma"]


@pytest.fixture(autouse=True)
def from_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is translated and hot at once, and nobody watches."""
    monkeypatch.setattr(chip_module, "TRANSLATE_AFTER", 0)
    monkeypatch.setattr(sites, "HOT", 1)
    monkeypatch.setattr("trilobite.processor.device.Device.checks", False)


def lines_of(rng: np.random.Generator, instruction: Instruction, dram: int, operands_for: Any) -> list[str]:
    """The operands into their registers, then the instruction; some operands overlap."""
    row = instruction.row
    o = operands_for(rng, row, instruction.formats)
    size = max(1, instruction.formats[0].bits // 8) if instruction.formats else 1
    if row.mnemonic == "VFMA":  # elsewhere c is a size
        o.values["c"] = address(NRAM, 65536)
    if row.timing == "dma":
        near = WRAM if row.mnemonic in ("MLOAD", "MSTORE", "MMOVE") else NRAM
        o.values |= {"base": dram + size * int(rng.integers(0, 64))}
        for name in ("a", "dst"):
            o.values[name] = address(near, size * int(rng.integers(0, 200)))
    elif rng.random() < 0.4 and "b" in o.values:
        o.values["b"] = o.values["dst"] + size * int(rng.integers(0, 3))
    if rng.random() < 0.3 and "a" in o.values:
        o.values["a"] = o.values.get("dst", o.values["a"])
    immediate = int(rng.integers(-(1 << 20), 1 << 20)) if row.immediate and row.timing != "dma" else 0
    if row.immediate and row.timing == "dma":
        is_based = any(operand.name == "base" for operand in row.operands)
        immediate = size * int(rng.integers(0, 64)) + (0 if is_based else dram)
    made = Instruction(row, instruction.registers, instruction.formats, instruction.flags, immediate)
    loads = [f"LI ${register}, #{o.values[name]}" for name, register, _ in Prepared(made).fields]
    return [*loads, instruction_text(made)]


def run(source: str, seed: int, translate: bool, traced: bool = True) -> tuple[list[bytes], Any, Device]:
    device = Device("dlp-s")
    rng = np.random.default_rng(seed)
    data = device.array(rng.integers(0, 256, 1 << 16, dtype=np.uint8))
    pads = [device.memory.pad(space, 0, 0) for space in (NRAM, WRAM)]
    for pad in pads:
        pad[: 1 << 17] = rng.integers(0, 256, 1 << 17, dtype=np.uint8)
    chip = Chip(device.machine, device.memory, KERNELS if translate else {}, translate)
    program = replace(assemble_program(source), ahead=seed % 2 == 0)
    done = chip.execute(program, 0, [data.address], traced=traced)
    return [data.numpy().tobytes(), *(pad.tobytes() for pad in pads)], done, device


def dram_address() -> int:
    return Device("dlp-s").array(np.zeros(1, np.uint8)).address


@pytest.mark.parametrize("kind", ["all", "copies"])
def test_steps_are_the_meanings(kind: str, operands_for: Any) -> None:
    @given(seed=st.integers(0, 2**32), traced=st.booleans())
    @settings(deadline=None, max_examples=10, phases=[Phase.explicit, Phase.generate])
    def check(seed: int, traced: bool) -> None:
        noted.append(_compare(CANDIDATES if kind == "all" else COPIES, seed, traced, operands_for))

    noted: list[int] = []
    check()
    assert sum(noted) > 40  # the comparison would be hollow if nothing ran as a step


def _compare(pool: list[Instruction], seed: int, traced: bool, operands_for: Any) -> int:
    rng = np.random.default_rng(seed)
    base = dram_address()
    lines = ["SMOVE $5, #7", "loop:"]
    for number in rng.integers(0, len(pool), 8):
        lines += lines_of(rng, pool[number], base, operands_for)
        lines += [str(rng.choice(["SADD $6, $6, #1", "SYNC", "LI $7, #nram(64)\nSSTORE $6, $7, #8", "NOP"]))]
    source = "\n".join([*lines, "SADD $5, $5, #-1", "CB #loop, $5"])
    slow_bytes, slow, _ = run(source, seed, False, traced)
    fast_bytes, fast, device = run(source, seed, True, traced)
    assert fast_bytes == slow_bytes, source
    assert fast.instructions == slow.instructions
    assert fast.trace.cores[0].records == slow.trace.cores[0].records
    if traced:
        cycles = replay(device.machine, fast.trace).cycles
        assert cycles == replay_by_model(device.machine, slow.trace).cycles
    return sum(len(part.rows) for part in fast.trace.cores[0].parts if isinstance(part, Log))


def test_most_element_by_element_rows_are_steps() -> None:
    """The comparison above would be hollow if there were none."""
    assert len(CANDIDATES) > 800 and len(COPIES) > 80
    assert {c.mnemonic for c in CANDIDATES} >= {
        "VAV",
        "VFMA",
        "VSEL",
        "VCAV",
        "VRDS",
        "VLOAD",
        "MSTORE",
        "COPY",
    }


@pytest.mark.parametrize(
    "bad", ["LI $11, #nram(0x7fffc)", "LI $11, #nram(2)", "LI $11, #wram(0)", "LI $11, #-8"]
)
def test_faults_are_the_interpreters(bad: str) -> None:
    source = "\n".join([
        "LI $11, #nram(0)", "SMOVE $1, #8", "SMOVE $5, #40", "loop:", "VAV $11, $1, $11, $11",
        "SADD $5, $5, #-1", "SE $6, $5, #1", "CBZ #next, $6", bad, "next:", "CB #loop, $5",
    ])  # fmt: skip
    texts = []
    for translate in (False, True):
        with pytest.raises(ProcessorFault) as caught:
            run(source, 1, translate)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]


def test_a_log_longer_than_its_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trilobite.processor.sim.steps.ROOM", 7)
    source = "LI $11, #nram(0)\nSMOVE $1, #8\nSMOVE $5, #50\nloop:\n"
    source += "VAV $11, $1, $11, $11\nSADD $5, $5, #-1\nCB #loop, $5"
    slow_bytes, slow, _ = run(source, 3, False)
    fast_bytes, fast, _ = run(source, 3, True)
    assert fast_bytes == slow_bytes
    assert fast.trace.cores[0].records == slow.trace.cores[0].records
    assert sum(isinstance(part, Log) for part in fast.trace.cores[0].parts) > 3
