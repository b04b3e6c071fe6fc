"""The part of each tensor that a tile needs: from where, how many, and how it lies on chip.

Enters: a plan and the point where a stage stands. Leaves: axes for copies, sizes for instructions. Sizes are
known numbers wherever tiles divide their extents, and computed by the kernel at the edges otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trilobite.compiler.targets.dlp.contraction.copies import Axis
from trilobite.compiler.targets.dlp.contraction.nest import Filter, View
from trilobite.compiler.targets.dlp.contraction.places import Plan
from trilobite.compiler.targets.dlp.contraction.scalars import Int, Scalars
from trilobite.compiler.targets.dlp.contraction.walk import Point


@dataclass(frozen=True)
class Span:
    """Places of the image along one axis: `first` and `count` that lie in memory, `skip` of the tile before
    them, `size` of the tile, and what of the window's frame lies outside on either side."""

    first: Int
    count: Int
    skip: Int
    size: Int
    before: Int
    after: Int


@dataclass(frozen=True)
class ImageTile:
    axes: list[Axis]
    first: Int  # bytes from the tensor's beginning
    skip: Int  # bytes from the tile's
    is_spread: bool
    elements: Int
    rows: Span
    columns: Span
    channels: Int


class Regions:
    """`starts`: the first element of each dim that belongs to this core; `turn`: the tile along k that it
    begins with."""

    def __init__(self, s: Scalars, plan: Plan, starts: Mapping[str, Int], turn: Int = 0) -> None:
        self.s, self.plan, self.nest, self.starts, self.turn = s, plan, plan.nest, starts, turn
        image, weights, e = self.nest.image, self.nest.filter, self.nest.extents
        is_product = self.nest.kind == "product"
        self.ta = is_product and image.channel != image.item and image.row == image.item and e["k"] > 1
        self.tb = not (weights.input != weights.item and weights.output == weights.item and e["k"] > 1)

    def span(self, at: Point, dim: str) -> tuple[Int, Int]:
        """The first element of a dim, and how many."""
        s, tile, extent = self.s, self.plan.mapping.tile(dim), self.nest.extents[dim]
        if tile >= extent:
            return 0, extent
        first = s.add(self.starts[dim], s.mul(self._number(at, dim), tile))
        return first, tile if extent % tile == 0 else s.min(s.sub(extent, first), tile)

    def _first(self, at: Point, dim: str, view: View) -> Int:
        """The first element of a row or column as the view counts them: a block begins with its core's."""
        if view.home is None or view.home.blocks is None:
            return self.span(at, dim)[0]
        return self.s.mul(self._number(at, dim), self.plan.mapping.tile(dim))

    def _number(self, at: Point, dim: str) -> Int:
        """Of the tile; along k tiles go around."""
        number = at.index[dim]
        if dim != "k" or self.turn == 0:
            return number
        s, count = self.s, self.plan.count["k"]
        number = s.add(number, self.turn)
        return s.sub(number, s.mul(s.compare("ge", number, count), count))

    # images
    def image(self, at: Point) -> ImageTile:
        s, view = self.s, self.nest.image
        rows, columns = self._image_span(at, 0), self._image_span(at, 1)
        (g0, groups), (b0, _), (k0, inputs) = (self.span(at, d) for d in "gbk")
        channels = s.mul(groups, inputs) if self.nest.kind != "product" else inputs
        is_block = view.home is not None and view.home.blocks is not None
        row, column = (
            (self._first(at, "p", view), self._first(at, "q", view)) if is_block
            else (rows.first, columns.first)
        )  # fmt: skip
        first = s.total([
            s.mul(g0, view.group), s.mul(b0, view.image), s.mul(row, view.row),
            s.mul(column, view.column), s.mul(k0, view.channel),
        ])  # fmt: skip
        if self.ta:
            axes = [
                Axis(rows.count, view.item, view.row),
                Axis(inputs, s.mul(rows.count, view.item), view.channel),
            ]
            return ImageTile(axes, first, 0, False, 0, rows, columns, channels)
        spread = self.nest.window.spread if self.nest.kind != "input_grad" else (1, 1)
        place, row = s.mul(channels, view.item), s.product([columns.size, channels, view.item])
        axes = [
            Axis(inputs, view.item, view.channel), Axis(groups, s.mul(inputs, view.item), view.group),
            Axis(columns.count, s.mul(place, spread[1]), view.column),
            Axis(rows.count, s.mul(row, spread[0]), view.row),
        ]  # fmt: skip
        skip = s.add(s.mul(columns.skip, place), s.mul(rows.skip, row))
        elements = s.product([rows.size, columns.size, channels])
        return ImageTile(axes, first, skip, spread != (1, 1), elements, rows, columns, channels)

    def _image_span(self, at: Point, axis: int) -> Span:
        first, size = self.span(at, "pq"[axis])
        if self.nest.kind == "product":
            return Span(first, size, 0, size, 0, 0)
        return (
            self._behind(first, size, axis)
            if self.nest.kind == "input_grad"
            else self._under(first, size, axis)
        )

    def _under(self, first: Int, size: Int, axis: int) -> Span:
        """Places that the windows of some results see."""
        s, w = self.s, self.nest.window
        extent, spread, stride = w.extent(axis), w.spread[axis], w.stride[axis]
        begin = s.sub(s.mul(first, stride), w.low[axis])
        end = s.add(begin, s.add(s.mul(s.sub(size, 1), stride), w.reach(axis)))
        start, stop = begin, end
        if w.low[axis]:
            start = s.max(begin, 0)
        if w.high[axis]:
            stop = s.min(end, extent)
        seen = s.sub(stop, start)
        before, after = s.sub(start, begin), s.sub(end, stop)
        if spread == 1:
            return Span(start, seen, 0, seen, before, after)
        real, last = s.ceil_div(start, spread), s.ceil_div(stop, spread)
        return Span(real, s.sub(last, real), s.sub(s.mul(real, spread), start), seen, before, after)

    def _behind(self, first: Int, size: Int, axis: int) -> Span:
        """Results whose windows see some places: what flows back to them. The frame cuts off the rest."""
        s, w = self.s, self.nest.window
        stride, reach, out = w.stride[axis], w.reach(axis), w.out[axis]
        begin = s.add(first, w.low[axis])
        lowest = s.min(s.ceil_div(s.max(s.sub(begin, reach - 1), 0), stride), s.div(begin, stride))
        p0 = s.min(lowest, out - 1)
        end = s.add(begin, size)
        p1 = s.min(s.add(s.div(s.sub(end, 1), stride), 1), out)
        before = s.sub(begin, s.mul(p0, stride))
        after = s.max(s.sub(s.add(s.mul(s.sub(p1, 1), stride), reach), end), 0)
        count = s.sub(p1, p0)
        return Span(p0, count, 0, count, before, after)

    # results and filters
    def result_axes(self, at: Point, view: View, channel: str) -> tuple[list[Axis], Int]:
        """Of a tile [p][q][g n], and where it begins."""
        s = self.s
        (g0, groups), (b0, _), (_, rows), (_, columns), (n0, outputs) = (
            self.span(at, d) for d in ("g", "b", "p", "q", channel)
        )
        channels = s.mul(groups, outputs)
        axes = [
            Axis(outputs, view.item, view.channel), Axis(groups, s.mul(outputs, view.item), view.group),
            Axis(columns, s.mul(channels, view.item), view.column),
            Axis(rows, s.product([columns, channels, view.item]), view.row),
        ]  # fmt: skip
        p0, q0 = (self._first(at, d, view) for d in "pq")
        first = s.total([
            s.mul(g0, view.group), s.mul(b0, view.image), s.mul(p0, view.row), s.mul(q0, view.column),
            s.mul(n0, view.channel),
        ])  # fmt: skip
        return axes, first

    def outputs(self, at: Point, view: View) -> tuple[list[Axis], Int]:
        """One number for each output of a tile."""
        s = self.s
        (g0, groups), (n0, outputs) = self.span(at, "g"), self.span(at, "n")
        axes = [Axis(outputs, view.item, view.channel), Axis(groups, s.mul(outputs, view.item), view.group)]
        return axes, s.add(s.mul(g0, view.group), s.mul(n0, view.channel))

    def filter_axes(self, at: Point, view: Filter) -> tuple[list[Axis], Int]:
        """Of a tile [g outputs][kh][kw][inputs], or [inputs][outputs] of a product that lies so."""
        s, (kh, kw) = self.s, self.nest.window.kernel
        back = self.nest.kind == "input_grad"
        (g0, groups) = self.span(at, "g")
        (o0, outputs), (i0, inputs) = self.span(at, "k" if back else "n"), self.span(at, "n" if back else "k")
        first = s.total([s.mul(g0, view.group), s.mul(o0, view.output), s.mul(i0, view.input)])
        if not self.tb and self.nest.kind == "product":
            return [Axis(outputs, view.item, view.output),
                    Axis(inputs, s.mul(outputs, view.item), view.input)], first  # fmt: skip
        tap = s.mul(inputs, view.item)
        axes = [
            Axis(inputs, view.item, view.input), Axis(kw, tap, view.column),
            Axis(kh, s.mul(tap, kw), view.row),
            Axis(outputs, s.mul(tap, kh * kw), view.output),
            Axis(groups, s.product([tap, kh * kw, outputs]), view.group),
        ]  # fmt: skip
        return axes, first

    # instructions
    def product_sizes(self, at: Point) -> list[Int]:
        """m, n, k of MM."""
        return [self.span(at, "p")[1], self.span(at, "n")[1], self.span(at, "k")[1]]

    def window_fields(self, at: Point) -> list[Int]:
        """The run of CONV, CONVDX and CONVDW."""
        s, w = self.s, self.nest.window
        tile = self.image(at)
        groups, (kh, kw) = self.span(at, "g")[1], w.kernel
        inputs, outputs = s.mul(groups, self.span(at, "k")[1]), s.mul(groups, self.span(at, "n")[1])
        sizes = [tile.rows.size, tile.columns.size]
        if self.nest.kind == "input_grad":
            inputs, outputs = outputs, inputs
            sizes = [self.span(at, "p")[1], self.span(at, "q")[1]]
        frame = [tile.rows.before, tile.rows.after, tile.columns.before, tile.columns.after]
        return [*sizes, inputs, kh, kw, outputs, *w.stride, *w.dilation, *frame, groups]

    def places(self, at: Point) -> tuple[Int, Int]:
        """Places of the tile of the result, and elements of each."""
        p, q, g, n = (self.span(at, d)[1] for d in "pqgn")
        return self.s.mul(p, q), self.s.mul(g, n)

    def result_elements(self, at: Point) -> Int:
        """Of the tile of the result."""
        own = self.nest.own["out"]
        return self.s.mul(self.s.product(self.span(at, d)[1] for d in own if d != "b"),
                          self.nest.window.taps if self.nest.kind == "weight_grad" else 1)  # fmt: skip
