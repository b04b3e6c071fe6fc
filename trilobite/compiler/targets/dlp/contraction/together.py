"""Tiles that several cores need alike: who loads which part, and how everybody gets the whole.

Enters: a plan, and where tiles come from and go to. Leaves: copies of parts into SRAM, and multicasts of
them. What stays on chip between groups is in SRAM already, and only given out.
"""

from __future__ import annotations

from collections.abc import Mapping as Table
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

from trilobite.compiler.targets.dlp.contraction.copies import Axis, copy_tile, merged
from trilobite.compiler.targets.dlp.contraction.homes import NO_ROWS, Rows, share_places, share_rows
from trilobite.compiler.targets.dlp.contraction.mapping import Mapping
from trilobite.compiler.targets.dlp.contraction.nest import DIMS, View
from trilobite.compiler.targets.dlp.contraction.places import Plan
from trilobite.compiler.targets.dlp.contraction.prefetched import WHOLE
from trilobite.compiler.targets.dlp.contraction.scalars import Int, Scalars
from trilobite.compiler.targets.dlp.contraction.sharing import Members, Sharing, is_run
from trilobite.compiler.targets.dlp.contraction.walk import Point
from trilobite.processor.isa.address import CLUSTER_SHIFT
from trilobite.processor.lang.builder import Builder
from trilobite.processor.lang.ir import Value


@dataclass(frozen=True)
class Tile:
    """Where a tile lies in device memory or at home on chip."""

    pointer: Value
    first: Int
    axes: list[Axis]
    item: int
    view: View | None = None  # of one that may be at home on chip, and its rows
    rows: Rows = NO_ROWS


class SharedLoads:
    """The part of a kernel that loads what its cores share. `indices`: of the cluster and of the core in it,
    along each dim."""

    builder: Builder
    plan: Plan
    s: Scalars
    mapping: Mapping
    base: Table[str, Value]
    indices: list[dict[str, Int]]
    count: dict[str, int]

    def _tile(self, name: str, at: Point) -> Tile:
        raise NotImplementedError

    def _place(self, name: str, at: Point) -> Value:
        raise NotImplementedError

    def _fill_part(
        self, name: str, at: Point, share: tuple[int, int] = (0, WHOLE), piece: int = 0, pieces: int = 1
    ) -> None:
        """This core's part of a tile into SRAM; or a share of it, or one of several pieces."""
        s, tile, made = self.s, self._tile(name, at), self.plan.sharing(name)
        mine: Int = 0
        if made.within:
            mine = self._weighted(1, made.cores.weights(True))
        if made.across:
            mine = s.add(mine, s.mul(self._weighted(0, made.clusters.weights(True)), made.sharers))
        first, count, step, axes = self._part(tile, made.parts, mine)
        begin, count = self._shared_rows(count, share) if pieces == 1 else self._piece(count, piece, pieces)
        first = s.add(first, begin)
        to = s.offset(self._parts(name, at), s.mul(first, step))
        outer = axes[-1]
        source = s.offset(s.offset(tile.pointer, tile.first), s.mul(first, outer.of))
        some = [*axes[:-1], Axis(count, outer.to, outer.of)]
        copy = partial(copy_tile, s, to, source, some, tile.item)
        s.when(s.compare("gt", count, 0), copy, "part")

    def _piece(self, count: Int, piece: int, pieces: int) -> tuple[Int, Int]:
        """Of so many rows the first of a piece, and how many it has."""
        each = self.s.ceil_div(count, pieces)
        begin = self.s.mul(each, piece)
        return begin, self.s.min(self.s.sub(count, begin), each)

    def _shared_rows(self, count: Int, share: tuple[int, int]) -> tuple[Int, Int]:
        """Of so many rows the first of a share of them, and how many there are."""
        if share == (0, WHOLE):
            return 0, count
        low, high = (self.s.ceil_div(self.s.mul(count, bound), WHOLE) for bound in share)
        return low, self.s.sub(high, low)

    def _weighted(self, level: int, weights: Sequence[tuple[str, int]]) -> Int:
        """This cluster's (0) or core's (1) number among those that differ along these dims."""
        return self.s.total(self.s.mul(self.indices[level][dim], weight) for dim, weight in weights)

    def _parts(self, name: str, at: Point) -> Value:
        """Where parts of this core's tile lie in its own cluster's SRAM."""
        made, room = self.plan.sharing(name), self.plan.rooms[f"parts_{name}"]
        per_cluster = self.plan.machine.cores_per_cluster
        slot = at.slot(self.s, "parts", self.plan.residences["parts"], self.count)
        place = self.s.offset(self.base[f"parts_{name}"], self.s.mul(slot, room.tile))
        members = made.cores if made.within else Members(self.mapping.cores, DIMS)
        kind = self._weighted(1, members.weights(False))
        return self.s.offset(place, self.s.mul(kind, room.tile // made.kinds(per_cluster)))

    def _take(self, name: str, at: Point, piece: int = 0, pieces: int = 1) -> None:
        """The tile, from the SRAM of every cluster that has a part; of each this core's share, for all cores
        of its cluster that want it. Or one of several pieces of what it is to take."""
        s, made, tile = self.s, self.plan.sharing(name), self._tile(name, at)
        near, turn = self._place(name, at), self._weighted(1, made.cores.weights(True)) if made.within else 0
        if name not in self.plan.filled:
            if piece:  # it is there already, and given out with the first piece of what is not
                return
            assert tile.view is not None
            far, give = s.offset(tile.pointer, tile.first), partial(self._given, made)
            if is_run(self.plan.nest):
                share_rows(s, tile.view, near, far, tile.axes[-1].to, tile.rows, turn, made.sharers, give)
            else:
                share_places(s, tile.view, near, far, tile.axes, tile.rows, turn, made.sharers, give)
            return
        own = self._parts(name, at)
        for number, home in self._homes(made):
            first, count, step, _ = self._part(tile, made.parts, s.add(turn, s.mul(number, made.sharers)))
            begin, count = self._piece(count, piece, pieces)
            first = s.add(first, begin)
            skip, source = s.mul(first, step), own
            if made.across:
                source = s.offset(source, s.mul(s.add(home, 1), 1 << CLUSTER_SHIFT))
            to, of, size = s.offset(near, skip), s.offset(source, skip), s.value(s.mul(count, step))
            s.when(s.compare("gt", count, 0), partial(self._given, made, to, of, size), "give")

    def _homes(self, made: Sharing) -> list[tuple[Int, Int]]:
        """Clusters that have a part, by their number among them. Clusters and cores begin with different
        ones: they do not all ask the same one, and some ask their own while others use the network."""
        s, offsets = self.s, made.clusters.offsets if made.across else (0,)
        first = self._weighted(0, made.clusters.firsts) if made.across else 0
        stride = offsets[1] if len(offsets) > 1 else 1
        if len(offsets) == 1 or any(o != n * stride for n, o in enumerate(offsets)):
            return [(number, s.add(first, offset)) for number, offset in enumerate(offsets)]
        mine = s.add(self._weighted(0, made.clusters.weights(True)), self.builder.special("coreId"))
        found = list[tuple[Int, Int]]()
        for turn in range(len(offsets)):
            number = s.rem(s.add(mine, turn), len(offsets))
            found.append((number, s.add(first, s.mul(number, stride))))
        return found

    def _given(self, made: Sharing, to: Value, of: Value, size: Value) -> None:
        if made.sharers == 1:
            self.s.tensor("COPY", [to, of, size], is_async=True)
            return
        everyone = sum(1 << offset for offset in made.cores.offsets)
        mask: Int = everyone
        if made.cores.firsts:
            first = self._weighted(1, made.cores.firsts)
            choices = sorted({sum(place) for place in product(*_places(made.cores))})
            for number in choices[1:]:
                mask = self.s.select(self.s.compare("ge", first, number), everyone << number, mask)
        self.s.tensor("COPYX", [to, of, size, self.s.value(mask)], is_async=True)

    @staticmethod
    def _axes(tile: Tile) -> list[Axis]:
        return merged(tile.axes) or [Axis(1, tile.item, tile.item)]

    def _part(self, tile: Tile, parts: int, number: Int) -> tuple[Int, Int, Int, list[Axis]]:
        """Of the tile's outermost axis: where a part begins, how many, bytes of one; the axes."""
        axes = self._axes(tile)
        outer = axes[-1]
        each = self.s.ceil_div(outer.count, parts)
        first = self.s.mul(number, each)
        is_even = isinstance(outer.count, int) and outer.count % parts == 0
        mine = each if is_even else self.s.min(self.s.sub(outer.count, first), each)
        return first, mine, outer.to, axes


def _places(members: Members) -> list[list[int]]:
    """For each dim that an operand has, where its parts begin among the numbers."""
    parts = dict(zip(DIMS, members.parts, strict=True))
    return [[step * stride for step in range(parts[dim])] for dim, stride in members.firsts]
