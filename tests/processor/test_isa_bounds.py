"""Assembly, instructions and binaries at the bounds of what is allowed: one step further is refused."""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trilobite.base.errors import AssemblyError
from trilobite.processor.isa import Instruction, assemble, assemble_program, instruction_text, link
from trilobite.processor.isa.binary import HEADER, MAGIC, SECTION, VERSION, from_bytes, load, to_bytes
from trilobite.processor.isa.disassembler import listing
from trilobite.processor.isa.encode import unlawful
from trilobite.processor.isa.program import ObjectFile
from trilobite.processor.isa.table import MNEMONICS

# what is taken, what is refused, and the words of the refusal
PAIRS = [
    (".equ A, 1\n.equ B, 2", ".equ A, 1\n.equ A, 2", "'A' cannot be defined here"),
    (".data\nB: .word8 1\n.equ A, 2", ".data\nA: .word8 1\n.equ A, 2", "'A' cannot be defined here"),
    (".equ A1, 1", ".equ 1A, 1", "'1A' cannot be defined here"),
    (".nram\n.space 0", ".nram\n.space -1", "a size of -1 bytes"),
    (".nram\n.space 8", ".text\n.space 8", "bytes cannot be reserved in .text"),
    (".data\n.space 8", ".nram\n.word8 8", "values cannot be placed in .nram"),
    (".data\n.word8 255", ".data\n.word8 256", "256 does not fit .word8"),
    (".data\n.word8 -128", ".data\n.word8 -129", "-129 does not fit .word8"),
    ('.data\n.ascii "a\\"b"', '.data\n.ascii "a"b"', "a text stands in double quotes"),
    ('.data\n.ascii ""', ".data\n.ascii a", "a text stands in double quotes"),
    ("LI $1, #5", "LI $1", "LI takes 2 operands, not 1"),
    ("LI $1, #5", "LI $1, #5, #6", "LI takes 2 operands, not 3"),
    (f"LI $1, #{(1 << 64) - 1}", f"LI $1, #{1 << 64}", "needs more than 64 bits"),
    (f"LI $1, #{-(1 << 63)}", f"LI $1, #{-(1 << 63) - 1}", "needs more than 64 bits"),
    ("a: LA $1, a", "a: LA $1", "LA takes a register and a symbol"),
    ("a: JUMP #a", "a: JUMP #+", "is no label"),
    (".equ A, 1 << 64", ".equ A, 1 << 65", "a shift takes whole numbers, by 0 to 64 places"),
    (".equ A, 8 >> 0", ".equ A, 8 >> -1", "a shift takes whole numbers, by 0 to 64 places"),
    (".equ A, 8 << 2", ".equ A, 8.0 << 2", "a shift takes whole numbers, by 0 to 64 places"),
    (".equ A, 7 % 4", ".equ A, 7 ** 4", "this operator is not allowed"),
    (".equ A, nram(0)", ".equ A, nram(-1)", "takes an offset, and perhaps a cluster and a core"),
    (".equ A, nram(1, 0, 0)", ".equ A, nram(1, 0, 0, 0)", "takes an offset, and perhaps a cluster"),
    (".equ A, nram(1)", ".equ A, nram()", "takes an offset, and perhaps a cluster and a core"),
    (".equ A, nram(1)", ".equ A, nram(1.0)", "takes an offset, and perhaps a cluster and a core"),
    (".macro M\n.endm\n.macro N\n.endm", ".macro M\n.endm\n.macro M\n.endm", "a macro needs a new name"),
    (".macro M\n.endm", ".macro\n.endm", "a macro needs a new name"),
]  # fmt: skip


@pytest.mark.parametrize(("right", "wrong", "said"), PAIRS, ids=[wrong for _, wrong, _ in PAIRS])
def test_text_at_its_bounds(right: str, wrong: str, said: str) -> None:
    assemble(right)
    with pytest.raises(AssemblyError, match=re.escape(said)):
        assemble(wrong)


@pytest.mark.parametrize(
    ("value", "words"),
    [(0, 1), ((1 << 31) - 1, 1), (1 << 31, 2), ((1 << 32) - 1, 2), (-1, 1), (-(1 << 31), 1),
     (-(1 << 31) - 1, 2), ((1 << 64) - 1, 1), (1 << 63, 2), ((1 << 64) - (1 << 31), 1)],
)  # fmt: skip
def test_a_constant_takes_a_second_word_only_where_its_sign_does_not_say_it(value: int, words: int) -> None:
    found = assemble(f"LI $7, #{value}").instructions
    assert len(found) == words
    low = found[0].immediate
    high = found[1].immediate if words == 2 else low >> 31  # what SLI leaves above, by its sign
    assert ((high << 32) | (low & 0xFFFFFFFF)) & ((1 << 64) - 1) == value & ((1 << 64) - 1)
    assert all(i.registers[0] == 7 for i in found)


def test_numbers_of_data_are_little_endian_and_negative_ones_wrap() -> None:
    made = assemble(".data\n.word8 255, -1\n.word16 258\n.align 8\n.word32 -2\n.ascii \"a\\n\"")  # fmt: skip
    assert bytes(made.data) == b"\xff\xff\x02\x01" + b"\0" * 4 + struct.pack("<i", -2) + b"a\n\0"


def test_what_the_table_forbids_in_an_instruction() -> None:
    (good,) = assemble("VAV.f32 $3, $1, $4, $5").instructions
    assert unlawful(good) is None
    count = len(good.registers)
    assert unlawful(replace(good, registers=good.registers[1:])) == (
        f"{count - 1} registers where {count} are named"
    )
    width = len(good.row.registers[0].fields)
    at_end = replace(good, registers=(64 - max(width, 1), *good.registers[1:]))
    assert unlawful(at_end) is None
    for register in (-1, 64):
        found = unlawful(replace(good, registers=(register, *good.registers[1:])))
        assert found == f"there is no register ${register}"
    assert unlawful(replace(good, flags=(*good.flags, "x"))) == (
        f"{len(good.flags) + 1} flags where {len(good.flags)} are named"
    )
    plain = next(r for rows in MNEMONICS.values() for r in rows if not r.formats and not r.registers)
    bare = replace(
        good, row=plain, registers=(), formats=(), flags=tuple(f.choices[0] for f in plain.flags)
    )  # fmt: skip
    assert unlawful(bare) is None
    assert unlawful(replace(bare, formats=good.formats)) == "it takes no format"
    for value, fits in ((-(1 << 31), True), (-(1 << 31) - 1, False), ((1 << 32) - 1, True), (1 << 32, False)):
        found = unlawful(replace(good, immediate=value))
        assert (found is None) == fits, value
        assert fits or found == f"the immediate {value} needs more than 32 bits"


def test_a_flag_that_is_no_choice() -> None:
    row = next(r for rows in MNEMONICS.values() for r in rows if r.flags)
    first = tuple(f.choices[0] for f in row.flags)
    made = Instruction(row, tuple(0 for _ in row.registers), row.formats[0] if row.formats else (), first)
    wrong = replace(made, flags=("nothing", *first[1:]))
    assert unlawful(wrong) == f"'nothing' is no choice of {row.flags[0].name}"


# -- binaries -----------------------------------------------------------------------------------------------

SOURCE = """
.entry main
.data
X: .word8 3
.text
main: LA $1, X
      JUMP #main
"""


def packed(parts: list[tuple[bytes, bytes]], version: int = VERSION, count: int | None = None) -> bytes:
    body = b"".join(SECTION.pack(tag, len(content)) + content for tag, content in parts)
    head = HEADER.pack(MAGIC, version, len(parts) if count is None else count, hashlib.sha256(body).digest())
    return head + body


def parts() -> list[tuple[bytes, bytes]]:
    raw = to_bytes(assemble(SOURCE, "x.s"))[HEADER.size :]
    found, place = [], 0
    while place < len(raw):
        tag, size = SECTION.unpack_from(raw, place)
        place += SECTION.size
        found.append((tag, raw[place : place + size]))
        place += size
    return found


def changed(tag: bytes, by: Callable[[bytes], bytes]) -> bytes:
    return packed([(name, by(content) if name == tag else content) for name, content in parts()])


def meta(**entries: Any) -> bytes:
    def by(content: bytes) -> bytes:
        table = json.loads(content)
        table.update(entries)
        return json.dumps({k: v for k, v in table.items() if v is not None}).encode()

    return changed(b"META", by)


SYMBOL = {"section": "text", "offset": 0, "is_global": False, "is_entry": True}
RELOCATION = {"place": 0, "kind": "low", "symbol": "X", "addend": 0}
DAMAGED = {
    "it does not begin as one": [b"", packed(parts())[: HEADER.size - 1], b"X" + packed(parts())[1:]],
    f"it has version {VERSION + 1}": [packed(parts(), VERSION + 1)],
    f"it has version {VERSION - 1}": [packed(parts(), VERSION - 1)],
    "its checksum is wrong": [packed(parts())[:-1], packed(parts()) + b"x"],
    "it ends too early": [
        packed(parts(), count=4),
        HEADER.pack(MAGIC, VERSION, 1, hashlib.sha256(b := SECTION.pack(b"TEXT", 9) + b"12345678").digest())
        + b,
        HEADER.pack(MAGIC, VERSION, 1, hashlib.sha256(b := SECTION.pack(b"TEXT", 0)[:-1]).digest()) + b,
    ],
    "sections are missing or left over": [
        packed(parts()[:2]),
        packed(parts()[1:]),
        packed(parts(), count=3 - 1),
        packed([*parts(), (b"MORE", b"")], count=3),
    ],
    "the code is no whole number of words": [changed(b"TEXT", lambda c: c + b"\0")],
    "the line table does not fit the code": [
        meta(lines=[1]),
        meta(lines=[1] * 4),
        meta(lines="1, 2, 3"),
        changed(b"TEXT", lambda c: c[:-8]),
    ],
    "its tables cannot be read": [
        changed(b"META", lambda c: c[:-1]),
        changed(b"META", lambda c: b"[" * 99999),
    ],
    "tables are missing": [
        changed(b"META", lambda c: b"[]"),
        *(meta(**{name: None}) for name in ("source", "sizes", "symbols", "relocations", "lines")),
    ],
    "a table has entries of another kind": [
        meta(sizes=[]),
        meta(sizes={"nram": "many"}),
        meta(symbols=[1]),
        meta(symbols={"main": {**SYMBOL, "more": 1}}),
        meta(relocations=[[]]),
    ],
    "a symbol lies in an unknown section": [meta(symbols={"main": {**SYMBOL, "section": "heap"}})],
    "a relocation lies outside the code": [
        meta(relocations=[{**RELOCATION, "place": place}]) for place in (-1, 3)
    ],
}


@pytest.mark.parametrize("said", DAMAGED)
def test_a_binary_that_lies_is_refused_with_the_reason(said: str) -> None:
    for raw in DAMAGED[said]:
        with pytest.raises(AssemblyError, match=f"this is no processor binary: {re.escape(said)}"):
            from_bytes(raw)


def test_what_these_damages_start_from_is_taken(tmp_path: Path) -> None:
    unit = from_bytes(packed(parts()))
    assert len(unit.instructions) == 3 and bytes(unit.data) == b"\3" and unit.source == "x.s"
    assert [i.line for i in unit.instructions] == [6, 6, 7]
    assert from_bytes(meta(relocations=[{**RELOCATION, "place": 2}])).relocations[0].place == 2
    assert from_bytes(meta(sizes={"nram": 5})).sizes == {"nram": 5}
    (tmp_path / "x.bin").write_bytes(to_bytes(unit))
    assert to_bytes(load(tmp_path / "x.bin")) == to_bytes(unit) == packed(parts())
    with pytest.raises(AssemblyError, match=r"it cannot be read .*No such file"):
        load(tmp_path / "y.bin")


# -- programs -----------------------------------------------------------------------------------------------


def test_lines_of_instructions_and_what_lies_outside() -> None:
    program = assemble_program(SOURCE, "x.s")
    assert [program.where(i) for i in (-1, 0, 2, 3)] == [
        "outside the program", "x.s:6", "x.s:7", "outside the program",
    ]  # fmt: skip
    assert program.entries == {"main": 0} and program.address("main") == 0


def test_sections_of_several_objects_begin_at_multiples() -> None:
    """128 bytes are the unit of a place: what one object leaves open is not another's."""
    first = assemble(".nram\n.space 5\n.data\n.word8 1\n.text\nf: JUMP #f\n.global f", "a.s")
    second = assemble(".nram\ny: .space 7\n.data\nx: .word8 2\n.global x, y", "b.s")
    program = link([first, second])
    step = program.symbols["y"].offset
    assert step >= 64 and step & (step - 1) == 0 and program.sizes["nram"] == step + 7
    assert program.symbols["x"].offset == step == len(program.data) - 1 and program.data[step] == 2
    alone = ObjectFile(source="c.s", sizes={"nram": 9, "pool": 4})
    assert link([alone]).sizes["pool"] == 4 and link([alone]).sizes["nram"] == 9
    assert "pool" not in link([alone, first]).sizes


def test_a_listing_names_places_and_the_end() -> None:
    program = assemble_program("a: JUMP #a\nJUMP #b\nb:", "x.s")
    text = listing(program.instructions, {"a": 0, "also_a": 0, "b": 2}, {1: "c"})
    lines = text.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == ["a:", "b:"] and lines[-1] == "b:"
    assert [line.endswith("    // needs c") for line in lines] == [False, False, True, False]
    assert instruction_text(program.instructions[0], {0: "a"}, 0) in lines[1]
