"""Sums, products and extremes over one run of axes: x[outer, length, inner] to out[outer, inner].

Enters: sizes, a format, an operation of the unit's reduction; x may lie in a narrower format, and is widened
on chip. Leaves: a function of two pointers. What fits into NRAM is reduced at once; longer runs in pieces,
whose results are reduced again as they come.
"""

from __future__ import annotations

from typing import NamedTuple

from trilobite.compiler.targets.dlp.interfaces import LoweredGroup
from trilobite.compiler.targets.dlp.kernels.strided import Axis, strided_copy
from trilobite.compiler.targets.dlp.writer import GDRAM, Int, Writer, nram_room, padded
from trilobite.processor.isa.formats import Format
from trilobite.processor.isa.numbers import integer_range
from trilobite.processor.lang.ir import Constant, KernelModule, Value
from trilobite.processor.machine import Machine

GRANULE = 128  # bytes of columns that one core takes at least


class Reduction(NamedTuple):
    outer: int
    length: int
    inner: int
    fmt: Format
    op: str  # sum, max, min, prod
    given: Format | None = None  # in which x lies, if not in that of the result

    @property
    def is_widened(self) -> bool:
        return self.given is not None and self.given is not self.fmt

    @property
    def given_item(self) -> int:
        """Bytes of an element where x lies."""
        return (self.given or self.fmt).bits // 8


def neutral(fmt: Format, op: str) -> int | float:
    if fmt.kind == "float":
        return {"sum": -0.0, "prod": 1.0, "max": float("-inf"), "min": float("inf")}[op]
    low, high = integer_range(fmt)
    return {"sum": 0, "prod": 1, "max": low, "min": high}[op]


def write_reduction(
    module: KernelModule, name: str, r: Reduction, machine: Machine, cores: int
) -> LoweredGroup:
    item = r.fmt.bits // 8
    room = (nram_room(machine) - 2048) // (item + (r.given_item if r.is_widened else 0))
    w = Writer(module, name, [GDRAM, GDRAM], machine, cores)
    is_shared = r.outer < cores and r.inner * r.given_item > GRANULE  # columns keep more cores busy than rows
    if r.length * r.inner + r.inner <= room and not is_shared:
        text = _whole(w, r, room)
    else:
        text = _in_pieces(w, r, room)
    w.finish()
    return LoweredGroup(name, "vector", mapping=text)


def _whole(w: Writer, r: Reduction, room: int) -> str:
    """Several outer rows at a time."""
    item, row = r.fmt.bits // 8, r.length * r.inner
    most = max(1, room // (row + r.inner))
    rows = min(most, -(-r.outer // w.cores))
    source = w.buffer("x", rows * row * r.given_item)
    wide = w.buffer("wide", rows * row * item) if r.is_widened else source
    result = w.buffer("out", rows * r.inner * item)
    with w.shared_loop(-(-r.outer // rows)) as i:
        first = w.mul(i, rows)
        count = rows if r.outer % rows == 0 else w.least(rows, w.sub(r.outer, first))
        size = row * r.given_item
        w.copy(source, w.at(w.params[0], w.mul(first, size)), w.mul(count, size))
        _widen(w, r, wide, source, w.mul(count, row))
        w.vector("VREDUCE", r.fmt, result, wide, count, r.length, r.inner, flags=(r.op,))
        w.copy(w.at(w.params[1], w.mul(first, r.inner * item)), result, w.mul(count, r.inner * item))
    return f"{-(-r.outer // rows)} tiles of {rows} x {r.length} x {r.inner}"


def _widen(w: Writer, r: Reduction, wide: Value, source: Value, count: Int) -> None:
    if r.is_widened:
        assert r.given is not None
        w.vector("VCVT", (r.fmt, r.given), wide, count, source, flags=("rn",))


def _in_pieces(w: Writer, r: Reduction, room: int) -> str:
    """One outer row, some of the inner elements, a piece of the length at a time."""
    item = r.fmt.bits // 8
    lanes = min(r.inner, max(1, room // (r.length + 2)), room // 3)
    granule = max(GRANULE // r.given_item, 1)
    parts = -(-w.cores // r.outer)  # of a row, so that every core has one
    lanes = min(lanes, -(-r.inner // (parts * granule)) * granule)
    if lanes < granule:
        lanes = min(r.inner, granule, room // 3)
    step = min(r.length, room // lanes - 2)
    columns = -(-r.inner // lanes)
    tile = w.buffer("x", step * lanes * r.given_item)
    wide = w.buffer("wide", step * lanes * item) if r.is_widened else tile
    pair = w.buffer("pair", padded(2 * lanes * item))
    with w.shared_loop(r.outer * columns) as number:
        outer, column = w.div(number, columns), w.rem(number, columns)
        first = w.mul(column, lanes)
        width = lanes if r.inner % lanes == 0 else w.least(lanes, w.sub(r.inner, first))
        w.vector("VSET", r.fmt, pair, width, Constant(r.fmt, neutral(r.fmt, r.op)))
        base = w.add(w.mul(outer, r.length * r.inner), first)
        with w.loop(0, r.length, step) as at:
            count = step if r.length % step == 0 else w.least(step, w.sub(r.length, at))
            source = w.at(w.params[0], w.mul(w.add(base, w.mul(at, r.inner)), r.given_item))
            _reduce_piece(w, r, (tile, wide, pair, source), count, width)
        w.copy(w.at(w.params[1], w.mul(w.add(w.mul(outer, r.inner), first), item)), pair, w.mul(width, item))
    return f"{r.outer * columns} columns of {lanes}, {step} of {r.length} at a time"


def _reduce_piece(
    w: Writer, r: Reduction, places: tuple[Value, Value, Value, Value], count: Int, width: Int
) -> None:
    tile, wide, pair, source = places
    item = r.fmt.bits // 8
    strided_copy(w, tile, source, [Axis(count, width, r.inner), Axis(width, 1, 1)], r.given_item)
    _widen(w, r, wide, tile, w.mul(count, width))
    w.vector("VREDUCE", r.fmt, w.at(pair, w.mul(width, item)), wide, 1, count, width, flags=(r.op,))
    w.vector("VREDUCE", r.fmt, pair, pair, 1, 2, width, flags=(r.op,))
