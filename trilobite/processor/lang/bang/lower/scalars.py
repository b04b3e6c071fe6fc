"""How LLVM's scalar types stand in kernel IR.

Integers of 8 to 64 bits are the signed formats; i1 is an i64 0 or 1; other widths live in the next wider
format, extended by their own sign; those of more than 64 bits are two words (`wide`). A struct, array or
vector value is a tuple of its scalars.
"""

from __future__ import annotations

from trilobite.processor.isa.formats import BF16, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, Format
from trilobite.processor.lang.bang.llvm.types import (
    Array,
    Float,
    Int,
    LType,
    Ptr,
    Struct,
    Vector,
    size_of,
    struct_offset,
)
from trilobite.processor.lang.builder import Builder
from trilobite.processor.lang.ir import Constant, Value
from trilobite.processor.lang.types import ANY, Type

FLOATS = {"half": F16, "bfloat": BF16, "float": F32, "double": F64}
_SIGNED = ((8, I8), (16, I16), (32, I32), (64, I64))
_WORD = Int(64)
WIDEST = 128
UNSIGNED = {I8: U8, I16: U16, I32: U32, I64: U64}


def type_of(kind: LType) -> Type | None:
    """The kernel type of a scalar; None if there is none."""
    if isinstance(kind, Ptr):
        return ANY
    if isinstance(kind, Float):
        return FLOATS.get(kind.name)
    if isinstance(kind, Int) and kind.bits <= 64:
        return I64 if kind.bits == 1 else next(fmt for bits, fmt in _SIGNED if kind.bits <= bits)
    return None


def is_wide(kind: LType) -> bool:
    """Whether a number takes two words."""
    return isinstance(kind, Int) and 64 < kind.bits <= WIDEST


def element(kind: LType) -> LType:
    """What a vector consists of; any other type itself."""
    return kind.element if isinstance(kind, Vector) else kind


def leaves(kind: LType) -> list[LType]:
    """The scalars of a type, in order."""
    if isinstance(kind, Struct):
        return [leaf for field in kind.fields for leaf in leaves(field)]
    if isinstance(kind, Array | Vector):
        return leaves(kind.element) * kind.count
    return [_WORD, _WORD] if is_wide(kind) else [kind]


def leaf_offsets(kind: LType, base: int = 0) -> list[int]:
    """Where the scalars of a type lie in memory."""
    if isinstance(kind, Struct):
        found = []
        for place, field in enumerate(kind.fields):
            found += leaf_offsets(field, base + struct_offset(kind, place))
        return found
    if isinstance(kind, Array | Vector):
        step = size_of(kind.element)
        return [at for place in range(kind.count) for at in leaf_offsets(kind.element, base + place * step)]
    return [base, base + size_of(_WORD)] if is_wide(kind) else [base]


def is_aggregate(kind: LType) -> bool:
    return isinstance(kind, Struct | Array | Vector)


def leaf_range(kind: LType, indices: list[int]) -> tuple[int, int]:
    """Which of the scalars an index path names: first, and one behind the last."""
    first, current = 0, kind
    for index in indices:
        if isinstance(current, Struct):
            first += sum(len(leaves(field)) for field in current.fields[:index])
            current = current.fields[index]
        else:
            assert isinstance(current, Array | Vector)
            first += index * len(leaves(current.element))
            current = current.element
    return first, first + len(leaves(current))


def bits_of(kind: LType) -> int:
    return kind.bits if isinstance(kind, Int) else 64


def is_odd(bits: int) -> bool:
    return bits not in (1, 8, 16, 32, 64)


def canonical(b: Builder, value: Value, bits: int) -> Value:
    """A value of an unusual width, extended by its sign again."""
    if bits == 1:
        return b.arithmetic("and", I64, value, b.integer(1))
    if not is_odd(bits) or not isinstance(value.type, Format):
        return value
    room = value.type.bits - bits
    if isinstance(value, Constant):
        low = value.integer & ((1 << bits) - 1)
        return Constant(value.type, low - (1 << bits) if low >> (bits - 1) else low)
    raised = b.arithmetic("shl", value.type, value, Constant(value.type, room))
    return b.arithmetic("shr", value.type, raised, Constant(value.type, room))


def unsigned(b: Builder, value: Value, bits: int) -> Value:
    """The value with zeros above its width, in the same format; for reading it without sign."""
    if not is_odd(bits) or bits == 1 or not isinstance(value.type, Format):
        return value
    return b.arithmetic("and", value.type, value, Constant(value.type, (1 << bits) - 1))


def word(b: Builder, value: Value, is_signed: bool = True, bits: int = 64) -> Value:
    """The value as i64."""
    if value.type is I64:
        return value
    if isinstance(value, Constant) and isinstance(value.type, Format):
        low = value.integer & ((1 << value.type.bits) - 1)
        if is_signed and low >> (value.type.bits - 1):
            low -= 1 << value.type.bits
        return Constant(I64, low)
    if not is_signed and isinstance(value.type, Format) and value.type in UNSIGNED:
        value = b.cast(value, UNSIGNED[value.type])
    return b.cast(value, I64)
