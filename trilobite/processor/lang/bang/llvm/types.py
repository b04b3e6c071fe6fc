"""Types of LLVM IR, their sizes and the tokens they are written with.

Sizes and alignments are those of the one data layout that kernels are compiled for (64-bit pointers,
natural alignment, vectors aligned as a whole).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from trilobite.base.errors import KernelError

TOKEN = re.compile(
    r"""\s*(?:
    (?P<string>c?"[^"]*")
  | (?P<name>[%@](?:"[^"]*"|[-\w.$]+))
  | (?P<meta>!(?:"[^"]*"|[\w.]+)?)
  | (?P<attr>\#\w+)
  | (?P<number>[-+]?(?:0x[HKLMR]?[0-9A-Fa-f]+|\d+\.\d*(?:[eE][-+]?\d+)?|\d+)(?![\w.]))
  | (?P<word>[A-Za-z_.$][\w.$]*)
  | (?P<dots>\.\.\.)
  | (?P<mark>[][{}()<>,=*|:])
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Void:
    pass


@dataclass(frozen=True)
class Int:
    bits: int


@dataclass(frozen=True)
class Float:
    name: str  # half bfloat float double, and those that are refused where they are used


@dataclass(frozen=True)
class Ptr:
    pass


@dataclass(frozen=True)
class Array:
    count: int
    element: LType


@dataclass(frozen=True)
class Vector:
    count: int
    element: LType


@dataclass(frozen=True)
class Struct:
    fields: tuple[LType, ...]
    packed: bool = False


@dataclass(frozen=True)
class Other:
    """metadata, label, token, opaque: types that no register holds."""

    name: str


LType = Void | Int | Float | Ptr | Array | Vector | Struct | Other
FLOAT_BYTES = {"half": 2, "bfloat": 2, "float": 4, "double": 8, "x86_fp80": 16, "fp128": 16}
_WORDS: dict[str, LType] = {
    "ptr": Ptr(),
    "void": Void(),
    **{name: Float(name) for name in FLOAT_BYTES},
    **{name: Other(name) for name in ("metadata", "label", "token", "opaque", "x86_amx")},
}  # gains the integers that were met


def size_of(kind: LType) -> int:
    """Bytes from one element of an array to the next."""
    match kind:
        case Int(bits):
            return _int_bytes(bits)
        case Float(name):
            return FLOAT_BYTES[name]
        case Ptr():
            return 8
        case Array(count, element):
            return count * size_of(element)
        case Vector(count, element):
            return count * size_of(element)
        case Struct(fields):
            return -(-struct_offset(kind, len(fields)) // align_of(kind)) * align_of(kind)
        case _:
            return 0


def _int_bytes(bits: int) -> int:
    need = (bits + 7) // 8
    return need if need > 8 else 1 << (need - 1).bit_length()


def align_of(kind: LType) -> int:
    match kind:
        case Array(_, element):
            return align_of(element)
        case Struct(fields, packed):
            return 1 if packed else max((align_of(f) for f in fields), default=1)
        case _:
            return max(1, min(size_of(kind), 16))


def struct_offset(kind: Struct, field: int) -> int:
    """Bytes in front of a field; of one behind the last: the bytes used."""
    at = 0
    for place, member in enumerate(kind.fields):
        if not kind.packed:
            at = -(-at // align_of(member)) * align_of(member)
        if place == field:
            return at
        at += size_of(member)
    return at


class Tokens:
    """A line, or several, as tokens with a place."""

    def __init__(self, text: str, structs: Mapping[str, str], what: str = "") -> None:
        self.items = [m.group(m.lastgroup) for m in TOKEN.finditer(text) if m.lastgroup]
        self.items.append("")
        self.at = 0
        self.text, self.structs = text, structs

    @property
    def ahead(self) -> str:
        return self.items[self.at]

    def take(self) -> str:
        self.at += 1
        return self.items[self.at - 1]

    def accept(self, *tokens: str) -> bool:
        if self.items[self.at] in tokens:
            self.at += 1
            return True
        return False

    def expect(self, token: str) -> None:
        if not self.accept(token):
            raise unreadable(self.text, f"{token!r} where {self.ahead!r} stands")

    def skip_parens(self) -> None:
        """Behind a group in parentheses that begins here."""
        depth = 0
        while True:
            token = self.take()
            depth += (token == "(") - (token == ")")
            if depth == 0 or not token:
                return

    def type(self) -> LType:
        kind = self._simple_type()
        while self.ahead in ("(", "*"):
            if self.ahead == "(":  # a function type
                self.skip_parens()
                kind = Other("function")
            else:
                self.take()
                kind = Ptr()
        return kind

    def _simple_type(self) -> LType:
        token = self.take()
        if token == "ptr" and self.accept("addrspace"):
            self.skip_parens()
        if token in _WORDS:
            return _WORDS[token]
        if token[:1] == "i" and token[1:].isdigit():
            return _WORDS.setdefault(token, Int(int(token[1:])))
        if token[:1] == "%":
            return self._named(token)
        return self._composite(token)

    def _named(self, token: str) -> LType:
        text = self.structs.get(token)
        if text is None:
            raise unreadable(self.text, f"the type {token} is not defined")
        return Tokens(text, self.structs).type()

    def _composite(self, token: str) -> LType:
        if token == "[":
            count = int(self.take())
            self.expect("x")
            element = self.type()
            self.expect("]")
            return Array(count, element)
        if token == "{":
            return self._struct(False)
        if token == "<" and self.accept("{"):
            made = self._struct(True)
            self.expect(">")
            return made
        if token == "<":
            count = int(self.take())
            self.expect("x")
            lanes = self.type()
            self.expect(">")
            return Vector(count, lanes)
        raise unreadable(self.text, f"{token!r} is no type")

    def _struct(self, packed: bool) -> Struct:
        fields = []
        while not self.accept("}"):
            fields.append(self.type())
            self.accept(",")
        return Struct(tuple(fields), packed)


def unreadable(text: str, why: str) -> KernelError:
    return KernelError(
        f"clang's output cannot be read: {why}",
        where=text.strip()[:120],
        expected="LLVM text of the tested clang (22)",
        remedy="install the ziglang wheel of the bang extra",
    )
