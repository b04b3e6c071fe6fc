"""The direct convolution: an indirect matrix product over pixels, without a copy of the activations.

Enters: dtypes, rank and an epilogue. Leaves: the text of one kernel for convolutions of every size. A unit
is a block of pixels, a group and a run of weight panels. It writes down where the rows of its pixels are
(`gather`), then goes panel by panel and, in a panel, through blocks of depth that fit the first-level
cache; every tile of the block is a call of `tile`. The sums of a tile are added in one order, whatever the
units.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.contraction.gather import Block, cut, table_bytes
from trilobite.compiler.targets.cpu.contraction.gathering import Gathering
from trilobite.compiler.targets.cpu.contraction.tile import GatheredTile, RowsAheadTile, Stream
from trilobite.compiler.targets.cpu.contraction.tiling import ROWS, Tiling
from trilobite.compiler.targets.cpu.contraction.words import AxisWords, EpilogueWords, TapWords, W, Words
from trilobite.compiler.targets.cpu.epilogue import Epilogue
from trilobite.native.llvm.text import Text, Value

Asks = Literal["", "weights", "rows"]
_AHEAD = 2  # tiles


@dataclass(frozen=True)
class DirectWords(Words[W]):
    x: W
    w: W
    tables: TapWords[W]
    epilogue: EpilogueWords[W]
    rows_at: W  # in scratch
    places_at: W
    runs: W
    run: W
    panels: W
    groups: W
    blocks: W
    block: W
    pixels: W
    taps: W
    tap_block: W
    depth: W
    depth_block: W
    panel_size: W
    columns: W
    group_x: W
    group_columns: W
    group_rows: W
    width: W
    image: W
    image_rows: W
    axes: tuple[AxisWords[W], ...]


@dataclass(frozen=True)
class Scratch:
    """Where a unit keeps its sums, the rows of the result and the table of places, in bytes."""

    rows: int
    places: int
    end: int


def scratch_of(tiling: Tiling, pixels: int, taps: int) -> Scratch:
    tiles = -(-pixels // ROWS) + 1
    rows = tiles * ROWS * tiling.columns * tiling.size
    places = rows + tiles * ROWS * 8
    return Scratch(rows, places, places + table_bytes(tiles * ROWS, taps))


class Direct(Gathering):
    """Emits one kernel. `asks`: what tiles ask for meanwhile, weights of the next block of depth or the rows
    of a later tile.
    """

    w: DirectWords[Value]
    ones: tuple[Value, ...] = ()  # for the functions of tiles that need them

    def __init__(
        self, t: Text, tiling: Tiling, epilogue: Epilogue, w: DirectWords[Value], asks: Asks = ""
    ) -> None:
        super().__init__(t, tiling, epilogue, w)
        self.asks, self.first_panel = asks, w.w

    def emit(self) -> None:
        t = self.t
        self.tiles = [self._tile(rows) for rows in range(1, ROWS + 1)]
        self.pair = self._pair()
        self.rows = t.address(t.scratch, self.w.rows_at)
        with t.loop(t.begin, t.end, name="unit") as unit:
            self._unit(unit.index)
        for tile in (*self.tiles, self.pair):
            if tile is not None:
                t.kept(tile.key, tile.emit)

    def _tile(self, rows: int) -> GatheredTile:
        kind = RowsAheadTile if self.asks == "rows" else GatheredTile
        return kind(self.t, self.tiling, self.gather.tap_words, rows, streams=self.asks != "")

    def _pair(self) -> GatheredTile | None:
        """Twice the rows by one vector, if there is such a tile."""
        return GatheredTile(self.t, self.tiling, self.gather.tap_words, 2 * ROWS, vectors=1)

    def _unit(self, unit: Value) -> None:
        """Panels change fastest, then groups, blocks of pixels, images."""
        t, w = self.t, self.w
        run, rest = t.urem(unit, w.runs), t.udiv(unit, w.runs)
        group, rest = t.urem(rest, w.groups), t.udiv(rest, w.groups)
        number, image = t.urem(rest, w.blocks), t.udiv(rest, w.blocks)
        first = t.mul(number, w.block)
        block = cut(t, first, t.smin(t.sub(w.pixels, first), w.block))
        source = t.address(w.x, t.mul(group, w.group_x), self.tiling.operand)
        first = t.mul(group, w.group_rows)
        self.gather.fill(block, image, source, self.places, self.rows, first)
        panel = t.mul(run, w.run)
        with t.loop(panel, t.smin(t.add(panel, w.run), w.panels), name="panel") as p:
            self._panel(block, group, p.index)

    def _panel(self, block: Block, group: Value, panel: Value) -> None:
        t, w, tiling = self.t, self.w, self.tiling
        number = t.add(t.mul(group, w.panels), panel)
        weights = t.address(self.first_panel, t.mul(number, w.panel_size), tiling.panel)
        weights, start = self._begin(group, weights)
        column = t.mul(panel, tiling.columns)
        width = t.smin(t.sub(w.columns, column), tiling.columns)
        column = t.add(column, t.mul(group, w.group_columns))
        with (
            t.loop(0, t.smax(w.taps, 1), w.tap_block, name="taps") as tap,
            t.loop(0, t.smax(w.depth, 1), w.depth_block, name="depth") as deep,
        ):
            end = t.smin(t.add(tap.index, w.tap_block), w.taps)
            channels = t.smin(t.sub(w.depth, deep.index), w.depth_block)
            begins = t.icmp("eq", t.or_(tap.index, deep.index), 0)
            ends = t.and_(
                t.icmp("sge", t.add(tap.index, w.tap_block), w.taps),
                t.icmp("sge", t.add(deep.index, w.depth_block), w.depth),
            )
            line = t.mul(w.taps, 8)
            channel = t.add(deep.index, start)
            where = (line, weights, w.tables.table, tap.index, end, channel, channels, *self.ones)
            self._tiles(block, where, begins, ends, column, width)

    def _begin(self, group: Value, weights: Value) -> tuple[Value, Value | int]:
        """Where a group's weights begin, and the channel of the rows at which it does."""
        return weights, 0

    def _tiles(
        self, block: Block, where: tuple[Value, ...], begins: Value, ends: Value, column: Value, width: Value
    ) -> None:
        t, w, tiling = self.t, self.w, self.tiling
        done = self._pairs(block, where, begins, width)
        ahead = self._next_weights(block, where) if self.asks == "weights" else None
        with t.loop(0, block.tiles, name="tile") as tile:
            size = block.size(t, tile.index)
            places = t.address(self.places, t.mul(t.mul(tile.index, w.taps), 8 * ROWS))
            rows = t.address(self.rows, t.mul(tile.index, 8 * ROWS))
            at_once = t.and_(t.and_(begins, ends), t.icmp("eq", width, tiling.columns))
            at_once = t.and_(at_once, t.icmp("eq", size, ROWS))
            sums = t.address(t.scratch, t.mul(tile.index, ROWS * tiling.columns * tiling.size))
            stream: Stream = (self._next_rows(),) if self.asks == "rows" else ()
            if ahead is not None:
                stream = t.address(ahead[0], t.mul(tile.index, ahead[1])), ahead[2]

            def in_blocks() -> None:
                left = None if done is None else t.icmp("sge", tile.index, done)
                for kind in reversed(self.tiles):
                    mine = t.icmp("eq", size, kind.rows)
                    with t.when(mine if left is None else t.and_(left, mine)):
                        t.call(kind.name, places, *where, sums, begins, *stream)
                with t.when(ends):
                    self.finish.tile(sums, rows, size, column, width)

            if self.epilogue.short:
                t.either(at_once, partial(self._whole, (places, *where), rows, column, stream), in_blocks)
            else:
                in_blocks()

    def _pairs(self, block: Block, where: tuple[Value, ...], begins: Value, width: Value) -> Value | None:
        """Where columns fill no more than one vector, full tiles two by two with as many accumulators as one
        tile of two vectors has; how many tiles that were, if there are such pairs.
        """
        t, w, tiling = self.t, self.w, self.tiling
        if self.pair is None:
            return None
        full = self._full(block)
        count = t.select(t.icmp("sle", width, tiling.lanes), t.and_(full, -2), 0)
        with t.loop(0, count, 2, name="pair") as tile:
            places = t.address(self.places, t.mul(t.mul(tile.index, w.taps), 8 * ROWS))
            sums = t.address(t.scratch, t.mul(tile.index, ROWS * tiling.columns * tiling.size))
            t.call(self.pair.name, places, *where, sums, begins)
        return count

    def _full(self, block: Block) -> Value:
        """How many tiles, from the first on, have all their rows."""
        t = self.t
        full = t.select(t.icmp("eq", block.small, ROWS), block.tiles, block.larger)
        return t.select(t.icmp("sge", block.small, ROWS - 1), full, 0)

    def _next_weights(self, block: Block, where: tuple[Value, ...]) -> tuple[Value, Value, Value]:
        """Where the weights behind those of this block of depth begin, how many bytes of them each tile asks
        for, and how many with every channel: they are then there when the next block begins.
        """
        t, tiling = self.t, self.tiling
        _, weights, _, first, last, channel, channels = where
        row = tiling.columns * tiling.panel.itemsize
        behind = t.add(t.mul(t.sub(last, 1), self.w.depth), t.add(channel, channels))
        share = t.udiv(t.sub(t.add(block.tiles, row), 1), t.smax(block.tiles, 1))
        apart = t.mul(t.mul(t.sub(last, first), channels), share)
        return t.address(weights, t.mul(behind, row)), apart, share

    def _next_rows(self) -> Value:
        """How many bytes behind its own the rows of a later tile of the same line lie."""
        t, axes = self.t, self.w.axes
        apart = t.mul(axes[-1].step, axes[-1].stride) if axes else self.w.image
        return t.mul(apart, _AHEAD * ROWS * self.tiling.operand.itemsize)

    def _whole(self, where: tuple[Value, ...], rows: Value, column: Value, stream: Stream) -> None:
        """A full tile with all its depth: sums go from registers through the epilogue."""
        tile = self.tiles[-1]
        self.finish.registers(tile.sums(where, tile.start(where[2]), stream), rows, column)
