"""3x3 convolution of 8-bit integers by tiles of 2x2 or 4x4 outputs (Winograd), exact in every bit.

y = A'[(G w G') * (B' x B)]A as in `conv_winograd`, with matrices of whole numbers. The points of F(4x4, 3x3)
are 0, 1, -1, 2, -1/2 and infinity: any two of them differ by at most one factor 2, so with two sides the sums
come out as y times 4 times an odd number (225), and an odd number has an inverse among 32-bit integers. Sums
wrap around, so y is right where four times the largest sum fits in 32 bits (`fits`). Points of a source of
unsigned bytes are at most 24990, those of a weight 49·255: 16-bit numbers. 16 products take the place of 36,
or 36 that of 144.

A weight is in words as `conv_integer` reads them: form 2 with a group for every point. Unsigned activations
are moved by `zero`, which cancels at every point but one (`Whole.middle`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from trilobite.base.dtypes import DType, bits, int8, int32, is_integer, uint8
from trilobite.base.errors import ArgumentError, DTypeError, ShapeError
from trilobite.base.quiet import array_rule
from trilobite.compiler.targets.cpu.primitives.conv_integer import (
    HEADER,
    ONES,
    panel_words,
    unpacked,
    weight_words,
)
from trilobite.compiler.targets.cpu.primitives.conv_last import surrounded
from trilobite.compiler.targets.cpu.primitives.conv_winograd import under_tiles
from trilobite.ir.primitive import TargetPrimitive
from trilobite.ir.primitives.common import count, elements
from trilobite.ir.primitives.conv_geometry import Ints
from trilobite.ir.types import TensorType

Array = np.ndarray[Any, Any]
Matrix = tuple[tuple[int, ...], ...]


class Whole(NamedTuple):
    """One algorithm in whole numbers. Matrices stand as factors, the first to be applied first."""

    source: tuple[Matrix, ...]  # of B'
    weight: Matrix  # G, times a number for each row
    result: tuple[Matrix, ...]  # of A'
    odd: int  # the sums are 4 · odd · y

    @property
    def side(self) -> int:
        """Points along one side."""
        return len(self.weight)

    @property
    def points(self) -> int:
        return self.side**2

    @property
    def inverse(self) -> int:
        """Of `odd` among 32-bit integers."""
        return pow(self.odd, -1, 1 << 32)

    @property
    def middle(self) -> tuple[int, int]:
        """The one point at which a constant source is not zero, and how many times the constant it is."""
        sums = [sum(row) for row in product(self.source)]
        ((i, value),) = ((i, n) for i, n in enumerate(sums) if n)
        return i * self.side + i, value * value


def product(factors: tuple[Matrix, ...]) -> Matrix:
    """The whole matrix."""
    found = np.array(factors[0])
    for factor in factors[1:]:
        found = np.array(factor) @ found
    return tuple(tuple(int(n) for n in row) for row in found)


WHOLE: dict[int, Whole] = {
    2: Whole(
        (((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1)),),
        ((2, 0, 0), (1, 1, 1), (1, -1, 1), (0, 0, 2)),
        (((1, 1, 1, 0), (0, 1, -1, -1)),),
        1,
    ),
    # With r_k = d_(k+2) - d_k and q_k = 2 r_k - 3 d_(k+1): products of (x² - 1) and (x - 2)(2x + 1).
    4: Whole(
        (
            (
                (-1, 0, 1, 0, 0, 0), (0, -1, 0, 1, 0, 0), (0, 0, -1, 0, 1, 0), (0, 0, 0, -1, 0, 1),
                (0, 1, 0, 0, 0, 0), (0, 0, 1, 0, 0, 0), (0, 0, 0, 1, 0, 0), (0, 0, 0, 0, 1, 0),
            ),
            (
                (2, 0, 0, 0, -3, 0, 0, 0), (0, 2, 0, 0, 0, -3, 0, 0), (0, 0, 2, 0, 0, 0, -3, 0),
                (0, 0, 0, 2, 0, 0, 0, -3), (0, 1, 0, 0, 0, 0, 0, 0), (0, 0, 1, 0, 0, 0, 0, 0),
            ),
            (
                (-1, 0, 1, 0, 0, 0), (0, 1, 1, 0, 0, 0), (0, -1, 1, 0, 0, 0),
                (0, 0, 0, 0, 1, 2), (0, 0, 0, 0, -2, 1), (0, -1, 0, 1, 0, 0),
            ),
        ),
        ((1, 0, 0), (1, 1, 1), (1, -1, 1), (1, 2, 4), (4, -2, 1), (0, 0, 1)),
        (
            (
                (1, 0, 0, 0, 0, 0), (0, 1, 1, 0, 0, 0), (0, 1, -1, 0, 0, 0),
                (0, 0, 0, 1, 0, 0), (0, 0, 0, 0, 1, 0), (0, 0, 0, 0, 0, 1),
            ),
            ((15, 0, -5, 1, -8, 0), (0, -5, 0, 2, 4, 0), (0, 0, -5, 4, -2, 0), (0, -5, 0, 8, 1, 15)),
        ),
        225,
    ),
}  # fmt: skip


def _whole(tile: int) -> Whole:
    if tile not in WHOLE:
        raise ArgumentError(f"tiles of {tile}x{tile} outputs of bytes", expected="2 or 4")
    return WHOLE[tile]


def fits(depth: int, x: DType, w: DType) -> bool:
    """Can four times any sum of such a convolution be held in 32 bits?"""
    most = {int8: 128, uint8: 255}
    return 4 * 9 * depth * most[x] * most[w] < 1 << 31


# -- weights -------------------------------------------------------------------------------------------------


def _points_type(w: TensorType, tile: int, lanes: int, zero: int) -> TensorType:
    if w.dtype not in (int8, uint8):
        raise DTypeError(f"conv_integer_points of {w}", expected="int8 or uint8")
    if w.ndim != 4 or w.shape[2:] != (3, 3) or not all(isinstance(n, int) for n in w.shape) or lanes < 1:
        raise ShapeError(f"conv_integer_points of {w}", expected="(filters, channels, 3, 3) of fixed sizes")
    filters, depth = (int(n) for n in w.shape[:2])
    points = _whole(tile).points
    return TensorType((weight_words(points * filters, depth, 1, points, lanes),), int32)


def _points(w: Array, tile: int, lanes: int, zero: int) -> Array:
    filters, depth = w.shape[:2]
    whole = _whole(tile)
    count, g, (middle, times) = whole.points, np.array(whole.weight, np.int32), whole.middle
    points = np.einsum("ar,kcrs,bs->abkc", g, w.astype(np.int32), g).reshape(count, filters, depth)
    panels, fours = -(-filters // lanes), -(-depth // 4)
    filled = np.zeros((count, panels * lanes, fours * 4), np.int16)
    filled[:, :filters, :depth] = points
    rows = filled.reshape(count, panels, lanes, fours * 2, 2).swapaxes(2, 3)
    body = np.ascontiguousarray(rows).reshape(count * panels, -1).view(np.int32)
    start = np.zeros((count, panels * lanes), np.int32)
    start[middle] = -times * zero * filled[middle].sum(axis=1, dtype=np.int32)
    out = np.zeros(weight_words(count * filters, depth, 1, count, lanes), np.int32)
    out[0], out[1:HEADER] = 2, ONES
    if filters:
        assert body.shape[1] + lanes == panel_words(depth, 1, lanes, 2)
        out[HEADER:] = np.concatenate([start.reshape(-1, lanes), body], axis=1).reshape(-1)
    return out


# -- the convolution -----------------------------------------------------------------------------------------


def _tiles_type(
    x: TensorType, w: TensorType, tile: int, columns: int, lanes: int, zero: int, low: Ints, high: Ints,
    dtype: DType, outside: int | None = None,
) -> TensorType:  # fmt: skip
    if x.dtype != uint8 or w.dtype != int32 or not is_integer(dtype) or bits(dtype) > 32:
        raise DTypeError(
            f"conv_integer_tiles of {x} and {w} to {dtype}", expected="uint8, words of int32, at most 32 bits"
        )
    depth, points = x.shape[-1], _whole(tile).points
    room = weight_words(points * columns, depth, 1, points, lanes) if isinstance(depth, int) else None
    if x.ndim != 4 or w.shape != (room,):
        raise ShapeError(
            f"conv_integer_tiles of {x} and {w}", expected="(N, H, W, C) and the value of conv_integer_points"
        )
    out = tuple(n + lo + hi - 2 for n, lo, hi in zip(x.shape[1:3], low, high, strict=True))
    return TensorType((x.shape[0], *out, columns), dtype)


def _tiles(
    x: Array, w: Array, tile: int, columns: int, lanes: int, zero: int, low: Ints, high: Ints, dtype: DType,
    outside: int | None = None,
) -> Array:  # fmt: skip
    if outside is not None:
        x, window = surrounded(x, outside, {"low": low, "high": high})
        low, high = window["low"], window["high"]
    whole = _whole(tile)
    side, n, depth = whole.side, x.shape[0], x.shape[3]
    b, a = (np.array(product(factors), np.int32) for factors in (whole.source, whole.result))
    out = [d + lo + hi - 2 for d, lo, hi in zip(x.shape[1:3], low, high, strict=True)]
    tiles = [-(-d // tile) for d in out]
    numbers = x.astype(np.int32) - np.int32(zero)
    v = np.einsum("ai,nhwcij,bj->abnhwc", b, under_tiles(numbers, tiles, tile, side, low), b)
    u = unpacked(w, whole.points * columns, depth, (), whole.points, lanes)
    u = u.reshape(side, side, columns, depth).swapaxes(2, 3)
    m = np.matmul(v.reshape(side, side, -1, depth), u).reshape(*v.shape[:-1], columns)
    sums = np.einsum("pa,abnhwk,qb->nhpwqk", a, m, a).astype(np.uint32) * np.uint32(whole.inverse)
    y = (sums.astype(np.int32) >> 2).reshape(n, tiles[0] * tile, tiles[1] * tile, columns)
    return np.ascontiguousarray(y[:, : out[0], : out[1]]).astype(dtype)


conv_integer_points = TargetPrimitive(
    "conv_integer_points", "w", type=_points_type, evaluate=array_rule(_points),
    cost=lambda i, o, a: 4 * elements(o),
    doc="an 8-bit weight (K, C, 3, 3) at the points of its tiles, 16-bit numbers in panels",
)  # fmt: skip

conv_integer_tiles = TargetPrimitive(
    "conv_integer_tiles", "x w", type=_tiles_type, evaluate=array_rule(_tiles),
    cost=lambda i, o, a: (
        2.0 * count(o[0].size) / a["tile"] ** 2 * _whole(a["tile"]).points * count(i[0].shape[-1])
    ),
    doc="3x3 conv of stride 1 of bytes x[N, H, W, C] less `zero`, by tiles; w: see conv_integer_points",
)  # fmt: skip
