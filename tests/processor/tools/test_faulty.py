"""Faulty programs and their correct twins: each faulty one gets the right diagnosis, its twin none.

A program is one file of `faulty/`. Lines that begin with `-` stand only in the faulty program, lines with
`+` only in the twin; both keep their line numbers. `//!` lines say how it is launched and what must be
found:

    //! machine: dlp-m            default dlp-m
    //! task: union1 4            task type and number of tasks, default block 1
    //! args: random:f32:8x4, empty:f32:16, zeros:i32:1, 5
    //! twin args: ...            where the twin takes others
    //! word: 1 0xfff8...         replaces an instruction word of the faulty binary
    //! says: text                stands in the diagnosis; @1 is the number of the line that ends in //@1
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from trilobite.base.errors import TrilobiteError
from trilobite.processor.device import Device, Kernel
from trilobite.processor.isa.assembler import assemble
from trilobite.processor.isa.binary import HEADER, SECTION, from_bytes, to_bytes
from trilobite.processor.isa.program import Program, link
from trilobite.processor.tools.arguments import argument
from trilobite.processor.tools.findings import CheckFailed

MARK = re.compile(r"@\d")
PROGRAMS = sorted((Path(__file__).parent / "faulty").glob("*.s"))


@dataclass
class Case:
    name: str
    faulty: str
    twin: str
    options: dict[str, str] = field(default_factory=dict)
    says: list[str] = field(default_factory=list)


def read(path: Path) -> Case:
    lines = path.read_text(encoding="utf-8").splitlines()
    case = Case(path.name, _variant(lines, "-", "+"), _variant(lines, "+", "-"))
    for line in lines:
        if line.startswith("//!"):
            name, _, value = line[3:].partition(":")
            if name.strip() == "says":
                case.says.append(MARK.sub(lambda match: str(_marked(lines, match[0])), value.strip()))
            else:
                case.options[name.strip()] = value.strip()
    return case


def _marked(lines: list[str], mark: str) -> int:
    return next(number for number, line in enumerate(lines, 1) if f"//{mark}" in line)


def _variant(lines: list[str], kept: str, dropped: str) -> str:
    """The lines of one of the two; the other's are empty, so that numbers stay."""
    return "\n".join(
        "" if line.startswith(dropped) else " " + line[1:] if line.startswith(kept) else line
        for line in lines
    )


def program(case: Case, text: str, word: str | None) -> Program:
    unit = assemble(text, case.name)
    if word is None:
        return link([unit])
    number, value = word.split()
    raw = bytearray(to_bytes(unit))
    at = HEADER.size + SECTION.size + 8 * int(number)
    raw[at : at + 8] = int(value, 16).to_bytes(8, "little")
    magic, version, count, _ = HEADER.unpack_from(raw)
    HEADER.pack_into(raw, 0, magic, version, count, hashlib.sha256(raw[HEADER.size :]).digest())
    return link([from_bytes(bytes(raw), case.name)])


def launch(case: Case, text: str, is_twin: bool, **options):
    device = Device(case.options.get("machine", "dlp-m"))
    task, tasks = case.options.get("task", "block 1").split()
    made = program(case, text, None if is_twin else case.options.get("word"))
    given = case.options.get("args", "")
    if is_twin:
        given = case.options.get("twin args", given)
    arguments = [argument(device, word) for word in given.split(",") if word.strip()]
    return device.launch(
        Kernel(made, "main"), arguments, dim=(int(tasks), 1, 1), task=task, limit=1_000_000, **options
    )


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_the_fault_is_named(path: Path) -> None:
    """And consequences are not reported as causes: one mistake gives findings of one kind, three at most."""
    case = read(path)
    assert case.says
    assert case.faulty != case.twin or "word" in case.options or "twin args" in case.options
    with pytest.raises(TrilobiteError) as caught:
        launch(case, case.faulty, is_twin=False, checks=True)
    for text in case.says:
        assert text in str(caught.value)
    assert not getattr(caught.value, "__notes__", [])
    if isinstance(caught.value, CheckFailed):
        assert len({finding.kind for finding in caught.value.findings}) == 1
        assert len(caught.value.findings) <= 3


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_the_twin_is_clean(path: Path) -> None:
    case = read(path)
    run = launch(case, case.twin, is_twin=True, checks=True)
    assert run.cycles > 0


def test_there_are_fifty() -> None:
    assert len(PROGRAMS) >= 50
