"""Scalar instructions on Python's own integers: a fast path for the few between two tensor instructions.

Enters: a decoded scalar instruction. Leaves: a function from the registers to the value of its result, the
bits of the row's meaning, or None where there is none. Longer runs of scalar code are `translate`'s.
"""

from __future__ import annotations

from collections.abc import Callable

from trilobite.processor.isa.encode import Instruction
from trilobite.processor.isa.row import signed

MASK = (1 << 64) - 1
Quick = Callable[[list[int]], int]
WRAPPING: dict[str, Callable[[int, int], int]] = {
    "SADD": lambda a, b: (a + b) & MASK,
    "SSUB": lambda a, b: (a - b) & MASK,
    "SMUL": lambda a, b: (a * b) & MASK,
    "SAND": lambda a, b: a & b,
    "SOR": lambda a, b: a | b,
    "SXOR": lambda a, b: a ^ b,
    "SSHL": lambda a, b: (a << (b & 63)) & MASK,
    "SE": lambda a, b: int(a == b),
    "SNE": lambda a, b: int(a != b),
    "SGT": lambda a, b: int(signed(a) > signed(b)),
    "SGE": lambda a, b: int(signed(a) >= signed(b)),
    "SLT": lambda a, b: int(signed(a) < signed(b)),
    "SLE": lambda a, b: int(signed(a) <= signed(b)),
    "SMAX": lambda a, b: a if signed(a) > signed(b) else b,
    "SMIN": lambda a, b: a if signed(a) < signed(b) else b,
}


def quick(instruction: Instruction) -> Quick | None:
    """The instruction on i64 registers, or one that only moves bits."""
    name, formats = instruction.row.mnemonic, instruction.formats
    sources = instruction.registers[1:]
    wide = signed(instruction.immediate, 32) & MASK
    if name == "SLI" or (name == "SMOVE" and formats and formats[0].name == "i64"):
        return lambda registers: wide
    if name == "SMOVE" and not formats:
        return lambda registers: registers[sources[0]]
    if name == "SLIH":
        return lambda registers: wide << 32 & MASK | registers[sources[0]] & 0xFFFFFFFF
    function = WRAPPING.get(name)
    if function is None or formats[0].name != "i64":
        return None
    if instruction.row.immediate is not None:
        return lambda registers: function(registers[sources[0]], wide)
    return lambda registers: function(registers[sources[0]], registers[sources[1]])
