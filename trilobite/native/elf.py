"""What stands in an object file: sections, symbols, relocations. Reads 64-bit little-endian ELF only."""

from __future__ import annotations

import struct
from functools import cached_property
from typing import NamedTuple

X86_64 = 62  # machine numbers of the standard
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_SYMBOLS, _RELOCATIONS, NO_BITS = 2, 4, 8  # types of sections
_GLOBAL = 1  # binding of a symbol
WRITE, ALLOCATED, THREAD = 1, 2, 0x400  # flags of sections


class Section(NamedTuple):
    name: str
    type: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int


class Symbol(NamedTuple):
    name: str
    section: int  # 0: not here
    value: int
    is_global: bool = False


class Relocation(NamedTuple):
    section: int  # where it applies
    offset: int
    type: int
    symbol: int
    addend: int


def is_elf(code: bytes) -> bool:
    return code[:6] == b"\x7fELF\x02\x01"


class Elf:
    """One object file."""

    def __init__(self, code: bytes) -> None:
        self.code = code
        (self.machine,) = struct.unpack_from("<H", code, 18)

    @cached_property
    def sections(self) -> list[Section]:
        (start,) = struct.unpack_from("<Q", self.code, 0x28)
        _, count, names = struct.unpack_from("<HHH", self.code, 0x3A)
        rows = [_SECTION.unpack_from(self.code, start + i * _SECTION.size) for i in range(count)]
        strings = rows[names][4]
        return [
            Section(self._string(strings + name), kind, flags, offset, size, link, info, alignment)
            for name, kind, flags, _, offset, size, link, info, alignment, _ in rows
        ]

    @cached_property
    def symbols(self) -> list[Symbol]:
        for table in self.sections:
            if table.type == _SYMBOLS:
                strings = self.sections[table.link].offset
                rows = _SYMBOL.iter_unpack(self.contents(table))
                return [Symbol(self._string(strings + r[0]), r[3], r[4], r[1] >> 4 == _GLOBAL) for r in rows]
        return []

    @cached_property
    def relocations(self) -> list[Relocation]:
        return [
            Relocation(table.info, offset, info & 0xFFFFFFFF, info >> 32, addend)
            for table in self.sections
            if table.type == _RELOCATIONS
            for offset, info, addend in _RELOCATION.iter_unpack(self.contents(table))
        ]

    def contents(self, section: Section) -> bytes:
        if section.type == NO_BITS:
            return bytes(section.size)
        return self.code[section.offset : section.offset + section.size]

    def _string(self, start: int) -> str:
        return self.code[start : self.code.index(b"\0", start)].decode()


def undefined(code: bytes) -> list[str]:
    """Names that an object expects from elsewhere, such as `memset`; nothing of other formats than ELF."""
    if not is_elf(code):
        return []
    return [symbol.name for symbol in Elf(code).symbols if symbol.section == 0 and symbol.name]
