"""LLVM's words for types and constants, and what a dtype is in memory and in registers.

Enters: dtypes, lane counts, Python numbers. Leaves: type words and `Value`s. It emits no instruction.

A bool is a byte in memory and one bit in registers. Floats of 16 bits and less are their bits in memory
(float16: `half`) and float in registers. A 4-bit integer lies in the low half of a byte in memory and in a
whole byte, sign- or zero-extended, in registers.
"""

from __future__ import annotations

import re
import struct
from functools import lru_cache
from typing import Any

from trilobite.base.dtypes import ALL, COMPLEX, SMALL_FLOATS, DType, bool_, float16, float32, float64
from trilobite.base.quiet import quiet

Number = int | float


class Value(str):
    """An LLVM value: its text is its name or its constant. Of constants the same in every lane `number`
    (of integers) or `real` (of floats) is known.
    """

    __slots__ = ("number", "real", "type", "typed")

    type: str
    typed: str  # with its type before it, as instructions take it
    number: int | None
    real: float | None

    def __new__(cls, text: str, type: str, number: int | None = None, real: float | None = None) -> Value:
        self = str.__new__(cls, text)
        self.type, self.number, self.real = type, number, real
        self.typed = f"{type} {text}"
        return self


Index = Value | int


def vector(element: str, lanes: int) -> str:
    """The word of a vector type; no lanes mean the scalar itself."""
    return f"<{lanes} x {element}>" if lanes else element


@lru_cache(maxsize=1024)
def parts(type: str) -> tuple[str, int]:
    """Element and lanes of a type word; a scalar has no lanes."""
    found = re.fullmatch(r"<(\d+) x (.+)>", type)
    return (found[2], int(found[1])) if found else (type, 0)


def element_of(type: str) -> str:
    return parts(type)[0]


def lanes_of(type: str) -> int:
    return parts(type)[1]


_FLOAT_BITS = {"half": 16, "float": 32, "double": 64}


@lru_cache(maxsize=256)
def is_float_type(type: str) -> bool:
    return element_of(type) in _FLOAT_BITS


def width(type: str) -> int:
    """Bits of one element."""
    element = element_of(type)
    return _FLOAT_BITS.get(element) or (64 if element == "ptr" else int(element[1:]))


def integer_like(type: str) -> str:
    """The integer type with the same bits: `<8 x float>` -> `<8 x i32>`."""
    return vector(f"i{width(type)}", lanes_of(type))


@lru_cache(maxsize=1024)
def with_element(type: str, element: str) -> str:
    """The same number of lanes of another element."""
    return vector(element, lanes_of(type))


@lru_cache(maxsize=256)
def mangled(type: str) -> str:
    """How an overloaded intrinsic spells a type: `v8f32`, `i64`, `p0`."""
    element, lanes = parts(type)
    word = "p0" if element == "ptr" else f"{'f' if element in _FLOAT_BITS else 'i'}{width(element)}"
    return f"v{lanes}{word}" if lanes else word


# -- constants ---------------------------------------------------------------------------------------------


def wrapped(number: int, bits: int) -> int:
    """The signed integer of `bits` bits that equals `number` modulo 2^bits."""
    number &= (1 << bits) - 1
    return number - (1 << bits) if bits > 1 and number >> (bits - 1) else number


@quiet  # what is too large is infinity
def _in_float32(number: float) -> Any:
    return float(float32.type(number))


def _float_word(number: float, element: str) -> str:
    """LLVM writes float and double constants as the bits of the double of that value, and half by its own."""
    if element == "half":
        return f"0xH{struct.unpack('<H', struct.pack('<e', number))[0]:04X}"
    if element == "float":
        number = _in_float32(number)
    return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"


@lru_cache(maxsize=4096)
def _constant(type: str, key: int | bytes) -> Value:
    """Integers by value, floats by their bits: as keys, 0.0 and -0.0 would be the same."""
    element, lanes = parts(type)
    known: int | None = None
    real: float | None = None
    if isinstance(key, bytes):
        (real,) = struct.unpack("<d", key)
        word = _float_word(float(real), element)
    else:
        known = wrapped(key, width(element))
        word = str(known) if element != "i1" else ("true" if known else "false")
    return Value(f"splat ({element} {word})" if lanes else word, type, known, real)


def constant(type: str, number: Number) -> Value:
    """A number as a constant of `type`, in every lane. Floats are rounded to the type and exact in hex."""
    if is_float_type(type):
        return _constant(type, struct.pack("<d", number))
    return _constant(type, int(number))


def lanes_constant(type: str, numbers: tuple[Number, ...]) -> Value:
    """A vector constant, lane by lane."""
    element = element_of(type)
    return Value(f"<{', '.join(f'{element} {constant(element, n)}' for n in numbers)}>", type)


def iota(type: str) -> Value:
    """0, 1, 2, ... by lane; of a scalar type 0."""
    lanes = lanes_of(type)
    return lanes_constant(type, tuple(range(lanes))) if lanes else constant(type, 0)


# -- dtypes ------------------------------------------------------------------------------------------------

_REGISTER = {bool_: "i1", float32: "float", float64: "double", **dict.fromkeys(SMALL_FLOATS, "float")}
_MEMORY = {bool_: "i8", float16: "half", float32: "float", float64: "double"}
REGISTER = {d: _REGISTER.get(d, f"i{8 * d.itemsize}") for d in ALL - COMPLEX}
MEMORY = {d: _MEMORY.get(d, f"i{8 * d.itemsize}") for d in ALL - COMPLEX}


def register_type(dtype: DType, lanes: int = 0) -> str:
    """What values of a real dtype are in registers."""
    return vector(REGISTER[dtype], lanes)


def memory_type(dtype: DType, lanes: int = 0) -> str:
    """What elements of a real dtype are in memory."""
    return vector(MEMORY[dtype], lanes)
