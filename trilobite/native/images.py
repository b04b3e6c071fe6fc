"""Object code linked to itself, and put into memory.

Enters: an object file for x86-64. Leaves: an `Image`, bytes that run wherever they are put, and from many
images a `Memory` that holds them. Code and its constants stay together, so that near addresses are always
near (LLVM's own loader leaves that to chance), and loading is little more than copying. Objects of other
machines are not linked here.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from trilobite.base.errors import IRError
from trilobite.native.elf import ALLOCATED, THREAD, WRITE, X86_64, Elf, Relocation, is_elf

MAGIC = b"\0trilobite image"  # 16 bytes
_HEAD = struct.Struct("<16sQQII")
_PLACE = struct.Struct("<Q")
_NAMED = struct.Struct("<QH")
_TRAP = b"\xcc"  # what stands between sections: an instruction that faults
_JUMP = b"\xff\x25" + struct.pack("<i", -14)  # through the 8 bytes before it
# Relocations of x86-64, by their number in the standard.
_ABSOLUTE, _NEAR, _CALL, _FAR = 1, 2, 4, 24
_TABLE = frozenset((9, 41, 42))


class Image(NamedTuple):
    """Code with its constants. All that depends on where it is put are 8-byte words."""

    code: bytes
    entry: int
    alignment: int
    absolutes: tuple[int, ...]  # words that hold an offset in the image and want an address
    externals: tuple[tuple[int, str], ...]  # words that want the address of a function of this process

    def pack(self) -> bytes:
        parts = [_HEAD.pack(MAGIC, self.entry, self.alignment, len(self.absolutes), len(self.externals))]
        parts += [_PLACE.pack(word) for word in self.absolutes]
        for word, name in self.externals:
            parts += [_NAMED.pack(word, len(name)), name.encode()]
        return b"".join([*parts, self.code])

    @staticmethod
    def unpack(packed: bytes) -> Image:
        _, entry, alignment, absolute, external = _HEAD.unpack_from(packed)
        at = _HEAD.size
        absolutes = struct.unpack_from(f"<{absolute}Q", packed, at)
        at += 8 * absolute
        externals = []
        for _ in range(external):
            word, length = _NAMED.unpack_from(packed, at)
            at += _NAMED.size
            externals.append((word, packed[at : at + length].decode()))
            at += length
        return Image(packed[at:], entry, alignment, absolutes, tuple(externals))


def can_link(code: bytes) -> bool:
    return is_elf(code) and Elf(code).machine == X86_64


def link(code: bytes, entry: str) -> Image:
    """The image of an object that defines the function `entry`."""
    return _Link(Elf(code)).image(entry)


class _Link:
    """Sections side by side, behind them the words for what is elsewhere."""

    def __init__(self, elf: Elf) -> None:
        self.elf = elf
        self.bytes = bytearray()
        self.alignment = 64
        self.starts: dict[int, int] = {}
        self.words: dict[int, int] = {}  # symbol: where the word with its address is
        self.absolutes: list[int] = []
        self.externals: list[tuple[int, str]] = []

    def image(self, entry: str) -> Image:
        for number, section in enumerate(self.elf.sections):
            if section.flags & ALLOCATED and section.size and section.name != ".eh_frame":
                self._refuse_state(section.name, section.flags)
                self.alignment = max(self.alignment, section.alignment)
                self._align(max(section.alignment, 16))
                self.starts[number] = len(self.bytes)
                self.bytes += self.elf.contents(section)
        for relocation in self.elf.relocations:
            if relocation.section in self.starts:
                self._apply(relocation)
        found = [s for s in self.elf.symbols if s.name == entry and s.section in self.starts]
        if not found:
            raise IRError(f"an object does not define what it is said to: {entry}")
        start = self.starts[found[0].section] + found[0].value
        return Image(bytes(self.bytes), start, self.alignment, tuple(self.absolutes), tuple(self.externals))

    @staticmethod
    def _refuse_state(name: str, flags: int) -> None:
        if flags & THREAD or (flags & WRITE and not name.startswith(".data.rel.ro")):
            raise IRError(
                f"a kernel has a variable of its own, in section {name}",
                expected="constants; what a kernel writes belongs to its arguments or to scratch memory",
            )

    def _align(self, alignment: int) -> None:
        self.bytes += _TRAP * (-len(self.bytes) % alignment)

    def _apply(self, relocation: Relocation) -> None:
        place = self.starts[relocation.section] + relocation.offset
        kind, addend = relocation.type, relocation.addend
        if kind == _ABSOLUTE:
            self._absolute(place, relocation.symbol, addend)
        elif kind in (_NEAR, _CALL):
            struct.pack_into("<i", self.bytes, place, self._target(relocation.symbol) + addend - place)
        elif kind in _TABLE:
            struct.pack_into("<i", self.bytes, place, self._word(relocation.symbol) + addend - place)
        elif kind == _FAR:
            struct.pack_into("<q", self.bytes, place, self._target(relocation.symbol) + addend - place)
        else:
            raise IRError(f"an object wants relocation {kind}, which position-independent code does not need")

    def _is_here(self, symbol: int) -> bool:
        return self.elf.symbols[symbol].section in self.starts

    def _offset(self, symbol: int) -> int:
        found = self.elf.symbols[symbol]
        return self.starts[found.section] + found.value

    def _target(self, symbol: int) -> int:
        """The symbol itself; for one that is elsewhere, a jump to it."""
        return self._offset(symbol) if self._is_here(symbol) else self._word(symbol) + 8

    def _word(self, symbol: int) -> int:
        """A word with the symbol's address, and behind it a jump there."""
        if symbol not in self.words:
            self._align(16)
            self.words[symbol] = len(self.bytes)
            self.bytes += bytes(8) + _JUMP + _TRAP * 2
            self._absolute(self.words[symbol], symbol, 0)
        return self.words[symbol]

    def _absolute(self, place: int, symbol: int, addend: int) -> None:
        if self._is_here(symbol):
            struct.pack_into("<q", self.bytes, place, self._offset(symbol) + addend)
            self.absolutes.append(place)
        else:
            struct.pack_into("<q", self.bytes, place, addend)
            self.externals.append((place, self.elf.symbols[symbol].name))


class Memory:
    """Executable memory with images in it; it is unmapped when nobody holds this object."""

    def __init__(self, images: Mapping[str, Image], resolve: Callable[[str], int]) -> None:
        starts, size = {}, 0
        for name, image in images.items():
            starts[name] = size = -(-size // image.alignment) * image.alignment
            size += len(image.code)
        flags, rights = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE
        self._map = mmap.mmap(-1, max(size, 1), flags=flags, prot=rights)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        for name, image in images.items():
            self._put(image, base, starts[name], resolve)
        self._protect(base, len(self._map))
        self.addresses = {name: base + starts[name] + image.entry for name, image in images.items()}

    def _put(self, image: Image, base: int, start: int, resolve: Callable[[str], int]) -> None:
        self._map[start : start + len(image.code)] = image.code
        for word in image.absolutes:
            self._add(start + word, base + start)
        for word, name in image.externals:
            self._add(start + word, resolve(name))

    def _add(self, place: int, amount: int) -> None:
        (value,) = struct.unpack_from("<q", self._map, place)
        struct.pack_into("<Q", self._map, place, (value + amount) % (1 << 64))

    @staticmethod
    def _protect(address: int, size: int) -> None:
        """From now on it can be read and executed, and not written."""
        protect: Any = ctypes.CDLL(None, use_errno=True).mprotect
        protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        if protect(address, size, mmap.PROT_READ | mmap.PROT_EXEC) != 0:
            raise OSError(ctypes.get_errno(), "the system refuses memory for machine code")
