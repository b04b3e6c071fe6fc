"""MATLAB's .mat files of version 5 as nested Python values: arrays, cells as lists, structs as dicts.

Enters: a path. Leaves: a dict by variable. Numbers, characters, cells and structs are read; sparse arrays,
objects and functions are refused by name. Sizes are checked against the bytes that are there, nesting and
unpacked size are bounded, and nothing is executed.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from trilobite.base.errors import FileError

HEADER = 128
DEEPEST = 32
LARGEST = 4 << 30  # bytes, unpacked, of the whole file
_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_TEXTS = {16: "utf-8", 17: "utf-16", 18: "utf-32", 4: "utf-16", 2: "latin-1"}
_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
_MATRIX, _COMPRESSED, _CELL, _STRUCT, _CHARACTERS = 14, 15, 1, 2, 4


def load_mat(path: str | Path) -> dict[str, Any]:
    """All variables of the file."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise FileError(f"the file cannot be read: {error}", where=path) from error
    return _Reader(path, content).variables()


class _Reader:
    def __init__(self, path: str | Path, content: bytes) -> None:
        self.path, self.content, self.unpacked = path, content, 0
        if len(content) < HEADER or content[126:128] not in (b"IM", b"MI"):
            self.fail("it is no MATLAB file of version 5")
        self.order = "<" if content[126:128] == b"IM" else ">"

    def fail(self, what: str) -> NoReturn:
        raise FileError(
            f"the .mat file cannot be read: {what}",
            where=self.path,
            expected="a file saved by MATLAB with -v6 or -v7",
        )

    def variables(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        at = HEADER
        while at < len(self.content):
            kind, part, at = self.element(self.content, at)
            if kind == _COMPRESSED:
                kind, part, _ = self.element(self.inflated(part), 0)
            if kind != _MATRIX:
                self.fail(f"an element of kind {kind} where a variable should stand")
            name, value = self.matrix(part, 0)
            found[name] = value
        return found

    def inflated(self, part: bytes) -> bytes:
        try:
            machine = zlib.decompressobj()
            plain = machine.decompress(part, LARGEST - self.unpacked)
        except zlib.error as error:
            self.fail(str(error))
        if machine.unconsumed_tail:
            self.fail(f"it unpacks to more than {LARGEST} bytes")
        self.unpacked += len(plain)
        return plain

    def element(self, data: bytes, at: int) -> tuple[int, bytes, int]:
        """Kind, bytes, and where the next one begins. Small elements keep their bytes in the tag."""
        if at + 8 > len(data):
            self.fail("it is cut off")
        (kind,) = struct.unpack_from(self.order + "I", data, at)
        if kind >> 16:
            size, kind = kind >> 16, kind & 0xFFFF
            if size > 4:
                self.fail(f"a small element of {size} bytes")
            return kind, data[at + 4 : at + 4 + size], at + 8
        (size,) = struct.unpack_from(self.order + "I", data, at + 4)
        start = at + 8
        if size > len(data) - start:
            self.fail(f"an element of {size} bytes where {len(data) - start} are left")
        end = start + size
        padded = end if kind == _COMPRESSED else start + -(-size // 8) * 8
        return kind, data[start:end], padded

    def numbers(self, data: bytes, at: int) -> tuple[np.ndarray[Any, Any], int]:
        kind, part, at = self.element(data, at)
        if kind not in _NUMBERS:
            self.fail(f"numbers of kind {kind}")
        dtype = np.dtype(self.order + _NUMBERS[kind])
        if len(part) % dtype.itemsize:
            self.fail("a broken row of numbers")
        return np.frombuffer(part, dtype), at

    def matrix(self, data: bytes, depth: int) -> tuple[str, Any]:
        """A name, and the value: MATLAB calls everything a matrix."""
        if depth > DEEPEST:
            self.fail(f"it is nested deeper than {DEEPEST}")
        if not data:
            return "", np.zeros((0, 0))
        flags, at = self.numbers(data, 0)
        extents, at = self.numbers(data, at)
        raw, at = self.numbers(data, at)
        name = raw.astype(np.uint8).tobytes().decode("latin-1")
        kind = int(flags[0]) & 0xFF if flags.size else -1
        shape = tuple(int(extent) for extent in extents)
        if any(extent < 0 for extent in shape):
            self.fail(f"a shape of {shape}")
        if kind == _CELL:
            return name, self.items(data, at, self.count(shape, data, at), depth)
        if kind == _STRUCT:
            return name, self.structs(data, at, shape, depth)
        if kind == _CHARACTERS:
            return name, self.characters(data, at)
        if kind not in _CLASSES:
            self.fail(f"{name or 'a value'} of MATLAB's class {kind}")
        return name, self.array(data, at, shape, _CLASSES[kind])

    def count(self, shape: tuple[int, ...], data: bytes, at: int) -> int:
        """How many elements; each takes 8 bytes at least, so a large lie is seen before it is believed."""
        total = 1
        for extent in shape:
            total *= extent
        if total > (len(data) - at) // 8:
            self.fail(f"{total} elements where {len(data) - at} bytes are left")
        return total

    def items(self, data: bytes, at: int, count: int, depth: int) -> list[Any]:
        found = []
        for _ in range(count):
            _, part, at = self.element(data, at)
            found.append(self.matrix(part, depth + 1)[1])
        return found

    def structs(self, data: bytes, at: int, shape: tuple[int, ...], depth: int) -> Any:
        lengths, at = self.numbers(data, at)
        raw, at = self.numbers(data, at)
        width = int(lengths[0]) if lengths.size else 0
        if width < 1 or raw.size % width:
            self.fail("a struct without the names of its fields")
        text = raw.astype(np.uint8).tobytes()
        names = [text[i : i + width].split(b"\0")[0].decode("latin-1") for i in range(0, len(text), width)]
        count = self.count(shape, data, at)
        values = self.items(data, at, count * len(names), depth)
        rows = [dict(zip(names, values[i * len(names) :], strict=False)) for i in range(count)]
        return rows[0] if count == 1 else rows

    def characters(self, data: bytes, at: int) -> str:
        kind, part, _ = self.element(data, at)
        if kind not in _TEXTS:
            self.fail(f"characters of kind {kind}")
        order = (
            {"utf-16": "-le", "utf-32": "-le"} if self.order == "<" else {"utf-16": "-be", "utf-32": "-be"}
        )
        return part.decode(_TEXTS[kind] + order.get(_TEXTS[kind], ""), errors="replace")

    def array(self, data: bytes, at: int, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
        """Stored by columns, often in a smaller type than the array's own."""
        values, _ = self.numbers(data, at)
        total = 1
        for extent in shape:
            total *= extent
        if values.size != total:
            self.fail(f"{values.size} numbers for a shape of {shape}")
        return values.astype(dtype).reshape(shape, order="F")
