"""Strided copies of tiles: any number of axes as COPY, COPY2 or COPY3, with loops around what is left.

Enters: two pointers and the axes of a tile, innermost first, each with a count and its strides in bytes.
Leaves: asynchronous copies. Axes that lie end to end on both sides are one; the innermost contiguous axis
becomes the piece that one instruction moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trilobite.compiler.targets.dlp.contraction.scalars import Int, Scalars
from trilobite.processor.lang.ir import Value


@dataclass(frozen=True)
class Axis:
    """`count` steps of `to` bytes at the destination and `of` bytes at the source."""

    count: Int
    to: Int
    of: Int


def merged(axes: Sequence[Axis]) -> list[Axis]:
    """The same axes with neighbours joined where one pair of strides describes both; innermost first."""
    found: list[Axis] = []
    for axis in axes:
        if axis.count == 1:
            continue
        last = found[-1] if found else None
        if last is not None and _continues(last, axis):
            assert isinstance(last.count, int)
            count = axis.count
            if isinstance(count, int):
                found[-1] = Axis(last.count * count, last.to, last.of)
                continue
        found.append(axis)
    return found


def _continues(inner: Axis, outer: Axis) -> bool:
    known = all(isinstance(x, int) for x in (inner.count, inner.to, inner.of, outer.to, outer.of))
    return known and outer.to == inner.count * inner.to and outer.of == inner.count * inner.of  # type: ignore[operator]


def copy_tile(s: Scalars, to: Value, of: Value, axes: Sequence[Axis], item: int) -> None:
    """Copies a tile whose elements have `item` bytes."""
    rows = list(merged(axes))
    piece: Int = item
    while rows and rows[0].to == piece and rows[0].of == piece and isinstance(piece, int):
        piece = s.mul(rows[0].count, piece)
        rows.pop(0)
    _nested(s, to, of, piece, rows)


def _nested(s: Scalars, to: Value, of: Value, piece: Int, rows: Sequence[Axis]) -> None:
    if len(rows) <= 2:
        _copy(s, to, of, piece, rows)
        return
    outer, inner = rows[-1], rows[:-1]

    def one(number: Int) -> None:
        near, far = s.mul(number, outer.to), s.mul(number, outer.of)
        _nested(s, s.offset(to, near), s.offset(of, far), piece, inner)

    s.loop(outer.count, one, "pieces")


def _copy(s: Scalars, to: Value, of: Value, piece: Int, rows: Sequence[Axis]) -> None:
    fields: list[Value] = [to, of, s.value(piece)]
    for row in rows:
        fields += [s.value(row.to), s.value(row.of), s.value(row.count)]
    s.tensor(("COPY", "COPY2", "COPY3")[len(rows)], fields, is_async=True)
