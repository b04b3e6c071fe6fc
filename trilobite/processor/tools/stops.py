"""Where a program is to be stopped: breakpoints and watchpoints, and the places they are named by.

Enters: text as a person writes it (a label, a line, an instruction number, an address). Leaves:
`Breakpoint`s and `Watchpoint`s, or an error that says what would be understood.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trilobite.base.errors import ArgumentError
from trilobite.processor.isa.expression import NotANumber, UnknownName, evaluate
from trilobite.processor.isa.program import Program, symbol_address
from trilobite.processor.sim.memory import Place
from trilobite.processor.tools.spans import Span

LINE = re.compile(r"(?:(?P<file>[^:]+):)?(?P<line>\d+)$")
REGISTER = re.compile(r"\$(\d+)")


@dataclass(frozen=True)
class Breakpoint:
    """Stops before any of these instructions; on one core only, if that is given."""

    number: int
    text: str
    instructions: frozenset[int]
    core: Place | None = None

    def holds(self, core: Place, instruction: int) -> bool:
        return instruction in self.instructions and self.core in (None, core)


@dataclass(frozen=True)
class Watchpoint:
    """Stops behind an instruction that wrote one of these bytes."""

    number: int
    text: str
    span: Span

    def touched(self, writes: Sequence[Span]) -> bool:
        return any(_meet(self.span, write) for write in writes)


def _meet(watched: Span, write: Span) -> bool:
    """Whether a strided write touches a byte of a contiguous span."""
    if write.key != watched.key or write.low >= watched.high or watched.low >= write.high:
        return False
    starts = [write.low]
    for extent, stride in write.axes:
        starts = [start + index * stride for start in starts for index in range(extent)]
    return any(start < watched.high and watched.low < start + write.row for start in starts)


def instructions_at(program: Program, text: str) -> frozenset[int]:
    """The instructions that `label`, `12`, `file.s:12` or `*7` (an instruction's number) name."""
    text = text.strip()
    if text.startswith("*"):
        return _by_number(program, text)
    symbol = program.symbols.get(text)
    if symbol is not None and symbol.section == "text" and symbol.offset < len(program.instructions):
        return frozenset((symbol.offset,))
    match = LINE.match(text)
    found = _by_line(program, match["file"], int(match["line"])) if match else frozenset()
    if not found:
        labels = sorted(name for name, symbol in program.symbols.items() if symbol.section == "text")
        raise ArgumentError(
            f"there is no code at {text!r}",
            expected="a label, a line that holds an instruction (12 or file.s:12), or *instruction",
            remedy="labels are " + ", ".join(labels) if labels else "name a line",
        )
    return found


def _by_number(program: Program, text: str) -> frozenset[int]:
    if not text[1:].isdecimal() or int(text[1:]) >= len(program.instructions):
        raise ArgumentError(
            f"there is no instruction {text[1:]!r}",
            expected=f"a number below {len(program.instructions)}",
            remedy="`list` shows them",
        )
    return frozenset((int(text[1:]),))


def _by_line(program: Program, file: str | None, line: int) -> frozenset[int]:
    """The first instruction of each run of instructions that the line became."""
    places = [
        place
        for place, instruction in enumerate(program.instructions)
        if instruction.line == line and file in (None, program.sources[place])
    ]
    return frozenset(place for place in places if place - 1 not in places)


def address_of(program: Program, text: str, registers: Sequence[int]) -> int:
    """An address as an expression: nram(64), a data symbol, $10, a number, and sums of them."""
    names: Mapping[str, int] = {
        name: symbol_address(symbol) for name, symbol in program.symbols.items() if symbol.section != "text"
    }
    spelled = REGISTER.sub(lambda match: str(registers[int(match[1]) & 63]), text)
    try:
        value = evaluate(spelled, names)
    except (NotANumber, UnknownName) as error:
        raise ArgumentError(
            f"{text!r} is no address: {error}",
            expected="nram(64), sram(0, 1), a symbol, $register, a number, or a sum of these",
            remedy="symbols are " + ", ".join(sorted(names)) if names else "write it as nram(offset)",
        ) from None
    if not isinstance(value, int):
        raise ArgumentError(f"{text!r} is {value}", expected="a whole number", remedy="correct it")
    return value & ((1 << 64) - 1)
