"""The gradient of a convolution in its weight: per tap, products of x and y summed over pixels.

Enters: dtypes, rank and an epilogue. Leaves: the text of one kernel for every size. A unit is a group, a
panel of filters and a run of channels, with all taps; its sums stay in scratch while it goes through the
pixels block by block: the block's filters are packed, the places of its rows written down, then every tap
and every tile of channels passes over it. No unit shares a sum with another, so the order of additions is
always the same.
"""

from __future__ import annotations

from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.contraction.convert import widen
from trilobite.compiler.targets.cpu.contraction.finish import all_or_some
from trilobite.compiler.targets.cpu.contraction.gathering import Gathering
from trilobite.compiler.targets.cpu.contraction.tiling import ROWS, VECTORS
from trilobite.compiler.targets.cpu.contraction.weight_grad.tile import WeightTile
from trilobite.compiler.targets.cpu.contraction.words import AxisWords, EpilogueWords, TapWords, W, Words
from trilobite.native.llvm.text import Value


@dataclass(frozen=True)
class WeightGradWords(Words[W]):
    x: W
    y: W
    tables: TapWords[W]
    epilogue: EpilogueWords[W]
    errors_at: W  # in scratch
    places_at: W
    runs: W
    run: W
    panels: W
    panel_runs: W
    panel_run: W
    pixels: W
    block: W
    taps: W
    depth: W
    columns: W
    group_x: W
    group_columns: W
    group_rows: W
    width: W
    group_pixels: W
    image: W
    image_rows: W
    axes: tuple[AxisWords[W], ...]
    begins: W | None = None  # if there is such a word and it is 0, sums go on from what the result holds


@dataclass
class _Unit:
    """A group, a run of channels, and the panel of filters at hand."""

    group: Value
    channel: Value  # the first of the run
    channels: Value
    column: Value  # of the result
    width: Value  # columns that exist
    sums: Value


class WeightGrad(Gathering):
    """Emits one kernel."""

    w: WeightGradWords[Value]

    def emit(self) -> None:
        t, w = self.t, self.w
        self.tiles = [WeightTile(t, self.tiling, n, bool(w.axes)) for n in range(1, ROWS + 1)]
        self.errors = t.address(t.scratch, w.errors_at)
        with t.loop(t.begin, t.end, name="unit") as unit:
            self._unit(unit.index)
        for tile in self.tiles:
            tile.emit()

    def _unit(self, number: Value) -> None:
        t, w = self.t, self.w
        run, rest = t.urem(number, w.runs), t.udiv(number, w.runs)
        panel, group = t.mul(t.urem(rest, w.panel_runs), w.panel_run), t.udiv(rest, w.panel_runs)
        last = t.smin(t.add(panel, w.panel_run), w.panels)
        channel = t.mul(run, w.run)
        channels = t.smin(t.sub(w.depth, channel), w.run)
        lines = t.mul(w.taps, channels)
        self._clear(t.mul(t.mul(lines, t.sub(last, panel)), VECTORS))

        def at(number: Value) -> _Unit:
            return self._panel(group, channel, channels, number, t.mul(t.sub(number, panel), lines))

        if w.begins is not None:
            with t.when(t.icmp("eq", w.begins, 0)), t.loop(panel, last, name="panel") as p:
                self._resume(at(p.index))
        start = self.gather.coordinates(t.constant("i64", 0), t.constant("i64", 0))
        with t.loop(0, w.pixels, w.block, carried=start, name="block") as block:
            count = t.smin(t.sub(w.pixels, block.index), w.block)
            block.next(*self._places(at(panel), count, block.values))
            with t.loop(panel, last, name="panel") as p:
                unit = at(p.index)
                self._pack(unit, block.index, count)
                self._block(unit, block.index, count)
        with t.loop(panel, last, name="panel") as p:
            self._store(at(p.index))

    def _panel(self, group: Value, channel: Value, channels: Value, panel: Value, line: Value) -> _Unit:
        t, w, tiling = self.t, self.w, self.tiling
        inside = t.mul(panel, tiling.columns)
        column = t.add(t.mul(group, w.group_columns), inside)
        width = t.smin(t.sub(w.columns, inside), tiling.columns)
        sums = t.address(t.scratch, t.mul(line, tiling.columns * tiling.size))
        return _Unit(group, channel, channels, column, width, sums)

    def _clear(self, vectors: Value) -> None:
        t, tiling = self.t, self.tiling
        zero = t.constant(tiling.vector, 0)
        with t.loop(0, vectors, name="clear") as i:
            t.store_type(zero, t.address(t.scratch, t.mul(i.index, tiling.lanes * tiling.size)), 32)

    def _resume(self, unit: _Unit) -> None:
        """Sums as an earlier step left them in the only result, which is in the accumulator's dtype."""
        t, w, tiling = self.t, self.w, self.tiling
        kept = tiling.accumulator
        with t.loop(0, w.taps, name="tap") as tap, t.loop(0, unit.channels, name="row") as row:
            number = self._number(unit, tap.index, row.index)
            source = t.address(w.epilogue.results[0], t.add(t.mul(number, w.width), unit.column), kept)
            at = t.add(t.mul(tap.index, unit.channels), row.index)
            line = t.address(unit.sums, t.mul(at, tiling.columns * tiling.size))
            for v in range(VECTORS):
                left = t.smax(t.sub(unit.width, v * tiling.lanes), 0)
                value = t.load_partial(kept, t.address(source, v * tiling.lanes, kept), left, tiling.lanes)
                t.store_type(value, t.address(line, v * tiling.lanes * tiling.size), 32)

    def _number(self, unit: _Unit, tap: Value, channel: Value) -> Value:
        """Which row of the result a tap and a channel of the run are."""
        t, w = self.t, self.w
        inside = t.add(t.mul(tap, w.depth), t.add(unit.channel, channel))
        return t.add(inside, t.mul(unit.group, w.group_rows))

    def _places(self, unit: _Unit, count: Value, at: list[Value]) -> list[Value]:
        """Addresses of the rows of a block, pixel by pixel; the coordinates after it."""
        t, w = self.t, self.w
        if not self.w.axes:
            return at
        source = self._source(unit)
        line = t.mul(w.taps, 8)
        with t.loop(0, count, carried=at, name="pixel") as pixel:
            self.gather.pixel(pixel.values, source, t.address(self.places, t.mul(pixel.index, line)))
            pixel.next(*self.gather.after(pixel.values))
        return pixel.results

    def _pack(self, unit: _Unit, first: Value, count: Value) -> None:
        """The panel's filters of y for each pixel of the block, side by side, in the accumulator's dtype."""
        t, w, tiling = self.t, self.w, self.tiling

        def each(some: Value | None) -> None:
            with t.loop(0, count, name="pack") as i:
                pixel = t.add(t.add(first, i.index), t.mul(unit.group, w.group_pixels))
                index = t.add(t.mul(pixel, w.width), unit.column)
                row = t.address(w.y, index, tiling.panel)
                out = t.address(self.errors, t.mul(i.index, tiling.columns * tiling.size))
                for v in range(VECTORS):
                    at = v * tiling.lanes
                    place = t.address(row, at, tiling.panel)
                    left = None if some is None else t.smax(t.sub(some, at), 0)
                    value = t.load_partial(tiling.panel, place, left, tiling.lanes)
                    wide = widen(t, value, tiling.panel, tiling.accumulator)
                    t.store_type(wide, t.address(out, at * tiling.size), 32)

        all_or_some(t, unit.width, tiling.columns, each)

    def _tiles(self, unit: _Unit) -> tuple[Value, Value, Value]:
        """Into how many tiles a run of channels is cut, the size of small ones, how many have one more."""
        t = self.t
        tiles = t.ceil_div(unit.channels, ROWS)
        safe = t.smax(tiles, 1)
        return tiles, t.udiv(unit.channels, safe), t.urem(unit.channels, safe)

    def _source(self, unit: _Unit) -> Value:
        offset = self.t.add(self.t.mul(unit.group, self.w.group_x), unit.channel)
        return self.t.address(self.w.x, offset, self.tiling.operand)

    def _rows(self, unit: _Unit, first: Value) -> tuple[Value, Value]:
        """Where the tiles find the rows of a block, and how far they are apart."""
        t, w = self.t, self.w
        if w.axes:
            return self.places, t.mul(w.taps, 8)
        begin = t.address(self._source(unit), t.mul(first, w.image), self.tiling.operand)
        return begin, t.mul(w.image, self.tiling.operand.itemsize)

    def _block(self, unit: _Unit, first: Value, pixels: Value) -> None:
        t, w, tiling = self.t, self.w, self.tiling
        tiles, small, larger = self._tiles(unit)
        rows, apart = self._rows(unit, first)
        line = tiling.columns * tiling.size
        with t.loop(0, w.taps, name="tap") as tap:
            places = t.address(rows, t.mul(tap.index, 8))
            begin = t.address(unit.sums, t.mul(t.mul(tap.index, unit.channels), line))
            zero = t.constant("i64", 0)
            with t.loop(0, tiles, carried=[zero], name="tile") as tile:
                size = t.add(small, t.convert("zext", t.icmp("slt", tile.index, larger), "i64"))
                (channel,) = tile.values
                sums = t.address(begin, t.mul(channel, line))
                for kind in reversed(self.tiles):
                    with t.when(t.icmp("eq", size, kind.rows)):
                        t.call(kind.name, places, apart, self.errors, pixels, channel, sums)
                tile.next(t.add(channel, size))

    def _store(self, unit: _Unit) -> None:
        """All sums through the epilogue. A row of the result is a tap and a channel."""
        t, w, tiling = self.t, self.w, self.tiling

        def each(some: Value | None) -> None:
            with t.loop(0, w.taps, name="tap") as tap, t.loop(0, unit.channels, name="row") as row:
                number = self._number(unit, tap.index, row.index)
                places = self.finish.row(number)
                at = t.add(t.mul(tap.index, unit.channels), row.index)
                line = t.address(unit.sums, t.mul(at, tiling.columns * tiling.size))
                self.finish.line(line, places, unit.column, some)

        all_or_some(t, unit.width, tiling.columns, each)
