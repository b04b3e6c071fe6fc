"""The direct convolution of many groups: rows are found once for all of them.

Enters: dtypes, rank, an epilogue, and how groups lie in vectors. Leaves: the text of one kernel. A unit is a
block of pixels and a run of groups; where its rows are is written down once, and a group is an offset into
them. Groups of no more columns than a vector has lanes take tiles of one vector by twice as many pixels.
Smaller ones share a vector (`Spread`): each lane multiplies a channel of its own group, so no product with a
zero is made and groups do not meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.contraction.direct.kernel import Direct, DirectWords
from trilobite.compiler.targets.cpu.contraction.gather import Block, cut
from trilobite.compiler.targets.cpu.contraction.multiply import multiply_add
from trilobite.compiler.targets.cpu.contraction.tile import GatheredTile, Stream
from trilobite.compiler.targets.cpu.contraction.tiling import ROWS, Tiling
from trilobite.compiler.targets.cpu.epilogue import Epilogue
from trilobite.native.llvm.text import Text, Value


@dataclass(frozen=True)
class Spread:
    """Groups that share a vector: how many (one has it for itself), with how many channels and columns."""

    groups: int
    depth: int
    columns: int

    def lanes(self, channel: int, count: int) -> list[int]:
        """For each lane its group's channel of this number, among the channels of all these groups."""
        group = [min(lane // self.columns, self.groups - 1) for lane in range(count)]
        return [g * self.depth + channel for g in group]


class SpreadTile(GatheredTile):
    """A tile of one vector with all the channels of its groups at once: their number stands in the text."""

    def __init__(self, t: Text, tiling: Tiling, tap_words: int, rows: int, spread: Spread) -> None:
        super().__init__(t, tiling, tap_words, rows, vectors=1)
        self.spread = spread

    @property
    def key(self) -> tuple[Any, ...]:
        return *super().key, self.spread

    def sums(self, where: Sequence[Value], start: list[Value], stream: Stream = ()) -> list[Value]:
        t = self.t
        places, line, panel, taps, first, last, channel, _ = where
        lines = [t.address(places, t.mul(line, i)) for i in range(self.rows)]
        with t.loop(first, last, carried=start, name="tap") as tap:
            rows, weights = self._addresses(lines, panel, taps, tap.index, channel)
            tap.next(*self._all_channels(rows, weights, tap.values))
        return tap.results

    def _all_channels(self, rows: list[Value], weights: Value, carried: list[Value]) -> list[Value]:
        """Row by row where lanes are chosen from a row's vector, so that few of those are alive at once."""
        sums, depth = list(carried), self.spread.depth
        if self.spread.groups == 1:
            for u in range(depth):
                sums = self.multiplied(self.columns(weights, u), partial(self._channel, rows, u), sums)
            return sums
        columns = [self.columns(weights, u)[0] for u in range(depth)]
        for i, row in enumerate(rows):
            own = self._own_channels(row)
            for u, column in enumerate(columns):
                sums[i] = multiply_add(self.t, own[u], column, sums[i])
        return sums

    def _channel(self, rows: list[Value], u: int, i: int) -> Value:
        """One channel of a row in every lane."""
        t, operand = self.t, self.tiling.operand
        one = self.wide(t.load(operand, t.address(rows[i], u, operand)), operand)
        return t.splat(one, self.tiling.lanes)

    def _own_channels(self, row: Value) -> list[Value]:
        """For each channel of a group: in every lane that of the lane's group."""
        t, spread, tiling = self.t, self.spread, self.tiling
        together = self.wide(t.load(tiling.operand, row, spread.groups * spread.depth), tiling.operand)
        return [t.shuffle(together, None, spread.lanes(u, tiling.lanes)) for u in range(spread.depth)]


class Grouped(Direct):
    """Emits one kernel. `narrow`: the columns of a group, or of those that share a vector, fit into one."""

    def __init__(
        self, t: Text, tiling: Tiling, epilogue: Epilogue, w: DirectWords[Value], narrow: bool,
        spread: Spread | None,
    ) -> None:  # fmt: skip
        super().__init__(t, tiling, epilogue, w)
        self.narrow, self.spread = narrow, spread

    def _tile(self, rows: int) -> GatheredTile:
        if self.spread is not None:
            return SpreadTile(self.t, self.tiling, self.gather.tap_words, rows, self.spread)
        if self.narrow:
            return GatheredTile(self.t, self.tiling, self.gather.tap_words, rows, vectors=1)
        return super()._tile(rows)

    def _pair(self) -> GatheredTile | None:
        return self._tile(2 * ROWS) if self.narrow else super()._pair()

    def _unit(self, unit: Value) -> None:
        """Runs of groups change fastest, then blocks of pixels, images."""
        t, w = self.t, self.w
        run, rest = t.urem(unit, w.runs), t.udiv(unit, w.runs)
        number, image = t.urem(rest, w.blocks), t.udiv(rest, w.blocks)
        first = t.mul(number, w.block)
        block = cut(t, first, t.smin(t.sub(w.pixels, first), w.block))
        self.gather.fill(block, image, w.x, self.places, self.rows)
        first = t.mul(run, w.run)
        with (
            t.loop(first, t.smin(t.add(first, w.run), w.groups), name="group") as group,
            t.loop(0, w.panels, name="panel") as panel,
        ):
            self._panel(block, group.index, panel.index)

    def _begin(self, group: Value, weights: Value) -> tuple[Value, Value | int]:
        """Tiles add the group's first channel to rows and weights alike; weights have it taken off before."""
        t, tiling = self.t, self.tiling
        channel = t.mul(group, self.w.group_x)
        back = t.sub(0, t.mul(channel, tiling.columns))
        return t.address(weights, back, tiling.panel), channel

    def _tiles(
        self, block: Block, where: tuple[Value, ...], begins: Value, ends: Value, column: Value, width: Value
    ) -> None:
        if not self.narrow:
            super()._tiles(block, where, begins, ends, column, width)
            return
        t = self.t
        whole = t.and_(t.and_(begins, ends), t.icmp("eq", width, self.tiling.lanes))

        def in_scratch(tile: Value, kind: GatheredTile) -> None:
            places, rows, sums = self._spots(tile)
            t.call(kind.name, places, *where, sums, begins)
            with t.when(ends):
                self.finish.tile(sums, rows, t.constant("i64", kind.rows), column, width)

        paired, double = t.and_(self._full(block), -2), self._tile(2 * ROWS)
        with t.loop(0, paired, 2, name="pair") as pair:
            if self.epilogue.short:
                t.either(
                    whole,
                    lambda: self._at_once(double, pair.index, where, column),
                    lambda: in_scratch(pair.index, double),
                )
            else:
                in_scratch(pair.index, double)
        with t.loop(paired, block.tiles, name="tile") as tile:
            size = block.size(t, tile.index)
            for kind in reversed(self.tiles):
                with t.when(t.icmp("eq", size, kind.rows)):
                    in_scratch(tile.index, kind)

    def _spots(self, tile: Value) -> tuple[Value, Value, Value]:
        """Where the places, the rows and the sums of a tile are."""
        t, tiling = self.t, self.tiling
        return (
            t.address(self.places, t.mul(t.mul(tile, self.w.taps), 8 * ROWS)),
            t.address(self.rows, t.mul(tile, 8 * ROWS)),
            t.address(t.scratch, t.mul(tile, ROWS * tiling.columns * tiling.size)),
        )

    def _at_once(self, pair: GatheredTile, tile: Value, where: tuple[Value, ...], column: Value) -> None:
        """Two full tiles with all their depth: sums go from registers through the epilogue."""
        t = self.t
        places, rows, _ = self._spots(tile)
        for i, total in enumerate(pair.sums((places, *where), pair.zeros())):
            row = self.finish.row(t.load_type("i64", t.address(rows, 8 * i)))
            self.finish.store(total, row, column, None)
