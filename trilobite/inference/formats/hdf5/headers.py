"""HDF5's object headers: the messages of an object, of both generations, with continuations followed.

Enters: the bytes of a file and an address. Leaves: (kind, bytes) of each message. Every address is checked;
an object whose blocks lead back into themselves is refused.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from trilobite.framework.checkpoint.refusal import corrupt
from trilobite.inference.formats.mapped import Cursor

_MOST = 1 << 16  # messages of one object
UNDEFINED = 2**64 - 1


class Message(NamedTuple):
    kind: int
    data: memoryview


class Space(NamedTuple):
    """The bytes of a file, and how to name it."""

    data: memoryview
    where: str

    def cursor(self, at: int, size: int | None = None) -> Cursor:
        end = len(self.data) if size is None else at + size
        if at < 0 or end > len(self.data) or at >= len(self.data):
            raise corrupt(f"an address {at} lies outside of the file", self.where, f"below {len(self.data)}")
        return Cursor(self.data, self.where, at, end)

    def marked(self, at: int, mark: bytes) -> Cursor:
        """A cursor behind the four letters that such a block begins with."""
        cursor = self.cursor(at)
        if bytes(cursor.take(4, "a block")) != mark:
            raise corrupt(
                f"there is no block {mark.decode()} at {at}", self.where, "blocks where addresses say"
            )
        return cursor


def messages(space: Space, at: int) -> list[Message]:
    cursor = space.cursor(at)
    if bytes(cursor.data[at : at + 4]) == b"OHDR":
        return _second(space, at)
    if cursor.number("B") != 1:
        raise corrupt(f"there is no object at {at}", space.where, "an object header")
    cursor.number("B")
    count = int(cursor.number("H"))
    cursor.number("I")
    size = int(cursor.number("I"))
    cursor.take(4)
    blocks = [(cursor.at, size)]
    found: list[Message] = []
    for n, (start, length) in enumerate(blocks):
        here = space.cursor(start, length) if length else None
        while here is not None and here.left >= 8 and len(found) < count:
            kind, much = int(here.number("H")), int(here.number("H"))
            here.take(4)
            _note(space, kind, here.take(much, "a message"), found, blocks)
        if n > 1000:
            raise corrupt("an object has too many blocks", space.where, "at most 1000")
    return found


def _note(
    space: Space, kind: int, data: memoryview, found: list[Message], blocks: list[tuple[int, int]]
) -> None:
    found.append(Message(kind, data))
    if len(found) > _MOST:
        raise corrupt("an object has too many messages", space.where, f"at most {_MOST}")
    if kind == 0x10:
        if len(data) < 16:
            raise corrupt("a continuation is cut off", space.where, "an address and a size")
        start, length = struct.unpack("<QQ", data[:16])
        if (start, length) in blocks:
            raise corrupt("an object's blocks go round", space.where, "no circles")
        blocks.append((start, length))


def _second(space: Space, at: int) -> list[Message]:
    cursor = space.marked(at, b"OHDR")
    if cursor.number("B") != 2:
        raise corrupt("an object header of unknown version", space.where, "version 1 or 2")
    flags = int(cursor.number("B"))
    cursor.take((16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0))
    size = int(cursor.number("BHIQ"[flags & 3]))
    ordered = 2 if flags & 4 else 0
    blocks = [(cursor.at, size)]
    found: list[Message] = []
    for n, (start, length) in enumerate(blocks):
        if n:
            space.marked(start, b"OCHK")
            start, length = start + 4, length - 8
        here = space.cursor(start, max(length, 0)) if length > 0 else None
        while here is not None and here.left >= 4 + ordered:
            kind, much = int(here.number("B")), int(here.number("H"))
            here.take(1 + ordered)
            _note(space, kind, here.take(much, "a message"), found, blocks)
    return found
