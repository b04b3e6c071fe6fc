"""What a checker found, as text: what is wrong, the instructions with core and source line, the remedy.

Enters: cores at an instruction. Leaves: `Finding`s, and `CheckFailed`, the error that a checked launch ends
with when there are any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trilobite.base.errors import ProcessorFault
from trilobite.processor.isa.disassembler import instruction_text
from trilobite.processor.isa.program import Program
from trilobite.processor.sim.core import Core
from trilobite.processor.sim.memory import Place

_SCALAR = {"SLOAD": "a scalar read", "SSTORE": "a scalar write", "CBZ": "a branch", "CBNZ": "a branch"}
SHOWN = 20  # findings that the error's text spells out


@dataclass(frozen=True)
class Site:
    """One instruction on one core, in one queue."""

    core: Place
    queue: str
    instruction: int
    text: str
    line: str

    def __str__(self) -> str:
        return f"{core_text(self.core)}, {self.queue} queue, {self.text} ({self.line})"


@dataclass(frozen=True)
class Finding:
    """One error of a program. `kind` is race, uninitialised or stack."""

    kind: str
    what: str
    sites: tuple[Site, ...]
    expected: str
    remedy: str

    def __str__(self) -> str:
        names = ("first", "second") if len(self.sites) == 2 else ("where",) * len(self.sites)
        lines = [self.what, *(f"  {name}: {site}" for name, site in zip(names, self.sites, strict=True))]
        return "\n".join([*lines, f"  expected: {self.expected}", f"  remedy: {self.remedy}"])


class CheckFailed(ProcessorFault):
    """The launch ran to its end, but the checkers have findings."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = list(findings)
        texts = [str(finding) for finding in findings[:SHOWN]]
        if len(findings) > SHOWN:
            texts.append(f"and {len(findings) - SHOWN} more")
        head = "" if len(findings) == 1 else f"the checkers found {len(findings)} errors\n"
        super().__init__(head + "\n".join(texts))


def core_text(place: Place) -> str:
    kind = "memory core" if place.is_memory_core else f"core {place.core}"
    return f"cluster {place.cluster} {kind}"


def site(program: Program, core: Place, queue: str, instruction: int) -> Site:
    text = f"instruction {instruction}: {instruction_text(program.instructions[instruction])}"
    note = getattr(program, "notes", {}).get(instruction)
    if note is not None and note.name:
        text = note.name
    elif any(
        other.name for other in getattr(program, "notes", {}).values()
    ):  # BANG C: its reader wrote no CBZ
        text = _SCALAR.get(program.instructions[instruction].mnemonic, "scalar code")
    return Site(core, queue, instruction, text, program.where(instruction))


def site_of(core: Core, queue: str) -> Site:
    """The instruction that a core is at."""
    assert core.program is not None
    return site(core.program, core.place, queue, core.pc)
