"""A file as bytes that are mapped, not read, and a cursor that never leaves them.

Enters: a path, or bytes. Leaves: a read-only view of the whole file, and numbers, names and slices taken from
it in order. Every step is checked against the end. Does not know any format.
"""

from __future__ import annotations

import mmap
import struct
from typing import Any

import numpy as np

from trilobite.base.errors import FileError
from trilobite.framework.checkpoint.refusal import corrupt, shown
from trilobite.framework.checkpoint.sources import opened

Array = np.ndarray[Any, np.dtype[Any]]
REMEDY = "the file is corrupt or malicious; fetch or save it again, or use another one"


def mapped(path: Any) -> tuple[memoryview, str]:
    """The bytes of a file, read as they are used, and how to name the file in messages."""
    with opened(path) as file:
        if file.size == 0:
            raise corrupt("the file is empty", file.where, "a model or weights")
        return memoryview(mmap.mmap(file.fd, file.size, access=mmap.ACCESS_READ)), file.where


def outside(what: str, where: str, remedy: str, expected: str | None = None) -> FileError:
    """A file that is sound, but asks for something that is not done here."""
    return FileError(what, where=where, expected=expected, remedy=remedy)


class Cursor:
    """A place within bytes that moves forward as things are taken."""

    __slots__ = ("at", "data", "end", "where")

    def __init__(self, data: memoryview, where: str, at: int = 0, end: int | None = None) -> None:
        self.data, self.where, self.at = data, where, at
        self.end = len(data) if end is None else end

    @property
    def left(self) -> int:
        return self.end - self.at

    def take(self, size: int, what: str = "bytes") -> memoryview:
        if not 0 <= size <= self.left:
            raise corrupt(
                f"{what} would take {size} bytes at byte {self.at}",
                self.where,
                f"at most {max(self.left, 0)}",
            )
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, form: str) -> Any:
        """One number in the form that `struct` names, little endian."""
        form = "<" + form
        size = struct.calcsize(form)
        return struct.unpack(form, self.take(size, "a number"))[0]

    def count(self, form: str, each: int, what: str) -> int:
        """How many of something follow; refused if that many, of `each` bytes at least, cannot."""
        found = int(self.number(form))
        if found < 0 or found * each > self.left:
            raise corrupt(
                f"the file claims {found} {what}", self.where, f"at most {self.left // max(each, 1)}"
            )
        return found

    def text(self, size: int) -> str:
        raw = bytes(self.take(size, "a name"))
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise corrupt(f"the name {shown(repr(raw))} is not text", self.where, "UTF-8") from None


def view(data: memoryview, at: int, size: int, dtype: Any, where: str) -> Array:
    """`size` bytes of a file as a flat array, without a copy where they are aligned."""
    if at < 0 or size < 0 or at + size > len(data):
        raise corrupt(
            f"data from byte {at} to {at + size} lie outside of the file", where, f"at most {len(data)} bytes"
        )
    kind = np.dtype(dtype)
    raw = np.frombuffer(data, np.uint8, size, at)
    if raw.ctypes.data % max(kind.alignment, 1):
        raw = raw.copy()
    found: Array = raw.view(kind)
    found.flags.writeable = False
    return found
