"""The meaning of the three convolutions in NumPy: blocks of columns, one matrix product per block and
group.

Enters: arrays and a `Geometry`. Leaves: an array. A column block holds, for some images and output rows,
the elements under every tap of the kernel; it is a copy of a strided view, small enough to stay in the
caches. Blocks depend on the geometry alone, and so does the order of additions: taps of a window in one
BLAS product, then blocks one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from trilobite.base.dtypes import DType, accumulator, bits, float64, is_integer
from trilobite.ir.primitives.conv_geometry import Geometry

Array = np.ndarray[Any, Any]

BLOCK = 1 << 20  # bytes of columns gathered at once while whole images fit
SPREAD = 1 << 22  # and of columns to be added to an input gradient
ROWS = 1 << 22  # a single image above this is cut along its first output axis
FEW = 256  # a weight gradient with fewer positions than this per image joins images,
JOINED = 1024  # to about this many positions a product


def working_dtype(operand: DType, result: DType, terms: int) -> DType:
    """What products and sums are computed in. Small integers are exact in float64, where BLAS is fast."""
    if is_integer(operand):
        exact = 2 * bits(operand) + max(terms, 1).bit_length() <= 53
        return float64 if exact else result
    return np.promote_types(accumulator(operand), accumulator(result))


def rounded(out: Array, result: DType) -> Array:
    """From the working dtype to the result's; integers wrap."""
    if is_integer(result) and out.dtype.kind == "f":
        out = out.astype(np.int64)
    return out.astype(result, copy=False)


# -- columns -------------------------------------------------------------------------------------------------


class Blocks:
    """How one geometry is cut: images per block, output rows per block."""

    def __init__(self, g: Geometry, itemsize: int, block: int, least: int = 1) -> None:
        """`least`: positions that a block should have at least, whatever their size."""
        self.rank = len(g.out)
        self.rows = int(g.out[0]) if g.out else 1
        self.row_size = math.prod(g.out[1:]) if g.out else 1
        row_bytes = g.groups * g.channels * math.prod(g.kernel) * self.row_size * itemsize
        image_bytes = row_bytes * self.rows
        wanted = max(block // image_bytes, -(-least // (self.rows * self.row_size)))
        self.images = max(1, min(int(g.batch), wanted))
        self.cut = self.rows if image_bytes <= ROWS or self.images > 1 else max(1, ROWS // row_bytes)
        self.batch = int(g.batch)

    def __iter__(self) -> Iterator[tuple[slice, slice]]:
        for i in range(0, self.batch, self.images):
            for r in range(0, self.rows, self.cut):
                yield slice(i, min(i + self.images, self.batch)), slice(r, min(r + self.cut, self.rows))

    def positions(self, rows: slice) -> slice:
        """Output rows as a range of flat output positions."""
        return slice(rows.start * self.row_size, rows.stop * self.row_size)


def interior(g: Geometry) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Where x stands in the padded block, and which part of x that is (negative padding crops)."""
    inside, taken = [], []
    for n, p, lo, d in zip(g.space, g.padded, g.low, g.x_dilation, strict=True):
        first = 0 if lo >= 0 else -(lo // d)
        last = max(first, min(n, (p - lo + d - 1) // d))
        inside.append(slice(lo + first * d, max(lo + (last - 1) * d + 1, lo + first * d), d))
        taken.append(slice(first, last))
    return tuple(inside), tuple(taken)


class Padded:
    """A block of images with their padding around them; the zeros are written once."""

    def __init__(self, g: Geometry, images: int, dtype: DType) -> None:
        self.buffer = np.zeros((images, g.groups * g.channels, *g.padded), dtype)
        inside, self.taken = interior(g)
        self.inner = self.buffer[(slice(None), slice(None), *inside)]

    def fill(self, x: Array) -> Array:
        m = x.shape[0]
        self.inner[:m] = x[(slice(None), slice(None), *self.taken)]
        return self.buffer[:m]


def _windows(x: Array, g: Geometry, rows: slice) -> Array:
    """A view (image, channel, *kernel, *out) of the elements under each tap, for some output rows."""
    steps = x.strides[2:]
    out = (rows.stop - rows.start, *g.out[1:]) if g.out else ()
    taps = tuple(s * d for s, d in zip(steps, g.w_dilation, strict=True))
    moves = tuple(s * d for s, d in zip(steps, g.stride, strict=True))
    if rows.start:
        x = x[:, :, rows.start * g.stride[0] :]
    return as_strided(x, (*x.shape[:2], *g.kernel, *out), (*x.strides[:2], *taps, *moves), writeable=False)


def _gathered(x: Array, g: Geometry, dtype: DType, joined: bool) -> Iterator[tuple[slice, slice, Array]]:
    """(images, positions, columns) block by block.

    Columns are (image, group, channel*taps, position); with `joined`, (group, channel*taps, image*position).
    The array is reused by the next block.
    """
    if g.pointwise and not joined:
        everything = np.ascontiguousarray(x, dtype).reshape(g.batch, g.groups, g.channels, -1)
        yield slice(0, g.batch), slice(0, everything.shape[3]), everything
        return
    blocks = Blocks(g, dtype.itemsize, BLOCK, JOINED if joined else 1)
    depth = g.channels * math.prod(g.kernel)
    padded = None if g.direct and x.dtype == dtype else Padded(g, blocks.images, dtype)
    rank = blocks.rank
    order = (1, *range(2, 2 + rank), 0, *range(2 + rank, 2 + 2 * rank))
    store: Array = np.empty(0, dtype)
    for images, rows in blocks:
        source = (
            x[images] if padded is None else (padded.fill(x[images]) if rows.start == 0 else padded.buffer)
        )
        view = _windows(source, g, rows)
        if joined:
            view = view.transpose(order)
        if store.size < view.size:
            store = np.empty(view.size, dtype)
        block = store[: view.size].reshape(view.shape)
        np.copyto(block, view)
        m = images.stop - images.start
        yield (
            images,
            blocks.positions(rows),
            block.reshape((g.groups, depth, -1) if joined else (m, g.groups, depth, -1)),
        )


# -- the three convolutions ----------------------------------------------------------------------------------


def _nothing(g: Geometry) -> bool:
    """No term to add anywhere."""
    return 0 in (g.batch, g.channels, g.filters) or 0 in g.out


def convolve(x: Array, w: Array, g: Geometry, dtype: DType) -> Array:
    """y[n, k, p] = sum over c, r of x[n, c, p*stride + r*w_dilation - low] * w[k, c, r]."""
    if _nothing(g):
        return np.zeros(g.y_shape, dtype)
    depth, positions = g.channels * math.prod(g.kernel), math.prod(g.out)
    work = working_dtype(x.dtype, dtype, depth)
    weight = np.ascontiguousarray(w, work).reshape(g.groups, g.filters, depth)
    out = np.empty((g.batch, g.groups, g.filters, positions), work)
    for images, places, columns in _gathered(x, g, work, joined=False):
        np.matmul(weight, columns, out=out[images, :, :, places])
    return rounded(out, dtype).reshape(g.y_shape)


def input_gradient(y: Array, w: Array, g: Geometry, dtype: DType) -> Array:
    """The transpose of `convolve` in x: y's elements spread over the windows they came from."""
    if _nothing(g):
        return np.zeros(g.x_shape, dtype)
    if turns(g):
        return convolve(y, _turned(w, g), _turned_geometry(g), dtype)
    depth, positions = g.channels * math.prod(g.kernel), math.prod(g.out)
    work = working_dtype(y.dtype, dtype, g.filters * math.prod(g.kernel))
    weight = np.ascontiguousarray(w, work).reshape(g.groups, g.filters, depth).swapaxes(1, 2)
    y = np.ascontiguousarray(y, work).reshape(g.batch, g.groups, g.filters, positions)
    if g.pointwise:
        return rounded(np.matmul(weight, y), dtype).reshape(g.x_shape)
    return rounded(_scattered(weight, y, g), dtype)


def turns(g: Geometry) -> bool:
    """Is it quicker as a convolution of y with the kernel turned around? Not if that gathers more columns."""
    positions = math.prod(g.out)
    if g.pointwise or positions < FEW or any(s != 1 for s in g.stride):
        return False
    return bool(2 * g.filters * math.prod(g.space) <= 3 * g.channels * positions)


def _turned(w: Array, g: Geometry) -> Array:
    """Filters and channels exchanged within each group, taps back to front."""
    split = w.reshape(g.groups, g.filters, g.channels, *g.kernel).swapaxes(1, 2)
    return np.flip(split, tuple(range(3, split.ndim))).reshape(g.groups * g.channels, g.filters, *g.kernel)


def _turned_geometry(g: Geometry) -> Geometry:
    """Element i of x meets tap r at position i*x_dilation + low - r*w_dilation of y (stride 1)."""
    reach = [(r - 1) * d for r, d in zip(g.kernel, g.w_dilation, strict=True)]
    low = tuple(e - lo for e, lo in zip(reach, g.low, strict=True))
    padded = tuple((n - 1) * d + 1 + e for n, d, e in zip(g.space, g.x_dilation, reach, strict=True))
    high = tuple(p - lo - n for p, lo, n in zip(padded, low, g.out, strict=True))
    return Geometry(
        g.batch, g.groups, g.filters, g.channels, g.out, g.kernel, g.space, padded,
        g.x_dilation, low, high, g.stride, g.w_dilation,
    )  # fmt: skip


def _scattered(weight: Array, y: Array, g: Geometry) -> Array:
    """Columns of products, added tap by tap. Images stand innermost, so that additions run long."""
    blocks = Blocks(g, weight.itemsize, block=SPREAD)
    channels, dtype = g.groups * g.channels, weight.dtype
    inside, taken = interior(g)
    out = np.zeros(g.x_shape, dtype)
    columns = np.empty((g.groups, weight.shape[1], blocks.cut * blocks.row_size * blocks.images), dtype)
    padded = np.empty((channels, *g.padded, blocks.images), dtype)
    for images, rows in blocks:
        m = images.stop - images.start
        if m != padded.shape[-1]:
            padded = np.empty((channels, *g.padded, m), dtype)
        if rows.start == 0:
            padded[...] = 0
        part = np.moveaxis(y[images, :, :, blocks.positions(rows)], 0, -1)
        part = np.ascontiguousarray(part).reshape(g.groups, g.filters, -1)
        found = np.matmul(weight, part, out=columns[:, :, : part.shape[2]])
        _add_taps(padded, found.reshape(channels, *g.kernel, -1, *g.out[1:], m), g, rows)
        if rows.stop == blocks.rows:
            out[(images, slice(None), *taken)] = np.moveaxis(padded[(slice(None), *inside)], -1, 0)
    return out


def _add_taps(target: Array, columns: Array, g: Geometry, rows: slice) -> None:
    """Add each tap's plane where its window elements stand, tap after tap."""
    for tap in product(*map(range, g.kernel)):
        where: list[slice] = [slice(None)]
        for a, r in enumerate(tap):
            begin = r * g.w_dilation[a] + (rows.start * g.stride[a] if a == 0 else 0)
            n = rows.stop - rows.start if a == 0 else g.out[a]
            where.append(slice(begin, begin + (n - 1) * g.stride[a] + 1, g.stride[a]))
        column: Any = (slice(None), *tap)
        place = target[tuple(where)]
        np.add(place, columns[column], out=place)


def weight_gradient(x: Array, y: Array, g: Geometry, dtype: DType) -> Array:
    """The transpose of `convolve` in w: per tap, products of x and y summed over images and positions."""
    if _nothing(g):
        return np.zeros(g.w_shape, dtype)
    depth, positions = g.channels * math.prod(g.kernel), math.prod(g.out)
    work = working_dtype(x.dtype, dtype, g.batch * positions)
    y = np.asarray(y, work).reshape(g.batch, g.groups, g.filters, positions)
    total = np.zeros((g.groups, g.filters, depth), work)
    joined = positions < FEW
    for images, places, columns in _gathered(x, g, work, joined):
        part = y[images, :, :, places]
        if joined:
            part = np.ascontiguousarray(part.transpose(1, 2, 0, 3)).reshape(g.groups, g.filters, -1)
            total += np.matmul(part, columns.swapaxes(1, 2))
        else:
            for each, column in zip(part, columns, strict=True):
                total += np.matmul(each, column.swapaxes(1, 2))
    return rounded(total, dtype).reshape(g.w_shape)
