"""HDF5 files, as Keras and h5py write them: groups, attributes and arrays.

Enters: a path or bytes. Leaves: `Group`s by name; arrays are mapped where they lie in one piece, put together
where they lie in chunks. Read are superblocks 0 to 3, object headers 1 and 2, groups as symbol tables and as
link messages, data compact, contiguous and in chunks of a version 1 tree. Not read: links and attributes in
fractal heaps, chunks of the newest kind, soft and external links, compound types; they are refused by name.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from trilobite.base.errors import ArgumentError
from trilobite.framework.checkpoint.arrays import checked_bytes
from trilobite.framework.checkpoint.refusal import corrupt, shown
from trilobite.inference.formats.hdf5.headers import UNDEFINED, Message, Space, messages
from trilobite.inference.formats.hdf5.values import (
    Filter,
    Type,
    extent_of,
    filters_of,
    numbers,
    texts,
    type_of,
    unfiltered,
)
from trilobite.inference.formats.mapped import Array, Cursor, mapped, outside

_MARK = b"\x89HDF\r\n\x1a\n"
_REMEDY = "save the file again with Keras or h5py and plain settings"
_DEEPEST, _MOST = 48, 1 << 20  # groups within groups, members of one file


class Group:
    """An object: members by name, attributes, and numbers if it is a dataset."""

    def __init__(self, space: Space, at: int, depth: int = 0) -> None:
        if depth > _DEEPEST:
            raise corrupt(f"groups are nested more than {_DEEPEST} deep", space.where, "fewer")
        self._space, self._depth, self._messages = space, depth, messages(space, at)

    def _all(self, kind: int) -> list[Message]:
        return [m for m in self._messages if m.kind == kind]

    @property
    def is_dataset(self) -> bool:
        return bool(self._all(0x08))

    # -- members -------------------------------------------------------------------------------------------

    def members(self) -> dict[str, int]:
        """Addresses of objects by name."""
        found: dict[str, int] = {}
        for m in self._all(0x11):
            c = Cursor(m.data, self._space.where)
            tree, heap = int(c.number("Q")), int(c.number("Q"))
            found.update(_symbols(self._space, tree, heap))
        for m in self._all(0x06):
            name, address = _link(m.data, self._space.where)
            found[name] = address
        for m in self._all(0x02):
            c = Cursor(m.data, self._space.where)
            flags = list(c.take(2))[1]
            c.take(8 if flags & 1 else 0)
            if int(c.number("Q")) != UNDEFINED:
                raise outside("a group keeps its links in a fractal heap", self._space.where, _REMEDY)
        return found

    def __getitem__(self, path: str) -> Group:
        now = self
        for part in path.strip("/").split("/"):
            found = now.members()
            if part not in found:
                raise ArgumentError(
                    f"there is no {shown(path)}",
                    where=self._space.where,
                    expected=f"one of {sorted(found)[:20]}",
                )
            now = Group(self._space, found[part], now._depth + 1)
        return now

    def __contains__(self, path: str) -> bool:
        first, _, rest = path.strip("/").partition("/")
        found = self.members()
        if first not in found:
            return False
        return not rest or rest in Group(self._space, found[first], self._depth + 1)

    def walk(self, prefix: str = "") -> Iterator[tuple[str, Group]]:
        """All datasets below, by path."""
        todo = [(prefix, self)]
        for count in itertools.count():
            if not todo:
                return
            if count > _MOST:
                raise corrupt("the file has too many objects", self._space.where, f"at most {_MOST}")
            path, now = todo.pop()
            if now.is_dataset:
                yield path, now
                continue
            for name, at in sorted(now.members().items(), reverse=True):
                todo.append((f"{path}/{name}" if path else name, Group(self._space, at, now._depth + 1)))

    # -- values --------------------------------------------------------------------------------------------

    @property
    def attributes(self) -> dict[str, Any]:
        """Numbers as arrays, texts as str or lists of them."""
        for m in self._all(0x15):
            c = Cursor(m.data, self._space.where)
            flags = list(c.take(2))[1]
            c.take(2 if flags & 1 else 0)
            if int(c.number("Q")) != UNDEFINED:
                raise outside("an object keeps its attributes in a fractal heap", self._space.where, _REMEDY)
        return dict(_attribute(self._space, m.data) for m in self._all(0x0C))

    @property
    def shape(self) -> tuple[int, ...]:
        return extent_of(self._one(0x01), self._space.where)

    def _one(self, kind: int) -> memoryview:
        found = self._all(kind)
        if not found:
            raise corrupt(f"an object has no message {kind}", self._space.where, "a dataset")
        return found[0].data

    def array(self) -> Array:
        """The numbers of a dataset."""
        where, shape = self._space.where, self.shape
        kind = type_of(self._one(0x03), where)
        if kind.dtype is None:
            raise outside("a dataset of texts", where, _REMEDY, "numbers")
        size = checked_bytes(shape, kind.dtype.itemsize, where)
        c = Cursor(self._one(0x08), where)
        version, layout = int(c.number("B")), int(c.number("B"))
        if version not in (3, 4) or (version == 4 and layout == 2):
            raise outside(f"data are laid out in version {version}", where, _REMEDY, "version 3")
        if layout == 0:
            return numbers(c.take(int(c.number("H")), "data")[:size], kind, shape)
        if layout == 1:
            at = int(c.number("Q"))
            if at == UNDEFINED or size == 0:
                return np.zeros(shape, kind.dtype.newbyteorder("="))
            return numbers(self._space.cursor(at, size).take(size), kind, shape)
        return self._chunked(c, kind, shape, size)

    def _chunked(self, c: Cursor, kind: Type, shape: tuple[int, ...], size: int) -> Array:
        rank, tree = int(c.number("B")) - 1, int(c.number("Q"))
        chunk = tuple(int(c.number("I")) for _ in range(max(rank, 0)))
        assert kind.dtype is not None
        if rank != len(shape) or any(n < 1 for n in chunk) or size > 1 << 40:
            raise corrupt(f"chunks {chunk} of data {shape}", self._space.where, "as many axes")
        each = checked_bytes(chunk, kind.dtype.itemsize, self._space.where)
        if each > max(4 * size, 1 << 26):
            raise corrupt(f"a chunk of {each} bytes for data of {size}", self._space.where, "smaller chunks")
        found = self._all(0x0B)
        filters = filters_of(found[0].data, self._space.where) if found else []
        if size > 2000 * len(self._space.data) + (1 << 20):
            raise corrupt(f"the data would take {size} bytes", self._space.where, "what the file can hold")
        out = np.zeros(shape, kind.dtype.newbyteorder("="))
        for at, stored, mask, place in _chunks(self._space, tree, rank) if tree != UNDEFINED else ():
            raw = bytes(self._space.cursor(at, stored).take(stored))
            self._put(out, unfiltered(raw, filters, mask, each, self._space.where), kind, chunk, place)
        return out

    def _put(
        self, out: Array, raw: bytes, kind: Type, chunk: tuple[int, ...], place: tuple[int, ...]
    ) -> None:
        if any(p >= d for p, d in zip(place, out.shape, strict=True)):
            raise corrupt(f"a chunk at {place} of data {out.shape}", self._space.where, "places inside")
        inside = tuple(slice(p, min(p + n, d)) for p, n, d in zip(place, chunk, out.shape, strict=True))
        part = tuple(slice(0, s.stop - s.start) for s in inside)
        out[inside] = numbers(raw, kind, chunk)[part]


def _attribute(space: Space, data: memoryview) -> tuple[str, Any]:
    c = Cursor(data, space.where)
    version = int(c.number("B"))
    c.number("B")
    sizes = [int(c.number("H")) for _ in range(3)]
    if version == 3:
        c.number("B")
    step = 8 if version == 1 else 1
    name, kind, extent = (c.take(-(-n // step) * step)[:n] for n in sizes)
    label = bytes(name).split(b"\0", 1)[0].decode(errors="replace")
    found, shape = type_of(kind, space.where), extent_of(extent, space.where)
    count = int(np.prod(shape, dtype=object))
    rest = c.take(c.left)
    if count * found.size > len(rest):
        raise corrupt(f"the attribute {shown(label)} is cut off", space.where, f"{count * found.size} bytes")
    if found.dtype is not None:
        return label, numbers(rest[: count * found.size], found, shape)
    values = texts(space, found, rest, count)
    return label, values if shape else values[0]


def _link(data: memoryview, where: str) -> tuple[str, int]:
    c = Cursor(data, where)
    c.number("B")
    flags = int(c.number("B"))
    kind = int(c.number("B")) if flags & 8 else 0
    c.take((8 if flags & 4 else 0) + (1 if flags & 16 else 0))
    name = c.text(int(c.number("BHIQ"[flags & 3])))
    if kind != 0:
        raise outside(f"the link {shown(name)} leads elsewhere", where, _REMEDY, "objects of the file itself")
    return name, int(c.number("Q"))


def _symbols(space: Space, tree: int, heap: int) -> dict[str, int]:
    """Members of a group that is a symbol table: a tree of nodes, names on a local heap."""
    h = space.marked(heap, b"HEAP")
    h.take(4)
    size = int(h.number("Q"))
    h.take(8)
    names = space.cursor(int(h.number("Q")), size) if size else None
    found: dict[str, int] = {}
    for node in _leaves(space, tree, 8):
        c = space.marked(node, b"SNOD")
        c.take(2)
        for _ in range(int(c.number("H"))):
            at, address = int(c.number("Q")), int(c.number("Q"))
            c.take(24)
            if names is None or at >= size:
                raise corrupt("a name lies outside of its heap", space.where, "names inside")
            raw = bytes(names.data[names.at + at : names.end]).split(b"\0", 1)[0]
            found[raw.decode(errors="replace")] = address
    return found


def _leaves(space: Space, tree: int, key: int) -> Iterator[int]:
    """Children at the bottom of a tree, left to right."""
    for _, child in _entries(space, tree, key, 0):
        yield child


def _entries(space: Space, tree: int, key: int, kind: int) -> Iterator[tuple[Cursor, int]]:
    todo, seen = [(tree, 1 << 8)], 0
    while todo:
        at, above = todo.pop()
        seen += 1
        c = space.marked(at, b"TREE")
        found, level, count = int(c.number("B")), int(c.number("B")), int(c.number("H"))
        if found != kind or level >= above or seen > 1 << 16:
            raise corrupt(
                "a tree does not become smaller towards its leaves", space.where, "levels that fall"
            )
        c.take(16)
        rows = []
        for _ in range(count):
            place = Cursor(c.take(key), space.where)
            rows.append((place, int(c.number("Q"))))
        if level:
            todo += [(child, level) for _, child in reversed(rows)]
        else:
            yield from rows


def _chunks(space: Space, tree: int, rank: int) -> Iterator[tuple[int, int, int, tuple[int, ...]]]:
    """Address, stored bytes, filters left out, and place of each chunk."""
    for key, at in _entries(space, tree, 8 + 8 * (rank + 1), 1):
        stored, mask = int(key.number("I")), int(key.number("I"))
        yield at, stored, mask, tuple(int(key.number("Q")) for _ in range(rank))


def open_file(source: Any) -> Group:
    """The root group of a file: a path, or its bytes."""
    if isinstance(source, bytes | memoryview):
        data, where = memoryview(source), "the file within the archive"
    else:
        data, where = mapped(source)
    space = Space(data, where)
    if bytes(data[:8]) != _MARK:
        raise corrupt("the file does not begin as HDF5 does", where, "an HDF5 file")
    c = Cursor(data, where, 8)
    version = int(c.number("B"))
    if version in (0, 1):
        c.take(4)
        sizes = bytes(c.take(2))
        c.take(9 + (4 if version else 0) + 32 + 8)
    elif version in (2, 3):
        sizes = bytes(c.take(2))
        c.take(1 + 24)
    else:
        raise outside(f"an HDF5 file of version {version}", where, _REMEDY, "versions 0 to 3")
    if sizes != b"\x08\x08":
        raise outside("addresses of another width than 8 bytes", where, _REMEDY)
    return Group(space, int(c.number("Q")))


__all__ = ["Filter", "Group", "open_file"]
