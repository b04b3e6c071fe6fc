"""The kernel between the transforms of a tiled 3x3 convolution: points of the weight, products, results.

Enters: dtypes, the tile, an epilogue. Leaves: one text for every size. A unit is a panel of columns and a
block of tiles. Block by block of depth it makes the points of the panel, U = G w G', in scratch that stays in
a core's cache, and adds the products of V[point, tile, C] with them; then each tile goes back from its points
to its outputs and through the epilogue. Neither U nor the sums ever lie in memory as a whole: that would be
four times the weight, read from far away. Where there are blocks enough, a unit is a block of tiles with all
panels, and makes V of its tiles in scratch, too: what one core writes no other reads. Points of the weight
that fit there as a whole are made once for all units of a thread.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.contraction.gather import Block, cut
from trilobite.compiler.targets.cpu.contraction.tile import RowsAheadTile
from trilobite.compiler.targets.cpu.contraction.tiling import ROWS, VECTORS, Tiling
from trilobite.compiler.targets.cpu.contraction.winograd.transforms import (
    RESULT_AT,
    SQUARE_AT,
    Results,
    ResultWords,
    Source,
    SourceWords,
    Square,
    Store,
)
from trilobite.compiler.targets.cpu.contraction.words import EpilogueWords, Form, W, Words, joined, read
from trilobite.compiler.targets.cpu.epilogue import Epilogue
from trilobite.compiler.targets.cpu.primitives.conv_winograd import TRANSFORMS
from trilobite.native.host import Host
from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import iota

BLOCK = 60  # tiles of a unit: their sums at 36 points and 64 channels of a panel's points fill half a cache
DEPTH = 64  # channels whose points are made at a time
_SUMS_AT = RESULT_AT + 2048  # bytes of scratch before the sums: squares and results of one tile
_AHEAD = 2  # tiles whose results are asked for while others are written
_AT_ONCE = 4  # addresses written at once


@dataclass(frozen=True)
class ProductWords(Words[W]):
    v: W | None  # None: made by each unit from `source`
    w: W
    table: W
    epilogue: EpilogueWords[W]
    tile: W
    tiles: W
    count: W
    blocks: W  # that take all panels one after the other
    block: W
    depth: W
    width: W
    height: W
    across: W
    count0: W
    count1: W
    every: tuple[W, W] | None = None
    source: SourceWords[W] | None = None


class Room:
    """Where a unit keeps what, in bytes of scratch."""

    def __init__(self, tiling: Tiling, tile: int) -> None:
        self.points = len(TRANSFORMS[tile].source) ** 2
        self.line = tiling.columns * tiling.size  # a row of sums, or of a panel
        # A line more than a round number apart, or all points would fall into one set of the cache.
        self.sums = (BLOCK + 1) * self.line  # of all tiles at one point
        self.panel = (DEPTH + 1) * self.line  # of one point
        self.points_at = _SUMS_AT + self.points * self.sums
        self.places_at = self.points_at + self.points * self.panel
        self.end = self.places_at + 8 * self.points * BLOCK

    def of_source(self, block: int, width: int) -> int:
        """The bytes of V of a block, which stands behind the rest."""
        return self.points * (block + 1) * width


class Product:
    """Emits one kernel. `turned`: taps back to front. `keeps`: all points of the weight from unit to unit."""

    def __init__(
        self, host: Host, tiling: Tiling, tile: int, turned: bool, epilogue: Epilogue,
        words: ProductWords[Form], keeps: bool,
    ) -> None:  # fmt: skip
        self.t, self.tiling, self.tile, self.turned = Text(host), tiling, tile, turned
        self.keeps = keeps
        self.w: ProductWords[Value] = read(self.t, words)
        self.room = Room(tiling, tile)
        self.side = len(TRANSFORMS[tile].source)
        self.sums = self.t.address(self.t.scratch, _SUMS_AT)
        self.points = self.t.address(self.t.scratch, self.room.points_at)
        self.places = self.t.address(self.t.scratch, self.room.places_at)
        self.results = Results(self.t, joined(ResultWords, self.w), tiling, tile, epilogue, self.w.epilogue)

    def text(self) -> str:
        t = self.t
        self.tiles = [RowsAheadTile(t, self.tiling, 2, n, streams=True) for n in range(1, ROWS + 1)]
        if self.w.v is None:
            self._units_with_source()
        else:
            self._units(self.w.v)
        for tile in self.tiles:
            tile.emit()
        return t.module()

    def _units(self, v: Value) -> None:
        """A unit is a panel and a block of tiles whose V lies in memory. Some blocks take all panels before
        the next do, so a thread stays with its part of the tiles.
        """
        t, w, nothing = self.t, self.w, self.t.constant("i64", -1)
        each = t.mul(w.blocks, t.ceil_div(w.width, self.tiling.columns))
        with t.loop(t.begin, t.end, carried=[nothing, nothing], name="unit") as unit:
            before, rest = t.udiv(unit.index, each), t.urem(unit.index, each)
            panel = t.udiv(rest, w.blocks)
            number = t.add(t.mul(before, w.blocks), t.urem(rest, w.blocks))
            block = self._block(number)
            with t.when(t.icmp("ne", number, unit.values[1])):
                self._fill(block, v, block.first)
            shallow = t.icmp("sle", w.depth, DEPTH)
            made = t.and_(shallow, t.icmp("eq", panel, unit.values[0]))
            self._panel(block, panel, t.xor(made, 1), self.points)
            self._finish(block, panel)
            unit.next(panel, number)

    def _units_with_source(self) -> None:
        """A unit is a block of tiles. Points of panels that are kept lie one behind the other, and the first
        unit makes them.
        """
        t, w = self.t, self.w
        assert w.source is not None
        source = Source(t, self.tiling, self.tile, w.source)
        v, yes = t.address(t.scratch, self.room.end), t.constant("i1", 1)
        panels = t.ceil_div(w.width, self.tiling.columns)
        with t.loop(t.begin, t.end, name="unit") as unit:
            block = self._block(unit.index)
            count = t.smin(t.sub(w.count, block.first), w.block)
            with t.loop(0, count, name="tile") as tile:
                source.emit(t.add(t.add(block.first, w.tile), tile.index), v, tile.index)
            self._fill(block, v, t.constant("i64", 0))
            wanted, points = yes, self.points
            if self.keeps:
                wanted = t.xor(t.icmp("ne", unit.index, t.begin), yes)
            with t.loop(0, panels, name="panel") as panel:
                if self.keeps:
                    points = t.address(self.points, t.mul(panel.index, t.mul(w.depth, self.room.line)))
                self._panel(block, panel.index, wanted, points)
                self._finish(block, panel.index)

    def _block(self, number: Value) -> Block:
        t, w = self.t, self.w
        first = t.mul(number, w.block)
        return cut(t, first, t.smin(t.sub(w.count, first), w.block))

    def _fill(self, block: Block, v: Value, first: Value) -> None:
        """For every tile of the block the addresses of its rows at all points; its first row of V."""
        t, w, count = self.t, self.w, self.room.points
        size = t.mul(w.depth, self.tiling.operand.itemsize)
        apart = t.splat(t.mul(w.tiles, size), _AT_ONCE)
        start = t.mul(apart, iota(apart.type))
        step = t.mul(apart, t.splat(t.constant("i64", _AT_ONCE), _AT_ONCE))
        with t.loop(0, block.tiles, carried=[first], name="tile") as tile:
            base = t.address(self.places, t.mul(tile.index, 8 * ROWS * count))
            with t.loop(0, block.size(t, tile.index), name="row") as row:
                source = t.address(v, t.mul(t.add(tile.values[0], row.index), size))
                here = t.splat(t.define("i64", f"ptrtoint ptr {source} to i64"), _AT_ONCE)
                line = t.address(base, t.mul(row.index, 8 * count))
                with t.loop(0, count, _AT_ONCE, carried=[t.add(here, start)], name="point") as point:
                    t.store_type(point.values[0], t.address(line, t.mul(point.index, 8)))
                    point.next(t.add(point.values[0], step))
            tile.next(t.add(tile.values[0], block.size(t, tile.index)))

    # -- products --------------------------------------------------------------------------------------------

    def _panel(self, block: Block, panel: Value, wanted: Value, points: Value) -> None:
        t, w = self.t, self.w
        with t.loop(0, w.depth, DEPTH, name="depth") as deep:
            channels = t.smin(t.sub(w.depth, deep.index), DEPTH)
            with t.when(wanted):
                self._transform(panel, deep.index, channels, points)
            self._multiply(block, deep.index, channels, points)

    def _transform(self, panel: Value, deep: Value, channels: Value, points: Value) -> None:
        """The points of some channels of a panel."""
        t, w, tiling, room = self.t, self.w, self.tiling, self.room
        square = Square(t, tiling, TRANSFORMS[self.tile].weight)
        tap_size = t.mul(w.depth, room.line)
        first = t.add(t.mul(panel, t.mul(tap_size, 9)), t.mul(deep, room.line))
        begins = [t.address(w.w, t.add(first, t.mul(tap_size, i))) for i in range(9)]
        if self.turned:
            begins = begins[::-1]
        end = t.mul(channels, room.line)
        with t.loop(0, end, tiling.lanes * tiling.size, name="vector") as vector:
            here = t.address(points, vector.index)

            def load(i: int, j: int) -> Value:
                return t.load_type(tiling.vector, t.address(begins[3 * i + j], vector.index))

            def store(i: int, j: int, value: Value) -> None:
                t.store_type(value, t.address(here, (i * self.side + j) * room.panel), 32)

            square.emit(load, store)

    def _multiply(self, block: Block, deep: Value, channels: Value, points: Value) -> None:
        t, w, room = self.t, self.w, self.room
        line, begins = t.constant("i64", 8 * room.points), t.icmp("eq", deep, 0)
        apart = t.mul(w.depth, ROWS * self.tiling.operand.itemsize)
        panel = t.address(points, t.mul(deep, -room.line))
        with t.loop(0, room.points, name="point") as point, t.loop(0, block.tiles, name="tile") as tile:
            size = block.size(t, tile.index)
            places = t.address(self.places, t.mul(tile.index, 8 * ROWS * room.points))
            at = t.add(t.mul(point.index, room.sums), t.mul(tile.index, ROWS * room.line))
            sums, after = t.address(self.sums, at), t.add(point.index, 1)
            for kind in reversed(self.tiles):
                with t.when(t.icmp("eq", size, kind.rows)):
                    t.call(
                        kind.name, places, line, panel, w.table, point.index, after, deep, channels, sums,
                        begins, apart,
                    )  # fmt: skip

    # -- results ---------------------------------------------------------------------------------------------

    def _finish(self, block: Block, panel: Value) -> None:
        """Every tile of the block from its points to its outputs."""
        t, w, tiling, room = self.t, self.w, self.tiling, self.room
        square = Square(t, tiling, TRANSFORMS[self.tile].result, t.address(t.scratch, SQUARE_AT))
        with t.loop(0, block.tiles, carried=[block.first], name="tile") as tile:
            with t.loop(0, block.size(t, tile.index), carried=tile.values, name="row") as row:
                number = t.add(row.values[0], w.tile)
                place = self.results.place(number)
                self.results.ask(t.add(number, _AHEAD), t.mul(panel, tiling.columns))
                at = t.mul(t.add(t.mul(tile.index, ROWS), row.index), room.line)
                with t.loop(0, VECTORS, name="vector") as v:
                    here = t.address(self.sums, t.add(at, t.mul(v.index, tiling.lanes * tiling.size)))

                    def sums(store: Store, here: Value = here) -> None:
                        def load(i: int, j: int) -> Value:
                            at = t.address(here, (i * self.side + j) * room.sums)
                            return t.load_type(tiling.vector, at, 32)

                        square.emit(load, store)

                    column = t.add(t.mul(panel, tiling.columns), t.mul(v.index, tiling.lanes))
                    self.results.vector(place, column, sums)
                row.next(t.add(row.values[0], 1))
            tile.next(*row.results)


def points_table(tiling: Tiling, tile: int) -> np.ndarray[Any, Any]:
    """For each point the row of scratch at which its panel begins, as `Tile` reads it."""
    room = Room(tiling, tile)
    rows = np.arange(room.points, dtype=np.int64) * (room.panel // room.line)
    return np.stack([np.zeros_like(rows), rows], axis=1)
