"""Kernels that keep channels apart: pooling, the transpose of a windowed sum, one filter per channel.

Enters: dtypes, rank, how rows are combined, an epilogue. Leaves: the text of one kernel for every size. A
unit is a block of pixels: it writes down where the rows of its pixels are (`gather`) and goes tile by tile
through all channels, so rows are read front to back.
"""

from __future__ import annotations

from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.contraction.gather import cut
from trilobite.compiler.targets.cpu.contraction.gathering import Gathering
from trilobite.compiler.targets.cpu.contraction.rowwise.tile import Combine, RowTile, Source
from trilobite.compiler.targets.cpu.contraction.tiling import ROWS, Tiling
from trilobite.compiler.targets.cpu.contraction.words import AxisWords, EpilogueWords, TapWords, W, Words
from trilobite.compiler.targets.cpu.epilogue import Epilogue
from trilobite.native.llvm.text import Text, Value


@dataclass(frozen=True)
class RowWords(Words[W]):
    x: W
    w: W | None  # of filters
    tables: TapWords[W]
    epilogue: EpilogueWords[W]
    rows_at: W  # in scratch
    places_at: W
    blocks: W
    block: W
    pixels: W
    taps: W
    width: W
    image: W
    image_rows: W
    axes: tuple[AxisWords[W], ...]


class Rowwise(Gathering):
    """Emits one kernel."""

    w: RowWords[Value]

    def __init__(
        self, t: Text, tiling: Tiling, epilogue: Epilogue, w: RowWords[Value], combine: Combine
    ) -> None:
        super().__init__(t, tiling, epilogue, w)
        self.combine = combine

    def emit(self) -> None:
        t, w = self.t, self.w
        weights = w.tables.zeros if w.w is None else w.w
        source = Source(w.tables.zeros, weights, w.tables.table, self.gather.tap_words, w.width, w.taps)
        self.tile = RowTile(t, self.tiling, self.combine, source)
        self.rows = t.address(t.scratch, w.rows_at)
        with t.loop(t.begin, t.end, name="unit") as unit:
            self._unit(unit.index)
        self.tile.emit()

    def _unit(self, unit: Value) -> None:
        t, w = self.t, self.w
        number, image = t.urem(unit, w.blocks), t.udiv(unit, w.blocks)
        first = t.mul(number, w.block)
        block = cut(t, first, t.smin(t.sub(w.pixels, first), w.block))
        self.gather.fill(block, image, w.x, self.places, self.rows)
        with t.loop(0, block.tiles, name="tile") as tile:
            size = block.size(t, tile.index)
            places = t.address(self.places, t.mul(t.mul(tile.index, w.taps), 8 * ROWS))
            rows = t.address(self.rows, t.mul(tile.index, 8 * ROWS))
            with t.loop(0, w.width, self.tiling.columns, name="channel") as c:
                width = t.smin(t.sub(w.width, c.index), self.tiling.columns)
                self._channels(size, places, rows, c.index, width)

    def _channels(self, size: Value, places: Value, rows: Value, channel: Value, width: Value) -> None:
        """Two vectors of channels of a tile. A full tile's sums go from registers through the epilogue."""
        t = self.t

        def some() -> None:
            self.tile.call(size, places, channel, t.scratch, width)
            self.finish.tile(t.scratch, rows, size, channel, width)

        def whole() -> None:
            self.finish.registers(self.tile.whole(places, channel), rows, channel)

        if not self.epilogue.short:
            some()
            return
        full = t.and_(t.icmp("eq", size, ROWS), t.icmp("eq", width, self.tiling.columns))
        t.either(full, whole, some)
