"""One row of the table of intrinsics: declaration, contract and meaning of one form.

A form's parameters are written in one line: `dst>T a<T b<T n#`. The sign says what a parameter is:

    >  an array that is written        <  an array that is read       &  read and written
    =  a scalar of the type            #  a count of elements         %  a count of bytes
    :  another integer                 ?  an enumerator or a flag     @  a vector register

`T`, `D` and `S` stand for the types that the form exists in, `lane` for the type of a register's lanes; other
names are formats of the ISA or `void`.
`how` is the meaning: ISA rows with operands named by the parameters, separated by semicolons ("VAV dst n a
b; VRELU dst n dst"), the name of a function in `lower/composite.py` after `@`, or a C++ body in braces.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

PARAMETER = re.compile(r"(\w+)([><&=#%:?@])(\w*)")
C_NAMES = {
    "f32": ("float",), "f16": ("half",), "bf16": ("bfloat16_t",), "f64": ("double",),
    "i8": ("signed char", "char"), "u8": ("unsigned char",), "i16": ("short",), "u16": ("unsigned short",),
    "i32": ("int",), "u32": ("unsigned int",), "i64": ("long", "long long"),
    "u64": ("unsigned long", "unsigned long long"), "i4": ("int4x2_t",), "void": ("void",),
}  # fmt: skip

FLOATS = ("f32", "f16", "bf16")
INTEGERS = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")
NUMBERS = (*FLOATS, *INTEGERS)
NARROW = tuple(t for t in NUMBERS if t not in ("i64", "u64"))

# What public texts say of operands; one word a row, spelled out in the manual and checked where it can be.
FREE = "no alignment"
VECTOR_2XX = "on 2xx: addresses in multiples of 64 bytes, n in multiples of 128 bytes"


@dataclass(frozen=True)
class Parameter:
    name: str
    sign: str
    type: str

    @property
    def is_array(self) -> bool:
        return self.sign in "><&"


@dataclass(frozen=True)
class Intrinsic:
    """A form of an intrinsic. `types` lists what the letters stand for: "f32", or "f32-f16" for D and S."""

    name: str
    parameters: tuple[Parameter, ...]
    letters: str
    types: tuple[str, ...]
    how: str
    line: str
    returns: str = "void"
    space: str = "nram"
    in_place: bool = True
    alignment: str = FREE
    ahead: bool = False  # a source that ends no earlier, or begins with the result, may lie on it

    @property
    def in_order(self) -> str:
        return "elements" if self.ahead else ""

    @property
    def is_body(self) -> bool:
        return self.how.startswith("{")


def parse(text: str) -> tuple[Parameter, ...]:
    return tuple(Parameter(*found.groups()) for found in PARAMETER.finditer(text))


def form(
    name: str,
    parameters: str,
    types: tuple[str, ...],
    how: str,
    line: str,
    *,
    returns: str = "void",
    space: str = "nram",
    in_place: bool = True,
    alignment: str = FREE,
    ahead: bool = False,
) -> Intrinsic:
    made = parse(parameters)
    used = {p.type for p in made} | {returns}
    letters = "".join(letter for letter in "TDSI" if letter in used)
    chosen = types if letters else ("",)
    words = (returns, space, in_place, alignment, ahead)
    return Intrinsic(name, made, letters, chosen, how.strip(), line, *words)
