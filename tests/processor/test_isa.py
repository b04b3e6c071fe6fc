"""Encoding, assembling, linking, binaries: round trips, and refusals as text."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from trilobite.base.errors import AssemblyError
from trilobite.processor.isa import (
    Instruction,
    assemble,
    assemble_program,
    decode,
    encode,
    instruction_text,
    link,
)
from trilobite.processor.isa.binary import from_bytes, to_bytes
from trilobite.processor.isa.encode import unlawful
from trilobite.processor.isa.manual import manual
from trilobite.processor.isa.row import Row
from trilobite.processor.isa.table import FAMILIES, MNEMONICS, TABLE
from trilobite.processor.tools import commands

RANDOM = random.Random(20261115)


def lawful(row: Row) -> Instruction:
    """A random instruction of the row that the table allows."""
    while True:
        registers = tuple(RANDOM.randrange(64 - max(len(op.fields) - 1, 0)) for op in row.registers)
        formats = RANDOM.choice(row.formats) if row.formats else ()
        flags = tuple(RANDOM.choice(flag.choices) for flag in row.flags)
        immediate = RANDOM.randrange(-(1 << 31), 1 << 31) if row.immediate else 0
        found = Instruction(row, registers, formats, flags, immediate)
        if unlawful(found) is None:
            return found


def variants(row: Row):
    """For every field, every value of it, the other fields random."""
    base = lawful(row)
    for place in range(len(row.registers)):
        for register in range(64):
            registers = (*base.registers[:place], register, *base.registers[place + 1 :])
            yield Instruction(row, registers, base.formats, base.flags, base.immediate)
            base = lawful(row)
    for formats in row.formats:
        yield Instruction(row, base.registers, formats, base.flags, base.immediate)
        base = lawful(row)
    for place, flag in enumerate(row.flags):
        for choice in flag.choices:
            flags = (*base.flags[:place], choice, *base.flags[place + 1 :])
            yield Instruction(row, base.registers, base.formats, flags, base.immediate)
            base = lawful(row)
    if row.immediate:
        for value in [
            *(1 << bit for bit in range(31)),
            *(-(1 << bit) for bit in range(32)),
            0,
            (1 << 31) - 1,
        ]:
            yield Instruction(row, base.registers, base.formats, base.flags, value)
            base = lawful(row)


def test_every_value_of_every_field_survives_encoding_and_text() -> None:
    for row in TABLE:
        for instruction in variants(row):
            if unlawful(instruction):
                with pytest.raises(AssemblyError, match="cannot be encoded"):
                    encode(instruction)
                continue
            word = encode(instruction)
            assert 0 <= word < 1 << 64
            assert decode(word) == instruction
            again = assemble(instruction_text(instruction)).instructions[0]
            assert again == instruction, instruction_text(instruction)


def test_random_words_decode_or_say_why_not() -> None:
    refused = 0
    for _ in range(100_000):
        word = RANDOM.getrandbits(64)
        if RANDOM.random() < 0.7:  # half of all opcodes are unused: aim at rows, with sparse fields
            word = RANDOM.choice(TABLE).opcode << 55 | (word & RANDOM.getrandbits(64) & ((1 << 55) - 1))
        try:
            assert encode(decode(word)) == word
        except AssemblyError as error:
            refused += 1
            assert str(error).startswith(f"the word {word:#018x} is no instruction: ")
    assert 20_000 < refused < 100_000


def test_published_mnemonics_are_all_there() -> None:
    published = """JUMP CB SLOAD VLOAD MLOAD SSTORE VSTORE MSTORE SMOVE VMOVE MMOVE MMV VMM MMS OP MAM MSM
        VAV VSV VMV VDV VAS VEXP VLOG VDP RV VMAX VMIN VGT VE VAND VOR VNOT VGTM SADD SSUB SMUL SDIV SEXP
        SLOG SGT SE""".split()
    assert set(published) <= set(MNEMONICS)


def test_opcodes_are_places_in_families() -> None:
    assert [base for _, base, _ in FAMILIES] == sorted(base for _, base, _ in FAMILIES)
    assert len({row.opcode for row in TABLE}) == len(TABLE)
    assert MNEMONICS["VAV"][0].opcode == 0x0A0
    assert MNEMONICS["MM"][0].opcode == 0x1B2


PUBLISHED_MLP = """
// $0: input size, $1: output size, $2: matrix size
// $3: input address, $4: weight address, $5: bias address, $6: output address, $7-$10: temporaries
VLOAD  $3, $0, #100      // load input vector from address (100)
MLOAD  $4, $2, #300      // load weight matrix from address (300)
MMV    $7, $1, $4, $3, $0
VAV    $8, $1, $7, $5
VEXP   $9, $1, $8
VAS    $10, $1, $9, #1
VDV    $6, $1, $9, $10
VSTORE $6, $1, #200
"""


def test_the_papers_fragment_assembles_as_printed() -> None:
    program = assemble_program(PUBLISHED_MLP)
    assert [i.mnemonic for i in program.instructions] == "VLOAD MLOAD MMV VAV VEXP VAS VDV VSTORE".split()
    assert instruction_text(program.instructions[5]) == "VAS.f32 $10, $1, $9, #1.0"
    assert program.where(2) == "<text>:6"


def test_labels_constants_macros_sections() -> None:
    program = assemble_program("""
        .equ N, 4 * 8
        .format f16
        .entry start
        .nram
        x:  .space 2 * N
        y:  .space 2 * N
        .data
        table: .word32 1, -2, 0xFFFFFFFF
        message: .ascii "n = %d\\n"
        .text
        .macro COUNTDOWN register, to
        again\\@:
            SADD \\register, \\register, #-1
            CB #again\\@, \\register
            JUMP \\to
        .endm
        start:
            LI $1, #N
            LI $2, #0x123456789abcdef0
            LA $3, y + 2
            LA $4, message
            COUNTDOWN $1, #next
        next: COUNTDOWN $2, #start
            VAV $3, $1, $3, $3
        end: HALT""")
    texts = [instruction_text(i) for i in program.instructions]
    assert texts[0] == "SLI $1, #32"
    assert texts[1:3] == ["SLI $2, #-1698898192", "SLIH $2, $2, #305419896"]
    assert texts[3:5] == ["SLI $3, #66", "SLIH $3, $3, #33554432"]
    assert texts[7:10] == ["SADD.i64 $1, $1, #-1", "CB #.-1, $1", "JUMP #.+1"]
    assert texts[12] == f"JUMP #.{-12}"
    assert texts[13] == "VAV.f16 $3, $1, $3, $3"
    assert program.sizes["nram"] == 128
    assert program.entries == {"start": 0}
    assert program.data[:12] == bytes.fromhex("01000000feffffffffffffff")
    assert program.data[12:] == b"n = %d\n\0"
    assert program.address("y") == 0x0200000000000040
    assert program.address("message") == 0x060000000000000C


def test_linking_resolves_across_units_and_refuses_what_is_missing() -> None:
    caller = assemble(".entry main\nmain: CALL $63, #double\nLA $5, buffer\nHALT", "main.s")
    callee = assemble(".global double, buffer\n.nram\npad: .space 100\nbuffer: .space 8\n.text\n"
                      "local: NOP\ndouble: SADD $1, $1, $1\nRET $63", "lib.s")  # fmt: skip
    program = link([caller, callee])
    assert program.instructions[0].immediate == 5
    assert program.instructions[1].immediate == 100
    assert program.where(5) == "lib.s:7"
    assert set(program.symbols) == {"main", "double", "buffer"}
    with pytest.raises(AssemblyError, match=r"there is no symbol 'double'\n  where: main[.]s:2"):
        link([caller])
    with pytest.raises(AssemblyError, match="the symbol 'buffer' is defined twice"):
        link([callee, callee])
    with pytest.raises(AssemblyError, match="'x' is data, not code"):
        assemble_program(".nram\nx: .space 8\n.text\nJUMP #x")


@pytest.mark.parametrize(("text", "message"), [
    ("VADD $1, $2, $3, $4", "there is no instruction VADD\n  where: k.s:1: VADD $1, $2, $3, $4\n"
     "  expected: a mnemonic of the manual\n  remedy: did you mean VPAD?"),
    ("VAV $1, $2, $3", "VAV has no form with these operands\n  where: k.s:1: VAV $1, $2, $3\n"
     "  expected: VAV $dst, $n, $a, $b\n  remedy: give registers as $n, numbers as #n"),
    ("VAV.f8 $1, $2, $3, $4", "VAV has no suffix .f8"),
    ("VEXP.i32 $1, $2, $3", "VEXP: no such formats: i32"),
    ("VAV $1, $64, $3, $4", "'$64' is no register"),
    ("MM $1, $2, $3, $62, $4", "MM: the run run would reach from $62 to $64, beyond $63"),
    ("MM.i8.i8.i8.acc $1, $2, $3, $4, $5", "MM: integer products accumulate in i32 or i64, not in i8"),
    ("SADD $1, $2, #0x1FFFFFFFF", "the immediate 8589934591 needs more than 32 bits"),
    ("SADD $1, $2, #1.5", "an immediate is 1.5"),
    ("SADD $1, $2, #SIZE", "there is no constant 'SIZE'"),
    ("SADD $1, $2, #__import__('os')", "is not allowed in a number"),
    ("LI $1, #1 << 70", "a shift takes whole numbers, by 0 to 64 places"),
    ("LI $1, #2 / 0", "integer division or modulo by zero"),
    ("x: NOP\nx: NOP", "'x' is defined twice\n  where: k.s:2"),
    (".nrom", "there is no directive .nrom"),
    (".nram\nVAV $1, $2, $3, $4", "an instruction cannot stand in .nram"),
    (".data\n.word8 300", "300 does not fit .word8"),
    (".word8 3", "values cannot be placed in .text"),
    (".format f17", "there is no format 'f17'"),
    (".entry main", "'main' is declared but there is no such label"),
    (".macro A\nA\n.endm\nA", "the text grows beyond all bounds"),
    (".macro A x\n.endm\nA", "the macro takes 1 arguments, not 0"),
    (".macro A", "the macro A does not end"),
])  # fmt: skip
def test_faulty_text_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(AssemblyError) as caught:
        assemble(text, "k.s")
    assert message in str(caught.value)


def test_binary_round_trip_and_damage() -> None:
    unit = assemble(
        ".entry f\n.nram\nx: .space 12\n.data\n.float 1.5, -2\n.text\nf: LA $1, x\nCB #f, $1\nHALT", "f.s"
    )
    raw = to_bytes(unit)
    again = from_bytes(raw)
    assert again == unit
    assert [i.line for i in again.instructions] == [i.line for i in unit.instructions]
    assert to_bytes(again) == raw
    for place in RANDOM.sample(range(len(raw)), 40):
        broken = bytearray(raw)
        broken[place] ^= 1 << RANDOM.randrange(8)
        with pytest.raises(AssemblyError, match="this is no processor binary"):
            from_bytes(bytes(broken))
    for length in (0, 7, 48, len(raw) - 1):
        with pytest.raises(AssemblyError, match="this is no processor binary"):
            from_bytes(raw[:length])


def test_commands_and_manual(tmp_path: Path) -> None:
    source = tmp_path / "k.s"
    source.write_text("start: SADD $1, $1, #-1\nCB #start, $1\nCALL $63, #elsewhere\nHALT\n")
    assert commands.asm(str(source)).endswith("k.dlp: 4 instructions, 0 bytes of constants, 1 symbols\n")
    text = commands.disasm(str(tmp_path / "k.dlp"))
    assert (
        text
        == (
            "start:\n    SADD.i64 $1, $1, #-1\n    CB #start, $1\n"
            "    CALL $63, #start    // needs elsewhere\n    HALT\n"
        )
        or "// needs elsewhere" in text
    )
    with pytest.raises(AssemblyError, match="cannot be read"):
        commands.asm(str(tmp_path / "none.s"))
    page = Path(__file__).parents[2] / "docs" / "isa.md"
    assert page.read_text() == manual(), "regenerate docs/isa.md"
