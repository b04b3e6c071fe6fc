"""Object code linked to itself, and put into memory.

Enters: an object file for x86-64, or several of which the first calls the others. Leaves: an `Image`, bytes
that run wherever they are put, and from many images a `Memory` that holds them. Code and its constants stay
together, so that near addresses are always near (LLVM's own loader leaves that to chance), and loading is
little more than copying. Objects of other machines are not linked here.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Callable, Mapping, Sequence
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


def link(code: bytes, entry: str, called: Sequence[bytes] = ()) -> Image:
    """The image of an object that defines the function `entry`, with the objects that it calls."""
    return _Link([Elf(one) for one in (code, *called)]).image(entry)


class _Link:
    """Sections side by side, behind them the words for what is elsewhere."""

    def __init__(self, elves: Sequence[Elf]) -> None:
        self.elves = elves
        self.bytes = bytearray()
        self.alignment = 64
        self.starts: dict[tuple[int, int], int] = {}  # by object and section
        self.defined: dict[str, int] = {}  # where the functions begin that objects offer each other
        self.words: dict[tuple[int, int], int] = {}  # symbol: where the word with its address is
        self.absolutes: list[int] = []
        self.externals: list[tuple[int, str]] = []

    def image(self, entry: str) -> Image:
        for which, elf in enumerate(self.elves):
            self._put(which, elf)
        for which, elf in enumerate(self.elves):
            for relocation in elf.relocations:
                if (which, relocation.section) in self.starts:
                    self._apply(which, relocation)
        if entry not in self.defined:
            raise IRError(f"an object does not define what it is said to: {entry}")
        start = self.defined[entry]
        return Image(bytes(self.bytes), start, self.alignment, tuple(self.absolutes), tuple(self.externals))

    def _put(self, which: int, elf: Elf) -> None:
        for number, section in enumerate(elf.sections):
            if section.flags & ALLOCATED and section.size and section.name != ".eh_frame":
                self._refuse_state(section.name, section.flags)
                self.alignment = max(self.alignment, section.alignment)
                self._align(max(section.alignment, 16))
                self.starts[which, number] = len(self.bytes)
                self.bytes += elf.contents(section)
        for found in elf.symbols:
            start = self.starts.get((which, found.section))
            if found.name and found.is_global and start is not None:
                self.defined[found.name] = start + found.value

    @staticmethod
    def _refuse_state(name: str, flags: int) -> None:
        if flags & THREAD or (flags & WRITE and not name.startswith(".data.rel.ro")):
            raise IRError(
                f"a kernel has a variable of its own, in section {name}",
                expected="constants; what a kernel writes belongs to its arguments or to scratch memory",
            )

    def _align(self, alignment: int) -> None:
        self.bytes += _TRAP * (-len(self.bytes) % alignment)

    def _apply(self, which: int, relocation: Relocation) -> None:
        place = self.starts[which, relocation.section] + relocation.offset
        kind, addend, symbol = relocation.type, relocation.addend, (which, relocation.symbol)
        if kind == _ABSOLUTE:
            self._absolute(place, symbol, addend)
        elif kind in (_NEAR, _CALL):
            struct.pack_into("<i", self.bytes, place, self._target(symbol) + addend - place)
        elif kind in _TABLE:
            struct.pack_into("<i", self.bytes, place, self._word(symbol) + addend - place)
        elif kind == _FAR:
            struct.pack_into("<q", self.bytes, place, self._target(symbol) + addend - place)
        else:
            raise IRError(f"an object wants relocation {kind}, which position-independent code does not need")

    def _offset(self, symbol: tuple[int, int]) -> int | None:
        """Where a symbol is; None if it is elsewhere."""
        which, number = symbol
        found = self.elves[which].symbols[number]
        start = self.starts.get((which, found.section))
        return self.defined.get(found.name) if start is None else start + found.value

    def _target(self, symbol: tuple[int, int]) -> int:
        """The symbol itself; for one that is elsewhere, a jump to it."""
        offset = self._offset(symbol)
        return self._word(symbol) + 8 if offset is None else offset

    def _word(self, symbol: tuple[int, int]) -> int:
        """A word with the symbol's address, and behind it a jump there."""
        if symbol not in self.words:
            self._align(16)
            self.words[symbol] = len(self.bytes)
            self.bytes += bytes(8) + _JUMP + _TRAP * 2
            self._absolute(self.words[symbol], symbol, 0)
        return self.words[symbol]

    def _absolute(self, place: int, symbol: tuple[int, int], addend: int) -> None:
        offset = self._offset(symbol)
        struct.pack_into("<q", self.bytes, place, addend + (offset or 0))
        if offset is not None:
            self.absolutes.append(place)
        else:
            which, number = symbol
            self.externals.append((place, self.elves[which].symbols[number].name))


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
