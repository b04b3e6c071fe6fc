"""Constants and names as operands of LLVM instructions, and their bytes in memory."""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from trilobite.processor.lang.bang.llvm.types import (
    Array,
    Float,
    Int,
    LType,
    Ptr,
    Struct,
    Tokens,
    Vector,
    align_of,
    size_of,
    struct_offset,
    unreadable,
)


@dataclass(frozen=True)
class Local:
    """%name: an instruction's result or a parameter."""

    name: str


@dataclass(frozen=True)
class Global:
    """@name: the address of a variable or a function."""

    name: str


@dataclass(frozen=True)
class Number:
    value: int | float


@dataclass(frozen=True)
class Undefined:
    """undef or poison: any value will do."""


@dataclass(frozen=True)
class Zero:
    """zeroinitializer or null: all bytes 0."""


@dataclass(frozen=True)
class Text:
    content: bytes


@dataclass(frozen=True)
class Group:
    """A constant array, struct or vector."""

    items: tuple[Operand, ...]


@dataclass(frozen=True)
class Expression:
    """A constant expression: getelementptr, a cast or an arithmetic operation of constants."""

    opcode: str
    type: LType
    args: tuple[Operand, ...]


@dataclass(frozen=True)
class Assembly:
    """The callee `asm "text", "constraints"`."""

    text: str
    constraints: str


@dataclass(frozen=True)
class Metadata:
    """Metadata as an argument; nothing computes with it."""

    text: str


@dataclass(frozen=True)
class Operand:
    """A typed value."""

    type: LType
    value: Local | Global | Number | Undefined | Zero | Text | Group | Expression | Assembly | Metadata


_WORDS: dict[str, Number | Zero | Undefined] = {
    "true": Number(1),
    "false": Number(0),
    "null": Zero(),
    "none": Zero(),
    "zeroinitializer": Zero(),
    "undef": Undefined(),
    "poison": Undefined(),
}
_CASTS = frozenset("bitcast inttoptr ptrtoint addrspacecast trunc zext sext ptrtoaddr".split())
_ARITHMETIC = frozenset("add sub mul xor and or shl lshr".split())
_FLAGS = frozenset("inbounds nuw nsw nusw exact disjoint nneg inrange".split())


def name_of(token: str) -> str:
    """%x or @"a b" without sign and quotes."""
    inner = token[1:]
    return unescape(inner[1:-1]).decode("latin-1") if inner.startswith('"') else inner


def unescape(text: str) -> bytes:
    return re.sub(rb"\\([0-9A-Fa-f]{2})", lambda m: bytes([int(m[1], 16)]), text.encode("latin-1"))


def operand(tokens: Tokens, kind: LType) -> Operand:
    """The value of the given type that stands next."""
    token = tokens.take()
    if token[:1] == "%":
        return Operand(kind, Local(name_of(token)))
    if token[:1] == "@":
        return Operand(kind, Global(name_of(token)))
    if token in _WORDS:
        return Operand(kind, _WORDS[token])
    if token[:2] == 'c"':
        return Operand(kind, Text(unescape(token[2:-1])))
    if token[:1] in "[{<":
        return _group(tokens, kind, token)
    if token == "getelementptr" or token in _CASTS or token in _ARITHMETIC:
        return _expression(tokens, kind, token)
    if token == "splat":
        tokens.expect("(")
        item = typed(tokens)
        tokens.expect(")")
        assert isinstance(kind, Vector | Array)
        return Operand(kind, Group((item,) * kind.count))
    if token[:1] == "!":
        return Operand(kind, Metadata(token))
    return Operand(kind, Number(_number(tokens, kind, token)))


def typed(tokens: Tokens) -> Operand:
    """A type and the value of it."""
    return operand(tokens, tokens.type())


def _number(tokens: Tokens, kind: LType, token: str) -> int | float:
    if isinstance(kind, Int | Ptr):
        return int(token, 0)
    if isinstance(kind, Float):
        if token[:3] in ("0xH", "0xR"):
            wide = np.array([int(token[3:], 16)], np.uint16)
            return float(wide.view(np.float16 if token[2] == "H" else ml_dtypes.bfloat16)[0])
        if token[:3] == "0xK":  # a long double: sign and exponent, then 64 bits of which the first is 1
            head, tail = int(token[3:7], 16), int(token[7:], 16)
            return (-1.0 if head >> 15 else 1.0) * math.ldexp(tail, min(head & 0x7FFF, 17000) - 16446)
        if token[:2] == "0x" and token[2] not in "LM":
            return float(struct.unpack(">d", bytes.fromhex(token[2:].zfill(16)))[0])
        if token[:2] != "0x":
            return float(token)
    raise unreadable(tokens.text, f"{token!r} is no value of {kind}")


def _group(tokens: Tokens, kind: LType, opening: str) -> Operand:
    if opening == "<" and tokens.accept("{"):
        items = _items(tokens, "}")
        tokens.expect(">")
        return Operand(kind, Group(items))
    return Operand(kind, Group(_items(tokens, {"[": "]", "{": "}", "<": ">"}[opening])))


def _items(tokens: Tokens, closing: str) -> tuple[Operand, ...]:
    found = []
    while not tokens.accept(closing):
        found.append(typed(tokens))
        tokens.accept(",")
    return tuple(found)


def _expression(tokens: Tokens, kind: LType, opcode: str) -> Operand:
    while tokens.ahead in _FLAGS:
        if tokens.take() == "inrange":
            tokens.skip_parens()
    tokens.expect("(")
    base = kind
    if opcode == "getelementptr":
        base = tokens.type()
        tokens.expect(",")
    args = [typed(tokens)]
    while tokens.accept(","):
        args.append(typed(tokens))
    if opcode in _CASTS:
        tokens.expect("to")
        base = tokens.type()
    tokens.expect(")")
    return Operand(kind, Expression(opcode, base, tuple(args)))


def constant_bytes(item: Operand) -> bytes | None:
    """The bytes of a constant in memory; None if it holds an address or is not constant."""
    kind, size = item.type, size_of(item.type)
    match item.value:
        case Zero() | Undefined():
            return bytes(size)
        case Text(content):
            return content
        case Number(value):
            return _number_bytes(kind, value)
        case Group(items):
            return _group_bytes(kind, items, size)
    return None


def _number_bytes(kind: LType, value: int | float) -> bytes:
    if isinstance(kind, Float):
        dtype = {"half": np.float16, "bfloat": ml_dtypes.bfloat16, "float": np.float32}.get(
            kind.name, np.float64
        )
        with np.errstate(all="ignore"):
            return np.array([value]).astype(dtype).tobytes()
    size = size_of(kind)
    return (int(value) & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def _group_bytes(kind: LType, items: tuple[Operand, ...], size: int) -> bytes | None:
    made = bytearray(size)
    for place, item in enumerate(items):
        content = constant_bytes(item)
        if content is None:
            return None
        if isinstance(kind, Struct):
            at = struct_offset(kind, place)
        else:
            assert isinstance(kind, Array | Vector)
            at = place * size_of(kind.element)
        made[at : at + len(content)] = content
    return bytes(made)


__all__ = ["align_of", "constant_bytes", "name_of", "operand", "typed", "unescape"]
