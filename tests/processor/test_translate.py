"""Translated scalar code gives the registers, memory, counts and faults of the interpreter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from trilobite.base.errors import ProcessorFault
from trilobite.processor.device import Device
from trilobite.processor.isa.assembler import assemble_program
from trilobite.processor.isa.disassembler import instruction_text
from trilobite.processor.isa.encode import Instruction, unlawful
from trilobite.processor.isa.table import TABLE
from trilobite.processor.sim import chip as chip_module
from trilobite.processor.sim import emit
from trilobite.processor.sim import translate as translate_module
from trilobite.processor.sim.chip import Chip
from trilobite.processor.sim.kernels import KERNELS

WAYS = ((False, False), (True, False), (True, True))  # translated, ahead of time
EDGES = [
    *(0, 1, 2, 7, 31, 63, 64, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF),
    *(1 << 63, (1 << 64) - 1, (1 << 63) - 1, 0x3FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000001),
    *(0x3C00, 0xBC01, 0x7C00, 0xFC00, 0x7E01, 0x0001, 0x83FF, 0x7BFF, 0x3F80, 0x7F80, 0x7FC1, 0x4049),
    *(0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00001, 0x4F000000, 0xCF000001),
    *(0x477FF000, 0x477FEFFF, 0x33000000, 0x33000001, 0x3F808000, 0x3F818000, 0x3F808001),
]


def run_both(
    source: str, arguments=(), monkeypatch=None, machine: str = "dlp-s", data: np.ndarray | None = None
):
    """The program interpreted, translated from its first instruction on, and stepped through; the last."""
    results = []
    source_program = assemble_program(source)
    for translate, ahead in WAYS:
        program = replace(source_program, ahead=ahead)
        device = Device(machine)
        array = device.array(data.copy()) if data is not None else None
        words = [array.address if array is not None else 0, *arguments]
        if translate:
            monkeypatch.setattr(chip_module, "TRANSLATE_AFTER", 0)
            monkeypatch.setattr(translate_module, "HEAT", 1)
        execution = Chip(device.machine, device.memory, KERNELS, translate).execute(program, 0, words)
        pads = device.memory.pad("N", 0, 0).tobytes()
        results.append((array.numpy().tobytes() if array is not None else b"", pads, execution))
    (data_a, pad_a, a), *others = results
    for data_b, pad_b, b in others:
        assert data_a == data_b and pad_a == pad_b
        assert a.instructions == b.instructions
        assert a.trace.cores[0].records == b.trace.cores[0].records
    return b


def scalar_rows():
    for row in TABLE:
        if row.queue != "scalar" or row.mnemonic in ("SLOAD", "SSTORE", "ATOMIC", "CAS"):
            continue
        for formats in row.formats or ((),):
            for flag in row.flags[0].choices if row.flags else ("",):
                flags = (flag,) if row.flags else ()
                if emit.can_emit(row.mnemonic, formats, flags):
                    yield row, formats, flags


def test_every_translated_instruction_on_edge_values(rng, monkeypatch) -> None:
    """All rows and formats that are translated, each on edge and random values, stored for comparison."""
    lines, place = [], 0
    for row, formats, flags in scalar_rows():
        for _ in range(3):
            registers, values = [], []
            for _ in row.registers:
                registers.append(10 + len(registers))
                values.append(
                    int(rng.choice(np.array(EDGES, np.uint64)))
                    if rng.random() < 0.6
                    else int(rng.integers(1 << 63))
                )
            immediate = (
                int(rng.choice([0, 1, -1, 5, 0x3F800000, 0x7F800000, -(1 << 31)])) if row.immediate else 0
            )
            instruction = Instruction(row, tuple(registers), formats, flags, immediate)
            assert unlawful(instruction) is None
            lines += [f"LI ${register}, #{value}" for register, value in zip(registers, values, strict=True)]
            lines += [instruction_text(instruction), f"SSTORE.u64 $10, $0, #{8 * place}"]
            place += 1
    assert place > 1200
    run_both("\n".join(lines), monkeypatch=monkeypatch, data=np.zeros(place, np.uint64))


LOOPS = """
    // nested loops, calls through registers, every width of memory access, in GDRAM, NRAM and LDRAM
    .data
    table: .word32 3, 1, 4, 1, 5
    .text
        LI $1, #nram(256)
        LI $2, #ldram(64)
        LA $3, table
        LA $9, add
        SMOVE $4, #200
    outer:
        SMOVE $5, #5
    inner:
        SADD $5, $5, #-1
        SSHL $6, $5, #2
        SADD $7, $6, $3
        SLOAD.i32 $8, $7, #0
        CALL $63, $9
        SADD $7, $6, $1
        SLOAD.u16 $10, $7, #2
        SSTORE.i16 $11, $7, #0
        SSTORE.f32 $11, $2, #4
        SLOAD.f32 $12, $2, #4
        SSTORE.u8 $12, $0, #17
        SLOAD.i8 $13, $0, #17
        BGE #skip, $13, $10
        SADD $14, $14, #1
    skip:
        CBNZ #inner, $5
        SADD $4, $4, #-1
        CB #outer, $4
        SSTORE.i64 $11, $0, #0
        SSTORE.i64 $14, $0, #8
        SMOVE $1, #3
        LI $15, #nram(0)
        VSET.i32 $15, $1, #9     // a tensor instruction between two stretches of scalar code
        SLOAD.i32 $16, $15, #8
        SSTORE.i32 $16, $0, #20
        JUMP #end
    add: SADD $11, $11, $8
        RET $63
    end: HALT
"""


def test_loops_calls_and_memory(monkeypatch) -> None:
    execution = run_both(LOOPS, monkeypatch=monkeypatch, data=np.zeros(4, np.int64))
    assert execution.instructions > 15_000


@pytest.mark.parametrize("size", [1, 3, 8])
def test_programs_in_parts(size: int, monkeypatch) -> None:
    """A large program is compiled part by part, and goes on in the next where one ends."""
    made = []
    compiled = translate_module.Translation._compile
    monkeypatch.setattr(translate_module, "PART", size)
    monkeypatch.setattr(
        translate_module.Translation, "_compile", lambda self, part: (made.append(part), compiled(self, part))
    )
    execution = run_both(LOOPS, monkeypatch=monkeypatch, data=np.zeros(4, np.int64))
    assert execution.instructions > 15_000 and len(made) > 2


def test_code_that_is_passed_once_is_not_compiled(monkeypatch) -> None:
    made = []
    monkeypatch.setattr(translate_module.Translation, "_compile", lambda self, part: made.append(part))
    monkeypatch.setattr(chip_module, "TRANSLATE_AFTER", 0)
    program = assemble_program("\n".join(["SADD $1, $1, #1"] * (2 * translate_module.PART + 1)))
    device = Device("dlp-s")
    Chip(device.machine, device.memory, KERNELS, True).execute(program, 0, [0])
    assert not made


def test_faults_are_the_interpreters(monkeypatch) -> None:
    for body, message in (
        ("SLOAD.i32 $2, $0, #4096", "are in no allocated block"),
        ("LI $1, #nram(0x80000)\nSLOAD.u8 $2, $1, #0", "reach outside the nram"),
        ("LI $1, #nram(2)\nSSTORE.i32 $2, $1, #0", "is not aligned to the 4 bytes of i32"),
        ("LI $1, #code(0)\nSSTORE.i32 $2, $1, #0", "code+0x0 was given where"),
        ("SMOVE $1, #99\nJUMP $1", "the program jumps to instruction 99"),
        ("SREAD $1, #77", "there is no special register 77"),
    ):
        texts = []
        for translate, ahead in WAYS:
            monkeypatch.setattr(chip_module, "TRANSLATE_AFTER", 0)
            device = Device("dlp-s")
            array = device.array(np.zeros(4, np.int32))
            program = assemble_program(".data\n.word32 1\n.text\nSADD $3, $3, #1\n" + body)
            program = replace(program, ahead=ahead)
            with pytest.raises(ProcessorFault) as caught:
                Chip(device.machine, device.memory, KERNELS, translate).execute(program, 0, [array.address])
            texts.append(str(caught.value))
        assert texts[0] == texts[1] == texts[2] and message in texts[0]


def test_random_straight_code(rng, monkeypatch) -> None:
    rows = list(scalar_rows())
    lines = [f"LI ${register}, #{int(rng.integers(1 << 62))}" for register in range(1, 40)]
    for _ in range(1500):
        row, formats, flags = rows[int(rng.integers(len(rows)))]
        registers = tuple(int(rng.integers(1, 40)) for _ in row.registers)
        immediate = int(rng.integers(-(1 << 31), 1 << 31)) if row.immediate else 0
        lines.append(instruction_text(Instruction(row, registers, formats, flags, immediate)))
    lines += [f"SSTORE.u64 ${register}, $0, #{8 * register}" for register in range(1, 40)]
    run_both("\n".join(lines), monkeypatch=monkeypatch, data=np.zeros(40, np.uint64))


def test_slices_end_at_the_same_instruction(monkeypatch) -> None:
    """Interleaving is canonical: a polling core yields after the same number of instructions either way."""
    source = """
        SREAD $1, #taskId
        CBZ #poll, $1
        SMOVE $2, #20000
        work: SADD $2, $2, #-1
        CB #work, $2
        SSTORE.i64 $1, $0, #0
        HALT
        poll: SADD $3, $3, #1
        SLOAD.i64 $4, $0, #0
        CBZ #poll, $4
        SSTORE.i64 $3, $0, #8
    """
    monkeypatch.setattr(chip_module, "SLICE", 5000)
    monkeypatch.setattr(chip_module, "TRANSLATE_AFTER", 0)
    seen = []
    for translate, ahead in WAYS:
        device = Device("dlp-m")
        state = device.array(np.zeros(2, np.int64))
        program = replace(assemble_program(source), ahead=ahead)
        Chip(device.machine, device.memory, KERNELS, translate).execute(
            program, 0, [state.address], (2, 1, 1)
        )
        seen.append(state.numpy().tolist())
    assert seen[0] == seen[1] == seen[2] and seen[0][1] > 1000
