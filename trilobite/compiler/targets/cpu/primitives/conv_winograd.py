"""Convolution by tiles (Winograd), as the CPU target runs it: fewer products, a little more rounding.

The minimal algorithms F(2x2, 3x3) and F(4x4, 3x3) of Lavin and Gray, "Fast Algorithms for Convolutional
Neural Networks" (2015): y = A'[(G w G') * (B' x B)]A for every tile of 2x2 or 4x4 outputs. Against float64,
sums of 576 products of normal numbers in float32 err by about 1.2 (F(2x2)) and 6 to 8 (F(4x4)) times what a
direct sum does, gradients of weights by up to 14 times; tests hold them to that. The weight comes in panels
as for `conv_last`, not transformed: its points are up to four times as large, and made while they are needed.

A larger kernel is one of 3x3 squares of `factor` taps. Outputs that are `factor` apart read squares of pixels
that are `factor` apart, so they are a 3x3 convolution of those squares, each one pixel of f·f·C channels, and
all f·f lattices of outputs have the same weight: of 3f·3f taps, 36 products for 16 outputs instead of 144
for each square. The source comes with all that whole tiles read, `high` below zero says how much is too much.
The layout pass makes these; they are never differentiated.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from trilobite.base.blas import one_thread
from trilobite.base.dtypes import DType
from trilobite.base.errors import ArgumentError, ShapeError
from trilobite.base.quiet import array_rule
from trilobite.ir.primitive import TargetPrimitive
from trilobite.ir.primitives.common import count
from trilobite.ir.primitives.conv_geometry import Ints
from trilobite.ir.types import TensorType

Array = np.ndarray[Any, Any]


class Transform(NamedTuple):
    """The matrices of one algorithm, as rows."""

    source: tuple[tuple[float, ...], ...]  # B'
    weight: tuple[tuple[float, ...], ...]  # G
    result: tuple[tuple[float, ...], ...]  # A'


TRANSFORMS: dict[int, Transform] = {
    2: Transform(
        ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1)),
        ((1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1)),
        ((1, 1, 1, 0), (0, 1, -1, -1)),
    ),
    4: Transform(
        (
            (4, 0, -5, 0, 1, 0), (0, -4, -4, 1, 1, 0), (0, 4, -4, -1, 1, 0),
            (0, -2, -1, 2, 1, 0), (0, 2, -1, -2, 1, 0), (0, 4, 0, -5, 0, 1),
        ),
        (
            (1 / 4, 0, 0), (-1 / 6, -1 / 6, -1 / 6), (-1 / 6, 1 / 6, -1 / 6),
            (1 / 24, 1 / 12, 1 / 6), (1 / 24, -1 / 12, 1 / 6), (0, 0, 1),
        ),
        ((1, 1, 1, 1, 1, 0), (0, 1, -1, 2, -2, 0), (0, 1, 1, 4, 4, 0), (0, 1, -1, 8, -8, 1)),
    ),
}  # fmt: skip


def _transform(tile: int) -> Transform:
    if tile not in TRANSFORMS:
        raise ArgumentError(f"tiles of {tile}x{tile} outputs", expected="2 or 4")
    return TRANSFORMS[tile]


# -- the convolution ---------------------------------------------------------------------------------------


def whole_extent(out: int, tile: int, factor: int) -> int:
    """How much of the source all tiles of all lattices of so many outputs read."""
    tiles = -(-out // (tile * factor))
    return factor * (tile * tiles + 3) - 1


def _conv_type(
    x: TensorType,
    w: TensorType,
    tile: int,
    factor: Ints,
    low: Ints,
    high: Ints,
    columns: int,
    transposed: bool,
    dtype: DType,
) -> TensorType:
    _transform(tile)
    depth = x.shape[-1] * factor[0] * factor[1]
    if x.ndim != 4 or w.ndim != 6 or w.shape[0] != 1 or w.shape[2:5] != (3, 3, depth):
        raise ShapeError(
            f"a tiled convolution of {x} with {w}",
            expected="(N, H, W, C) and (1, panels, 3, 3, f²C, lanes)",
        )
    sizes = zip(x.shape[1:3], factor, low, high, strict=True)
    out = tuple(n + lo + hi - 3 * f + 1 for n, f, lo, hi in sizes)
    if factor != (1, 1):
        whole = tuple(whole_extent(int(n), tile, f) for n, f in zip(out, factor, strict=True))
        if any(low) or x.shape[1:3] != whole:
            raise ShapeError(f"a convolution of {x} by tiles of {out}", expected=f"{whole}, none before")
    return TensorType((x.shape[0], *out, columns), dtype)


def under_tiles(x: Array, tiles: list[int], tile: int, size: int, low: Ints) -> Array:
    """A view (image, tile, tile, channel, size, size) of what each tile of outputs reads."""
    padded = np.zeros((x.shape[0], *(t * tile + 2 for t in tiles), x.shape[3]), x.dtype)
    h, w = x.shape[1:3]
    padded[:, low[0] : low[0] + h, low[1] : low[1] + w] = x[
        :, : padded.shape[1] - low[0], : padded.shape[2] - low[1]
    ]
    windows = np.lib.stride_tricks.sliding_window_view(padded, (size, size), (1, 2))
    return windows[:, ::tile, ::tile]


def _points(w: Array, tile: int, columns: int, transposed: bool) -> Array:
    """G w G' of a weight in panels; transposed: of the kernel turned around."""
    g = np.array(_transform(tile).weight, w.dtype)
    taps = w[0].transpose(1, 2, 3, 0, 4).reshape(3, 3, w.shape[4], w.shape[1] * w.shape[5])[..., :columns]
    if transposed:
        taps = taps[::-1, ::-1]
    points: Array = np.einsum("ar,rsck,bs->abck", g, taps, g)
    return points


def _conv(
    x: Array, w: Array, tile: int, factor: Ints, low: Ints, high: Ints, columns: int, transposed: bool,
    dtype: DType,
) -> Array:  # fmt: skip
    if factor == (1, 1):
        return _lattice(x, w, tile, low, high, columns, transposed, dtype)
    (f, g), (n, h, width, c) = factor, x.shape
    y = np.empty((n, h + high[0] - 3 * f + 1, width + high[1] - 3 * g + 1, columns), dtype)
    for i, j in np.ndindex(f, g):
        rows, across = (h - i) // f, (width - j) // g
        squares = x[:, i : i + rows * f, j : j + across * g].reshape(n, rows, f, across, g, c)
        joined = squares.transpose(0, 1, 3, 2, 4, 5).reshape(n, rows, across, f * g * c)
        found = _lattice(joined, w, tile, (0, 0), (0, 0), columns, transposed, dtype)
        place = y[:, i::f, j::g]
        place[...] = found[:, : place.shape[1], : place.shape[2]]
    return y


def _lattice(
    x: Array, w: Array, tile: int, low: Ints, high: Ints, columns: int, transposed: bool, dtype: DType
) -> Array:
    b, _, a = (np.array(m, w.dtype) for m in _transform(tile))
    n, size = x.shape[0], len(b)
    out = [d + lo + hi - 2 for d, lo, hi in zip(x.shape[1:3], low, high, strict=True)]
    tiles = [-(-d // tile) for d in out]
    v = np.einsum("ai,nhwcij,bj->abnhwc", b, under_tiles(x, tiles, tile, size, low), b)
    m = np.einsum("abnhwc,abck->nhwkab", v, _points(w, tile, columns, transposed), optimize=True)
    y = np.einsum("pa,nhwkab,qb->nhpwqk", a, m, a)
    whole = y.reshape(n, tiles[0] * tile, tiles[1] * tile, columns)
    return np.ascontiguousarray(whole[:, : out[0], : out[1]].astype(dtype))


def _flops(y: TensorType, tile: int, depth: float) -> float:
    """Products of points alone, as for whole tiles."""
    points = len(_transform(tile).source) ** 2
    return 2.0 * count(y.size) / tile**2 * points * depth


conv_winograd = TargetPrimitive(
    "conv_winograd", "x w", type=_conv_type, evaluate=one_thread(array_rule(_conv)),
    cost=lambda i, o, a: _flops(o[0], a["tile"], count(i[1].shape[4])),
    doc="convolution of stride 1 of x[N, H, W, C] by tiles; w is the value of conv_panels, 3x3 for factor 1",
)  # fmt: skip


# -- the gradient of the weight ----------------------------------------------------------------------------


def _grad_type(x: TensorType, y: TensorType, tile: int, low: Ints, high: Ints, dtype: DType) -> TensorType:
    out = tuple(n + lo + hi - 2 for n, lo, hi in zip(x.shape[1:3], low, high, strict=True))
    _transform(tile)
    if x.ndim != 4 or y.shape[:3] != (x.shape[0], *out):
        raise ShapeError(
            f"the weight gradient by tiles of {x} and {y}", expected=f"errors (N, {out[0]}, {out[1]}, K)"
        )
    return TensorType((3, 3, x.shape[3], y.shape[3]), dtype)


def _grad(x: Array, y: Array, tile: int, low: Ints, high: Ints, dtype: DType) -> Array:
    """G'[sum over tiles of (B' x B) * (A y A')]G."""
    b, g, a = (np.array(m, y.dtype) for m in _transform(tile))
    n, size = x.shape[0], len(b)
    tiles = [-(-d // tile) for d in y.shape[1:3]]
    v = np.einsum("ai,nhwcij,bj->abnhwc", b, under_tiles(x, tiles, tile, size, low), b)
    errors = np.zeros((n, tiles[0] * tile, tiles[1] * tile, y.shape[3]), y.dtype)
    errors[:, : y.shape[1], : y.shape[2]] = y
    split = errors.reshape(n, tiles[0], tile, tiles[1], tile, y.shape[3])
    z = np.einsum("pa,nhpwqk,qb->abnhwk", a, split, a)
    u = np.einsum("abnhwc,abnhwk->abck", v, z, optimize=True)
    return np.ascontiguousarray(np.einsum("ar,abck,bs->rsck", g, u, g).astype(dtype))


conv_winograd_weight_grad = TargetPrimitive(
    "conv_winograd_weight_grad", "x y", type=_grad_type, evaluate=one_thread(array_rule(_grad)),
    cost=lambda i, o, a: _flops(i[1], a["tile"], count(i[0].shape[-1])),
    doc="the gradient of a 3x3 weight of stride 1 by tiles: x[N, H, W, C] and y[N, *out, K] to w[3, 3, C, K]",
)  # fmt: skip
