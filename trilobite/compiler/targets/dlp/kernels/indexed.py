"""Rows by index: gather out[i] = x[index[i]], scatter out[index[i]] op= updates[i]; and sorted rows.

Enters: sizes in rows and elements, formats. Leaves: functions of pointers. Indices are i32 and inside (the
graph has seen to that). Rows of one element go through a table in NRAM where it fits; others are copied one
by one. Scatters run on one core, in order.
"""

from __future__ import annotations

from typing import NamedTuple

from trilobite.compiler.targets.dlp.interfaces import LoweredGroup
from trilobite.compiler.targets.dlp.writer import GDRAM, Int, Writer, nram_room
from trilobite.processor.isa.formats import I32, I64, Format
from trilobite.processor.lang.ir import Constant, KernelModule, Value
from trilobite.processor.machine import Machine


class Rows(NamedTuple):
    """A table of `rows` rows of `width` elements, and how many of them are named."""

    rows: int
    width: int
    named: int
    fmt: Format  # of the bits: a word of the element's size, or the format that adds
    item: int


LANE = 1 << 15  # bytes of the largest lane, or bundle of lanes, that is worked on in NRAM
ROWS = 1024  # rows whose indices are read at once


def lane_room(machine: Machine) -> int:
    """Bytes of a lane, of its indices and of what they name, each, that NRAM holds together."""
    return min(LANE, (nram_room(machine) - 2048) // 3 // 64 * 64)


def _index(w: Writer, pointer: Value, i: Int) -> Value:
    return w.b.convert(w.load(I32, pointer, w.mul(i, 4)), I64)


def write_gather(module: KernelModule, name: str, r: Rows, machine: Machine, cores: int) -> LoweredGroup:
    """Parameters: table, indices, result."""
    w = Writer(module, name, [GDRAM] * 3, machine, cores)
    table, index, out = w.params
    room = nram_room(machine) - 2048
    left = room - r.rows * r.item
    if r.width == 1 and left >= 128 * (4 + r.item):
        _gather_elements(w, r, left)
        w.finish()
        return LoweredGroup(name, "vector", mapping=f"table of {r.rows} in NRAM")
    size = r.width * r.item
    step = min(ROWS, -(-r.named // cores))
    places = w.buffer("index", step * 4)
    with w.shared_loop(-(-r.named // step)) as number:
        first = w.mul(number, step)
        count = step if r.named % step == 0 else w.least(step, w.sub(r.named, first))
        w.copy(places, w.at(index, w.mul(first, 4)), w.mul(count, 4))
        with w.loop(0, count) as i:
            source = w.at(table, w.mul(_index(w, places, i), size))
            w.copy(w.at(out, w.mul(w.add(first, i), size)), source, size)
    w.finish()
    return LoweredGroup(name, "dma", mapping=f"{r.named} rows of {size} bytes")


def _gather_elements(w: Writer, r: Rows, left: int) -> None:
    table, index, out = w.params
    step = min(r.named, left // (4 + r.item))
    step = min(step, max(-(-r.named // w.cores), 1))
    values = w.buffer("table", r.rows * r.item)
    places, found = w.buffer("index", step * 4), w.buffer("found", step * r.item)
    w.copy(values, table, r.rows * r.item)
    with w.shared_loop(-(-r.named // step)) as number:
        at = w.mul(number, step)
        n = step if r.named % step == 0 else w.least(step, w.sub(r.named, at))
        w.copy(places, w.at(index, w.mul(at, 4)), w.mul(n, 4))
        w.vector("VGATH", (r.fmt, I32), found, n, values, places, r.rows)
        w.copy(w.at(out, w.mul(at, r.item)), found, w.mul(n, r.item))


def write_scatter(
    module: KernelModule, name: str, r: Rows, op: str, machine: Machine, cores: int
) -> LoweredGroup:
    """Parameters: table, indices, updates, result. `op` is set, or a vector row that combines (VAV, VMV,
    VGTM, VLTM).
    """
    w = Writer(module, name, [GDRAM] * 4, machine, cores)
    table, index, updates, out = w.params
    with w.first_core():
        if op != "set" and _block(r, machine):
            _combine_in_nram(w, r, op, table, index, updates, out)
        else:
            w.copy(out, table, r.rows * r.width * r.item)
            if op == "set":
                _set_rows(w, r, index, updates, out)
            else:
                _combine_rows(w, r, op, index, updates, out)
    w.finish()
    return LoweredGroup(name, "dma" if op == "set" else "vector", mapping=f"{r.named} rows, in order")


def _set_rows(w: Writer, r: Rows, index: Value, updates: Value, out: Value) -> None:
    size = r.width * r.item
    step = min(ROWS, r.named)
    places = w.buffer("index", step * 4)
    with w.loop(0, r.named, step) as first:
        count = step if r.named % step == 0 else w.least(step, w.sub(r.named, first))
        w.copy(places, w.at(index, w.mul(first, 4)), w.mul(count, 4))
        with w.loop(0, count) as i:
            source = w.at(updates, w.mul(w.add(first, i), size))
            w.copy(w.at(out, w.mul(_index(w, places, i), size)), source, size)


def _combine_in_nram(
    w: Writer, r: Rows, op: str, table: Value, index: Value, updates: Value, out: Value
) -> None:
    """The whole table stays on chip; updates come in blocks of rows."""
    size = r.width * r.item
    step = _block(r, w.machine)
    sums, new = w.buffer("table", r.rows * size), w.buffer("new", step * size)
    places = w.buffer("index", step * 4)
    w.copy(sums, table, r.rows * size)
    with w.loop(0, r.named, step) as first:
        count = step if r.named % step == 0 else w.least(step, w.sub(r.named, first))
        w.copy(places, w.at(index, w.mul(first, 4)), w.mul(count, 4))
        w.copy(new, w.at(updates, w.mul(first, size)), w.mul(count, size))
        with w.loop(0, count) as i:
            row = w.at(sums, w.mul(_index(w, places, i), size))
            w.vector(op, r.fmt, row, r.width, w.at(new, w.mul(i, size)), row)
    w.copy(out, sums, r.rows * size)


def _block(r: Rows, machine: Machine) -> int:
    """Rows of updates that have room beside the whole table; none if it does not fit."""
    left = nram_room(machine) - 2048 - r.rows * r.width * r.item
    return max(0, min(ROWS, r.named, left // (r.width * r.item + 4)))


def _combine_rows(w: Writer, r: Rows, op: str, index: Value, updates: Value, out: Value) -> None:
    step = min(r.width, (nram_room(w.machine) - 2048) // (2 * r.item))
    old, new = w.buffer("old", step * r.item), w.buffer("new", step * r.item)
    with w.loop(0, r.named) as i:
        row = _index(w, index, i)
        with w.loop(0, r.width, step) as at:
            n = step if r.width % step == 0 else w.least(step, w.sub(r.width, at))
            size = w.mul(n, r.item)
            place = w.at(out, w.mul(w.add(w.mul(row, r.width), at), r.item))
            w.copy(old, place, size)
            w.copy(new, w.at(updates, w.mul(w.add(w.mul(i, r.width), at), r.item)), size)
            w.vector(op, r.fmt, old, n, new, old)
            w.copy(place, old, size)


class Lanes(NamedTuple):
    """`lanes` tables of `size` elements each, and how many indices each has."""

    lanes: int
    size: int
    named: int
    fmt: Format
    item: int


def _load_lane(w: Writer, s: Lanes, lane: Int, table: Value, index: Value) -> tuple[Value, Value]:
    """A lane and its indices in NRAM, those outside moved to the nearest place inside."""
    values, places = w.buffer("lane", s.size * s.item), w.buffer("places", s.named * 4)
    w.copy(values, w.at(table, w.mul(lane, s.size * s.item)), s.size * s.item)
    w.copy(places, w.at(index, w.mul(lane, s.named * 4)), s.named * 4)
    w.vector("VGTMS", I32, places, s.named, places, Constant(I32, 0))
    w.vector("VLTMS", I32, places, s.named, places, Constant(I32, s.size - 1))
    return values, places


def write_take_along(module: KernelModule, name: str, s: Lanes, machine: Machine, cores: int) -> LoweredGroup:
    """Parameters: tables, indices, results."""
    w = Writer(module, name, [GDRAM] * 3, machine, cores)
    table, index, out = w.params
    found = w.buffer("found", s.named * s.item)
    with w.shared_loop(s.lanes) as lane:
        values, places = _load_lane(w, s, lane, table, index)
        w.vector("VGATH", (s.fmt, I32), found, s.named, values, places, s.size)
        w.copy(w.at(out, w.mul(lane, s.named * s.item)), found, s.named * s.item)
    w.finish()
    return LoweredGroup(name, "vector", mapping=f"{s.lanes} tables of {s.size} in NRAM")


def write_take_shared(
    module: KernelModule, name: str, s: Lanes, machine: Machine, cores: int
) -> LoweredGroup:
    """Parameters: tables, indices that all of them share, results."""
    w = Writer(module, name, [GDRAM] * 3, machine, cores)
    table, index, out = w.params
    values, found = w.buffer("lane", s.size * s.item), w.buffer("found", s.named * s.item)
    places = w.buffer("places", s.named * 4)
    w.copy(places, index, s.named * 4)
    with w.shared_loop(s.lanes) as lane:
        w.copy(values, w.at(table, w.mul(lane, s.size * s.item)), s.size * s.item)
        w.vector("VGATH", (s.fmt, I32), found, s.named, values, places, s.size)
        w.copy(w.at(out, w.mul(lane, s.named * s.item)), found, s.named * s.item)
    w.finish()
    return LoweredGroup(name, "vector", mapping=f"{s.lanes} tables of {s.size} in NRAM, the same places")


def write_scatter_along(
    module: KernelModule, name: str, s: Lanes, kind: str, machine: Machine, cores: int
) -> LoweredGroup:
    """Parameters: tables, indices, updates, results; `kind` is set or add."""
    w = Writer(module, name, [GDRAM] * 4, machine, cores)
    table, index, updates, out = w.params
    new = w.buffer("updates", s.named * s.item)
    with w.shared_loop(s.lanes) as lane:
        values, places = _load_lane(w, s, lane, table, index)
        w.copy(new, w.at(updates, w.mul(lane, s.named * s.item)), s.named * s.item)
        w.vector("VSCAT", s.fmt, values, s.named, new, places, s.size, flags=(kind,))
        w.copy(w.at(out, w.mul(lane, s.size * s.item)), values, s.size * s.item)
    w.finish()
    return LoweredGroup(name, "vector", mapping=f"{s.lanes} tables of {s.size} in NRAM")


class Lines(NamedTuple):
    """Lines to be sorted, each of `length` elements."""

    lines: int
    length: int
    fmt: Format


def write_sort(module: KernelModule, name: str, s: Lines, machine: Machine, cores: int) -> LoweredGroup:
    """Parameters: keys, 32-bit words that go with them, and both sorted by the keys."""
    w = Writer(module, name, [GDRAM] * 4, machine, cores)
    keys, words, out, moved = w.params
    item = s.fmt.bits // 8
    sizes = (("keys", item), ("sorted", item), ("from", 4), ("words", 4), ("moved", 4))
    a, b, c, d, f = (w.buffer(n, s.length * size) for n, size in sizes)
    with w.shared_loop(s.lines) as i:
        at = w.mul(i, s.length)
        w.copy(a, w.at(keys, w.mul(at, item)), s.length * item)
        w.vector("VSORT", s.fmt, b, c, s.length, a)
        w.copy(w.at(out, w.mul(at, item)), b, s.length * item)
        w.copy(d, w.at(words, w.mul(at, 4)), s.length * 4)
        w.vector("VGATH", (I32, I32), f, s.length, d, c, s.length)
        w.copy(w.at(moved, w.mul(at, 4)), f, s.length * 4)
    w.finish()
    return LoweredGroup(name, "vector", mapping=f"{s.lines} lines of {s.length}")
