"""Closed forms of the matrix unit: cycles of a product on each geometry.

Enters: a matrix unit and the shape of a product. Leaves: whole cycles. A product of M x N x K has M rows
that stream, N outputs side by side, and K terms a sum. A format whose rate is below the array's size takes
proportionally more beats: rows of a weight-stationary array, terms of an output-stationary one, everything
in an adder tree.

All of them take whole numbers or NumPy arrays of them, so that one form serves T1 and the cost of many
mappings at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trilobite.processor.machine.description import MatrixUnit

IMAGE_CHANNELS = 4  # of a pixel, at most: red, green, blue and one beside them


def ceil_div(a: Any, b: int) -> Any:
    return -(-a // b)


def _larger(a: Any, b: Any) -> Any:
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else np.maximum(a, b)


def beats(mfu: MatrixUnit, rate_format: str, count: Any) -> Any:
    """Beats that `count` steps take in a format: times the array's size over the format's rate."""
    return ceil_div(count * mfu.rows * mfu.cols * mfu.count, mfu.macs_per_cycle[rate_format])


def weight_stationary(rows: int, cols: int, buffers: int, m: Any, tiles: Any) -> Any:
    """A tile's weights are shifted in over `rows` cycles; two buffers hide that behind the tile before."""
    if buffers == 1:
        return tiles * (2 * rows + cols + m - 2) - 1
    return rows + (tiles - 1) * _larger(m, rows) + m + rows + cols - 3


def output_stationary(rows: int, cols: int, k: Any, tiles: Any) -> Any:
    return tiles * (k + rows + cols - 2) - 1


def _least(a: Any, b: Any) -> Any:
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else np.minimum(a, b)


def row_stationary(mfu: MatrixUnit, rate_format: str, m: Any, pairs: Any, taps: int, kh: int, q: Any) -> Any:
    """A set of elements, the filter's rows by the output's, does one pair of an input and an output channel:
    each element convolves a row of `q` outputs in `q` times a filter row's steps. As many sets as fit lie
    beside and above each other; what does not fit folds.
    """
    outputs, steps = ceil_div(m, q), ceil_div(taps, kh) * q
    sets = max(1, mfu.rows // kh) * _larger(1, mfu.cols // outputs) * mfu.count
    folds = ceil_div(kh, mfu.rows) * ceil_div(outputs, mfu.cols)
    scale = mfu.rows * mfu.cols * mfu.count
    busy = ceil_div(folds * ceil_div(pairs, sets) * steps * scale, mfu.macs_per_cycle[rate_format])
    return busy + mfu.rows + mfu.cols - 2


def tree_depth(inputs: int) -> int:
    """Multiply, add level by level, accumulate."""
    return 2 + (inputs - 1).bit_length()


def product_cycles(
    mfu: MatrixUnit,
    rate_format: str,
    m: Any,
    n: Any,
    k: Any,
    taps: int = 1,
    groups: Any = 1,
    kh: int = 1,
    q: Any = 1,
) -> Any:
    """Cycles of a convolution with `k` input channels, `taps` window places and `m` output places.

    A plain product has one tap and one group; `kh` rows of a filter and `q` outputs of a row matter to a
    row-stationary array only. 0 if there is nothing to do.
    """
    if isinstance(m, int) and min(m, n, k, taps) < 1:
        return 0
    inner, outer = k // groups, n // groups
    if mfu.sparse:  # two of every four terms are left
        inner = _least(inner, ceil_div(inner, 4) * 2)
    if mfu.geometry == "adder-tree":
        steps = _tree_steps(mfu, m, outer, inner, taps, groups) * groups
        return beats(mfu, rate_format, ceil_div(steps, mfu.count)) + tree_depth(mfu.rows)
    if mfu.geometry == "row-stationary":
        return row_stationary(mfu, rate_format, m, inner * outer * groups, taps, kh, q)
    if mfu.geometry == "systolic-os":
        tiles = ceil_div(ceil_div(m, mfu.rows) * ceil_div(outer, mfu.cols) * groups, mfu.count)
        return output_stationary(mfu.rows, mfu.cols, beats(mfu, rate_format, inner * taps), tiles)
    tiles = ceil_div(ceil_div(inner * taps, mfu.rows) * ceil_div(outer, mfu.cols) * groups, mfu.count)
    return weight_stationary(mfu.rows, mfu.cols, mfu.weight_buffers, beats(mfu, rate_format, m), tiles)


def _tree_steps(mfu: MatrixUnit, m: Any, n: Any, k: Any, taps: int, groups: Any) -> Any:
    """Channels quantise per tap, unless the unit folds taps into the channels of an image."""
    steps = ceil_div(k, mfu.rows) * taps
    if mfu.first_layer_fold:
        is_image = (k <= IMAGE_CHANNELS) & (groups == 1)
        folded = ceil_div(k * taps, mfu.rows)
        steps = (folded if is_image else steps) if isinstance(k, int) else np.where(is_image, folded, steps)
    return steps * ceil_div(n, mfu.cols) * m
