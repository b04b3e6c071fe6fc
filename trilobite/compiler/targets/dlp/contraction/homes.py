"""Copies between tiles and tensors that stay on chip from one group to the next.

Enters: a view with a home, rows of it, the axes of a tile. Leaves: asynchronous copies in the move queue. A
tensor in SRAM is cut into parts along its rows, one in each cluster: the rows of a tile that lie in one part
are one copy. A row never lies in two parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from trilobite.compiler.targets.dlp.contraction.copies import Axis, copy_tile
from trilobite.compiler.targets.dlp.contraction.mapping import Mapping, ceil_div
from trilobite.compiler.targets.dlp.contraction.near import is_aligned
from trilobite.compiler.targets.dlp.contraction.nest import DIMS, Nest, View
from trilobite.compiler.targets.dlp.contraction.scalars import Int, Scalars
from trilobite.processor.isa.address import CLUSTER_SHIFT
from trilobite.processor.lang.ir import Value


@dataclass(frozen=True)
class Rows:
    """Rows of a tile: the first and how many, bytes before the image or group that they are of, and the
    cluster that has all of them if it is the core's own."""

    first: Int
    count: Int
    outer: Int = 0
    own: Int | None = None
    most: int = 0  # that there may be, 0 if unknown
    step: int = 0  # of which the first is a multiple, 0 if unknown


NO_ROWS = Rows(0, 0)


def is_apart(view: View) -> bool:
    """Does it lie in several clusters?"""
    return view.home is not None and view.home.clusters > 1


def bounds(view: View) -> list[int]:
    """The first row of each part of a tensor that lies in several clusters."""
    assert view.home is not None
    return [ceil_div(h * view.home.part, view.row) if view.row else h for h in range(view.home.clusters)]


def is_own(nest: Nest, mapping: Mapping, view: View, count: int) -> bool:
    """`is_aligned` of one mapping."""
    at = DIMS.index("p")
    parts = mapping.clusters[at], mapping.cores[at]
    only = all(n == 1 for i, n in enumerate(mapping.clusters) if i != at)
    return only and bool(is_aligned(nest, view, count, mapping.tile("p"), *parts))


def parts_of(s: Scalars, view: View, rows: Rows) -> Iterator[tuple[Int, Int, Int]]:
    """For each cluster that may have some of the rows: the first of them, how many, and how much further
    they lie than they would if the tensor were one piece."""
    home = view.home
    assert home is not None
    if home.clusters == 1:
        yield rows.first, rows.count, 0
    elif rows.own is not None:
        yield rows.first, rows.count, s.mul(rows.own, -home.part)
    elif rows.outer != 0:  # whole images or groups in each part
        h = s.div(rows.outer, home.part)
        yield rows.first, rows.count, s.add(s.mul(s.add(h, 1), 1 << CLUSTER_SHIFT), s.mul(h, -home.part))
    elif view.row and home.part % view.row == 0 and 0 < rows.most <= home.part // view.row:
        yield from _in_two(s, view, rows)
    else:
        yield from _unrolled(s, view, rows)


def _in_two(s: Scalars, view: View, rows: Rows) -> Iterator[tuple[Int, Int, Int]]:
    """Rows that are no more than a part has lie in one or two; in one if parts are whole steps."""
    assert view.home is not None
    part, each = view.home.part, view.home.part // view.row
    h = s.div(rows.first, each)
    shift = s.add(s.mul(s.add(h, 1), 1 << CLUSTER_SHIFT), s.mul(h, -part))
    if rows.step and each % rows.step == 0 and rows.most <= rows.step:
        yield rows.first, rows.count, shift
        return
    end, bound = s.add(rows.first, rows.count), s.mul(s.add(h, 1), each)
    yield rows.first, s.sub(s.min(end, bound), rows.first), shift
    yield bound, s.sub(end, bound), s.add(shift, (1 << CLUSTER_SHIFT) - part)


def _unrolled(s: Scalars, view: View, rows: Rows) -> Iterator[tuple[Int, Int, Int]]:
    home, begins = view.home, bounds(view)
    assert home is not None
    end = s.add(rows.first, rows.count)
    for h, begin in enumerate(begins):
        low = s.max(rows.first, begin) if h else rows.first
        high = s.min(end, begins[h + 1]) if h + 1 < len(begins) else end
        yield low, s.sub(high, low), ((h + 1) << CLUSTER_SHIFT) - h * home.part


def copy_rows(
    s: Scalars, view: View, near: Value, far: Value, axes: Sequence[Axis], rows: Rows, is_store: bool
) -> None:
    """A tile at `near`, whose outermost axis are the rows, from or to the tensor; `far` is where its first
    row would lie if the tensor were one piece. Axes go from the tensor to the tile."""
    outer = axes[-1]
    for low, count, shift in parts_of(s, view, rows):
        skip = s.sub(low, rows.first) if low is not rows.first else 0
        here = s.offset(near, s.mul(skip, outer.to))
        there = s.offset(far, s.add(s.mul(skip, outer.of), shift))
        some = [*axes[:-1], Axis(count, outer.to, outer.of)]
        ends = (here, there)
        if is_store:
            some, ends = [Axis(a.count, a.of, a.to) for a in some], (there, here)
        body = partial(copy_tile, s, *ends, some, view.item)
        s.when(1 if count is rows.count else s.compare("gt", count, 0), body, "near")


def share_rows(
    s: Scalars, view: View, near: Value, far: Value, row: Int, rows: Rows, turn: Int, sharers: int,
    give: Callable[[Value, Value, Value], None],
) -> None:  # fmt: skip
    """Rows of `row` bytes that lie end to end, for all of several cores: this one, number `turn` of them,
    gives everybody its share of what each cluster has."""
    for low, count, shift in parts_of(s, view, rows):
        each = s.ceil_div(count, sharers)
        first = s.mul(turn, each)
        is_even = isinstance(count, int) and count % sharers == 0
        mine = each if is_even else s.min(s.sub(count, first), each)
        skip = s.add(first, s.sub(low, rows.first) if low is not rows.first else 0)
        here = s.offset(near, s.mul(skip, row))
        there = s.offset(far, s.add(s.mul(skip, view.row), shift))
        body = partial(give, here, there, s.value(s.mul(mine, row)))
        s.when(s.compare("gt", mine, 0), body, "give")


def share_places(
    s: Scalars, view: View, near: Value, far: Value, axes: Sequence[Axis], rows: Rows, turn: Int,
    sharers: int, give: Callable[[Value, Value, Value], None],
) -> None:  # fmt: skip
    """The same of places that do not lie end to end, one by one: every core gives other columns."""
    *_, column, row = axes
    mine = s.ceil_div(s.sub(column.count, turn), sharers)

    def one(first: Int, shift: Int, r: Int, number: Int) -> None:
        r, c = s.add(first, r), s.add(turn, s.mul(number, sharers))
        here = s.offset(near, s.add(s.mul(r, row.to), s.mul(c, column.to)))
        there = s.offset(far, s.total([s.mul(r, row.of), s.mul(c, column.of), shift]))
        give(here, there, s.value(column.to))

    def each(first: Int, shift: Int, r: Int) -> None:
        s.loop(mine, partial(one, first, shift, r), "columns")

    for low, count, shift in parts_of(s, view, rows):
        first = s.sub(low, rows.first) if low is not rows.first else 0
        s.loop(count, partial(each, first, shift), "rows")
