"""Every so many elements of a row, or a row backwards: read as a run and picked on chip.

Enters: a copy whose result is contiguous along an axis where its source has a step. Leaves: loads of whole
runs, gathers within NRAM, stores of whole rows. Element by element DRAM would carry a granule for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from trilobite.compiler.targets.dlp.kernels.strided import Axis, strided_copy
from trilobite.compiler.targets.dlp.vector.formats import WORDS
from trilobite.compiler.targets.dlp.writer import Int, Writer, nram_room, padded
from trilobite.processor.isa.formats import I32
from trilobite.processor.lang.ir import Constant, Value

FEW = 8  # elements of a row, below which its instructions take longer than its elements
GRANULE = 64  # bytes that DRAM carries for one element


class Tiles(NamedTuple):
    """Rows of `columns` elements, `rows` at a time; of each, `span` elements of the source are read."""

    rows: int
    columns: int
    span: int


def is_picked(axes: Sequence[Axis], item: int) -> bool:
    """Is the result a run where the source has a small step, and worth the way over NRAM?"""
    if not axes or item not in WORDS or not all(isinstance(n, int) for axis in axes for n in axis):
        return False
    last = axes[-1]
    step = abs(int(last.src))  # type: ignore[arg-type]
    runs = any(a.src == 1 for a in axes)
    return last.dst == 1 and last.src not in (0, 1) and not runs and step * item <= GRANULE and _long(last)


def _long(axis: Axis) -> bool:
    return int(axis.extent) >= FEW  # type: ignore[arg-type]


def _tiles(w: Writer, rows: int, others: int, last: Axis, item: int) -> Tiles:
    """As many rows as find room, and at least one tile for every core."""
    step, length = abs(int(last.src)), int(last.extent)  # type: ignore[arg-type]
    room = (nram_room(w.machine) - 2048) // (item * (step + 1) + 4)
    columns = min(length, room)
    pieces = -(-length // columns)
    count = min(rows, room // columns) if pieces == 1 else 1
    while others * -(-rows // count) * pieces < w.cores and count > 1:
        count = -(-count // 2)
    return Tiles(count, columns, (columns - 1) * step + 1)


def write_picked(w: Writer, dst: Value, src: Value, axes: Sequence[Axis], item: int) -> None:
    last = axes[-1]
    row = axes[-2] if len(axes) > 1 else Axis(1, 0, 0)
    others = list(axes[:-2])
    counts, rows, length = [int(a.extent) for a in others], int(row.extent), int(last.extent)  # type: ignore[arg-type]
    t = _tiles(w, rows, prod(counts), last, item)
    bands, pieces = -(-rows // t.rows), -(-length // t.columns)
    near = w.buffer("run", padded(t.rows * t.span * item))
    found, places = w.buffer("picked", t.rows * t.columns * item), w.buffer("places", t.rows * t.columns * 4)
    if pieces == 1:
        with w.loop(0, t.rows) as r:
            _write_places(w, w.at(places, w.mul(r, t.columns * 4)), t.columns, w.mul(r, t.span), last)
    with w.shared_loop(prod(counts) * bands * pieces) as number:
        piece, rest = w.rem(number, pieces), w.div(number, pieces)
        band, rest = w.rem(rest, bands), w.div(rest, bands)
        i, j = w.mul(band, t.rows), w.mul(piece, t.columns)
        m = t.rows if rows % t.rows == 0 else w.least(t.rows, w.sub(rows, i))
        n = t.columns if length % t.columns == 0 else w.least(t.columns, w.sub(length, j))
        here, there = w.add(w.mul(i, row.src), w.mul(j, last.src)), w.add(w.mul(i, row.dst), j)
        for axis, extent in zip(reversed(others), reversed(counts), strict=True):
            at, rest = w.rem(rest, extent), w.div(rest, extent)
            here, there = w.add(here, w.mul(at, axis.src)), w.add(there, w.mul(at, axis.dst))
        step = int(last.src)  # type: ignore[arg-type]
        reach = w.mul(w.sub(n, 1), abs(step))
        if step < 0:
            here = w.sub(here, reach)
        span = w.add(reach, 1)
        run = [Axis(m, t.span, row.src), Axis(span, 1, 1)]
        strided_copy(w, near, w.at(src, w.mul(here, item)), run, item)
        if pieces > 1:
            _write_places(w, places, n, 0, last)
        w.vector("VGATH", (WORDS[item], I32), found, w.mul(m, n), near, places, t.rows * t.span)
        strided_copy(w, w.at(dst, w.mul(there, item)), found, [Axis(m, row.dst, n), Axis(n, 1, 1)], item)


def _write_places(w: Writer, places: Value, n: Int, first: Int, last: Axis) -> None:
    """Where the elements of a row lie in the run that was read, which begins at the lowest address."""
    step = int(last.src)  # type: ignore[arg-type]
    start = first if step > 0 else w.add(first, w.mul(w.sub(n, 1), -step))
    begin = w.b.convert(w.value(start), I32) if not isinstance(start, int) else Constant(I32, start)
    w.vector("VIOTA", I32, places, n, begin, Constant(I32, step))
