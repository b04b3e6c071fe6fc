"""HDF5's descriptions of data: types, extents, filters; and text from its heaps.

Enters: messages of an object. Leaves: dtypes, shapes, and decoded bytes. Read are integers, floats,
enumerations (h5py's bools), fixed and variable texts; filters deflate, shuffle and checksum. Others are
refused by name.
"""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

import numpy as np

from trilobite.framework.checkpoint.refusal import corrupt
from trilobite.inference.formats.hdf5.headers import Space
from trilobite.inference.formats.mapped import Array, Cursor, outside

_REMEDY = "save the file again with Keras or h5py and plain settings"


class Type(NamedTuple):
    """`dtype` of numbers; None for text, fixed (`size` bytes each) or of any length (`heap`)."""

    dtype: np.dtype[Any] | None
    size: int
    heap: bool = False


def type_of(data: memoryview, where: str, depth: int = 0) -> Type:
    c = Cursor(data, where)
    head = int(c.number("B"))
    bits = bytes(c.take(3))
    size = int(c.number("I"))
    kind = head & 15
    order = ">" if bits[0] & 1 else "<"
    if kind == 0 and size in (1, 2, 4, 8):
        return Type(np.dtype(f"{order}{'i' if bits[0] & 8 else 'u'}{size}"), size)
    if kind == 1 and size in (2, 4, 8):
        return Type(np.dtype(f"{order}f{size}"), size)
    if kind == 3 and size > 0:
        return Type(None, size)
    if kind == 9 and bits[0] & 15 == 1:
        return Type(None, 16, heap=True)
    if kind == 8 and depth < 4:
        return type_of(c.take(c.left), where, depth + 1)
    raise outside(f"data of HDF5's class {kind}, {size} bytes wide", where, _REMEDY, "numbers and texts")


def extent_of(data: memoryview, where: str) -> tuple[int, ...]:
    c = Cursor(data, where)
    version, rank = int(c.number("B")), int(c.number("B"))
    c.number("B")
    c.take(5 if version == 1 else 1)
    if rank > 32:
        raise corrupt(f"data have {rank} axes", where, "at most 32")
    return tuple(int(c.number("Q")) for _ in range(rank))


class Filter(NamedTuple):
    number: int
    settings: list[int]


def filters_of(data: memoryview, where: str) -> list[Filter]:
    c = Cursor(data, where)
    version, count = int(c.number("B")), int(c.number("B"))
    c.take(6 if version == 1 else 0)
    found = []
    for _ in range(min(count, 32)):
        number = int(c.number("H"))
        name = int(c.number("H")) if version == 1 or number >= 256 else 0
        c.number("H")
        settings = int(c.number("H"))
        c.take(-(-name // 8) * 8 if version == 1 else name)
        found.append(Filter(number, [int(c.number("I")) for _ in range(settings)]))
        c.take(4 if version == 1 and settings % 2 else 0)
    return found


def unfiltered(raw: bytes, filters: list[Filter], mask: int, size: int, where: str) -> bytes:
    """A chunk as it was before its filters; `size` is what must come out, and no more ever does."""
    for i in reversed(range(len(filters))):
        if mask >> i & 1:
            continue
        number, settings = filters[i]
        if number == 1:
            made = zlib.decompressobj()
            try:
                raw = made.decompress(raw, size + 8)
            except zlib.error as error:
                raise corrupt(f"a chunk cannot be unpacked: {error}", where, "deflated data") from error
        elif number == 2:
            width = settings[0] if settings else 1
            if width < 1 or len(raw) % width:
                raise corrupt("a chunk is shuffled by a width that it does not have", where, "a divisor")
            raw = np.frombuffer(raw, np.uint8).reshape(width, -1).T.tobytes()
        elif number == 3:
            raw = raw[:-4]
        else:
            raise outside(f"data packed by filter {number}", where, _REMEDY, "deflate, shuffle or fletcher32")
    if len(raw) != size:
        raise corrupt(f"a chunk has {len(raw)} bytes", where, f"{size}")
    return raw


def texts(space: Space, kind: Type, raw: memoryview, count: int) -> list[str]:
    """Texts that stand in place, padded, or on a heap."""
    if count * kind.size > len(raw):
        raise corrupt(f"{count} texts in {len(raw)} bytes", space.where, f"{count * kind.size} bytes")
    out = []
    for i in range(count):
        one = raw[i * kind.size : (i + 1) * kind.size]
        data = _on_heap(space, one) if kind.heap else bytes(one)
        out.append(data.split(b"\0", 1)[0].decode(errors="replace"))
    return out


def _on_heap(space: Space, reference: memoryview) -> bytes:
    c = Cursor(reference, space.where)
    length, at, wanted = int(c.number("I")), int(c.number("Q")), int(c.number("I"))
    if length == 0:
        return b""
    heap = space.marked(at, b"GCOL")
    heap.take(4)
    end = at + int(heap.number("Q"))
    while heap.at + 16 <= min(end, heap.end):
        number = int(heap.number("H"))
        heap.take(6)
        size = int(heap.number("Q"))
        data = heap.take(size, "an entry of a heap")
        if number == wanted:
            return bytes(data[:length])
        if number == 0:
            break
        heap.take(min(-size % 8, heap.left))
    raise corrupt(f"text {wanted} is not on its heap", space.where, "a heap that holds it")


def numbers(raw: Any, kind: Type, shape: tuple[int, ...]) -> Array:
    assert kind.dtype is not None
    found: Array = np.frombuffer(raw, kind.dtype).reshape(shape)
    return found if found.dtype.isnative else found.astype(found.dtype.newbyteorder("="))
