"""One filter per channel over lines of pixels: each source row of a line is loaded once for all its taps.

Enters: dtypes, rank, the offsets of the taps along the last axis, how many pixels a tile has, an epilogue.
Leaves: the text of one kernel for every size. A tile is some pixels side by side; its table of places
(`gather`) holds the rows under it, line of taps by line of taps. A vector of channels of all its pixels is
summed in registers, line after line, and goes through the epilogue.
"""

from __future__ import annotations

from functools import partial

from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.contraction.convert import widen
from trilobite.compiler.targets.cpu.contraction.finish import Places
from trilobite.compiler.targets.cpu.contraction.gathering import Gathering
from trilobite.compiler.targets.cpu.contraction.multiply import filtered
from trilobite.compiler.targets.cpu.contraction.runs import each_vector
from trilobite.compiler.targets.cpu.contraction.tiling import Tiling
from trilobite.compiler.targets.cpu.contraction.words import AxisWords, EpilogueWords, TapWords, W, Words
from trilobite.compiler.targets.cpu.epilogue import Epilogue
from trilobite.native.llvm.text import Text, Value

_CACHE_LINE = 64  # bytes


@dataclass(frozen=True)
class FilterWords(Words[W]):
    x: W
    w: W
    tables: TapWords[W]
    numbers: W  # of each tap where its weights begin
    epilogue: EpilogueWords[W]
    places_at: W  # in scratch
    blocks: W
    block: W
    tiles: W
    taps: W
    lines: W
    pixels: W
    apart: W
    width: W
    image: W
    image_rows: W
    axes: tuple[AxisWords[W], ...]


@dataclass(frozen=True)
class Line:
    """A tile of `pixels` along the last axis, `step` source positions apart; taps at these offsets from the
    least one.
    """

    pixels: int
    step: int
    offsets: tuple[int, ...]

    @property
    def span(self) -> int:
        """Source positions under a tile."""
        return (self.pixels - 1) * self.step + max(self.offsets) + 1

    def uses(self, position: int) -> list[tuple[int, int]]:
        """Which pixels read a position by which taps."""
        return [
            (i, k)
            for i in range(self.pixels)
            for k, offset in enumerate(self.offsets)
            if i * self.step + offset == position
        ]


@dataclass
class _Tile:
    """Where the results of a tile's pixels lie, how many pixels exist, and what to fetch meanwhile."""

    rows: list[Places]
    first: Value
    count: Value
    ahead: list[Value]  # rows of the next tile that no tile has read yet


class Filter(Gathering):
    """Emits one kernel."""

    w: FilterWords[Value]

    def __init__(
        self, t: Text, tiling: Tiling, epilogue: Epilogue, w: FilterWords[Value], line: Line
    ) -> None:
        super().__init__(t, tiling, epilogue, w)
        self.line = line

    def emit(self) -> None:
        t, w = self.t, self.w
        with t.loop(t.begin, t.end, name="unit") as unit:
            number, image = t.urem(unit.index, w.blocks), t.udiv(unit.index, w.blocks)
            first = t.mul(number, w.block)
            last = t.smin(t.add(first, w.block), w.tiles)
            start = self.gather.coordinates(first, image)
            with t.loop(first, last, carried=start, name="tile") as tile:
                self._tile(tile.values)
                tile.next(*self.gather.after(tile.values))

    def _tile(self, at: list[Value]) -> None:
        t, w = self.t, self.w
        self.gather.pixel(at, w.x, self.places)
        first = self.gather.row(at)
        count = t.sub(w.pixels, t.mul(at[-1], self.line.pixels))
        unrolled = range(self.line.pixels if self.epilogue.short else 0)
        rows = [self.finish.row(t.add(first, t.mul(w.apart, i))) for i in unrolled]
        tile = _Tile(rows, first, t.smin(count, self.line.pixels), self._ahead())
        each_vector(t, self.tiling.lanes, w.width, partial(self._channels, tile))

    def _ahead(self) -> list[Value]:
        """What follows a tile in the last lines: so many streams at once are too many for a machine to
        foresee. Behind the end of a line it is something else, and fetching it does no harm.
        """
        t, w, span = self.t, self.w, self.line.span
        found = []
        for k in range(self.line.step):
            line = t.smax(t.sub(w.lines, k + 1), 0)
            last = t.load_type("ptr", t.address(self.places, t.mul(t.add(t.mul(line, span), span - 1), 8)))
            found.append(t.address(last, w.width, self.tiling.operand))
        return found

    def _fetch(self, tile: _Tile, channel: Value) -> None:
        """The share of one vector of channels in the rows of the next tile."""
        t, pixels, operand = self.t, self.line.pixels * self.line.step, self.tiling.operand
        share = pixels * self.tiling.lanes * operand.itemsize
        for begin in tile.ahead:
            here = t.address(begin, t.mul(channel, pixels), operand)
            for at in range(0, share, _CACHE_LINE):
                t.prefetch(t.address(here, at))

    def _channels(self, tile: _Tile, channel: Value, width: Value | None) -> None:
        """A vector of channels of all pixels, of which `width` exist (None: all)."""
        if width is None:
            self._fetch(tile, channel)
        t, taps, span = self.t, len(self.line.offsets), self.line.span
        zero = t.constant(self.tiling.vector, 0)
        with t.loop(0, self.w.lines, carried=[zero] * self.line.pixels, name="line") as line:
            places = t.address(self.places, t.mul(line.index, 8 * span))
            numbers = t.address(self.w.numbers, t.mul(line.index, 8 * taps))
            line.next(*self._line(places, numbers, channel, width, line.values))
        if self.epilogue.short:
            for i, total in enumerate(line.results):
                with t.when(t.icmp("slt", t.constant("i64", i), tile.count)):
                    self.finish.store(total, tile.rows[i], channel, width)
            return
        step = self.tiling.lanes * self.tiling.size
        for i, total in enumerate(line.results):
            t.store_type(total, t.address(t.scratch, i * step), 32)
        with t.loop(0, tile.count, name="pixel") as pixel:
            total = t.load_type(self.tiling.vector, t.address(t.scratch, t.mul(pixel.index, step)), 32)
            row = t.add(tile.first, t.mul(self.w.apart, pixel.index))
            self.finish.store(total, self.finish.row(row), channel, width)

    def _line(
        self, places: Value, numbers: Value, channel: Value, width: Value | None, sums: list[Value]
    ) -> list[Value]:
        """One line of taps: its weights in registers, every position under the tile loaded once."""
        t, found, operand = self.t, list(sums), self.tiling.operand
        weights = []
        for k in range(len(self.line.offsets)):
            row = t.load_type("i64", t.address(numbers, 8 * k))
            weights.append(self._load(t.address(self.w.w, t.add(row, channel), operand), width))
        for position in range(self.line.span):
            if not (uses := self.line.uses(position)):
                continue
            row = t.load_type("ptr", t.address(places, 8 * position))
            value = self._load(t.address(row, channel, operand), width)
            for i, k in uses:
                found[i] = filtered(t, value, weights[k], found[i], self.tiling.narrow)
        return found

    def _load(self, at: Value, width: Value | None) -> Value:
        t, tiling = self.t, self.tiling
        value = t.load_partial(tiling.operand, at, width, tiling.lanes)
        return widen(t, value, tiling.operand, tiling.accumulator)
