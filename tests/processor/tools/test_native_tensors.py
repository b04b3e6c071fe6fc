"""Tensor instructions that are judged in machine code: the findings, word for word, and the data of the
interpreted checkers, on loops of random instructions that are ordered, half ordered and not at all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from trilobite.processor.device import Device
from trilobite.processor.isa.assembler import assemble_program
from trilobite.processor.machine import load_machine
from trilobite.processor.sim import sites
from trilobite.processor.tools import checks as checks_module
from trilobite.processor.tools.findings import CheckFailed
from trilobite.processor.tools.native_tensors import TensorJudge

NEVER = 1 << 40

HEAD = """
    SREAD $41, #isMpu
    SREAD $42, #coreId
    LI $10, #nram(0)
    LI $11, #sram(0)
    LI $12, #nram(2048)
    LI $14, #nram(8192)
    SMOVE $13, $0
    SMOVE $15, $1
    {empty}
    SSHL $43, $42, #{share}
    SADD $13, $13, $43
    SADD $11, $11, $43
    SMOVE $8, #256
    VSET.i32 $10, $8, #5
    VSET.i32 $12, $8, #{bits}
    SYNC
    SMOVE $40, #{trips}
again:
"""
TAIL = """
    SADD $40, $40, #-1
    CB #again, $40
"""


def launch(source: str, monkeypatch, after: int, interlock: str = "none") -> tuple[list[str], list[bytes]]:
    """Findings as text and the data; in machine code after so many interpreted instructions."""
    monkeypatch.setattr(checks_module, "NATIVE_AFTER", after)
    device = Device(replace(load_machine("dlp-m"), interlock=interlock))
    rng = np.random.default_rng(4)
    arrays = [device.array(rng.integers(0, 99, size).astype(np.int32)) for size in (1024, 4096)]
    arrays.append(device.empty(1024, "int32"))
    found: list[str] = []
    try:
        device.launch(device.load(assemble_program(source)), arrays, (4, 1, 1), checks=True)
    except CheckFailed as error:
        found = [str(finding) for finding in error.findings]
    return found, [array.numpy().tobytes() for array in arrays]


PLACES = ("$10", "$11", "$12", "$13", "$14", "$15")
PAIRS = ("VAV", "VSV", "VMV", "VGTM")
WITH_SCALARS = ("VAS", "VMS", "VGTS", "VLTMS")
SCALARS = (0, 0x3F800000, 0x7F800000, 0x40490FDB, 0x80000000)  # 0, 1, infinity, 3.14, -0
ON_CHIP = ("$10", "$12", "$14")


def instruction(rng: np.random.Generator, number: int) -> str:
    """One instruction, or a few that belong together, with random places and sizes."""
    n = int(rng.choice([1, 3, 4, 8, 16, 31, 32, 48]))
    a, b, c = rng.choice(ON_CHIP, 3)
    to, source = rng.choice(PLACES, 2, replace=False)
    at = int(rng.choice([0, 0, 4, 64, 128, 132, 512]))
    moved = f"SADD $20, {a}, #{at}\nSMOVE $8, #{n}"
    return str(rng.choice([
        f"{moved}\nVSET.i32 $20, $8, #7",
        f"{moved}\nVAV.i32 $20, $8, {b}, {c}",
        f"{moved}\nVMOVE.i32 $20, $8, {b}",
        f"{moved}\n{rng.choice(PAIRS)}.f32 $20, $8, {b}, {c}",
        f"{moved}\nLI $9, #{rng.choice(SCALARS)}\n{rng.choice(WITH_SCALARS)}.f32 $20, $8, {b}, $9",
        f"SMOVE $8, #{8 * n}\nSMOVE $9, #{n}\nVCMV.f32 {a}, $8, {b}, {c}, $9",
        f"SMOVE $8, #{8 * n}\nSMOVE $9, #{n}\nVCAV.i32 {a}, $8, {b}, {c}, $9",
        f"SMOVE $8, #{n}\nVSUM.i32 {a}, $8, {b}",
        f"SMOVE $8, #{4 * n}\nSADD $20, {to}, #{at % 200}\nCOPY $20, {source}, $8",
        f"SMOVE $8, #{n}\nSMOVE $21, #{n + at % 5}\nSMOVE $22, #{2 * n}\nSMOVE $23, #5\n"
        f"COPY2 {to}, {source}, $8, $21",
        f"SSHL $5, $40, #2\nSADD $6, {a}, $5\nSLOAD.i32 $7, $6, #{at}",
        f"SSHL $5, $40, #2\nSADD $6, {a}, $5\nSSTORE.i32 $40, $6, #{at}",
        "SYNC", "SYNC", "SYNC.io", "SYNC.move", "SYNC.vector", "BARRIER.cluster",
        f"SMOVE $21, #1\nSMOVE $22, #{n % 8 + 1}\nSMOVE $23, #5\nVTRANS.i32 {a}, {b}, $21",
        f"SMOVE $8, #{n}\nVFILT.i32 {a}, $8, {b}, {c}, $7",
    ]))  # fmt: skip


def random_program(rng: np.random.Generator) -> str:
    """A loop of random instructions; the more SYNCs, the fewer findings."""
    synced = rng.random() < 0.5
    body: list[str] = []
    for number in range(int(rng.integers(4, 12))):
        body.append(instruction(rng, number))
        if synced:
            body.append("SYNC")
    empty = rng.choice(["", "SMOVE $15, $2"])
    head = HEAD.format(
        bits=int(rng.choice([0, 3, 0x7F800000])),
        empty=empty,
        share=int(rng.choice([0, 6, 8])),
        trips=int(rng.choice([3, 20])),
    )
    return head + "\n".join(body) + TAIL


@pytest.fixture(autouse=True)
def at_once(monkeypatch) -> None:
    """Every instruction gets its code when it is first met."""
    monkeypatch.setattr(sites, "HOT", 1)
    monkeypatch.setattr(sites, "FAMILIAR", 1)


@pytest.mark.parametrize("interlock", ["none", "ranges"])
@pytest.mark.parametrize("block", range(4))
def test_the_same_findings(block: int, interlock: str, monkeypatch) -> None:
    for seed in range(9 * block, 9 * block + 9):
        source = random_program(np.random.default_rng(seed))
        slow, slow_data = launch(source, monkeypatch, NEVER, interlock)
        fast, fast_data = launch(source, monkeypatch, 1, interlock)
        assert fast == slow, f"seed {seed}"
        assert fast_data == slow_data, f"seed {seed}"


def test_they_find_all_kinds(monkeypatch) -> None:
    judged = []
    original = TensorJudge.noted

    def noted(self):
        judged.append(len(original(self)))
        return original(self)

    monkeypatch.setattr(TensorJudge, "noted", noted)
    kinds: set[str] = set()
    clean = 0
    for seed in range(36):
        source = random_program(np.random.default_rng(seed))
        found, _ = launch(source, monkeypatch, 1)
        kinds |= {line.split(":")[0] for line in found}
        clean += not found
    assert {"read after write without order", "write after read without order",
            "write after write without order", "uninitialised bytes reach DRAM"} <= kinds  # fmt: skip
    assert clean > 3 and sum(judged) > 300


@pytest.mark.parametrize("written", [1, 5, 16, 31])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_missing_bytes_are_called_by_where_they_begin(written: int, steps: int, monkeypatch) -> None:
    """In the last round only the first elements of a source are written: behind some instructions, in DRAM,
    the findings name the same bytes as those of the interpreted checkers.
    """
    lines = ["SADD $14, $14, #128", "SADD $20, $14, #2048", "SLT $7, $40, #2",
             f"SMUL $7, $7, #{32 - written}",
             "SMOVE $8, #32", "SSUB $8, $8, $7", "VSET.i32 $14, $8, #7", "SMOVE $8, #32",
             "VAV.i32 $20, $8, $14, $10"]  # fmt: skip
    for step in range(1, steps):
        lines += [f"SADD $21, $14, #{2048 * (step + 1)}", "VMOVE.i32 $21, $8, $20", "SMOVE $20, $21"]
    lines += ["SMOVE $9, #128", "SYNC", "COPY $15, $20, $9", "SYNC"]
    source = HEAD.format(bits=3, empty="", share=0, trips=9) + "\n".join(lines) + TAIL
    slow, slow_data = launch(source, monkeypatch, NEVER)
    fast, fast_data = launch(source, monkeypatch, 1)
    assert slow == fast and slow_data == fast_data
    assert any("uninitialised bytes reach DRAM" in line for line in slow)
