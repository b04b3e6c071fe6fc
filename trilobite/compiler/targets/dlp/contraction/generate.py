"""A kernel from a mapping: loads, matrix instructions, what is done behind the sums, and stores.

Enters: a plan and pointers. Leaves: the body of a function of kernel IR, with loops over tiles. Copies are
asynchronous and run steps ahead of, or behind, the unit; edges of tiles are numbers that the loop computes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from trilobite.compiler.targets.dlp.contraction.copies import Axis, copy_tile
from trilobite.compiler.targets.dlp.contraction.division import division_of
from trilobite.compiler.targets.dlp.contraction.finish import Finish
from trilobite.compiler.targets.dlp.contraction.homes import Rows, copy_rows, is_apart, is_own
from trilobite.compiler.targets.dlp.contraction.mapping import ceil_div, input_places
from trilobite.compiler.targets.dlp.contraction.near import is_near
from trilobite.compiler.targets.dlp.contraction.nest import Filter, View
from trilobite.compiler.targets.dlp.contraction.places import Plan, is_scalar
from trilobite.compiler.targets.dlp.contraction.prefetched import WHOLE, Early, Prefetched
from trilobite.compiler.targets.dlp.contraction.prefetching import Prefetching
from trilobite.compiler.targets.dlp.contraction.region import Regions
from trilobite.compiler.targets.dlp.contraction.scalars import Int, Scalars
from trilobite.compiler.targets.dlp.contraction.sharing import OPERANDS
from trilobite.compiler.targets.dlp.contraction.together import Tile
from trilobite.compiler.targets.dlp.contraction.walk import Point, Stage, Walk
from trilobite.compiler.targets.dlp.vector.formats import WORDS
from trilobite.processor.isa.formats import U8
from trilobite.processor.lang.builder import Builder
from trilobite.processor.lang.ir import Buffer, Value

Write = Callable[[], None]
Give = Callable[[int, int, bool], None]


class Kernel(Prefetching):
    """Writes one contraction at the builder's place. `pointers`: the image, the other operand, extras,
    results. What is `prefetched` is on chip when it begins. A routine that prefetches it (`early`) only has
    the buffers that this takes."""

    def __init__(
        self, builder: Builder, plan: Plan, operands: Sequence[Value], results: Sequence[Value],
        prefetched: Prefetched | None = None, early: Early | None = None,
    ) -> None:  # fmt: skip
        self.builder, self.plan, self.s = builder, plan, Scalars(builder)
        self.nest, self.mapping, self.count = plan.nest, plan.mapping, plan.count
        self.operands, self.results, self.prefetched = list(operands), list(results), prefetched
        is_given = prefetched is not None and prefetched.is_given and early is None
        self.shared = tuple(n for n in plan.shared if not (is_given and n == "right"))
        self.filled = tuple(n for n in plan.filled if n in self.shared)
        without = () if "right" in self.filled else ("parts_right",)
        rooms = early.rooms if early else [name for name in plan.rooms if name not in without]
        if early is not None and early.does in ("keep", "hold"):
            for name in rooms:
                builder.keep(self._buffer(name))
            return
        self.base = {name: builder.address(self._buffer(name)) for name in rooms}
        self.starts, self.trips, self.indices = division_of(builder, self.s, plan)
        self.regions = Regions(self.s, plan, self.starts, self._first_turn())
        self.finish = Finish(self.s, plan, self.base)

    def _buffer(self, name: str) -> Buffer:
        room, module, prefetched = self.plan.rooms[name], self.builder.module, self.prefetched
        is_handed = prefetched is not None and (name == "parts_right" or name in prefetched.rooms(self.plan))
        full = f"{prefetched.name if prefetched and is_handed else self.builder.function.name}.{name}"
        if is_handed and full in module.buffers:
            assert module.buffers[full].bytes == room.bytes, f"{full} is of another mapping"
            return module.buffers[full]
        return module.add_buffer(Buffer(full, room.space, room.bytes, slots=room.slots, handed=is_handed))

    def _first_turn(self) -> Int:
        """The tile along k that this core begins with."""
        turns = self.plan.turns
        if turns is None:
            return 0
        number: Int = self.builder.special("taskId")
        if turns.each == "cluster":
            number = self.s.div(number, self.plan.machine.cores_per_cluster)
        return self.s.rem(self.s.mul(number, turns.step), self.count["k"])

    def _where(self, at: Point, name: str, body: Callable[[], None]) -> None:
        """The body where the tile exists. Cores that share go all steps, some of them beyond their part."""
        s, m, is_there = self.s, self.mapping, cast(Int, 1)
        for dim in self.nest.own[name] if self.plan.shared else ():
            extent, tile = self.nest.extents[dim], m.tile(dim)
            if ceil_div(extent, tile) != self.count[dim] * m.parts(dim):
                first = s.add(self.starts[dim], s.mul(at.index[dim], tile))
                is_there = s.mul(is_there, s.compare("lt", first, extent))
        s.when(is_there, body, "there")

    def emit(self, far: Sequence[Write] = (), near: Sequence[Give] = ()) -> None:
        """`far` and `near` write what is prefetched for later routines, from DRAM and, piece by piece, from
        SRAM: not behind vector instructions, which wait for the unit."""
        plan, lead = self.plan, self.mapping.lead
        is_still = self.prefetched is not None and plan.is_still(self.prefetched.extras)
        between = None
        if far and not is_still:
            between = Stage("ahead", 0 if plan.has_body else 1, lambda _: _all(far))
        looped = [d for d in self.mapping.order if self.count[d] > 1 or not isinstance(self.trips[d], int)]
        meets = ""
        if self.shared:
            meets = "chip" if any(name in self.mapping.across for name in self.shared) else "cluster"
        walk = Walk(
            self.s, looped, self.trips, plan.residences, self.mapping.order, plan.waits, meets, plan.count,
            plan.is_quiet, partial(_all, far) if is_still else None, is_still,
        )  # fmt: skip
        walk.near, walk.is_near_first = [*near], plan.has_body
        walk.is_far = not all(is_near(self._result_view(n)) for n in range(len(self.results)))
        early = 1 if self.filled else 0
        load = Stage("load", early, self._load)
        behind = early + lead + (1 if plan.is_apart else 0)
        store = Stage("store", behind + (1 if lead else 0), self._at_result(self._store))
        compute = Stage("compute", early + lead, self._at_result(self._compute))
        finish = [Stage("finish", behind, self._at_result(self._finish_last))] if plan.is_apart else []
        if early:
            fill = Stage("fill", 0, self._fill)
            if plan.is_single and not (self.prefetched and self.filled == ("right",)):
                fill, load = Stage("fill", 0, self._fill_and_load), Stage("take", early, self._takes)
            is_filled = plan.is_single and load.name == "load"
            walk.pieces = 1 if self.prefetched else plan.pieces
            copies = [load, store] if is_filled else [fill, load, store]
        else:
            copies = [load, store]
        # Where the machine orders nothing by itself steps are apart, and the unit begins before copies are
        # worked out; a blocking instruction stands behind them: copies of what it touches would wait for it.
        if plan.is_async:
            walk.emit([compute, *copies, *finish], between)
        elif plan.waits and lead:
            walk.emit([*copies, compute], between)
        else:
            walk.emit([load, compute, store], between)

    def _is_due(self, name: str, at: Point, is_fill: bool) -> Int:
        """Whether a tile is loaded at this point, and was not prefetched."""
        s, due = self.s, at.is_first(self.s, self.plan.residences[name].zero)
        if name != "right" or not self.prefetched or is_fill != (name in self.filled):
            return due
        return 0 if self.plan.is_whole else s.mul(due, s.compare("ne", s.total(at.index.values()), 0))

    def _at_result(self, body: Callable[[Point], None]) -> Callable[[Point], None]:
        return lambda at: self._where(at, "out", partial(body, at))

    # loads
    def _load(self, at: Point, piece: int = 0, pieces: int = 1) -> None:
        if piece == pieces - 1:
            self._directs(at)
        self._takes(at, piece, pieces)

    def _fill_and_load(self, at: Point, piece: int = 0, pieces: int = 1) -> None:
        """All copies from DRAM."""
        self._fill(at, piece, pieces)
        if piece == pieces - 1:
            self._directs(at)

    def _takes(self, at: Point, piece: int = 0, pieces: int = 1) -> None:
        self._operands(at, self.shared, partial(self._take, piece=piece, pieces=pieces))

    def _operands(self, at: Point, names: Sequence[str], get: Callable[[str, Point], None]) -> None:
        for name in names:
            there = partial(self._where, at, name, partial(get, name, at))
            self.s.when(self._is_due(name, at, False), there, name)

    def _directs(self, at: Point) -> None:
        skipped = (*self.shared, "left") if self.plan.left_there else self.shared
        self._operands(at, [name for name in OPERANDS if name not in skipped], self._load_tile)
        prefetched = self.prefetched.extras if self.prefetched else ()
        for number, _ in enumerate(self.nest.extras[: len(self.operands) - 2]):
            if number in prefetched or number in self.plan.there:
                continue
            r = self.plan.residences[f"extra{number}"]
            there = partial(self._where, at, "out", partial(self._load_extra, number, at))
            self.s.when(at.is_first(self.s, r.zero), there, f"extra{number}")

    def _place(self, name: str, at: Point) -> Value:
        if name == "left" and self.plan.left_there:
            return self.s.offset(self.operands[0], self.regions.image(at).first)
        if name == "sums" and self.plan.is_direct and self.plan.is_made_there(0):
            return self._at_home(at, self._result_view(0), self.results[0])
        residence, room = self.plan.residences[name], self.plan.rooms[name]
        slot = at.slot(self.s, name, residence, self.count)
        return self.s.offset(self.base[name], self.s.mul(slot, room.tile))

    # operands that several cores load together
    def _fill(self, at: Point, piece: int = 0, pieces: int = 1) -> None:
        """This core's parts of tiles, from DRAM into SRAM."""
        for name in self.filled:
            part = partial(self._fill_part, name, at, piece=piece, pieces=pieces)
            there = partial(self._where, at, name, part)
            self.s.when(self._is_due(name, at, True), there, "fill")

    def _tile(self, name: str, at: Point) -> Tile:
        """Where an operand's tile comes from; not of one that is spread by zeros."""
        image = (name == "left") != (self.nest.kind == "weight_grad")
        if image:
            found, view = self.regions.image(at), self.nest.image
            most = input_places(self.nest, self.mapping.tile("p"), 1)[0]
            rows = self._rows(at, view, found.rows.first, found.rows.count, most)
            return Tile(self.operands[0], found.first, found.axes, view.item, view, rows)
        if self.nest.kind == "weight_grad":
            axes, first = self.regions.result_axes(at, self.nest.other, "n")
            return Tile(self.operands[1], first, axes, self.nest.other.item)
        axes, first = self.regions.filter_axes(at, self.nest.filter)
        return Tile(self.operands[1], first, axes, self.nest.filter.item)

    def _load_tile(self, name: str, at: Point, share: tuple[int, int] = (0, WHOLE)) -> None:
        to = self._place(name, at)
        image = (name == "left") != (self.nest.kind == "weight_grad")
        if image and self.nest.kind != "product":
            to = self._cleared(to, at)
        tile = self._tile(name, at)
        if share == (0, WHOLE):
            self._copy_in(to, tile)
            return
        *inner, outer = self._axes(tile)
        first, count = self._shared_rows(outer.count, share)
        to, of = self.s.offset(to, self.s.mul(first, outer.to)), self.s.mul(first, outer.of)
        axes = [*inner, Axis(count, outer.to, outer.of)]
        self._copy_in(to, replace(tile, first=self.s.add(tile.first, of), axes=axes))

    def _copy_in(self, to: Value, tile: Tile) -> None:
        of = self.s.offset(tile.pointer, tile.first)
        if tile.view is not None and tile.view.home is not None:
            copy_rows(self.s, tile.view, to, of, tile.axes, tile.rows, False)
        else:
            copy_tile(self.s, to, of, tile.axes, tile.item)

    def _rows(self, at: Point, view: View, first: Int, count: Int, most: int) -> Rows:
        """Rows of a tile, as far as it matters where on chip they are at home."""
        s, e = self.s, self.nest.extents
        if not is_apart(view):
            return Rows(first, count)
        if is_own(self.nest, self.mapping, view, self.count["p"]):
            return Rows(first, count, 0, self.indices[0]["p"])
        outer = [s.mul(self.regions.span(at, d)[0], b) for d, b in (("g", view.group), ("b", view.image))]
        is_one, tile = e["b"] == e["g"] == 1, self.mapping.tile("p")
        step = tile if view is not self.nest.image or self.nest.kind == "product" else 0
        return Rows(first, count, 0 if is_one else s.total(outer), None, most, step)

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
        if is_scalar(view):
            word, room = WORDS[view.item], self.plan.rooms[f"extra{number}"]
            value = self.builder.load(word, source)
            self.s.tensor("VSET", [to, self.builder.integer(room.tile // view.item), value], [word])
            return
        if self.plan.is_spread(number):
            assert isinstance(view, View)
            outputs, first = self.regions.outputs(at, view)
            copy_tile(self.s, to, self.s.offset(source, first), outputs, view.item)
            return
        axes, first = self._result_axes(at, view)
        self._copy_in(to, self._result_tile(at, view, source, axes, first))

    def _result_tile(
        self, at: Point, view: View | Filter, pointer: Value, axes: list[Axis], first: Int
    ) -> Tile:
        if isinstance(view, Filter):
            return Tile(pointer, first, axes, view.item)
        rows = self._rows(at, view, *self.regions.span(at, "p"), self.mapping.tile("p"))
        return Tile(pointer, first, axes, view.item, view, rows)

    def _result_axes(self, at: Point, view: View | Filter) -> tuple[list[Axis], Int]:
        if isinstance(view, Filter):
            return self.regions.filter_axes(at, view)
        return self.regions.result_axes(at, view, "n")

    # the unit
    def _compute(self, at: Point) -> None:
        s, reduced = self.s, [d for d in self.nest.reduced if self.count[d] > 1]
        first, last = at.is_first(s, reduced), at.is_last(s, reduced, self.trips)
        places = {name: self._place(name, at) for name in ("left", "right", "sums")}
        extras = self._extras(at)
        drained = self.plan.drain is not None

        def one(is_first: bool, is_last: bool) -> None:
            self.finish.multiply(self.regions, at, places, extras, is_first, is_last)

        def whole(is_last: bool) -> None:
            s.either(first, lambda: one(True, is_last), lambda: one(False, is_last))

        if drained:
            s.either(last, lambda: whole(True), lambda: whole(False))
        else:
            whole(False)
        if not (self.plan.is_apart or self.plan.is_direct):
            s.when(last, lambda: self._finish(at, places["sums"], extras), "finish")

    def _extras(self, at: Point) -> dict[int, Value]:
        numbers = range(len(self.nest.extras[: len(self.operands) - 2]))
        return {
            n: self._at_home(at, self.nest.extras[n], self.operands[2 + n])
            if n in self.plan.there
            else self._place(f"extra{n}", at)
            for n in numbers
        }

    def _at_home(self, at: Point, view: View | Filter, pointer: Value) -> Value:
        """Where a tile begins that is worked on where it lies."""
        return self.s.offset(pointer, self._result_axes(at, view)[1])

    def _finish_last(self, at: Point) -> None:
        """What follows the sums of a tile whose last part is there."""
        last = at.is_last(self.s, [d for d in self.nest.reduced if self.count[d] > 1], self.trips)
        sums, extras = self._place("sums", at), self._extras(at)
        self.s.when(last, lambda: self._finish(at, sums, extras), "finish")

    def _finish(self, at: Point, sums: Value, extras: dict[int, Value]) -> None:
        results = [self._result(number, at) for number in range(len(self.plan.result_items))]
        self.finish.behind(self.regions, at, sums, extras, results)

    def _result(self, number: int, at: Point) -> Value:
        if self.plan.is_direct:
            return self._place("sums", at)
        if self.plan.is_made_there(number):
            return self._at_home(at, self._result_view(number), self.results[number])
        room = self.plan.rooms[f"result{number}"]
        slot = at.slot(self.s, "results", self.plan.residences["results"], self.count)
        return self.s.offset(self.base[f"result{number}"], self.s.mul(slot, room.tile))

    # stores
    def _store(self, at: Point) -> None:
        reduced = [d for d in self.nest.reduced if self.count[d] > 1]
        self.s.when(at.is_last(self.s, reduced, self.trips), lambda: self._store_tile(at), "put")

    def _store_tile(self, at: Point) -> None:
        for number, pointer in enumerate(self.results):
            if self.plan.is_made_there(number):
                continue
            view = self._result_view(number)
            axes, first = self._result_axes(at, view)
            tile, of, to = self._result_tile(at, view, pointer, axes, first), self._result(number, at), (
                self.s.offset(pointer, first))  # fmt: skip
            if tile.view is not None and tile.view.home is not None:
                copy_rows(self.s, tile.view, of, to, axes, tile.rows, True)
                continue
            turned = [Axis(axis.count, axis.of, axis.to) for axis in axes]
            copy_tile(self.s, to, of, turned, view.item)

    def _result_view(self, number: int) -> View | Filter:
        if self.plan.epilogue is not None:
            return self.nest.extras[len(self.plan.epilogue.operands) + number]
        return self.nest.filter if self.nest.kind == "weight_grad" else self.nest.other


def _all(bodies: Sequence[Write]) -> None:
    for body in bodies:
        body()
