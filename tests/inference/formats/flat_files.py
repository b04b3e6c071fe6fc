"""Flat buffers made by hand: tables from slots, vectors, texts; and a small TFLite file of them."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

Slots = Mapping[int, Any]  # a number as (form, value), bytes, a text, a list of numbers or of tables, a table


def table(slots: Slots) -> bytes:
    """A table whose parts all lie behind it; offsets point forward."""
    count = max(slots, default=-1) + 1
    vtable_size = 4 + 2 * count
    offsets, inline, parts = [0] * count, b"", list[tuple[int, bytes]]()
    for slot, value in sorted(slots.items()):
        if isinstance(value, tuple):
            size = struct.calcsize("<" + value[0])
            inline += bytes(-(4 + len(inline)) % size)
            offsets[slot] = 4 + len(inline)
            inline += struct.pack("<" + value[0], value[1])
            continue
        inline += bytes(-len(inline) % 4)
        offsets[slot] = 4 + len(inline)
        parts.append((len(inline), _part(value)))
        inline += bytes(4)
    inline += bytes(-len(inline) % 4)
    padding = -vtable_size % 4
    begin = padding + vtable_size
    body = bytearray(inline)
    behind = bytearray()
    for at, data in parts:
        start, lead = 4 + len(inline) + len(behind), _lead(data)
        struct.pack_into("<I", body, at, start + lead - (4 + at))
        behind += data + bytes(-len(data) % 4)
    vtable = struct.pack(f"<HH{count}H", vtable_size, 4 + len(inline), *offsets)
    return (
        bytes(padding) + vtable + struct.pack("<i", vtable_size) + bytes(body) + bytes(behind) + _mark(begin)
    )


def _mark(begin: int) -> bytes:
    """Where the table itself begins, as the last number of its bytes."""
    return struct.pack("<I", begin)


def _lead(data: bytes) -> int:
    """Vectors begin at once, tables behind their list of fields: the mark at the end says where."""
    return struct.unpack("<I", data[-4:])[0]


def _part(value: Any) -> bytes:
    if isinstance(value, Mapping):
        return table(value)
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        data = struct.pack("<I", len(value)) + value
        return data + bytes(-len(data) % 4) + _mark(0)
    if value and isinstance(value[0], Mapping):
        return _tables(value)
    return struct.pack(f"<I{len(value)}i", len(value), *value) + _mark(0)


def _tables(rows: Sequence[Slots]) -> bytes:
    head, behind, offsets = 4 + 4 * len(rows), b"", []
    for n, row in enumerate(rows):
        data = table(row)
        offsets.append(head + len(behind) + _lead(data) - (4 + 4 * n))
        behind += data + bytes(-len(data) % 4)
    return struct.pack(f"<I{len(rows)}I", len(rows), *offsets) + behind + _mark(0)


def whole(slots: Slots, mark: bytes = b"TFL3") -> bytes:
    data = table(slots)
    return struct.pack("<I", 8 + _lead(data)) + mark + data


def tensor(
    shape: Sequence[int], code: int = 0, buffer: int = 0, name: str = "t", **more: Any
) -> dict[int, Any]:
    found: dict[int, Any] = {0: list(shape), 1: ("b", code), 2: ("I", buffer), 3: name}
    return found | {int(slot[1:]): value for slot, value in more.items()}


def model(
    tensors: Sequence[Slots], operators: Sequence[tuple[int, Sequence[int], Sequence[int]]],
    inputs: Sequence[int], outputs: Sequence[int], buffers: Sequence[Slots] = ({},),
    codes: Sequence[int] = (101,),
) -> bytes:  # fmt: skip
    rows = [{0: ("I", code), 1: list(ins), 2: list(outs)} for code, ins, outs in operators]
    graph = {0: list(tensors), 1: list(inputs), 2: list(outputs), 3: rows, 4: "main"}
    known = [{0: ("b", min(code, 127)), 3: ("i", code)} for code in codes]
    return whole({0: ("I", 3), 1: known, 2: [graph], 4: list(buffers)})
