"""Instructions as the words that `scalar_step` executes.

Enters: prepared instructions, and which of them are sites. Leaves: a row of words for each. What has none is
left to the interpreter: floats, unsigned 64-bit order, atomics, barriers, prints, clocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from trilobite.processor.isa.formats import Array, Format
from trilobite.processor.isa.row import VALUE_FIELDS, signed
from trilobite.processor.isa.rows.control import SPECIAL_REGISTERS
from trilobite.processor.isa.rows.scalar import from_immediate
from trilobite.processor.sim import scalar_step as step
from trilobite.processor.sim.prepared import CLASS_NUMBER, Prepared
from trilobite.processor.sim.sites import Site

WHOLE = {"SADD": step.ADD, "SSUB": step.SUB, "SMUL": step.MUL, "SAND": step.AND, "SOR": step.OR,
         "SXOR": step.XOR, "SSHL": step.SHL, "SE": step.EQ, "SNE": step.NE, "SNOT": step.NOT,
         "SNEG": step.NEG}  # fmt: skip
ORDERED = {"SSHR": step.SHR, "SGT": step.GT, "SGE": step.GE, "SLT": step.LT, "SLE": step.LE,
           "SMAX": step.MAX, "SMIN": step.MIN, "SDIV": step.DIV, "SREM": step.REM,
           "SABS": step.ABS}  # fmt: skip
BRANCHES = {"CB": step.IF_ABOVE, "CBZ": step.IF_EQUAL, "CBNZ": step.IF_OTHER, "BEQ": step.IF_EQUAL,
            "BNE": step.IF_OTHER, "BLT": step.IF_LESS, "BGE": step.IF_NOT_LESS, "BLTU": step.IF_BELOW,
            "BGEU": step.IF_NOT_BELOW}  # fmt: skip
LEFT = [step.LEAVE, -1, -1, -1, -1, 0, 0, 0]
CLOCK = SPECIAL_REGISTERS.index("clock")


def instruction_words(
    code: Sequence[Prepared], sites: Mapping[int, tuple[int, Site]]
) -> tuple[Array, Array, Array]:
    """A row for each instruction; the registers of the fields of all sites, and which are only values."""
    rows: list[list[int]] = []
    fields: list[int] = []
    values: list[bool] = []
    for place, prepared in enumerate(code):
        if place in sites:
            number, site = sites[place]
            rows.append(_site(number, site, len(fields)))
            fields += [register for _, register, _ in site.prepared.fields]
            values += [name in VALUE_FIELDS for name, _, _ in site.prepared.fields]
        else:
            rows.append(_scalar(prepared, place, len(code)))
    words = np.array(rows, np.int64).reshape(-1, step.WORDS)
    return words, np.array([*fields, 0], np.int64), np.array([*values, 0], np.int64)


def _site(number: int, site: Site, first: int) -> list[int]:
    outputs, immediate = site.prepared.outputs, site.immediate
    value = 0 if immediate is None else signed(immediate)
    return [step.SITE, outputs[0] if outputs else -1, number, first, len(site.prepared.fields), value, 0,
            int(immediate is not None)]  # fmt: skip


def wrap_of(fmt: Format) -> int:
    """How a word of the format stands in a register: 0 for all bits, below 0 with its sign."""
    return 0 if fmt.bits == 64 else -fmt.bits if fmt.kind == "int" else fmt.bits


def _scalar(prepared: Prepared, place: int, count: int) -> list[int]:
    name, instruction = prepared.row.mnemonic, prepared.instruction
    kind, registers = prepared.scalar_class, instruction.registers
    if name in BRANCHES:
        ends = 0 <= place + instruction.immediate <= count
        second = registers[1] if len(registers) > 1 else -1
        words = [BRANCHES[name], -1, registers[0], second, -1, instruction.immediate, CLASS_NUMBER["branch"]]
        return [*words, 0] if ends else LEFT
    if name in ("JUMP", "CALL", "RET"):
        link = prepared.outputs[0] if prepared.outputs else -1
        if prepared.row.immediate is not None:
            return [step.GO, link, -1, -1, -1, instruction.immediate, CLASS_NUMBER["branch"], 0]
        return [step.GO_TO_REGISTER, link, registers[-1], -1, -1, 0, CLASS_NUMBER["branch"], 0]
    if name in ("SLOAD", "SSTORE"):
        op, wrap = (step.LOAD if name == "SLOAD" else step.STORE), wrap_of(instruction.formats[0])
        is_whole = instruction.formats[0].bits in (8, 16, 32, 64)
        words = [op, registers[0], registers[1], -1, -1, instruction.immediate, kind, wrap]
        return words if is_whole else LEFT
    if name == "NOP":
        return [step.NOTHING, -1, -1, -1, -1, 0, CLASS_NUMBER["issue"], 0]
    if name == "SREAD" and 0 <= instruction.immediate < len(SPECIAL_REGISTERS):
        words = [step.SPECIAL, registers[0], -1, -1, -1, instruction.immediate, CLASS_NUMBER["add"], 0]
        return words if instruction.immediate != CLOCK else LEFT
    return _plain(prepared) or LEFT


def _plain(prepared: Prepared) -> list[int] | None:
    name, instruction = prepared.row.mnemonic, prepared.instruction
    kind, registers, formats = prepared.scalar_class, instruction.registers, instruction.formats
    if name == "SLI":
        return [step.CONSTANT, registers[0], -1, -1, -1, signed(instruction.immediate, 32), kind, 0]
    if name == "SLIH":
        high = signed((instruction.immediate & 0xFFFFFFFF) << 32)
        return [step.HIGH, registers[0], registers[1], -1, -1, high, kind, 0]
    if name == "SMOVE" and prepared.row.immediate is None:
        return [step.CONSTANT, registers[0], -1, registers[1], -1, 0, kind, 0]
    if name == "SMOVE":
        return [step.CONSTANT, registers[0], -1, -1, -1, _immediate(prepared), kind, 0]
    if name == "SSEL":
        return [step.SELECT, registers[0], registers[2], registers[3], registers[1], 0, kind, 0]
    op = WHOLE.get(name, ORDERED.get(name))
    if op is None or len(formats) != 1 or formats[0].kind not in ("int", "uint"):
        return None
    is_ordered = name in ORDERED and formats[0].kind == "uint" and formats[0].bits == 64
    if is_ordered or formats[0].bits not in (8, 16, 32, 64):
        return None
    second = registers[2] if len(registers) > 2 else -1
    value = _immediate(prepared) if prepared.row.immediate is not None else 0
    return [op, registers[0], registers[1], second, -1, value, kind, wrap_of(formats[0])]


def _immediate(prepared: Prepared) -> int:
    fmt = prepared.instruction.formats[0]
    with np.errstate(all="ignore"):
        return signed(from_immediate(fmt, prepared.instruction.immediate))
