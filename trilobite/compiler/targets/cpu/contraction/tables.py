"""How a convolution is cut and described: tables of taps, words of axes and groups, sizes of blocks.

Enters: a `Problem` and a `Part`. Leaves: constants and numbers for the words of a step. It emits no code.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from trilobite.compiler.program.kernels import Operand
from trilobite.compiler.targets.cpu.contraction.gather import line_places
from trilobite.compiler.targets.cpu.contraction.problem import Part, Problem
from trilobite.compiler.targets.cpu.contraction.tiling import ROWS
from trilobite.compiler.targets.cpu.contraction.words import AxisWords, Content, TapWords

Array = np.ndarray[Any, Any]


class Groups(NamedTuple):
    """How far groups are apart: in elements of x, in columns and rows of the result; a row's columns."""

    x: int
    columns: int
    rows: int
    width: int


def groups_of(p: Problem) -> Groups:
    if p.apart:
        return Groups(p.apart * p.channels, 0, p.apart, p.columns)
    return Groups(p.depth * p.merged, p.columns, 0, p.columns * p.groups)


def axis_words(p: Problem, part: Part) -> tuple[AxisWords[Content], ...]:
    return tuple(
        AxisWords(
            axis.count, axis.first, axis.every, axis.step, axis.extent, stride, math.prod(p.out[i + 1 :]),
            min(axis.offsets, default=0), max(axis.offsets, default=0),
        )
        for i, (axis, stride) in enumerate(zip(part.axes, _strides(p), strict=True))
    )  # fmt: skip


def tap_words(zeros: int, first: int) -> TapWords[Content]:
    """Given which constants the page of zeros and the first of the two tables are."""
    return TapWords(Operand("constant", zeros), Operand("constant", first), Operand("constant", first + 1))


def tables(p: Problem, part: Part, itemsize: int) -> tuple[Array, Array]:
    """Of each tap its offsets, their sum in elements and its row of the panel; and the sums in bytes, with
    room to the end of a line of places.
    """
    offsets, numbers = part.tap_rows()
    steps = offsets @ np.array(_strides(p), np.int64)
    table = np.zeros((max(1, len(numbers)), len(p.source) + 2), np.int64)  # row by row, as kernels read it
    table[: len(numbers)] = np.column_stack([offsets, steps, numbers * p.depth])
    flat: Array = np.zeros(line_places(part.tap_count), np.int64)
    flat[: part.tap_count] = table[: part.tap_count, len(p.source)] * itemsize
    return table, flat


def _strides(p: Problem) -> list[int]:
    return [math.prod(p.source[a + 1 :]) * p.channels for a in range(len(p.source))]


# -- sizes of pieces -----------------------------------------------------------------------------------------


def even_block(pixels: int, most: int) -> int:
    """Pixels of a unit: at most as many as are given, in blocks of about equal size that whole tiles fill."""
    most = max(most // ROWS * ROWS, ROWS)
    blocks = -(-pixels // most)
    blocks += blocks & (blocks > 1)  # an even number, for two threads
    return -(-pixels // (blocks * ROWS)) * ROWS if blocks > 1 else pixels


def runs_of(shared: int, wanted: int) -> tuple[int, int]:
    """Into how many runs of what length pieces are cut that units share, if so many runs are wanted."""
    run = -(-shared // min(shared, max(1, wanted)))
    return -(-shared // run), run


def depth_blocks(depth: int, taps: int, deepest: int, step: int) -> tuple[int, int]:
    """Taps and channels of a block of depth: several taps, or a part of one in whole steps."""
    if depth <= deepest:
        wanted = max(1, deepest // max(depth, 1))
        pieces = -(-max(taps, 1) // wanted)
        return -(-max(taps, 1) // pieces), max(depth, 1)
    pieces = -(-depth // deepest)
    whole = -(-depth // pieces)
    return 1, -(-whole // step) * step


def chunks(total: int, room: int, each: int, least: int) -> list[tuple[int, int]]:
    """First and count of about equal chunks of tiles whose bytes fit the room, but that none has too few."""
    if not total:
        return []
    most = max(least, room // max(each, 1))
    size = -(-total // -(-total // most))
    return [(first, min(size, total - first)) for first in range(0, total, size)]


def most(pieces: list[tuple[int, int]]) -> int:
    """Rows for the largest chunk, and one more: points lie so far apart, because a whole number of pages
    would put all points of a tile in one cache set.
    """
    return 1 + max((count for _, count in pieces), default=0)
