"""Transposing a square of vectors in registers.

Enters: as many vectors as each has lanes. Leaves: their columns.
"""

from __future__ import annotations

from collections.abc import Sequence

from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import lanes_of, width


def transpose(t: Text, rows: Sequence[Value]) -> list[Value]:
    """The columns of a square of vectors. Within 16-byte parts by interleaving, then whole parts change
    places: that is what vector units have single instructions for.
    """
    lanes = lanes_of(rows[0].type)
    part = min(128 // width(rows[0].type), lanes)
    groups = [_within_parts(t, rows[g : g + part], part) for g in range(0, lanes, part)]
    return [
        _gather_part(t, [group[j] for group in groups], q, part)
        for q in range(lanes // part)
        for j in range(part)
    ]


def _within_parts(t: Text, rows: Sequence[Value], part: int) -> list[Value]:
    """As many rows as a part has lanes: per part, the columns of the little square that they make there. Rows
    half of the square apart are interleaved, until every lane has met all others.
    """
    half, out = part // 2, list(rows)
    for _ in range(part.bit_length() - 1):
        out = [v for a, b in zip(out[:half], out[half:], strict=True) for v in _zipped(t, a, b, part)]
    return out


def _zipped(t: Text, a: Value, b: Value, part: int) -> list[Value]:
    """Within each part, the low halves of both vectors, lane by lane in turn; and their high halves."""
    lanes = lanes_of(a.type)
    return [
        t.shuffle(a, b, [at + k * lanes for start in range(first, lanes, part)
                         for at in range(start, start + part // 2) for k in (0, 1)])
        for first in (0, part // 2)
    ]  # fmt: skip


def _gather_part(t: Text, vectors: Sequence[Value], q: int, part: int) -> Value:
    """Part q of each vector, one after the other."""
    lanes = lanes_of(vectors[0].type)
    mine = range(q * part, (q + 1) * part)
    if len(vectors) == 1:
        return vectors[0]
    pairs = [
        t.shuffle(a, b, [*mine, *(i + lanes for i in mine)])
        for a, b in zip(vectors[::2], vectors[1::2], strict=True)
    ]
    while len(pairs) > 1:
        pairs = [t.join(a, b) for a, b in zip(pairs[::2], pairs[1::2], strict=True)]
    return pairs[0]
