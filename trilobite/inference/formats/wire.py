"""Protocol buffers, read from their wire form without a schema: fields by number.

Enters: bytes. Leaves: for each field number the values that stand under it, in order: integers, or views of
bytes that the reader of a format takes further. Nothing is copied and nothing recurses. Does not know any
message.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from trilobite.framework.checkpoint.refusal import corrupt
from trilobite.inference.formats.mapped import Array

Field = int | memoryview


class Message:
    """The fields of one message. A number's bytes stay as they are until somebody says what they mean."""

    __slots__ = ("_fields", "where")

    def __init__(self, data: memoryview, where: str) -> None:
        self.where = where
        self._fields: dict[int, list[Field]] = {}
        at, end = 0, len(data)
        while at < end:
            key, at = _varint(data, at, where)
            value, at = _value(data, at, key & 7, where)
            self._fields.setdefault(key >> 3, []).append(value)

    def has(self, number: int) -> bool:
        return number in self._fields

    def given(self) -> list[int]:
        """The numbers of the fields that are there, in the order in which they first stand there."""
        return list(self._fields)

    def raws(self, number: int) -> list[memoryview]:
        """The bytes of each of a field's values."""
        return [self._bytes(v) for v in self._fields.get(number, ())]

    def messages(self, number: int) -> list[Message]:
        return [Message(self._bytes(v), self.where) for v in self._fields.get(number, ())]

    def message(self, number: int) -> Message | None:
        found = self._fields.get(number)
        return Message(self._bytes(found[-1]), self.where) if found else None

    def texts(self, number: int) -> list[str]:
        return [bytes(self._bytes(v)).decode(errors="replace") for v in self._fields.get(number, ())]

    def text(self, number: int, default: str = "") -> str:
        found = self.texts(number)
        return found[-1] if found else default

    def raw(self, number: int) -> memoryview:
        found = self._fields.get(number)
        return self._bytes(found[-1]) if found else memoryview(b"")

    def integer(self, number: int, default: int = 0) -> int:
        found = self._fields.get(number)
        if not found:
            return default
        if not isinstance(found[-1], int):
            raise corrupt(f"field {number} holds no integer", self.where, "a message of this format")
        return signed(found[-1])

    def integers(self, number: int) -> list[int]:
        """One by one, or packed."""
        out: list[int] = []
        for v in self._fields.get(number, ()):
            if isinstance(v, int):
                out.append(signed(v))
                continue
            at = 0
            while at < len(v):
                n, at = _varint(v, at, self.where)
                out.append(signed(n))
        return out

    def long_integers(self, number: int) -> Array:
        """As `integers`, quick for many: int64, of which unsigned 64 bits wrap around."""
        values = self._fields.get(number, ())
        if len(values) != 1 or isinstance(values[0], int):
            return np.array([n & (1 << 64) - 1 for n in self.integers(number)], np.uint64).view(np.int64)
        return _varints(np.frombuffer(values[0], np.uint8), self.where)

    def float(self, number: int, default: float = 0.0) -> float:
        found = self._fields.get(number)
        if not found:
            return default
        raw = self._bytes(found[-1])
        if len(raw) not in (4, 8):
            raise corrupt(f"field {number} holds no number", self.where, "a message of this format")
        return float(struct.unpack("<f" if len(raw) == 4 else "<d", raw)[0])

    def numbers(self, number: int, dtype: Any) -> Array:
        """Numbers of fixed width, one by one or packed."""
        kind = np.dtype(dtype)
        parts = [np.frombuffer(self._whole(v, kind.itemsize), kind) for v in self._fields.get(number, ())]
        found: Array = parts[0] if len(parts) == 1 else np.concatenate(parts or [np.zeros(0, kind)])
        return found

    def _whole(self, v: Field, width: int) -> memoryview:
        raw = self._bytes(v)
        if len(raw) % width:
            raise corrupt(
                "packed numbers end in the middle of one", self.where, f"a multiple of {width} bytes"
            )
        return raw

    def _bytes(self, v: Field) -> memoryview:
        if isinstance(v, int):
            raise corrupt(
                "a field holds an integer where bytes are due", self.where, "a message of this format"
            )
        return v


def signed(n: int) -> int:
    return n - (1 << 64) if n >= 1 << 63 else n


def _varints(data: Array, where: str) -> Array:
    """All numbers of a packed field."""
    ends = np.flatnonzero(data < 128)
    if data.size and (not ends.size or ends[-1] != data.size - 1):
        raise corrupt("packed numbers do not end", where, "a whole protocol buffer")
    starts = np.concatenate([[0], ends[:-1] + 1])[: ends.size]
    lengths = ends - starts + 1
    if lengths.max(initial=0) > 10:
        raise corrupt("a packed number does not end", where, "at most ten bytes a number")
    found = np.zeros(ends.size, np.uint64)
    for i in range(int(lengths.max(initial=0))):
        there = lengths > i
        found[there] |= (data[starts[there] + i] & 127).astype(np.uint64) << np.uint64(7 * i)
    return found.view(np.int64)


def _varint(data: memoryview, at: int, where: str) -> tuple[int, int]:
    found = shift = 0
    end = len(data)
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        found |= (byte & 127) << shift
        if byte < 128:
            return found & (1 << 64) - 1, at
        shift += 7
    raise corrupt(f"a number at byte {at} does not end", where, "a whole protocol buffer")


def _value(data: memoryview, at: int, kind: int, where: str) -> tuple[Field, int]:
    if kind == 0:
        return _varint(data, at, where)
    if kind == 2:
        size, at = _varint(data, at, where)
    elif kind in (1, 5):
        size = 8 if kind == 1 else 4
    else:
        raise corrupt(f"a field of kind {kind} at byte {at}", where, "a protocol buffer without groups")
    if at + size > len(data):
        raise corrupt(f"a field takes {size} bytes at byte {at}", where, f"at most {len(data) - at}")
    return data[at : at + size], at + size
