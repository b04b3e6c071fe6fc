"""Instructions as text that the assembler reads back.

Enters: instructions, or a program. Leaves: text, one instruction a line. Without symbols, targets are
written as distances; with a program's symbols, as labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from trilobite.processor.isa.encode import Instruction


def instruction_text(
    instruction: Instruction, labels: Mapping[int, str] | None = None, place: int = 0
) -> str:
    """One line: mnemonic with suffixes, then the operands in the row's order."""
    row = instruction.row
    suffixes = [fmt.name for fmt in instruction.formats] + [choice for choice in instruction.flags if choice]
    registers = iter(instruction.registers)
    words = []
    for operand in row.operands:
        if operand.kind == "target":
            words.append(_target(instruction, labels, place))
        elif operand.kind == "imm":
            words.append(_immediate(instruction))
        else:
            words.append(f"${next(registers)}")
    head = ".".join([row.mnemonic, *suffixes])
    return f"{head} {', '.join(words)}" if words else head


def _target(instruction: Instruction, labels: Mapping[int, str] | None, place: int) -> str:
    label = (labels or {}).get(place + instruction.immediate)
    return f"#{label}" if label else f"#.{instruction.immediate:+d}"


def _immediate(instruction: Instruction) -> str:
    if instruction.formats and instruction.formats[0].kind == "float" and instruction.row.is_float_immediate:
        value = float(np.array(instruction.immediate & 0xFFFFFFFF, np.uint32).view(np.float32))
        if np.isfinite(value):
            return f"#{value!r}"
        return f"#!{instruction.immediate & 0xFFFFFFFF:#x}"
    return f"#{instruction.immediate}"


def listing(
    instructions: Sequence[Instruction],
    symbols: Mapping[str, int],
    externals: Mapping[int, str] | None = None,
) -> str:
    """A whole section: labels on lines of their own; `externals` names what only a linker can resolve."""
    labels: dict[int, str] = {}
    for name, place in sorted(symbols.items()):
        labels.setdefault(place, name)
    lines = []
    for place, instruction in enumerate(instructions):
        if place in labels:
            lines.append(f"{labels[place]}:")
        note = f"    // needs {externals[place]}" if externals and place in externals else ""
        lines.append(f"    {instruction_text(instruction, labels, place)}{note}")
    if len(instructions) in labels:
        lines.append(f"{labels[len(instructions)]}:")
    return "\n".join(lines) + "\n"
