"""A kernel from a mapping: loads, matrix instructions, what is done behind the sums, and stores.

Enters: a plan and pointers. Leaves: the body of a function of kernel IR, with loops over tiles. Copies are
asynchronous and run steps ahead of, or behind, the unit; edges of tiles are numbers that the loop computes.
"""

from __future__ import annotations

from collections.abc import Sequence

from trilobite.compiler.targets.dlp.contraction.copies import Axis, copy_tile
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
        walk = Walk(self.s, looped, self.trips, plan.residences, self.mapping.order, plan.waits)
        load, store = Stage("load", 0, self._load), Stage("store", lead + (1 if lead else 0), self._store)
        compute = Stage("compute", lead, self._compute)
        # Behind a blocking instruction a copy of what it touches would wait for it: copies stand before it,
        # where the machine orders nothing by itself, and then the steps are apart.
        walk.emit([load, store, compute] if plan.waits and lead else [load, compute, store])
        self.builder.sync()

    # loads
    def _load(self, at: Point) -> None:
        for name in ("left", "right"):
            r = self.plan.residences[name]
            self.s.when(at.is_first(self.s, r.zero), lambda name=name: self._load_tile(name, at), name)  # type: ignore[misc]
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

    def _load_tile(self, name: str, at: Point) -> None:
        to = self._place(name, at)
        if name == "left":
            weight = self.nest.kind == "weight_grad"
            self._load_places(to, at, "n") if weight else self._load_image(to, at)
        elif self.nest.kind == "weight_grad":
            self._load_image(to, at)
        else:
            self._load_filter(to, at)

    def _load_places(self, to: Value, at: Point, channels: str) -> None:
        """A tile of y for a weight gradient: as it lies."""
        axes, first = self.regions.result_axes(at, self.nest.other, channels)
        copy_tile(self.s, to, self.s.offset(self.operands[1], first), axes, self.nest.other.item)

    def _load_image(self, to: Value, at: Point) -> None:
        tile = self.regions.image(at)
        item = self.nest.image.item
        if tile.is_spread:
            self.builder.tensor(
                "VSET",
                [to, self.s.value(self.s.mul(tile.elements, item)), self.builder.constant(U8, 0)],
                [U8],
            )
            if self.plan.waits:
                self.builder.sync("vector")
        copy_tile(
            self.s, self.s.offset(to, tile.skip), self.s.offset(self.operands[0], tile.first), tile.axes, item
        )

    def _load_filter(self, to: Value, at: Point) -> None:
        axes, first = self.regions.filter_axes(at, self.nest.filter)
        copy_tile(self.s, to, self.s.offset(self.operands[1], first), axes, self.nest.filter.item)

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
