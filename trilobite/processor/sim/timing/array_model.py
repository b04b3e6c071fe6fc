"""T2: matrix units cycle by cycle, register by register. Slow on purpose; tests prove T1's closed forms
with it.

Enters: operands of a product and an array's size. Leaves: the product, and the number of the last cycle in
which a processing element worked, counted from 0. That is the convention of the closed forms.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trilobite.processor.isa.formats import Array


@dataclass(frozen=True)
class ArrayRun:
    product: Array
    last_cycle: int


def _tiles(extent: int, size: int) -> list[slice]:
    return [slice(first, min(first + size, extent)) for first in range(0, extent, size)]


class _Grid:
    """A rows x cols grid through which operands move right and down, one place a cycle."""

    def __init__(self, rows: int, cols: int) -> None:
        self.right = np.zeros((rows, cols))
        self.right_valid = np.zeros((rows, cols), bool)

    def shift_right(self, entering: Array, valid: Array) -> None:
        self.right[:, 1:], self.right_valid[:, 1:] = (
            self.right[:, :-1].copy(),
            self.right_valid[:, :-1].copy(),
        )
        self.right[:, 0], self.right_valid[:, 0] = entering, valid


def weight_stationary(a: Array, b: Array, rows: int, cols: int, buffers: int) -> ArrayRun:
    """Every element holds a weight; activations move right, partial sums down, skewed by a cycle a row."""
    m = a.shape[0]
    total = np.zeros((m, b.shape[1]))
    cycle = last = -1
    places = [(ks, ns) for ks in _tiles(b.shape[0], rows) for ns in _tiles(b.shape[1], cols)]
    ready = 0  # the cycle in which the next tile's weights are all in place
    free = 0  # the cycle in which the next tile's activations may begin to enter
    for ks, ns in places:
        ready = (ready if buffers == 2 else free) + rows
        start = max(ready, free)
        weights = np.zeros((rows, cols))
        weights[: ks.stop - ks.start, : ns.stop - ns.start] = b[ks, ns]
        rows_in = np.zeros((m, rows))
        rows_in[:, : ks.stop - ks.start] = a[:, ks]
        part, worked = _stream(weights, rows_in)
        total[:, ns] += part[:, : ns.stop - ns.start]
        last = start + worked
        cycle = max(cycle, last)
        # with two buffers the next tile's weights load while this one streams, and follow on its heels
        free = start + m if buffers == 2 else last + 1
        ready = start if buffers == 2 else free
    return ArrayRun(total, cycle)


def _stream(weights: Array, activations: Array) -> tuple[Array, int]:
    """All activations through one tile; the number of the last cycle with work, from the first entry."""
    rows, cols = weights.shape
    m = activations.shape[0]
    grid = _Grid(rows, cols)
    sums = np.zeros((rows, cols))
    out = np.zeros((m, cols))
    worked = 0
    for cycle in range(m + rows + cols):
        index = cycle - np.arange(rows)
        inside = (index >= 0) & (index < m)
        entering = np.where(inside, activations[np.clip(index, 0, m - 1), np.arange(rows)], 0.0)
        grid.shift_right(entering, inside)
        above = np.vstack([np.zeros((1, cols)), sums[:-1]])
        sums = np.where(grid.right_valid, above + grid.right * weights, 0.0)
        if grid.right_valid.any():
            worked = cycle
        for col in np.flatnonzero(grid.right_valid[-1]):
            out[cycle - (rows - 1) - col, col] = sums[-1, col]
    return out, worked


def output_stationary(a: Array, b: Array, rows: int, cols: int) -> ArrayRun:
    """Every element holds a sum; activations move right, weights move down, both skewed."""
    out = np.zeros((a.shape[0], b.shape[1]))
    begin, last = 0, -1
    for ms in _tiles(a.shape[0], rows):
        for ns in _tiles(b.shape[1], cols):
            left, top = np.zeros((rows, a.shape[1])), np.zeros((a.shape[1], cols))
            left[: ms.stop - ms.start], top[:, : ns.stop - ns.start] = a[ms], b[:, ns]
            sums, worked = _meet(left, top)
            out[ms, ns] = sums[: ms.stop - ms.start, : ns.stop - ns.start]
            last = begin + worked
            begin = last + 1
    return ArrayRun(out, last)


def _meet(left: Array, top: Array) -> tuple[Array, int]:
    rows, k, cols = left.shape[0], left.shape[1], top.shape[1]
    across, down = _Grid(rows, cols), _Grid(cols, rows)
    sums, worked = np.zeros((rows, cols)), 0
    for cycle in range(k + rows + cols):
        for grid, source, count in ((across, left, rows), (down, top.T, cols)):
            index = cycle - np.arange(count)
            inside = (index >= 0) & (index < k)
            grid.shift_right(
                np.where(inside, source[np.arange(count), np.clip(index, 0, k - 1)], 0.0), inside
            )
        both = across.right_valid & down.right_valid.T
        sums += np.where(both, across.right * down.right.T, 0.0)
        if both.any():
            worked = cycle
    return sums, worked
