"""HDF5 files made byte by byte, as the format's specification lays them out.

Enters: settings of one form. Leaves: bytes. Knows nothing of the reader: superblocks 0 to 3, headers of
both versions, symbol tables and links, data compact, in one piece and in chunks, types, texts on a heap.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

NOWHERE = 2**64 - 1
SPACE, LINKS, TYPE, LINK, LAYOUT, FILTERS, ATTRIBUTE, CONTINUED, TABLE, ABOUT = (
    1, 2, 3, 6, 8, 11, 12, 16, 17, 21,
)  # fmt: skip
Messages = Sequence[tuple[int, bytes]]


def padded(data: bytes, to: int = 8) -> bytes:
    return data + bytes(-len(data) % to)


class File:
    """Blocks one behind the other; `done` puts the superblock before them."""

    def __init__(self, version: int = 0) -> None:
        self.version = version
        self.head = {0: 96, 1: 100, 2: 48, 3: 48}.get(version, 96)
        self.data = b""

    @property
    def here(self) -> int:
        return self.head + len(self.data)

    def add(self, data: bytes) -> int:
        at = self.here
        self.data += padded(data)
        return at

    def done(self, root: int, widths: bytes = b"\x08\x08") -> bytes:
        mark = b"\x89HDF\r\n\x1a\n"
        if self.version < 2:
            head = bytes([self.version, 0, 0, 0, 0]) + widths + struct.pack("<xHHI", 4, 16, 0)
            head += struct.pack("<HH", 32, 0) if self.version else b""
            head += struct.pack("<4Q", 0, NOWHERE, self.head + len(self.data), NOWHERE)
            head += struct.pack("<QQII16x", 0, root, 0, 0)
        else:
            head = bytes([self.version]) + widths + b"\0"
            head += struct.pack("<4QI", 0, NOWHERE, self.head + len(self.data), root, 0)
        assert self.version > 3 or len(mark + head) == self.head
        return mark + head + self.data

    # -- objects -------------------------------------------------------------------------------------------

    def first(self, found: Messages, apart: Messages = ()) -> int:
        """An object header of version 1; the messages `apart` stand in a block of their own."""
        rows = [(kind, padded(data)) for kind, data in found]
        count = len(rows) + len(apart)
        if apart:
            block = b"".join(_first(kind, padded(data)) for kind, data in apart)
            rows.append((CONTINUED, struct.pack("<QQ", self.add(block), len(block))))
            count += 1
        body = b"".join(_first(*row) for row in rows)
        return self.add(struct.pack("<BxHII4x", 1, count, 1, len(body)) + body)

    def second(self, found: Messages, flags: int = 0, apart: Messages = ()) -> int:
        """Version 2: `flags` say how wide its size is, and whether order, phases, times are kept."""
        ordered = bool(flags & 4)
        rows = list(found)
        if apart:
            block = b"OCHK" + b"".join(_second(*row, ordered) for row in apart) + bytes(4)
            rows.append((CONTINUED, struct.pack("<QQ", self.add(block), len(block))))
        body = b"".join(_second(*row, ordered) for row in rows)
        head = b"OHDR" + bytes([2, flags])
        head += bytes(range(1, 17)) if flags & 0x20 else b""
        head += bytes(range(1, 5)) if flags & 0x10 else b""
        head += struct.pack("<" + "BHIQ"[flags & 3], len(body))
        return self.add(head + body + bytes(4))

    def table(self, members: Sequence[tuple[str, int]], deep: bool = False) -> tuple[int, bytes]:
        """A group as a symbol table; `deep` puts another node between the tree and its leaves."""
        names = b"\0" * 8
        places = []
        for name, _ in members:
            places.append(len(names))
            names += padded(name.encode() + b"\0")
        heap = self.add(b"HEAP" + struct.pack("<4xQQQ", len(names), NOWHERE, self.here + 32) + names)
        half = -(-len(members) // 2)
        leaves = []
        for part in (slice(0, half), slice(half, None)):
            rows = [
                struct.pack("<QQII16x", at, target, 0, 0)
                for at, (_, target) in zip(places[part], members[part], strict=True)
            ]
            leaves.append(self.add(b"SNOD" + struct.pack("<BxH", 1, len(rows)) + b"".join(rows)))
        tree = self.tree(0, 0, [(bytes(8), leaf) for leaf in leaves])
        if deep:
            tree = self.tree(0, 1, [(bytes(8), tree)])
        return TABLE, struct.pack("<QQ", tree, heap)

    def tree(self, kind: int, level: int, rows: Sequence[tuple[bytes, int]]) -> int:
        body = b"".join(key + struct.pack("<Q", child) for key, child in rows)
        return self.add(b"TREE" + struct.pack("<BBHQQ", kind, level, len(rows), NOWHERE, NOWHERE) + body)

    def chunks(self, rows: Sequence[tuple[bytes, int, tuple[int, ...]]]) -> int:
        """Data of each chunk, the filters it leaves out, its place."""
        keys = [
            (struct.pack("<II", len(data), mask) + struct.pack(f"<{len(place) + 1}Q", *place, 0), data)
            for data, mask, place in rows
        ]
        return self.tree(1, 0, [(key, self.add(data)) for key, data in keys])

    def heap(self, texts: Sequence[bytes]) -> bytes:
        """A global heap; leaves the references to its texts, one behind the other."""
        rows = b"".join(
            struct.pack("<HH4xQ", n + 1, 1, len(text)) + padded(text) for n, text in enumerate(texts)
        )
        rows += struct.pack("<HH4xQ", 0, 0, 16)
        at = self.add(b"GCOL" + struct.pack("<B3xQ", 1, 16 + len(rows)) + rows)
        return b"".join(struct.pack("<IQI", len(text), at, n + 1) for n, text in enumerate(texts))


def _first(kind: int, data: bytes) -> bytes:
    return struct.pack("<HHB3x", kind, len(data), 0) + data


def _second(kind: int, data: bytes, ordered: bool) -> bytes:
    return struct.pack("<BHB", kind, len(data), 0) + (b"\x09\0" if ordered else b"") + data


def space(shape: Sequence[int], version: int = 1) -> tuple[int, bytes]:
    head = struct.pack("<BBB", version, len(shape), 0) + (bytes(5) if version == 1 else b"\x01")
    return SPACE, head + struct.pack(f"<{len(shape)}Q", *shape)


def kind(dtype: str) -> tuple[int, bytes]:
    """Class, order and sign of numbers: `<i4`, `>f8`, `<u2`; texts of n bytes: `Sn`; of any length: `*`."""
    if dtype == "*":
        return TYPE, struct.pack("<B3BI", 0x19, 1, 0, 0, 16) + kind("S1")[1]
    if dtype[0] == "S":
        return TYPE, struct.pack("<B3BI", 0x13, 0, 0, 0, int(dtype[1:]))
    size = int(dtype[2:])
    bits = (dtype[0] == ">") | (8 if dtype[1] == "i" else 0)
    return TYPE, struct.pack("<B3BI", 0x10 | (dtype[1] == "f"), bits, 0, 0, size) + bytes(12)


def compact(data: bytes, version: int = 3) -> tuple[int, bytes]:
    return LAYOUT, struct.pack("<BBH", version, 0, len(data)) + data


def whole(at: int, size: int, version: int = 3) -> tuple[int, bytes]:
    return LAYOUT, struct.pack("<BBQQ", version, 1, at, size)


def chunked(tree: int, chunk: Sequence[int], width: int, version: int = 3) -> tuple[int, bytes]:
    rank = len(chunk) + 1
    return LAYOUT, struct.pack(f"<BBBQ{rank}I", version, 2, rank, tree, *chunk, width)


def filters(found: Sequence[tuple[int, Sequence[int]]], version: int = 2) -> tuple[int, bytes]:
    """Numbers and settings; version 1 has a name for each, and pads."""
    data = struct.pack("<BB", version, len(found)) + (bytes(6) if version == 1 else b"")
    for number, settings in found:
        name = b"called" if version == 1 or number >= 256 else b""
        long = len(name) if version == 1 or number >= 256 else None
        data += struct.pack("<H", number) + (b"" if long is None else struct.pack("<H", long))
        data += struct.pack("<HH", 1, len(settings)) + (padded(name) if version == 1 else name)
        data += struct.pack(f"<{len(settings)}I", *settings)
        data += bytes(4) if version == 1 and len(settings) % 2 else b""
    return FILTERS, data


def attribute(
    name: str, of: tuple[int, bytes], shape: tuple[int, bytes], data: bytes, version: int = 1
) -> tuple[int, bytes]:
    parts = [name.encode() + b"\0", of[1], shape[1]]
    head = struct.pack("<BBHHH", version, 0, *map(len, parts)) + (b"\0" if version == 3 else b"")
    return ATTRIBUTE, head + b"".join(map(padded, parts) if version == 1 else parts) + data


def link(name: str, at: int, flags: int = 0, of: int = 0) -> tuple[int, bytes]:
    head = bytes([1, flags]) + (bytes([of]) if flags & 8 else b"")
    head += (bytes(range(8)) if flags & 4 else b"") + (b"\x01" if flags & 16 else b"")
    raw = name.encode()
    return LINK, head + struct.pack("<" + "BHIQ"[flags & 3], len(raw)) + raw + struct.pack("<Q", at)
