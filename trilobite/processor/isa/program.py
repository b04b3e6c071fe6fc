"""Objects, symbols, relocations, and the linker that makes a program of them.

Enters: `ObjectFile`s from the assembler or from binaries. Leaves: a `Program`, ready to run: decoded
instructions, constants, sizes of the static arrays in each memory, symbols with their final addresses,
source lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trilobite.base.errors import AssemblyError
from trilobite.processor.isa.address import LETTERS, address
from trilobite.processor.isa.encode import Instruction

ALIGN = 64
RESERVED_SECTIONS = ("nram", "wram", "sram", "ldram", "acc")  # static arrays without initial values
SECTIONS = ("text", "data", *RESERVED_SECTIONS)


@dataclass(frozen=True)
class Symbol:
    """A place in a section: an instruction number in `text`, a byte offset elsewhere."""

    section: str
    offset: int
    is_global: bool = False
    is_entry: bool = False


@dataclass(frozen=True)
class Relocation:
    """`target`: distance from this instruction; `low`, `high`: halves of the symbol's address plus addend."""

    place: int
    kind: str
    symbol: str
    addend: int = 0


@dataclass
class ObjectFile:
    """One translation unit: what the assembler writes and the linker reads."""

    instructions: list[Instruction] = field(default_factory=list)
    data: bytearray = field(default_factory=bytearray)
    sizes: dict[str, int] = field(default_factory=dict)
    symbols: dict[str, Symbol] = field(default_factory=dict)
    relocations: list[Relocation] = field(default_factory=list)
    source: str = "<text>"


@dataclass(frozen=True, eq=False)
class Program:
    """Linked and ready. `sources` gives the file of each instruction, `Instruction.line` the line in it."""

    instructions: tuple[Instruction, ...]
    data: bytes
    sizes: dict[str, int]
    symbols: dict[str, Symbol]
    sources: tuple[str, ...]
    frame: int | None = None  # bytes of NRAM that the stack takes, where the compiler knows
    device_data: bytes = b""  # what begins in device memory; a launch passes its address behind the arguments
    messages: Mapping[int, str] = field(default_factory=dict)  # what a TRAP says, by its place
    origins: tuple[Any, ...] = ()  # what a compiler says each instruction came from, if it says anything
    ahead: bool = False  # whether it runs as machine code from its first instruction: a compiler wrote it
    tabled: frozenset[str] = frozenset()  # entries that take one pointer to a table of their arguments
    aligned: bool = field(default=True, kw_only=True)  # an element between multiples of its size is a fault

    @property
    def entries(self) -> dict[str, int]:
        return {name: symbol.offset for name, symbol in self.symbols.items() if symbol.is_entry}

    def where(self, place: int) -> str:
        """Source file and line of an instruction, for messages."""
        if not 0 <= place < len(self.instructions):
            return "outside the program"
        return f"{self.sources[place]}:{self.instructions[place].line}"

    def origin(self, place: int) -> Any:
        """What a compiler said that an instruction came from, or None."""
        return self.origins[place] if 0 <= place < len(self.origins) else None

    def address(self, name: str) -> int:
        """The final address of a symbol (an instruction number for code)."""
        return symbol_address(self.symbols[name])


def symbol_address(symbol: Symbol) -> int:
    if symbol.section == "text":
        return symbol.offset
    return address(LETTERS["code" if symbol.section == "data" else symbol.section], symbol.offset)


def link(objects: Sequence[ObjectFile]) -> Program:
    """Lays the sections of all objects behind each other and resolves every relocation."""
    program_symbols: dict[str, Symbol] = {}
    instructions: list[Instruction] = []
    sources: list[str] = []
    data = bytearray()
    sizes = dict.fromkeys(RESERVED_SECTIONS, 0)
    placed = []
    for unit in objects:
        data.extend(bytes(-len(data) % ALIGN))
        bases = {"text": len(instructions), "data": len(data)}
        for section in RESERVED_SECTIONS:
            bases[section] = -(-sizes[section] // ALIGN) * ALIGN
            if unit.sizes.get(section):
                sizes[section] = bases[section] + unit.sizes[section]
        if len(objects) == 1 and "pool" in unit.sizes:  # what its compiler has seen in use at one time
            sizes["pool"] = unit.sizes["pool"]
        local = {name: replace(s, offset=s.offset + bases[s.section]) for name, s in unit.symbols.items()}
        _publish(local, program_symbols, unit.source, len(objects) == 1)
        placed.append((unit, bases["text"], local))
        instructions.extend(unit.instructions)
        sources.extend([unit.source] * len(unit.instructions))
        data.extend(unit.data)
    for unit, base, local in placed:
        for relocation in unit.relocations:
            place = base + relocation.place
            symbol = local.get(relocation.symbol) or program_symbols.get(relocation.symbol)
            instructions[place] = _resolve(instructions[place], place, relocation, symbol, unit.source)
    return Program(tuple(instructions), bytes(data), sizes, program_symbols, tuple(sources))


def _publish(local: dict[str, Symbol], seen: dict[str, Symbol], source: str, alone: bool) -> None:
    """Global symbols and entries meet in one table; a program of one object shows its local ones as well."""
    for name, symbol in local.items():
        if not (symbol.is_global or symbol.is_entry or alone):
            continue
        if name in seen:
            raise AssemblyError(
                f"the symbol {name!r} is defined twice",
                where=source,
                expected="one definition",
                remedy="rename one of them or do not declare it .global",
            )
        seen[name] = symbol


def _resolve(
    instruction: Instruction, place: int, relocation: Relocation, symbol: Symbol | None, source: str
) -> Instruction:
    where = f"{source}:{instruction.line}"
    if symbol is None:
        raise AssemblyError(
            f"there is no symbol {relocation.symbol!r}",
            where=where,
            expected="a label of this unit, or a .global symbol of another",
            remedy="define it, or link the object that does",
        )
    if relocation.kind == "target":
        if symbol.section != "text":
            raise AssemblyError(
                f"{relocation.symbol!r} is data, not code",
                where=where,
                expected="a label in .text",
                remedy="jump to a label",
            )
        return replace(instruction, immediate=symbol.offset + relocation.addend - place)
    value = symbol_address(symbol) + relocation.addend
    half = value & 0xFFFFFFFF if relocation.kind == "low" else value >> 32
    return replace(instruction, immediate=half - (1 << 32) if half >> 31 else half)
