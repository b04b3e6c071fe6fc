"""The types of kernel IR: the ISA's scalar formats, and pointers into a memory space.

A scalar type is a number format of the instruction set (`i64`, `f16`, ...). Truth values are `i64` 0 and 1,
because that is what a comparison leaves in a register. A pointer knows its space, or does not (`any`): then
the address itself tells it at run time. Pointers carry no element type; every access names its format.
"""

from __future__ import annotations

from dataclasses import dataclass

from trilobite.processor.isa import address
from trilobite.processor.isa.formats import BY_NAME, FLOATS, I64, INTEGERS, Format
from trilobite.processor.isa.row import ACC, CODE, GDRAM, LDRAM, NRAM, SRAM, WRAM

ANY_SPACE = "any"
STACK = "stack"  # a buffer in the frame of the core that runs; its pointers are of space "any"
SPACES = ("gdram", "ldram", "sram", "nram", "wram", "acc", "code")
LETTER_OF = {name: address.LETTERS[name] for name in SPACES}
ALL_LETTERS = GDRAM + LDRAM + SRAM + NRAM + WRAM + ACC + CODE

SCALARS = (*INTEGERS, *FLOATS)


@dataclass(frozen=True)
class Pointer:
    """A 64-bit address in one memory space, or in any."""

    space: str = ANY_SPACE

    @property
    def name(self) -> str:
        return "ptr" if self.space == ANY_SPACE else f"ptr.{self.space}"

    def __repr__(self) -> str:
        return self.name


Type = Format | Pointer
ANY = Pointer()


def is_integer(kind: Type) -> bool:
    return isinstance(kind, Format) and kind.kind in ("int", "uint")


def is_float(kind: Type) -> bool:
    return isinstance(kind, Format) and kind.kind == "float"


def is_pointer(kind: Type) -> bool:
    return isinstance(kind, Pointer)


def bits_of(kind: Type) -> int:
    return kind.bits if isinstance(kind, Format) else 64


def same_register_bits(given: Type, wanted: Type) -> bool:
    """Whether a value of one type may stand where the other is read: same width, same kind of bits."""
    if is_float(given) or is_float(wanted):
        return given is wanted
    return bits_of(given) == bits_of(wanted)


def type_named(name: str) -> Type | None:
    """The type of its text, or None."""
    if name == "ptr":
        return ANY
    if name.startswith("ptr."):
        return Pointer(name[4:]) if name[4:] in SPACES else None
    found = BY_NAME.get(name)
    return found if found in SCALARS else None


__all__ = ["ANY", "I64", "Pointer", "SCALARS", "SPACES", "STACK", "Type", "type_named"]
