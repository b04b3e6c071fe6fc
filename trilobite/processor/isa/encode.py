"""Instructions to 64-bit words and back.

Two layouts, told apart by the opcode's row:

    without immediate   opcode 9 | flags 10 | format 5 x 3 | register 6 x 5
    with immediate      opcode 9 | format 5 | register 6 x 3 | immediate 32

Fields a row does not use are zero; a word in which they are not is refused, so each instruction has one word.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from trilobite.base.errors import AssemblyError
from trilobite.processor.isa.formats import BY_CODE, Format
from trilobite.processor.isa.row import Row
from trilobite.processor.isa.table import BY_OPCODE, OPCODE_BITS

WORD_BYTES = 8
OPCODE_SHIFT = 64 - OPCODE_BITS
FLAG_SHIFT, FLAG_BITS = 45, 10
GPRS = 64


@dataclass(frozen=True)
class Instruction:
    """One decoded instruction. Registers stand in the order of the row's register operands."""

    row: Row
    registers: tuple[int, ...] = ()
    formats: tuple[Format, ...] = ()
    flags: tuple[str, ...] = ()
    immediate: int = 0
    line: int = field(default=0, compare=False)

    @property
    def mnemonic(self) -> str:
        return self.row.mnemonic


def encode(instruction: Instruction) -> int:
    """The word of a lawful instruction; an `AssemblyError` otherwise."""
    wrong = unlawful(instruction)
    if wrong:
        raise AssemblyError(
            f"{instruction.mnemonic} cannot be encoded: {wrong}",
            expected=instruction.row.line,
            remedy="see the instruction in the manual",
        )
    row = instruction.row
    word = row.opcode << OPCODE_SHIFT
    if row.immediate:
        word |= (instruction.formats[0].code if instruction.formats else 0) << 50
        for place, register in enumerate(instruction.registers):
            word |= register << (44 - 6 * place)
        return word | instruction.immediate & 0xFFFFFFFF
    word |= _flag_bits(row, instruction.flags) << FLAG_SHIFT
    for place, fmt in enumerate(instruction.formats):
        word |= fmt.code << (40 - 5 * place)
    for place, register in enumerate(instruction.registers):
        word |= register << (24 - 6 * place)
    return word


def _flag_bits(row: Row, choices: tuple[str, ...]) -> int:
    bits, shift = 0, 0
    for flag, choice in zip(row.flags, choices, strict=True):
        bits |= flag.choices.index(choice) << shift
        shift += flag.bits
    return bits


def unlawful(instruction: Instruction) -> str | None:
    """Why the table forbids this instruction, or None."""
    row = instruction.row
    if len(instruction.registers) != len(row.registers):
        return f"{len(instruction.registers)} registers where {len(row.registers)} are named"
    wrong = _unlawful_registers(instruction)
    if wrong:
        return wrong
    if row.formats and instruction.formats not in _lawful_formats(row.opcode):
        return "no such formats: " + ".".join(fmt.name for fmt in instruction.formats)
    if not row.formats and instruction.formats:
        return "it takes no format"
    if len(instruction.flags) != len(row.flags):
        return f"{len(instruction.flags)} flags where {len(row.flags)} are named"
    for flag, choice in zip(row.flags, instruction.flags, strict=True):
        if choice not in flag.choices:
            return f"{choice!r} is no choice of {flag.name}"
    if not -(1 << 31) <= instruction.immediate < 1 << 32:
        return f"the immediate {instruction.immediate} needs more than 32 bits"
    named = dict(zip((flag.name for flag in row.flags), instruction.flags, strict=True))
    return row.unlawful(instruction.formats, named) if row.unlawful else None


def _unlawful_registers(instruction: Instruction) -> str | None:
    for operand, register in zip(instruction.row.registers, instruction.registers, strict=True):
        if not 0 <= register < GPRS:
            return f"there is no register ${register}"
        if register + len(operand.fields) > GPRS:
            last = register + len(operand.fields) - 1
            return f"the run {operand.name} would reach from ${register} to ${last}, beyond $63"
    return None


@lru_cache(maxsize=512)
def _lawful_formats(opcode: int) -> frozenset[tuple[Format, ...]]:
    return frozenset(BY_OPCODE[opcode].formats)


def decode(word: int, where: object = None) -> Instruction:
    """The instruction of a word; an `AssemblyError` that says which field is wrong if there is none."""
    row = BY_OPCODE.get(word >> OPCODE_SHIFT)
    if row is None:
        raise _no_instruction(word, f"there is no opcode {word >> OPCODE_SHIFT:#x}", where)
    if row.immediate:
        instruction = _decode_immediate(row, word, where)
    else:
        instruction = _decode_registers(row, word, where)
    wrong = unlawful(instruction)
    if wrong:
        raise _no_instruction(word, f"{row.mnemonic}: {wrong}", where)
    if encode(instruction) != word:
        raise _no_instruction(word, f"{row.mnemonic}: bits are set that the instruction does not use", where)
    return instruction


def _no_instruction(word: int, what: str, where: object) -> AssemblyError:
    return AssemblyError(
        f"the word {word:#018x} is no instruction: {what}",
        where=where,
        expected="a word that the encoder writes",
        remedy="check that these bytes are code, and of this version of the ISA",
    )


def _formats(word: int, row: Row, codes: list[int], where: object) -> tuple[Format, ...]:
    if any(code not in BY_CODE for code in codes):
        raise _no_instruction(word, f"{row.mnemonic}: there is no format of code {codes}", where)
    return tuple(BY_CODE[code] for code in codes)


def _decode_immediate(row: Row, word: int, where: object) -> Instruction:
    codes = [word >> 50 & 31] if row.formats else []
    registers = tuple(word >> (44 - 6 * place) & 63 for place in range(len(row.registers)))
    value = word & 0xFFFFFFFF
    immediate = value - (1 << 32) if value >> 31 else value
    return Instruction(row, registers, _formats(word, row, codes, where), (), immediate)


def _decode_registers(row: Row, word: int, where: object) -> Instruction:
    codes = [word >> (40 - 5 * place) & 31 for place in range(row.format_fields)]
    registers = tuple(word >> (24 - 6 * place) & 63 for place in range(len(row.registers)))
    flags, bits = [], word >> FLAG_SHIFT & ((1 << FLAG_BITS) - 1)
    for flag in row.flags:
        number = bits & ((1 << flag.bits) - 1)
        if number >= len(flag.choices):
            raise _no_instruction(word, f"{row.mnemonic}: {flag.name} has no choice {number}", where)
        flags.append(flag.choices[number])
        bits >>= flag.bits
    return Instruction(row, registers, _formats(word, row, codes, where), tuple(flags))
