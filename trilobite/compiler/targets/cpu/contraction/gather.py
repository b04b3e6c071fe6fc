"""The table of row addresses that a unit of the direct convolution works from.

Enters: the words of a part. Leaves: code that fills, for the pixels of a block, `places` (for each tile and
tap the addresses of the tile's rows; of the page of zeros where the tap is outside) and `rows` (which row
of the result each pixel is). Built once per unit and read for every panel of weights.
"""

from __future__ import annotations

from typing import Protocol

from trilobite.base.dtypes import DType
from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.contraction.tiling import ROWS
from trilobite.compiler.targets.cpu.contraction.words import AxisWords, TapWords
from trilobite.native.llvm.text import Text, Value

_AT_ONCE = 4


def table_bytes(pixels: int, taps: int) -> int:
    """Of the places of some pixels, with what is written beyond the last one."""
    return 8 * (pixels * taps + _AT_ONCE)


def line_places(taps: int) -> int:
    """Offsets of taps that are read at once, four by four."""
    return max(-(-taps // _AT_ONCE), 1) * _AT_ONCE


@dataclass
class Block:
    """The pixels of a unit, cut into tiles whose sizes differ by at most one."""

    first: Value
    tiles: Value
    small: Value  # pixels of a small tile
    larger: Value  # how many tiles have one more

    def size(self, t: Text, tile: Value) -> Value:
        """Pixels of a tile."""
        return t.add(self.small, t.convert("zext", t.icmp("slt", tile, self.larger), "i64"))


def cut(t: Text, first: Value, count: Value) -> Block:
    tiles = t.ceil_div(count, ROWS)
    safe = t.smax(tiles, 1)
    return Block(first, tiles, t.udiv(count, safe), t.urem(count, safe))


class GatherWords(Protocol):
    """What a record of words must have so that rows can be found."""

    @property
    def tables(self) -> TapWords[Value]: ...

    @property
    def taps(self) -> Value: ...

    @property
    def image(self) -> Value: ...  # elements of the source

    @property
    def image_rows(self) -> Value: ...

    @property
    def axes(self) -> tuple[AxisWords[Value], ...]: ...


class Gather:
    """Emits the filling of the table."""

    def __init__(self, t: Text, words: GatherWords, operand: DType) -> None:
        self.t, self.w, self.rank, self.operand = t, words, len(words.axes), operand

    @property
    def tap_words(self) -> int:
        """Offsets along the axes, their sum in elements, the row of the panel."""
        return self.rank + 2

    def fill(
        self, block: Block, image: Value, source: Value, places: Value, rows: Value, first: Value | int = 0
    ) -> None:
        """Places and rows of a block; `first` is added to every row's number."""
        t, w = self.t, self.w
        start = self.coordinates(block.first, image)
        with t.loop(0, block.tiles, carried=start, name="tile") as tile:
            size = block.size(t, tile.index)
            base = t.address(places, t.mul(t.mul(tile.index, w.taps), 8 * ROWS))
            line = t.address(rows, t.mul(tile.index, 8 * ROWS))
            with t.loop(0, size, carried=tile.values, name="pixel") as pixel:
                self.pixel(pixel.values, source, t.address(base, t.mul(pixel.index, t.mul(w.taps, 8))))
                row = t.add(self.row(pixel.values), first)
                t.store_type(row, t.address(line, t.mul(pixel.index, 8)))
                pixel.next(*self.after(pixel.values))
            tile.next(*pixel.results)

    def coordinates(self, pixel: Value, image: Value) -> list[Value]:
        """Image and position along each axis of a pixel of the part."""
        t, found = self.t, []
        for a in reversed(range(self.rank)):
            found.append(t.urem(pixel, self.w.axes[a].count))
            pixel = t.udiv(pixel, self.w.axes[a].count)
        return [t.add(image, pixel), *reversed(found)]

    def after(self, at: list[Value]) -> list[Value]:
        """The next pixel: the last axis first, carrying over like an odometer."""
        t, out = self.t, list(at)
        carry = t.constant("i64", 1)
        for a in reversed(range(self.rank)):
            moved = t.add(at[a + 1], carry)
            over = t.icmp("eq", moved, self.w.axes[a].count)
            out[a + 1] = t.select(over, 0, moved)
            carry = t.convert("zext", over, "i64")
        out[0] = t.add(at[0], carry)
        return out

    def row(self, at: list[Value]) -> Value:
        t, w = self.t, self.w
        row = t.mul(at[0], w.image_rows)
        for a in range(self.rank):
            place = t.add(w.axes[a].first, t.mul(at[a + 1], w.axes[a].every))
            row = t.add(row, t.mul(place, w.axes[a].out_rows))
        return row

    def pixel(self, at: list[Value], source: Value, target: Value) -> None:
        """One pixel's addresses, tap after tap. Where no tap is outside, as for most pixels, nothing is
        compared and four are written at once: up to three beyond the taps, before the next pixel's.
        """
        t, w = self.t, self.w
        corner = [t.mul(at[a + 1], w.axes[a].step) for a in range(self.rank)]
        flat = t.mul(at[0], w.image)
        inside = t.constant("i1", 1)
        for a in range(self.rank):
            flat = t.add(flat, t.mul(corner[a], w.axes[a].stride))
            for end in (w.axes[a].least, w.axes[a].most):
                within = t.icmp("ult", t.add(corner[a], end), w.axes[a].extent)
                inside = t.and_(inside, within)
        origin = t.address(source, flat, self.operand)
        t.either(
            inside,
            lambda: self._line(origin, target),
            lambda: self._taps(origin, target, corner),
        )

    def _line(self, origin: Value, target: Value) -> None:
        """Addresses of all taps side by side: offsets in bytes stand in the table `flat`."""
        t, w = self.t, self.w
        begin = t.splat(t.define("i64", f"ptrtoint ptr {origin} to i64"), _AT_ONCE)
        with t.loop(0, w.taps, _AT_ONCE, name="line") as tap:
            at = t.mul(tap.index, 8)
            offsets = t.load_type(f"<{_AT_ONCE} x i64>", t.address(w.tables.flat, at))
            t.store_type(t.add(begin, offsets), t.address(target, at))

    def _taps(self, origin: Value, target: Value, corner: list[Value]) -> None:
        """Addresses of all taps, each checked along every axis."""
        t, w = self.t, self.w
        with t.loop(0, w.taps, name="tap") as tap:
            line = t.address(w.tables.table, t.mul(tap.index, 8 * self.tap_words))
            offset = t.load_type("i64", t.address(line, 8 * self.rank))
            address = t.address(origin, offset, self.operand)
            for a, place in enumerate(corner):
                along = t.load_type("i64", t.address(line, 8 * a))
                inside = t.icmp("ult", t.add(place, along), w.axes[a].extent)
                address = t.select(inside, address, w.tables.zeros)
            t.store_type(address, t.address(target, t.mul(tap.index, 8)))
