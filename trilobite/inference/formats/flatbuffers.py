"""Flat buffers, read in place: tables, vectors, strings, each step checked against the ends of the file.

Enters: bytes. Leaves: numbers, names, arrays and tables by slot. An offset points forward, so nothing can
refer to itself. Does not know any schema.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from trilobite.framework.checkpoint.refusal import corrupt, shown
from trilobite.inference.formats.mapped import Array, view


class Table:
    """A table: fields by slot, those that are not there by their default."""

    __slots__ = ("at", "data", "vtable", "vtable_size", "where")

    def __init__(self, data: memoryview, at: int, where: str) -> None:
        self.data, self.at, self.where = data, at, where
        self.vtable = at - _number(data, at, "i", where)
        self.vtable_size = _number(data, self.vtable, "H", where)
        if self.vtable < 0 or self.vtable + self.vtable_size > len(data):
            raise corrupt("a table's list of fields lies outside of the file", where, "offsets inside")

    def _field(self, slot: int) -> int:
        """Where a field lies; 0 if it is not there."""
        entry = 4 + 2 * slot
        if entry + 2 > self.vtable_size:
            return 0
        offset = _number(self.data, self.vtable + entry, "H", self.where)
        return self.at + offset if offset else 0

    def number(self, slot: int, form: str, default: Any = 0) -> Any:
        at = self._field(slot)
        return _number(self.data, at, form, self.where) if at else default

    def _pointed(self, slot: int) -> int:
        at = self._field(slot)
        return at + _number(self.data, at, "I", self.where) if at else 0

    def table(self, slot: int) -> Table | None:
        at = self._pointed(slot)
        return Table(self.data, at, self.where) if at else None

    def _vector(self, slot: int, each: int) -> tuple[int, int]:
        """Where a vector's elements begin, and how many there are."""
        at = self._pointed(slot)
        if not at:
            return 0, 0
        length = _number(self.data, at, "I", self.where)
        if at + 4 + length * each > len(self.data):
            raise corrupt(f"a vector claims {length} elements", self.where, "as many as the file has")
        return at + 4, length

    def tables(self, slot: int) -> list[Table]:
        at, length = self._vector(slot, 4)
        found = []
        for i in range(length):
            here = at + 4 * i
            found.append(Table(self.data, here + _number(self.data, here, "I", self.where), self.where))
        return found

    def array(self, slot: int, dtype: Any) -> Array:
        """A vector of numbers, mapped."""
        kind = np.dtype(dtype)
        at, length = self._vector(slot, kind.itemsize)
        return view(self.data, at, length * kind.itemsize, kind, self.where)

    def has(self, slot: int) -> bool:
        return bool(self._field(slot))

    def ints(self, slot: int) -> list[int]:
        return [int(v) for v in self.array(slot, np.int32)]

    def text(self, slot: int) -> str:
        at, length = self._vector(slot, 1)
        raw = bytes(self.data[at : at + length])
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise corrupt(f"the name {shown(repr(raw))} is not text", self.where, "UTF-8") from None


def root(data: memoryview, where: str, identifier: bytes) -> Table:
    """The outermost table of a file with this identifier."""
    if len(data) < 16 or bytes(data[4:8]) != identifier:
        raise corrupt(f"the file is not marked {identifier.decode()}", where, "a file of that format")
    return Table(data, _number(data, 0, "I", where), where)


def _number(data: memoryview, at: int, form: str, where: str) -> Any:
    size = struct.calcsize("<" + form)
    if at < 0 or at + size > len(data):
        raise corrupt(f"a number lies at byte {at}", where, f"within the file's {len(data)} bytes")
    return struct.unpack_from("<" + form, data, at)[0]
