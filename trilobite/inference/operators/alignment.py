"""RoiAlign: regions of an image, each in bins, by points between its pixels.

Enters: images and regions. Leaves: averages, or largest, of the points of every bin. `aligned` is the meaning
of one region, in NumPy. Averages come from native code: a point's weights are a product of those of its row
and its column, so rows are joined first, for all columns of the region, and then columns.
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import Any

import numpy as np

from trilobite.base.records import dataclass
from trilobite.inference.model import Node
from trilobite.inference.operators.native import HostKernel
from trilobite.inference.operators.registry import operator
from trilobite.native.host import features
from trilobite.native.llvm.text import Text, Value

Array = np.ndarray[Any, Any]


@operator("RoiAlign", since=10, host=True, gives="numbers")
def roi_align(node: Node, x: Array, rois: Array, batch: Array) -> Array:
    usual = "half_pixel" if node.version >= 16 else "output_half_pixel"
    shift = 0.5 if node.attribute("coordinate_transformation_mode", usual) == "half_pixel" else 0.0
    bins = node.attribute("output_height", 1), node.attribute("output_width", 1)
    places = rois.astype(np.float64) * node.attribute("spatial_scale", 1.0) - shift
    ratio = node.attribute("sampling_ratio", 0)
    lines = [
        points(places[:, k], places[:, k + 2], n, ratio, shift == 0)
        for k, n in zip((1, 0), bins, strict=True)
    ]
    if node.attribute("mode", "avg") == "avg":
        return _averages(x, batch, lines[0], lines[1], bins).astype(x.dtype)
    regions = [[line.of_region(r) for line in lines] for r in range(len(rois))]
    found = [largest(x[b], ys, xs) for b, (ys, xs) in zip(batch, regions, strict=True)]
    return np.stack(found).astype(x.dtype) if found else np.empty((0, x.shape[1], *bins), x.dtype)


@dataclass
class Points:
    """Where the points of all regions lie along an axis, region by region, bin by bin."""

    at: Array
    counts: Array  # in a bin, by region
    bins: int

    @property
    def starts(self) -> Array:
        """The first point of each region."""
        return np.concatenate([[0], np.cumsum(self.counts * self.bins)[:-1]]).astype(np.int64)

    def of_region(self, r: int) -> Array:
        start, count = int(self.starts[r]), int(self.counts[r])
        return self.at[start : start + self.bins * count].reshape(self.bins, count)


def points(start: Array, end: Array, bins: int, ratio: int, at_least_one: bool) -> Points:
    """As many points in a bin as `ratio` says, or as the bin has pixels."""
    extent = np.maximum(end - start, 1.0) if at_least_one else end - start
    each = extent / bins
    counts = np.full(len(start), ratio) if ratio else np.maximum(np.ceil(each), 1).astype(np.int64)
    inside = np.concatenate([np.arange(bins * c) for c in counts]) if len(counts) else np.empty(0)
    region = np.repeat(np.arange(len(start)), counts * bins)
    count = counts[region]
    bin_, place = np.divmod(inside, count)
    return Points(start[region] + (bin_ + (place + 0.5) / count) * each[region], counts, bins)


def neighbours(at: Array, n: int) -> list[tuple[Array, Array]]:
    """The two neighbours of each place and their weights; both 0 beyond the image."""
    beyond = (at < -1) | (at > n)
    held = np.clip(at, 0, None)
    low = np.minimum(held, n - 1).astype(np.int64)
    held = np.where(low >= n - 1, low, held)
    share = held - low
    inside = np.where(beyond, 0.0, 1.0)
    return [(low, (1 - share) * inside), (np.minimum(low + 1, n - 1), share * inside)]


def _weighted(image: Array, ys: Array, xs: Array) -> Array:
    """(4, channels, bins, points, bins, points): what each of its four pixels adds to a point."""
    pairs = [neighbours(at.reshape(-1), n) for at, n in zip((ys, xs), image.shape[1:], strict=True)]
    parts = [
        image[:, a[0]][:, :, b[0]] * (a[1][:, None] * b[1][None, :]) for a, b in itertools.product(*pairs)
    ]
    return np.stack(parts).reshape(4, image.shape[0], *ys.shape, *xs.shape)


def aligned(image: Array, ys: Array, xs: Array) -> Array:
    """Averages of the bins of one region."""
    found: Array = _weighted(image, ys, xs).sum(axis=0).mean(axis=(2, 4))
    return found


def largest(image: Array, ys: Array, xs: Array) -> Array:
    """The largest of what single pixels add, which is what the operator calls the maximum."""
    found: Array = _weighted(image, ys, xs).max(axis=(0, 3, 5))
    return found


def _averages(x: Array, batch: Array, ys: Points, xs: Points, bins: tuple[int, int]) -> Array:
    dtype = np.float64 if x.dtype == np.float64 else np.float32
    images, regions = np.ascontiguousarray(x, dtype), len(ys.counts)
    height, width = x.shape[2:]
    out = np.zeros((regions, x.shape[1], *bins), dtype)
    if not images.size:
        return out
    tables: list[Array] = [np.ascontiguousarray(batch, np.int64)]
    for line, n, step in ((ys, height, width), (xs, width, 1)):
        (low, less), (high, more) = neighbours(line.at, n)
        share = 1 / np.repeat(line.counts, line.counts * line.bins)
        columns = low * step, high * step, (less * share).astype(dtype), (more * share).astype(dtype)
        tables += [line.starts, line.counts.astype(np.int64), *columns]
    room = np.empty(width, dtype)
    words = [images.ctypes.data, x.shape[1], height * width, width, bins[0], bins[1], out.ctypes.data,
             room.ctypes.data, *(table.ctypes.data for table in tables)]  # fmt: skip
    _averaging("double" if dtype == np.float64 else "float")(words, regions)
    return out


@lru_cache(maxsize=2)
def _averaging(element: str) -> HostKernel:
    return HostKernel(_Averages(element).text(), 3)


class _Averages:
    """Emits the kernel: regions begin to end."""

    def __init__(self, element: str) -> None:
        self.t, self.element, self.size = Text(features()), element, 8 if element == "double" else 4
        kinds = ["ptr", *["i64"] * 5, *["ptr"] * 15]
        values = [self.t.argument(i, "i64" if kind == "i64" else "ptr") for i, kind in enumerate(kinds)]
        self.images, self.channels, self.plane, self.width, *rest = values
        self.rows, self.columns, self.out, self.room, self.batch, *tables = rest
        self.y, self.x = tables[:6], tables[6:]

    def text(self) -> str:
        t = self.t
        with t.loop(t.begin, t.end, name="region") as region:
            r = region.index
            start_y, count_y, start_x, count_x = (self._word(p, r) for p in (*self.y[:2], *self.x[:2]))
            first = t.mul(self._word(self.batch, r), self.channels)
            # Columns of the region: its points rise, or fall where it is turned round.
            last = t.sub(t.add(start_x, t.mul(count_x, self.columns)), 1)
            ends = [(self._word(self.x[2], at), self._word(self.x[3], at)) for at in (start_x, last)]
            left, right = t.smin(ends[0][0], ends[1][0]), t.add(t.smax(ends[0][1], ends[1][1]), 1)
            with t.loop(0, self.channels, name="channel") as c:
                image = self._at(self.images, t.mul(t.add(first, c.index), self.plane))
                target = t.mul(t.add(t.mul(r, self.channels), c.index), t.mul(self.rows, self.columns))
                with t.loop(0, self.rows, name="row") as i:
                    self._join_rows(image, t.add(start_y, t.mul(i.index, count_y)), count_y, left, right)
                    with t.loop(0, self.columns, name="column") as j:
                        total = self._joined_columns(t.add(start_x, t.mul(j.index, count_x)), count_x)
                        place = t.add(target, t.add(t.mul(i.index, self.columns), j.index))
                        t.store_type(total, self._at(self.out, place))
        return t.module()

    def _join_rows(self, image: Value, start: Value, count: Value, left: Value, right: Value) -> None:
        """Rows of a bin's points, weighted and added, to `room`."""
        t = self.t
        with t.loop(left, right, name="clear") as x:
            t.store_type(t.constant(self.element, 0), self._at(self.room, x.index))
        with t.loop(0, count, name="point") as k:
            at = t.add(start, k.index)
            low, high = (self._at(image, self._word(p, at)) for p in self.y[2:4])
            less, more = (self._number(p, at) for p in self.y[4:])
            with t.loop(left, right, name="x") as x:
                both = t.fadd(
                    t.fmul(self._number(low, x.index), less), t.fmul(self._number(high, x.index), more)
                )
                t.store_type(t.fadd(self._number(self.room, x.index), both), self._at(self.room, x.index))

    def _joined_columns(self, start: Value, count: Value) -> Value:
        t = self.t
        with t.loop(0, count, carried=[t.constant(self.element, 0)], name="point") as k:
            at = t.add(start, k.index)
            low, high = (self._number(self.room, self._word(p, at)) for p in self.x[2:4])
            less, more = (self._number(p, at) for p in self.x[4:])
            k.next(t.fadd(k.values[0], t.fadd(t.fmul(low, less), t.fmul(high, more))))
        return k.results[0]

    def _at(self, pointer: Value, index: Value) -> Value:
        return self.t.address(pointer, self.t.mul(index, self.size))

    def _number(self, pointer: Value, index: Value) -> Value:
        return self.t.load_type(self.element, self._at(pointer, index))

    def _word(self, pointer: Value, index: Value) -> Value:
        return self.t.load_type("i64", self.t.address(pointer, self.t.mul(index, 8)))
