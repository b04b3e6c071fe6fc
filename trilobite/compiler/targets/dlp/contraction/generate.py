"""A kernel from a mapping: loads, matrix instructions, what is done behind the sums, and stores.

Enters: a plan and pointers. Leaves: the body of a function of kernel IR, with loops over tiles. Copies are
asynchronous and run steps ahead of, or behind, the unit; edges of tiles are numbers that the loop computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from trilobite.compiler.targets.dlp.contraction.copies import Axis, copy_tile, merged
from trilobite.compiler.targets.dlp.contraction.finish import Finish
from trilobite.compiler.targets.dlp.contraction.mapping import ceil_div
from trilobite.compiler.targets.dlp.contraction.nest import DIMS, Filter, View
from trilobite.compiler.targets.dlp.contraction.places import Plan
from trilobite.compiler.targets.dlp.contraction.region import Regions
from trilobite.compiler.targets.dlp.contraction.scalars import Int, Scalars
from trilobite.compiler.targets.dlp.contraction.walk import Point, Stage, Walk
from trilobite.processor.isa.formats import U8
from trilobite.processor.lang.builder import Builder
from trilobite.processor.lang.ir import Buffer, Value


class Kernel:
    """Writes one contraction at the builder's place. `pointers`: the image, the other operand, extras,
    results."""

    def __init__(
        self, builder: Builder, plan: Plan, operands: Sequence[Value], results: Sequence[Value]
    ) -> None:
        self.builder, self.plan, self.s = builder, plan, Scalars(builder)
        self.nest, self.mapping, self.count = plan.nest, plan.mapping, plan.count
        self.operands, self.results = list(operands), list(results)
        self.base = {room.name: self._buffer(room.name) for room in plan.rooms.values()}
        self.starts, self.trips = self._division()
        self.regions = Regions(self.s, plan, self.starts)
        self.finish = Finish(self.s, plan, self.base)

    def _buffer(self, name: str) -> Value:
        room = self.plan.rooms[name]
        made = Buffer(f"{self.builder.function.name}.{name}", room.space, room.bytes, slots=room.slots)
        return self.builder.address(self.builder.module.add_buffer(made))

    def _division(self) -> tuple[dict[str, Int], dict[str, Int]]:
        """The first element of each dim that is this core's, and how many tiles are."""
        s, m = self.s, self.mapping
        starts: dict[str, Int] = dict.fromkeys(DIMS, 0)
        found: dict[str, Int] = dict(self.count)
        if all(m.parts(d) == 1 for d in DIMS):
            return starts, found
        per_cluster = self.plan.machine.cores_per_cluster
        task = self.builder.special("taskId")
        groups = (
            (m.clusters, s.div(task, per_cluster)),
            (m.cores, s.rem(task, per_cluster)),
        )
        part = _parts(s, groups)
        idle: Int = 0
        for parts, number in groups:
            idle = s.add(idle, s.compare("ge", number, _size(parts)))
        for dim in DIMS:
            if m.parts(dim) == 1:
                continue
            tiles = ceil_div(self.nest.extents[dim], m.tile(dim))
            first = s.mul(part[dim], self.count[dim])
            starts[dim] = s.mul(first, m.tile(dim))
            if tiles != self.count[dim] * m.parts(dim):
                found[dim] = s.max(s.min(s.sub(tiles, first), self.count[dim]), 0)
        if idle != 0:  # cores that the division leaves without work
            dim = next(d for d in DIMS if m.parts(d) > 1)
            found[dim] = s.select(idle, 0, found[dim])
        return starts, found

    def emit(self) -> None:
        plan, lead = self.plan, self.mapping.lead
        looped = [d for d in self.mapping.order if self.count[d] > 1 or not isinstance(self.trips[d], int)]
        meets = bool(plan.shared)
        walk = Walk(self.s, looped, self.trips, plan.residences, self.mapping.order, plan.waits, meets)
        early = 1 if plan.shared else 0
        load = Stage("load", early, self._load)
        store = Stage("store", early + lead + (1 if lead else 0), self._store)
        compute = Stage("compute", early + lead, self._compute)
        if early:
            walk.emit([Stage("fill", 0, self._fill), load, store, compute])
            self.builder.sync()
            return
        # Behind a blocking instruction a copy of what it touches would wait for it: copies stand before it,
        # where the machine orders nothing by itself, and then the steps are apart.
        walk.emit([load, store, compute] if plan.waits and lead else [load, compute, store])
        self.builder.sync()

    # loads
    def _load(self, at: Point) -> None:
        for name in ("left", "right"):
            r = self.plan.residences[name]
            get = self._take if name == self.plan.shared else partial(self._load_tile, name)
            self.s.when(at.is_first(self.s, r.zero), partial(get, at), name)
        for number, _ in enumerate(self.nest.extras[: len(self.operands) - 2]):
            r = self.plan.residences[f"extra{number}"]
            self.s.when(
                at.is_first(self.s, r.zero),
                lambda number=number: self._load_extra(number, at),  # type: ignore[misc]
                f"extra{number}",
            )

    def _place(self, name: str, at: Point) -> Value:
        residence, room = self.plan.residences[name], self.plan.rooms[name]
        slot = at.slot(self.s, name, residence, self.count)
        return self.s.offset(self.base[name], self.s.mul(slot, room.tile))

    # an operand that the cluster shares
    def _fill(self, at: Point) -> None:
        """This core's part of the tile, from DRAM into SRAM."""
        r = self.plan.residences[self.plan.shared]
        self.s.when(at.is_first(self.s, r.zero), partial(self._fill_part, at), "fill")

    def _fill_part(self, at: Point) -> None:
        tile = self._tile(self.plan.shared, at)
        first, mine, step, axes = self._part(tile)
        to = self.s.offset(self._place("shared", at), self.s.mul(first, step))
        outer = axes[-1]
        source = self.s.offset(self.s.offset(tile.pointer, tile.first), self.s.mul(first, outer.of))
        some = [*axes[:-1], Axis(mine, outer.to, outer.of)]
        copy = partial(copy_tile, self.s, to, source, some, tile.item)
        self.s.when(self.s.compare("gt", mine, 0), copy, "part")

    def _take(self, at: Point) -> None:
        """This core's part, from SRAM to the tile of every core of the cluster."""
        name = self.plan.shared
        first, mine, step, _ = self._part(self._tile(name, at))
        skip = self.s.mul(first, step)
        to, of = (self.s.offset(self._place(place, at), skip) for place in (name, "shared"))
        everyone = (1 << self.plan.machine.cores_per_cluster) - 1
        fields = [to, of, self.s.value(self.s.mul(mine, step)), self.builder.integer(everyone)]
        give = partial(self.s.tensor, "COPYX", fields, is_async=True)
        self.s.when(self.s.compare("gt", mine, 0), give, "give")

    def _part(self, tile: Tile) -> tuple[Int, Int, Int, list[Axis]]:
        """Of the tile's outermost axis: where this core's part begins, how many, bytes of one; the axes."""
        axes = merged(tile.axes) or [Axis(1, tile.item, tile.item)]
        outer, cores = axes[-1], self.plan.machine.cores_per_cluster
        each = self.s.ceil_div(outer.count, cores)
        first = self.s.mul(self.builder.special("coreId"), each)
        mine = self.s.min(self.s.sub(outer.count, first), each)
        return first, mine, outer.to, axes

    def _tile(self, name: str, at: Point) -> Tile:
        """Where an operand's tile comes from; not of one that is spread by zeros."""
        image = (name == "left") != (self.nest.kind == "weight_grad")
        if image:
            found = self.regions.image(at)
            return Tile(self.operands[0], found.first, found.axes, self.nest.image.item)
        if self.nest.kind == "weight_grad":
            axes, first = self.regions.result_axes(at, self.nest.other, "n")
            return Tile(self.operands[1], first, axes, self.nest.other.item)
        axes, first = self.regions.filter_axes(at, self.nest.filter)
        return Tile(self.operands[1], first, axes, self.nest.filter.item)

    def _load_tile(self, name: str, at: Point) -> None:
        to = self._place(name, at)
        image = (name == "left") != (self.nest.kind == "weight_grad")
        if image and self.nest.kind != "product":
            to = self._cleared(to, at)
        tile = self._tile(name, at)
        copy_tile(self.s, to, self.s.offset(tile.pointer, tile.first), tile.axes, tile.item)

    def _cleared(self, to: Value, at: Point) -> Value:
        """Zeros between the places of a spread image; where its first place lies."""
        tile = self.regions.image(at)
        if not tile.is_spread:
            return to
        size = self.s.value(self.s.mul(tile.elements, self.nest.image.item))
        self.s.tensor("VSET", [to, size, self.builder.constant(U8, 0)], [U8])
        if self.plan.waits:
            self.s.sync("vector")
        return self.s.offset(to, tile.skip)

    def _load_extra(self, number: int, at: Point) -> None:
        to, view = self._place(f"extra{number}", at), self.nest.extras[number]
        source = self.operands[2 + number]
        if self.plan.is_spread(number):
            assert isinstance(view, View)
            outputs, first = self.regions.outputs(at, view)
            copy_tile(self.s, to, self.s.offset(source, first), outputs, view.item)
            return
        axes, first = self._result_axes(at, view)
        copy_tile(self.s, to, self.s.offset(source, first), axes, view.item)

    def _result_axes(self, at: Point, view: View | Filter) -> tuple[list[Axis], Int]:
        if isinstance(view, Filter):
            return self.regions.filter_axes(at, view)
        return self.regions.result_axes(at, view, "n")

    # the unit
    def _compute(self, at: Point) -> None:
        s, reduced = self.s, [d for d in self.nest.reduced if self.count[d] > 1]
        first, last = at.is_first(s, reduced), at.is_last(s, reduced, self.trips)
        places = {name: self._place(name, at) for name in ("left", "right", "sums")}
        extras = {
            n: self._place(f"extra{n}", at) for n in range(len(self.nest.extras[: len(self.operands) - 2]))
        }
        drained = self.plan.drain is not None

        def one(is_first: bool, is_last: bool) -> None:
            self.finish.multiply(self.regions, at, places, extras, is_first, is_last)

        def whole(is_last: bool) -> None:
            s.either(first, lambda: one(True, is_last), lambda: one(False, is_last))

        if drained:
            s.either(last, lambda: whole(True), lambda: whole(False))
        else:
            whole(False)
        if not self.plan.is_direct:
            s.when(last, lambda: self._finish(at, places["sums"], extras), "finish")

    def _finish(self, at: Point, sums: Value, extras: dict[int, Value]) -> None:
        results = [self._result(number, at) for number in range(len(self.plan.result_items))]
        self.finish.behind(self.regions, at, sums, extras, results)

    def _result(self, number: int, at: Point) -> Value:
        if self.plan.is_direct:
            return self._place("sums", at)
        room = self.plan.rooms[f"result{number}"]
        slot = at.slot(self.s, "results", self.plan.residences["results"], self.count)
        return self.s.offset(self.base[f"result{number}"], self.s.mul(slot, room.tile))

    # stores
    def _store(self, at: Point) -> None:
        reduced = [d for d in self.nest.reduced if self.count[d] > 1]
        self.s.when(at.is_last(self.s, reduced, self.trips), lambda: self._store_tile(at), "put")

    def _store_tile(self, at: Point) -> None:
        for number, pointer in enumerate(self.results):
            view = self._result_view(number)
            axes, first = self._result_axes(at, view)
            turned = [Axis(axis.count, axis.of, axis.to) for axis in axes]
            copy_tile(self.s, self.s.offset(pointer, first), self._result(number, at), turned, view.item)

    def _result_view(self, number: int) -> View | Filter:
        if self.plan.epilogue is not None:
            return self.nest.extras[len(self.plan.epilogue.operands) + number]
        return self.nest.filter if self.nest.kind == "weight_grad" else self.nest.other


@dataclass(frozen=True)
class Tile:
    """Where a tile lies in device memory."""

    pointer: Value
    first: Int
    axes: list[Axis]
    item: int


def _size(parts: Sequence[int]) -> int:
    found = 1
    for count in parts:
        found *= count
    return found


def _parts(s: Scalars, groups: Sequence[tuple[Sequence[int], Int]]) -> dict[str, Int]:
    """Which part of each dim a core takes: the cluster's part, then the core's within it."""
    found: dict[str, Int] = dict.fromkeys(DIMS, 0)
    for parts, number in groups:
        left = number
        for dim, count in reversed(list(zip(DIMS, parts, strict=True))):
            if count > 1:
                found[dim] = s.add(s.mul(found[dim], count), s.rem(left, count))
                left = s.div(left, count)
    return found
