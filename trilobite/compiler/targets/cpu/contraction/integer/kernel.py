"""Convolutions and products of bytes: an indirect matrix product over pixels with int32 sums.

Enters: rank, an epilogue, and which forms of weights the host has instructions for. Leaves: the text of one
kernel for every size. The weight's first word says its form; rows are words of four bytes or of two 16-bit
numbers to match, so that a row, a place and a panel are the same in both but for their lengths. A unit is a
block of pixels, a group and a run of panels, as in the direct convolution. Sums wrap around, so their order
does not matter.
"""

from __future__ import annotations

from functools import partial

from trilobite.base.dtypes import int32
from trilobite.compiler.targets.cpu.contraction.direct.kernel import Indirect
from trilobite.compiler.targets.cpu.contraction.finish import SHORT, Finish
from trilobite.compiler.targets.cpu.contraction.gather import Block, Gather
from trilobite.compiler.targets.cpu.contraction.integer.tile import IntegerTile
from trilobite.compiler.targets.cpu.contraction.tiling import ROWS, Tiling
from trilobite.compiler.targets.cpu.contraction.words import read_words
from trilobite.compiler.targets.cpu.emit.text import Text, Value
from trilobite.compiler.targets.cpu.epilogue import Epilogue
from trilobite.compiler.targets.cpu.primitives.conv_integer import HEADER
from trilobite.native.host import Host


def integer_text(
    host: Host, tiling: Tiling, rank: int, epilogue: Epilogue, forms: tuple[int, ...], names: tuple[str, ...]
) -> str:
    """Names that end in @1 or @2 are of one form."""
    t = Text(host)
    words = read_words(t, names)
    found = t.load_type("i32", words["w"])
    for form in forms:
        mine = {name.removesuffix(f"@{form}"): value for name, value in words.items()}
        with t.when(t.icmp("eq", found, form)):
            _Integer(t, tiling, rank, epilogue, form, mine).emit()
    return t.module()


class _Integer(Indirect):
    """Emits the part of a kernel that runs one form of weights."""

    def __init__(
        self, t: Text, tiling: Tiling, rank: int, epilogue: Epilogue, form: int, words: dict[str, Value]
    ) -> None:
        self.t, self.tiling, self.w = t, tiling, words
        self.gather = Gather(t, words, rank, int32)
        self.tiles = [IntegerTile(t, tiling, self.gather.tap_words, form, n) for n in range(1, ROWS + 1)]
        self.finish = Finish(t, tiling, epilogue, words)
        self.short = len(epilogue.body.equations) <= SHORT
        self.more = (t.address(words["w"], 1, int32),)  # ones
        self.rows = t.address(t.scratch, words["rows_at"])
        self.places = t.address(t.scratch, words["places_at"])
        self.first_panel = t.address(words["w"], HEADER + tiling.columns, int32)

    def emit(self) -> None:
        t = self.t
        with t.loop(t.begin, t.end, name="unit") as unit:
            self._unit(unit.index)
        for tile in self.tiles:
            tile.emit()

    def _tiles(
        self, block: Block, where: tuple[Value, ...], begins: Value, ends: Value, column: Value, width: Value
    ) -> None:
        t, w, tiling = self.t, self.w, self.tiling
        with t.loop(0, block.tiles, name="tile") as tile:
            size = t.add(block.small, t.convert("zext", t.icmp("slt", tile.index, block.larger), "i64"))
            places = t.address(self.places, t.mul(t.mul(tile.index, w["taps"]), 8 * ROWS))
            rows = t.address(self.rows, t.mul(tile.index, 8 * ROWS))
            sums = t.address(t.scratch, t.mul(tile.index, ROWS * tiling.columns * tiling.size))

            def in_blocks() -> None:
                for kind in reversed(self.tiles):
                    with t.when(t.icmp("eq", size, kind.rows)):
                        t.call(kind.name, places, *where, sums, begins)
                with t.when(ends):
                    self.finish.tile(sums, rows, size, column, width)

            if not self.short:
                in_blocks()
                return
            at_once = t.and_(t.and_(begins, ends), t.icmp("eq", width, tiling.columns))
            at_once = t.and_(at_once, t.icmp("eq", size, ROWS))
            t.either(at_once, partial(self._whole, places, where, rows, column), in_blocks)

    def _whole(self, places: Value, where: tuple[Value, ...], rows: Value, column: Value) -> None:
        """A full tile with all its depth: sums go from registers through the epilogue."""
        tile = self.tiles[-1]
        sums = tile.sums(tile.start(where[1]), places, *where)
        self.finish.registers(sums, rows, column)
