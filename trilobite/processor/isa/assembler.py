"""Assembly text to an object file.

    // comment                        label:   (several may stand before an instruction)
    .equ NAME, value                  .format f16          format of tensor instructions without a suffix
    .text .data .nram .wram .sram .ldram .acc              the section that follows
    .entry name      .global name     .align n
    .word8 .word16 .word32 .word64 .float .half .ascii     values in .data
    name: .space bytes                a static array in a memory section
    .macro NAME a, b ... .endm        \\a and \\b are replaced, \\@ is a number of its own for each use
    VAV.f16 $1, $2, $3, $4            mnemonic, suffixes, operands: $register, #immediate, #label
    LI $1, #value64                   SLI, and SLIH where the value needs it
    LA $1, symbol + 4                 the address of a symbol, as SLI and SLIH

Enters: text. Leaves: an `ObjectFile`; errors name file and line and show the line.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from difflib import get_close_matches

from trilobite.base.errors import AssemblyError
from trilobite.processor.isa.encode import Instruction, unlawful
from trilobite.processor.isa.expression import NotANumber, Number, UnknownName, evaluate
from trilobite.processor.isa.formats import BY_NAME, F32, Format
from trilobite.processor.isa.macros import Line, SourceError, expand
from trilobite.processor.isa.program import (
    RESERVED_SECTIONS,
    SECTIONS,
    ObjectFile,
    Program,
    Relocation,
    Symbol,
    link,
)
from trilobite.processor.isa.row import Operand, Row
from trilobite.processor.isa.rows.control import SPECIAL_REGISTERS
from trilobite.processor.isa.table import MNEMONICS

LABEL = re.compile(r"\s*([A-Za-z_.][\w.]*)\s*:")
SYMBOL = re.compile(r"([A-Za-z_.][\w.]*)\s*(?:([+-])\s*(\w+))?$")
DISTANCE = re.compile(r"\.([+-]\d+)$")
NUMBER_TYPES = {".word8": "b", ".word16": "h", ".word32": "i", ".word64": "q", ".float": "f", ".half": "e"}


def assemble(text: str, source: str = "<text>") -> ObjectFile:
    """One translation unit."""
    return _Assembler(source).run(text)


def assemble_program(text: str, source: str = "<text>") -> Program:
    """One unit, linked on its own."""
    return link([assemble(text, source)])


class _Assembler:
    """The state of one pass over the expanded lines; label distances are left to the linker."""

    def __init__(self, source: str) -> None:
        self.object = ObjectFile(source=source)
        self.constants: dict[str, Number] = {name: number for number, name in enumerate(SPECIAL_REGISTERS)}
        self.section = "text"
        self.default: Format = F32
        self.globals: set[str] = set()
        self.entries: set[str] = set()
        self.line = Line("", 0)
        self.directives: dict[str, Callable[[str], None]] = {
            ".equ": self._equ,
            ".format": self._format,
            ".entry": self._entry,
            ".global": self._global,
            ".align": self._align,
            ".space": self._space,
            ".ascii": self._ascii,
        }

    def run(self, text: str) -> ObjectFile:
        try:
            for self.line in list(expand(text)):
                self._line(self.line.text)
            self._finish()
        except SourceError as error:
            raise self._error(error) from None
        return self.object

    def _error(self, error: SourceError) -> AssemblyError:
        line = error.line or self.line
        where = f"{self.object.source}:{line.number}: {line.text.strip()}"
        return AssemblyError(error.what, where=where, expected=error.expected, remedy=error.remedy)

    def _line(self, text: str) -> None:
        while match := LABEL.match(text):
            self._label(match[1])
            text = text[match.end() :]
        words = text.split(None, 1)
        if not words:
            return
        head, rest = words[0], words[1].strip() if len(words) > 1 else ""
        if head.startswith("."):
            self._directive(head, rest)
        else:
            self._instruction(head, rest)

    def _label(self, name: str) -> None:
        if name in self.object.symbols or name in self.constants:
            raise SourceError(f"{name!r} is defined twice", "one definition", "rename one of them")
        self.object.symbols[name] = Symbol(self.section, self._here())

    def _here(self) -> int:
        if self.section == "text":
            return len(self.object.instructions)
        return len(self.object.data) if self.section == "data" else self.object.sizes.get(self.section, 0)

    def _directive(self, head: str, rest: str) -> None:
        if head[1:] in SECTIONS:
            self.section = head[1:]
        elif head in NUMBER_TYPES:
            self._numbers(head, rest)
        elif head in self.directives:
            self.directives[head](rest)
        else:
            known = [*self.directives, *NUMBER_TYPES, *("." + s for s in SECTIONS), ".macro", ".endm"]
            raise SourceError(
                f"there is no directive {head}", "one of " + " ".join(known), _near(head, known)
            )

    def _number(self, text: str) -> Number:
        try:
            return evaluate(text, self.constants)
        except NotANumber as error:
            raise SourceError(str(error), "a number or an expression of constants", "correct it") from None
        except UnknownName as error:
            remedy = _near(str(error), list(self.constants)) or "define it by .equ before this line"
            raise SourceError(f"there is no constant {str(error)!r}", "a constant", remedy) from None

    def _whole(self, text: str, what: str) -> int:
        value = self._number(text)
        if not isinstance(value, int):
            raise SourceError(f"{what} is {value}", "a whole number", "write it without a fraction")
        return value

    def _equ(self, rest: str) -> None:
        name, _, value = rest.partition(",")
        name = name.strip()
        if not name.isidentifier() or name in self.constants or name in self.object.symbols:
            raise SourceError(
                f"{name!r} cannot be defined here", "a new name and a value: .equ SIZE, 64", "rename it"
            )
        self.constants[name] = self._number(value)

    def _format(self, rest: str) -> None:
        if rest not in BY_NAME:
            raise SourceError(
                f"there is no format {rest!r}", "one of " + " ".join(BY_NAME), _near(rest, list(BY_NAME))
            )
        self.default = BY_NAME[rest]

    def _entry(self, rest: str) -> None:
        self.entries.add(rest)

    def _global(self, rest: str) -> None:
        self.globals.update(name.strip() for name in rest.split(","))

    def _align(self, rest: str) -> None:
        self._grow(-self._here() % max(1, self._whole(rest, "an alignment")))

    def _space(self, rest: str) -> None:
        self._grow(self._whole(rest, "a size"))

    def _grow(self, size: int) -> None:
        if size < 0:
            raise SourceError(f"a size of {size} bytes", "at least 0", "correct the size")
        if self.section == "data":
            self.object.data.extend(bytes(size))
        elif self.section in RESERVED_SECTIONS:
            self.object.sizes[self.section] = self._here() + size
        else:
            raise SourceError(
                "bytes cannot be reserved in .text", "a data or memory section", "write .nram first"
            )

    def _need_data(self) -> None:
        if self.section != "data":
            raise SourceError(f"values cannot be placed in .{self.section}", ".data", "write .data first")

    def _numbers(self, head: str, rest: str) -> None:
        self._need_data()
        code = NUMBER_TYPES[head]
        for item in rest.split(","):
            value = self._number(item)
            kind = code if value >= 0 or code in "fe" else code.lower()
            kind = kind.upper() if isinstance(value, int) and value >= 0 and code not in "fe" else kind
            try:
                self.object.data.extend(struct.pack("<" + kind, value))
            except (struct.error, OverflowError):
                raise SourceError(
                    f"{item.strip()} does not fit {head}", "a value of that size", "use a wider directive"
                ) from None

    def _ascii(self, rest: str) -> None:
        self._need_data()
        if not re.fullmatch(r'"(?:[^"\\]|\\.)*"', rest):
            raise SourceError("a text stands in double quotes", '.ascii "text\\n"', "quote it")
        body = rest[1:-1].encode("utf-8").decode("unicode_escape")
        self.object.data.extend(body.encode("latin-1", "replace") + b"\0")

    def _instruction(self, head: str, rest: str) -> None:
        if self.section != "text":
            raise SourceError(f"an instruction cannot stand in .{self.section}", ".text", "write .text first")
        name, *suffixes = head.split(".")
        words = _split(rest)
        if name == "LI":
            return self._load_immediate(words)
        if name == "LA":
            return self._load_address(words)
        if name not in MNEMONICS:
            raise SourceError(
                f"there is no instruction {name}", "a mnemonic of the manual", _near(name, list(MNEMONICS))
            )
        row = _choose(name, words)
        formats, flags = self._suffixes(row, suffixes)
        self._emit(row, words, formats, flags)

    def _emit(self, row: Row, words: list[str], formats: tuple[Format, ...], flags: tuple[str, ...]) -> None:
        registers, immediate = [], 0
        for operand, word in zip(row.operands, words, strict=True):
            if operand.kind == "target":
                immediate = self._target(word)
            elif operand.kind == "imm":
                immediate = self._immediate(row, formats, word)
            else:
                registers.append(_register(operand, word))
        if 1 << 31 <= immediate < 1 << 32:
            immediate -= 1 << 32  # 32 bits have one reading
        instruction = Instruction(row, tuple(registers), formats, flags, immediate, self.line.number)
        wrong = unlawful(instruction)
        if wrong:
            raise SourceError(f"{row.mnemonic}: {wrong}", row.line, "see the instruction in the manual")
        self.object.instructions.append(instruction)

    def _target(self, word: str) -> int:
        name = word.lstrip("#").strip()
        if match := DISTANCE.match(name):
            return int(match[1])
        if not SYMBOL.match(name):
            raise SourceError(f"{word!r} is no label", "#label", "write the name of a label")
        self.object.relocations.append(Relocation(len(self.object.instructions), "target", name))
        return 0

    def _immediate(self, row: Row, formats: tuple[Format, ...], word: str) -> int:
        body = word.lstrip("#").strip()
        is_float = bool(formats) and formats[0].kind == "float" and row.is_float_immediate
        if body.startswith("!"):
            return self._whole(body[1:], "an immediate")
        if is_float:
            return int(struct.unpack("<i", struct.pack("<f", _single(float(self._number(body)))))[0])
        return self._whole(body, "an immediate")

    def _suffixes(self, row: Row, suffixes: list[str]) -> tuple[tuple[Format, ...], tuple[str, ...]]:
        """Formats first, then flags in any order; what is left out takes its default."""
        count = 0
        while count < len(suffixes) and count < row.format_fields and suffixes[count] in BY_NAME:
            count += 1
        formats = tuple(BY_NAME[word] for word in suffixes[:count])
        flags = {flag.name: flag.choices[0] for flag in row.flags}
        for word in suffixes[count:]:
            owner = next((flag for flag in row.flags if word in flag.choices), None)
            if owner is None:
                known = [choice for flag in row.flags for choice in flag.choices if choice]
                raise SourceError(
                    f"{row.mnemonic} has no suffix .{word}",
                    "formats " + _formats_text(row) + (", then " + " ".join(known) if known else ""),
                    _near(word, known) or "remove it",
                )
            flags[owner.name] = word
        return self._complete(row, formats), tuple(flags.values())

    def _complete(self, row: Row, formats: tuple[Format, ...]) -> tuple[Format, ...]:
        """Left-out formats: the unit's default throughout where that is lawful, else the row's first."""
        if len(formats) == row.format_fields:
            return formats
        uniform = (formats or (self.default,))[:1] * row.format_fields
        if (uniform in row.formats and row.queue != "scalar") or (uniform in row.formats and formats):
            return uniform
        fitting = [lawful for lawful in row.formats if lawful[: len(formats)] == formats]
        if not fitting:
            raise SourceError(
                f"{row.mnemonic} does not take .{'.'.join(f.name for f in formats)}",
                "formats " + _formats_text(row),
                "see the instruction in the manual",
            )
        return fitting[0]

    def _load_immediate(self, words: list[str]) -> None:
        if len(words) != 2:
            raise SourceError(f"LI takes 2 operands, not {len(words)}", "LI $register, #value", "correct it")
        value = self._whole(words[1].lstrip("#"), "an immediate")
        if not -(1 << 63) <= value < 1 << 64:
            raise SourceError(f"{value} needs more than 64 bits", "a 64-bit value", "correct it")
        register = _register(Operand("rd", "out"), words[0])
        low, high = value & 0xFFFFFFFF, value >> 32 & 0xFFFFFFFF
        self._pair(register, low, high, needs_high=high != (0xFFFFFFFF if low >> 31 else 0))

    def _pair(self, register: int, low: int, high: int, needs_high: bool) -> None:
        def extend(value: int) -> int:
            return value - (1 << 32) if value >> 31 else value

        number = self.line.number
        self.object.instructions.append(
            Instruction(MNEMONICS["SLI"][0], (register,), immediate=extend(low), line=number)
        )
        if needs_high:
            row = MNEMONICS["SLIH"][0]
            self.object.instructions.append(
                Instruction(row, (register, register), immediate=extend(high), line=number)
            )

    def _load_address(self, words: list[str]) -> None:
        match = SYMBOL.match(words[1].lstrip("#")) if len(words) == 2 else None
        if match is None:
            raise SourceError(
                "LA takes a register and a symbol", "LA $register, symbol + offset", "correct it"
            )
        addend = self._whole((match[2] or "+") + (match[3] or "0"), "an offset")
        place = len(self.object.instructions)
        self.object.relocations += [
            Relocation(place, "low", match[1], addend),
            Relocation(place + 1, "high", match[1], addend),
        ]
        self._pair(_register(Operand("rd", "out"), words[0]), 0, 0, needs_high=True)

    def _finish(self) -> None:
        for name in self.globals | self.entries:
            symbol = self.object.symbols.get(name)
            if symbol is None or (name in self.entries and symbol.section != "text"):
                raise SourceError(
                    f"{name!r} is declared but there is no such label in .text",
                    f"a line {name}:",
                    "define it or remove the declaration",
                )
            self.object.symbols[name] = Symbol(symbol.section, symbol.offset, True, name in self.entries)


def _split(text: str) -> list[str]:
    """Operands at the commas outside parentheses."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts] if text else []


def _choose(name: str, words: list[str]) -> Row:
    """The form of a mnemonic whose operands are of the written kinds."""
    rows = MNEMONICS[name]
    written = [word.startswith("$") for word in words]
    for row in rows:
        if written == [operand.kind not in ("imm", "target") for operand in row.operands]:
            return row
    forms = "; or ".join(f"{name} " + ", ".join(_operand_text(op) for op in row.operands) for row in rows)
    raise SourceError(f"{name} has no form with these operands", forms, "give registers as $n, numbers as #n")


def _operand_text(operand: Operand) -> str:
    return f"#{operand.name}" if operand.kind in ("imm", "target") else f"${operand.name}"


def _register(operand: Operand, word: str) -> int:
    digits = word[1:]
    if not word.startswith("$") or not digits.isascii() or not digits.isdigit() or int(digits) > 63:
        raise SourceError(f"{word!r} is no register", "$0 to $63", "name one of the 64 registers")
    return int(digits)


def _single(value: float) -> float:
    """A float that struct can write as fp32: what is too large becomes infinite."""
    limit = 3.4028235677973366e38
    return float("inf") if value >= limit else float("-inf") if value <= -limit else value


def _formats_text(row: Row) -> str:
    names = [".".join(fmt.name for fmt in combination) for combination in row.formats]
    return " ".join(names[:12]) + (" ..." if len(names) > 12 else "") if names else "none"


def _near(word: str, known: list[str]) -> str:
    near = get_close_matches(word, known, 1)
    return f"did you mean {near[0]}?" if near else ""
