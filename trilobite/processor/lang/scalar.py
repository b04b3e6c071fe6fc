"""Scalar arithmetic on register words: the meaning of every pure operation, for interpreter and folding.

A value of type T stands in a 64-bit word as the processor keeps it: integers extended by their own sign,
floats in the low bits. Meanings are those of the ISA's rows; only plain i64 arithmetic has a short cut.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from trilobite.processor.isa.formats import F64, I64, Format
from trilobite.processor.isa.numbers import convert
from trilobite.processor.isa.row import Operands, Row, signed
from trilobite.processor.isa.rows.scalar import from_register, to_register
from trilobite.processor.isa.table import MNEMONICS
from trilobite.processor.lang.ir import Constant, Op
from trilobite.processor.lang.ops import OPS
from trilobite.processor.lang.types import Type, is_float

MASK = (1 << 64) - 1
NAMES = ("a", "b", "c")


@lru_cache(maxsize=256)
def scalar_row(mnemonic: str, immediate: bool = False) -> Row:
    """The form of a scalar row with registers only, or with an immediate."""
    return next(row for row in MNEMONICS[mnemonic] if (row.immediate is not None) == immediate)


_SHORT: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: (a + b) & MASK,
    "sub": lambda a, b: (a - b) & MASK,
    "mul": lambda a, b: (a * b) & MASK,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "lt": lambda a, b: int(signed(a) < signed(b)),
    "le": lambda a, b: int(signed(a) <= signed(b)),
    "gt": lambda a, b: int(signed(a) > signed(b)),
    "ge": lambda a, b: int(signed(a) >= signed(b)),
    "eq": lambda a, b: int(a == b),
    "ne": lambda a, b: int(a != b),
}


def evaluate(op: Op, words: Sequence[int]) -> int:
    """The word of a pure operation's result."""
    if op.opcode == "select":
        return words[1] if words[0] else words[2]
    if op.opcode == "offset":
        return (words[0] + words[1]) & MASK
    if op.opcode == "cast":
        return cast_word(words[0], op.operands[0].type, op.attrs["type"])
    if op.opcode == "convert":
        with np.errstate(all="ignore"):
            return convert_word(words[0], op.attrs["source"], op.fmt, op.attrs["rounding"])
    if op.fmt is I64 and op.opcode in _SHORT:
        return _SHORT[op.opcode](words[0], words[1])
    row = scalar_row(OPS[op.opcode].mnemonic)
    assert row.meaning is not None
    values: dict[str, Any] = dict(zip(NAMES, words, strict=False))
    values["f0"] = op.fmt
    with np.errstate(all="ignore"):
        result: int = row.meaning(Operands(values))[0]
    return result & MASK


def cast_word(word: int, source: Type, target: Type) -> int:
    """The low bits as another type; a wider one is filled by the sign of the source."""
    wide = extended(word, source)
    return extended(wide, target)


def extended(word: int, kind: Type) -> int:
    """The word as its type keeps it."""
    if not isinstance(kind, Format) or kind.bits == 64:
        return word & MASK
    low = word & ((1 << kind.bits) - 1)
    return signed(low, kind.bits) & MASK if kind.kind == "int" else low


def convert_word(word: int, source: Format, target: Format, rounding: str) -> int:
    if source is target:
        return extended(word, target)
    return to_register(target, convert(target, source, from_register(source, word), rounding))


def constant_word(constant: Constant) -> int:
    """The register word of a constant."""
    kind = constant.type
    if kind is I64:
        return int(constant.value) & MASK
    if isinstance(kind, Format) and is_float(kind):
        (bits,) = struct.unpack("<Q", struct.pack("<d", float(constant.value)))
        return bits if kind is F64 else _narrowed(bits, kind)
    return extended(int(constant.value), kind)


@lru_cache(maxsize=4096)
def _narrowed(bits: int, kind: Format) -> int:
    """A double in a narrower format."""
    with np.errstate(all="ignore"):
        return convert_word(bits, F64, kind, "rn")


def constant_of(kind: Type, word: int) -> Constant:
    """The constant of a register word."""
    if isinstance(kind, Format) and is_float(kind):
        return Constant(kind, float(from_register(kind, word)[0]))
    if isinstance(kind, Format) and kind.kind == "int":
        return Constant(kind, signed(word, 64))
    return Constant(kind, word)
