"""The GGUF container: metadata and a table of tensors, of versions 2 and 3, little endian.

Enters: a path. Leaves: `GGUF`, a mapping from names to arrays that are made when they are asked for, with the
metadata beside it. Every count, size and offset is checked before anything is made. A tensor's dimensions are
stored innermost first; here they stand in NumPy's order. Does not run a network: a GGUF file holds none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from trilobite.base.errors import ArgumentError
from trilobite.framework.checkpoint.arrays import checked_bytes
from trilobite.framework.checkpoint.refusal import corrupt, shown
from trilobite.inference.formats.gguf.types import TYPES, BlockType
from trilobite.inference.formats.mapped import Array, Cursor, mapped, outside, view

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_SIZES = {kind: np.dtype(form).itemsize for kind, form in _SCALARS.items()}
_DEEPEST = 4  # arrays of arrays: llama.cpp writes none


class Entry(NamedTuple):
    """One tensor as the table describes it: its shape, how it is stored, and where its bytes begin."""

    shape: tuple[int, ...]
    type: BlockType
    start: int
    size: int


class GGUF(Mapping[str, Array]):
    """The tensors of a file by name. A quantised one is turned into float32 each time it is asked for."""

    def __init__(self, path: Any) -> None:
        self._data, self.where = mapped(path)
        cursor = Cursor(self._data, self.where)
        tensors = _header(cursor)
        self.metadata = _metadata(cursor)
        self.entries = _table(cursor, tensors, _alignment(self.metadata, self.where))

    def __getitem__(self, name: str) -> Array:
        entry = self.entry(name)
        if not entry.size:
            return np.zeros(entry.shape, entry.type.record if entry.type.block == 1 else np.float32)
        found: Array = entry.type.values(self.stored(name)).reshape(entry.shape)
        return found

    def entry(self, name: str) -> Entry:
        if name not in self.entries:
            raise ArgumentError(
                f"the file has no tensor named {shown(name)}",
                where=self.where,
                expected=f"one of its {len(self.entries)} names",
                remedy="list(tensors) gives the names",
            )
        return self.entries[name]

    def stored(self, name: str) -> Array:
        """A tensor as it lies in the file: numbers, or blocks of a quantised type as records."""
        entry = self.entry(name)
        return view(self._data, entry.start, entry.size, entry.type.record, f"{self.where}, {shown(name)}")

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


def _header(cursor: Cursor) -> int:
    if bytes(cursor.take(4, "the magic number")) != b"GGUF":
        raise corrupt("the file does not begin with GGUF", cursor.where, "a GGUF file")
    version = int(cursor.number("I"))
    if version not in (2, 3):
        big = int.from_bytes(version.to_bytes(4, "little"), "big") in (2, 3)
        raise outside(
            "the file is big endian" if big else f"the file is of GGUF version {version}",
            cursor.where,
            "convert it with llama.cpp's own tools",
            "little endian, version 2 or 3",
        )
    return cursor.count("Q", 0, "tensors")


def _metadata(cursor: Cursor) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(cursor.count("Q", 13, "keys")):
        key = _string(cursor)
        if key in found:
            raise corrupt(f"the key {shown(key)} stands twice", cursor.where, "each key once")
        found[key] = _value(cursor, int(cursor.number("I")), 0)
    return found


def _string(cursor: Cursor) -> str:
    return cursor.text(cursor.count("Q", 1, "bytes of a name"))


def _value(cursor: Cursor, kind: int, depth: int) -> Any:
    if kind in _SCALARS:
        return cursor.number(_SCALARS[kind])
    if kind == _STRING:
        # a vocabulary may hold bytes that are no text
        return bytes(cursor.take(cursor.count("Q", 1, "bytes of a string"))).decode(errors="replace")
    if kind != _ARRAY or depth >= _DEEPEST:
        raise corrupt(f"a value of kind {kind} at depth {depth}", cursor.where, "kinds 0 to 12")
    return _array(cursor, int(cursor.number("I")), depth)


def _array(cursor: Cursor, kind: int, depth: int) -> Any:
    length = cursor.count("Q", _SIZES.get(kind, 8), "elements of an array")
    if kind in _SCALARS:
        form = np.dtype(_SCALARS[kind]).newbyteorder("<")
        return np.frombuffer(cursor.take(length * form.itemsize), form)
    return [_value(cursor, kind, depth + 1) for _ in range(length)]


def _alignment(metadata: Mapping[str, Any], where: str) -> int:
    found = metadata.get("general.alignment", 32)
    if type(found) is not int or not 1 <= found <= 1 << 20 or found & (found - 1):
        raise corrupt(f"the alignment is {shown(str(found))}", where, "a power of two of at most 2**20")
    return found


def _table(cursor: Cursor, tensors: int, alignment: int) -> dict[str, Entry]:
    if tensors * 24 > cursor.left:
        raise corrupt(f"the file claims {tensors} tensors", cursor.where, f"at most {cursor.left // 24}")
    rows: dict[str, tuple[tuple[int, ...], BlockType, int]] = {}
    for _ in range(tensors):
        name = _string(cursor)
        if name in rows:
            raise corrupt(f"the tensor {shown(name)} stands twice", cursor.where, "each name once")
        rows[name] = _row(cursor, f"{cursor.where}, tensor {shown(name)}")
    base = -(-cursor.at // alignment) * alignment
    return {name: _placed(name, row, base, alignment, cursor) for name, row in rows.items()}


def _row(cursor: Cursor, where: str) -> tuple[tuple[int, ...], BlockType, int]:
    rank = int(cursor.number("I"))
    if rank > 8:
        raise corrupt(f"the tensor has {rank} dimensions", where, "at most 8")
    shape = tuple(int(cursor.number("Q")) for _ in range(rank))[::-1]
    kind, offset = int(cursor.number("I")), int(cursor.number("Q"))
    if kind not in TYPES:
        raise outside(
            f"the tensor is stored in type {kind}, which is not known",
            where,
            "convert the file to one of these with llama.cpp's own tools",
            ", ".join(t.name for t in TYPES.values()),
        )
    return shape, TYPES[kind], offset


def _placed(
    name: str, row: tuple[tuple[int, ...], BlockType, int], base: int, alignment: int, cursor: Cursor
) -> Entry:
    shape, kind, offset = row
    where = f"{cursor.where}, tensor {shown(name)}"
    checked_bytes(shape, 8, where)
    elements = int(np.prod(shape, dtype=object))
    if (shape[-1] if shape else 1) % kind.block:
        raise corrupt(f"rows of {shape[-1:]} elements in {kind.name}", where, f"a multiple of {kind.block}")
    size = elements // kind.block * kind.record.itemsize
    if offset % alignment or base + offset + size > cursor.end:
        raise corrupt(
            f"the tensor lies at {offset} and takes {size} bytes",
            where,
            f"a multiple of {alignment}, and at most {max(cursor.end - base, 0)} bytes of data",
        )
    return Entry(shape, kind, base + offset, size)
