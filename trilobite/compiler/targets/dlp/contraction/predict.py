"""T0 of mappings: cycles of many candidates at once, without making a kernel.

Enters: figures of tilings (`figures.py`), an order of loops, what is kept and how far loads run ahead.
Leaves: for each whether it fits, and its cycles.

A walk of n steps costs its first load, n times the slowest queue of a step, and its last store. Steps differ:
an operand is loaded only when its tile changes, so a step's queue times are averaged over the kinds of steps
that there are, each with its share.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from trilobite.compiler.targets.dlp.contraction.behind import Beside, Extra, Shape
from trilobite.compiler.targets.dlp.contraction.figures import Figures, ceil_div, figures_of
from trilobite.compiler.targets.dlp.contraction.mapping import ALIGN, Mapping, residence, trips
from trilobite.compiler.targets.dlp.contraction.near import is_kept_there, is_near
from trilobite.compiler.targets.dlp.contraction.nest import DIMS, Nest
from trilobite.compiler.targets.dlp.contraction.sharing import (
    OPERANDS,
    first_cycles,
    pieces_of,
    sharing_of,
    together,
)
from trilobite.processor.lang.scratchpad import room_of
from trilobite.processor.machine import Machine

Array = Any  # of NumPy, one entry for each mapping

SLOWER = 0.125  # of a group's own cycles that count where DRAM has more to do than the chip
PRICES = 8  # parts in which the price of DRAM is counted
BEFORE = 20  # cycles of scalar work between a wait and the first copy
_SOME = 1e-6  # cycles of a store that goes elsewhere than to DRAM
MEETING = 24  # cycles of a barrier of a cluster in a step


@dataclass(frozen=True)
class Walking:
    """What mappings of a batch have in common: the order of loops, levels, steps that loads run ahead."""

    order: tuple[str, ...]
    keep_left: int
    keep_right: int
    lead: int


def figures_for(nest: Nest, machine: Machine, shape: Shape, mappings: list[Mapping]) -> Figures:
    """Figures of given mappings."""
    tiles = {d: np.array([m.tile(d) for m in mappings], np.int64) for d in DIMS}
    parts = {d: np.array([m.parts(d) for m in mappings], np.int64) for d in DIMS}
    shared = {name: together(machine, [sharing_of(nest, m, name) for m in mappings]) for name in OPERANDS}
    outer = np.array([m.clusters[DIMS.index("p")] for m in mappings], np.int64)
    return figures_of(nest, machine, shape, tiles, parts, shared, outer)


def predicted(nest: Nest, machine: Machine, shape: Shape, mapping: Mapping) -> float:
    """T0's cycles of one mapping."""
    figures, first = figures_for(nest, machine, shape, [mapping]), mapping
    walking = Walking(first.order, first.keep_left, first.keep_right, first.lead)
    return float(Prediction(nest, machine, shape, figures, walking).cycles[0])


def drawn(nest: Nest, machine: Machine, shape: Shape, mapping: Mapping) -> float:
    """Cycles of DRAM for the right operand of one mapping."""
    figures, m = figures_for(nest, machine, shape, [mapping]), mapping
    walking = Walking(m.order, m.keep_left, m.keep_right, m.lead)
    return float(Prediction(nest, machine, shape, figures, walking).drawn[0])


def owed(nest: Nest, machine: Machine, shape: Shape, mapping: Mapping, beside: Beside) -> int:
    """Cycles of what comes of the right operand before the walk begins that neighbours do not hide."""
    count, figures = trips(nest, mapping), figures_for(nest, machine, shape, [mapping])
    found = residence(nest.own["right"], mapping.order, count, count, mapping.keep_right, mapping.lead + 1)
    is_shared = figures.given_right[0] > 0
    tiles = found.places if found.level == 0 and not is_shared else 1
    given = float(figures.given_right[0]) - beside.bus if found.level == 0 and found.places == 1 else 0.0
    return max(0, round(tiles * float(figures.right[0])) - beside.dram) + max(0, round(given))


class Prediction:
    """Costs of one batch. Attributes are arrays with one entry for each mapping."""

    def __init__(
        self, nest: Nest, machine: Machine, shape: Shape, figures: Figures, walking: Walking
    ) -> None:
        self.nest, self.machine, self.shape, self.f, self.walking = nest, machine, shape, figures, walking
        self.waits = machine.interlock != "ranges"
        self.size = figures.size

    # residence
    def _level(self, own: tuple[str, ...], wanted: int) -> tuple[Array, dict[str, Array]]:
        """Places of tiles that stay, and for each dim whether it must be at its first tile for a load."""
        order, ones = self.walking.order, np.ones(self.size, np.int64)
        places, zero = ones, {d: np.zeros(self.size, bool) for d in DIMS}
        for dim in order[wanted:]:
            if dim in own:
                places = places * self.f.count[dim]
            else:
                zero[dim] = self.f.count[dim] > 1
        open_ = np.ones(self.size, bool)
        for dim in reversed(order[:wanted]):
            if dim in own:
                open_ = open_ & (self.f.count[dim] == 1)
            else:
                zero[dim] = open_ & (self.f.count[dim] > 1)
        self._outermost = open_
        return places, zero

    def _slots(self, own: tuple[str, ...], wanted: int, depth: int) -> tuple[Array, dict[str, Array]]:
        places, zero = self._level(own, wanted)
        phases = np.where(self._outermost, 1, ceil_div(depth, places))
        return places * phases, zero

    def _sum_places(self) -> Array:
        order = self.walking.order
        inside, found = np.zeros(self.size, bool), np.ones(self.size, np.int64)
        for dim in order:
            if dim in self.nest.reduced:
                inside = inside | (self.f.count[dim] > 1)
            else:
                found = np.where(inside, found * self.f.count[dim], found)
        twice = 2 if self.walking.lead and (self.shape.is_direct or not self.waits) else 1
        return np.where(self.f.steps == 1, 1, np.maximum(found, np.where(self.apart, 2, twice)))

    @cached_property
    def apart(self) -> Array:
        """Whether vector instructions work on a tile while the next one is multiplied."""
        behind, parts = self.shape.behind.instructions, self.shape.behind_parts.instructions
        many = np.where(self.f.split, parts, behind) > 0
        return many & (self.f.steps > 1) & (self.waits and self.walking.lead > 0)

    @cached_property
    def used(self) -> tuple[Array, Array]:
        """Bytes of NRAM and WRAM that the buffers take."""
        item, depth, own, b = self.nest.image.item, self.walking.lead + 1, self.nest.own, self.walking
        left, _ = self._slots(own["left"], b.keep_left, depth)
        right, _ = self._slots(own["right"], b.keep_right, depth)
        nram = np.where(self.f.left_there, 0, left * _aligned(self.f.elements["left"] * item))
        split, accumulate = self.f.split, self.nest.accumulate.bits // 8
        wide = np.where(split & self.shape.parts_wide, accumulate, self.shape.sums)
        out = self.f.elements["out"]
        made = [self._is_there(x.view) for x in self.shape.extras if x.is_result]
        made = made or [self._is_there(self.nest.other)]
        direct = made[0] & self.shape.is_direct & ~(split & (wide != self.shape.sums))
        nram = nram + np.where(direct, 0, self._sum_places() * _aligned(out * wide))
        again = split & (wide != self.shape.sums) | np.full(self.size, not self.shape.is_direct)
        for item_out, there in zip(self.shape.results, made, strict=True):
            nram = nram + np.where(again & ~there, _aligned(out * item_out) * (2 if b.lead else 1), 0)
        for extra in self.shape.extras:
            nram = nram + self._extra_bytes(extra, again)
        whole, parts = self.shape.narrowed
        narrowed = again & np.where(split, parts, whole)
        nram = nram + np.where(narrowed, _aligned(self.f.chunk * self.nest.out.bits // 8), 0)
        wram = right * _aligned(self.f.elements["right"] * item)
        for chosen, behind in ((~split, self.shape.behind), (split, self.shape.behind_parts)):
            nram = nram + np.where(chosen, _aligned(_aligned(self.f.chunk) * behind.scratch), 0)
        return nram, wram

    def _is_there(self, view: object) -> Array:
        """Is a tile of it worked on where it is at home?"""
        return np.broadcast_to(
            is_kept_there(self.nest, view, self.f.tile["n"], self.f.tile["q"]), (self.size,)
        )

    def _extra_bytes(self, extra: Extra, has_body: Array) -> Array:
        if extra.is_result:
            return np.zeros(self.size, np.int64)
        item = extra.view.item
        outputs = self.nest.extents["n"] * self.nest.extents["g"] * item
        whole = np.where(self._is_there(extra.view), 0, _aligned(self.f.elements["out"] * item))
        if extra.is_vector:
            spread = _aligned(self.f.chunk * item)
            return (
                np.where(has_body & np.where(self.f.split, *extra.is_read[::-1]), spread, 0)
                + outputs
                + 64 * 16
            )
        return whole * (1 if extra.is_scalar else self.walking.lead + 2)

    @cached_property
    def cycles(self) -> Array:
        own, b = self.nest.own, self.walking
        left, right, store = self.f.left, self.f.right, self.f.store
        _, zero_left = self._level(own["left"], b.keep_left)
        places, zero_right = self._level(own["right"], b.keep_right)
        gl, gr, first = self.f.given_left, self.f.given_right, right
        beside = self.shape.beside
        if beside.dram:  # all of it comes before the walk begins, where all of it stays
            whole = self._outermost & ((places == 1) | (gr == 0))
            first, right = np.where(whole, places * right, right), np.where(whole, 0, right)
            gr = np.where(whole, np.maximum(gr - beside.bus, 0), gr)
        pl, pr, both, ps = self._shares(zero_left, zero_right)
        kinds = ((both, left + right, gl + gr), (pl - both, left, gl), (pr - both, right, gr),
                 (1 - pl - pr + both, 0 * left, 0 * left))  # fmt: skip
        unit = self.f.unit / np.maximum(self.f.steps, 1)
        each = np.zeros(self.size)
        for weight, load, given in kinds:
            with_store = self._step(load, given + self.f.given_store, unit, np.maximum(store, _SOME))
            without = self._step(load, given, unit, 0 * store)
            each = each + weight * (ps * with_store + (1 - ps) * without)
        nothing = 0 * left
        last = self._step(nothing, nothing, unit, nothing) + self.f.vector
        first = left + np.maximum(first - beside.dram, 0)
        end = self._ends(store) + self.f.given_store if self._stores_far else self.f.given_store
        second = self._second(
            (np.where(gl > 0, left, 0), zero_left), (np.where(gr > 0, right, 0), zero_right)
        )
        return self._first(first, gl + gr, second) + (self.f.steps - 1) * each + last + end

    @cached_property
    def score(self) -> Array:
        """Cycles, and those of DRAM for the next group that this one does not hide: all of a walk hides them
        that needs nothing of DRAM, else its last step."""
        beside, steps = self.shape.beside, np.maximum(self.f.steps, 1)
        paid = self.cycles + self.drawn * beside.price / PRICES if beside.price else self.cycles
        if not (beside.later and self._is_at_home):
            return paid
        places, _ = self._level(self.nest.own["right"], self.walking.keep_right)
        whole = self._outermost & ((places == 1) | (self.f.given_right == 0)) & (beside.dram > 0)
        far, near = np.where(whole, places * self.f.right, 0), np.where(whole, self.f.given_right, 0)
        alone = self.cycles - np.maximum(far - beside.dram, 0) - np.maximum(near - beside.bus, 0)
        hides = np.where(whole, alone, self.f.unit / steps + self.f.vector)
        return paid + np.maximum(beside.later - hides, 0) + SLOWER * alone

    @cached_property
    def drawn(self) -> Array:
        """Cycles of DRAM for the right operand, all loads of the walk together."""
        _, zero = self._level(self.nest.own["right"], self.walking.keep_right)
        loads = self.f.steps
        for dim in DIMS:
            loads = np.where(zero[dim], loads // self.f.count[dim], loads)
        return loads * self.f.right

    @property
    def _is_at_home(self) -> bool:
        """Are all images and results on chip?"""
        views = [x.view for x in self.shape.extras if not (x.is_vector or x.is_scalar)] or [self.nest.other]
        return self.nest.kind != "weight_grad" and all(map(is_near, (self.nest.image, *views)))

    @property
    def _stores_far(self) -> bool:
        return bool((self.f.store > 0).any())

    def _second(self, left: tuple[Array, dict[str, Array]], right: tuple[Array, dict[str, Array]]) -> Array:
        """Cycles of DRAM for shared tiles of the second step; each operand with its zero dims."""
        found, still = np.zeros(self.size), np.ones(self.size, bool)
        for dim in reversed(self.walking.order):
            inner = still & (self.f.count[dim] > 1)
            for load, zero in (left, right):
                found = found + np.where(inner & ~zero[dim], load, 0)
            still = still & ~inner
        return found

    def _first(self, load: Array, given: Array, second: Array) -> Array:
        """Until the unit begins: a step's scalar work, the first loads, and what the cluster shares; shared
        tiles of the second step are loaded before, too."""
        begin = (self.f.scalar if self.waits else BEFORE) + np.where(load > 0, self._ends(load), 0)
        if not self.shape.beside.dram:
            shared = np.where(self.f.meets, load, 0.0)
            pieces = pieces_of(shared, given, second)
            given = first_cycles(shared, given, second, pieces) - shared
        return begin + np.where(self.f.meets, self._at_least(given) + MEETING, given)

    def _ends(self, moved: Array) -> Array:
        """A step that only copies."""
        return self._at_least(moved + self.latency)

    def _at_least(self, cycles: Array) -> Array:
        """No step of a walk that waits is shorter than its scalar work; a single tile has no walk."""
        return np.maximum(cycles, np.where(self.f.steps > 1, self.f.scalar, 0)) if self.waits else cycles

    def _shares(self, left: dict[str, Array], right: dict[str, Array]) -> tuple[Array, Array, Array, Array]:
        """In which part of the steps, but for the last, the left tile, the right one, both are loaded and a
        result is stored. The first loads and the last store stand outside."""
        pl, pr, both, ps = (np.ones(self.size) for _ in range(4))
        for dim in DIMS:
            share = 1 / self.f.count[dim]
            pl = pl * np.where(left[dim], share, 1)
            pr = pr * np.where(right[dim], share, 1)
            both = both * np.where(left[dim] | right[dim], share, 1)
            if dim in self.nest.reduced:
                ps = ps * share
        n = self.f.steps
        rest = np.maximum(n - 1, 1)
        found = [np.clip((n * p - 1) / rest, 0.0, 1.0) for p in (pl, pr, both, ps)]
        return found[0], found[1], found[2], found[3]

    @property
    def latency(self) -> int:
        m = self.machine
        return m.core.io_dma.setup + m.cycles(m.dram.latency_ns)

    def _step(self, load: Array, given: Array, unit: Array, store: Array) -> Array:
        """Cycles of one step with these loads and this store."""
        lag, lead, scalar = self.latency, self.walking.lead, self.f.scalar
        vector = np.where(store > 0, self.f.vector, 0)
        work = np.where(self.apart, np.maximum(unit, vector), unit + vector)
        moved = load + store
        fetched = load + np.where(load > 0, lag, 0)
        if lead == 0:
            if self.waits:
                return fetched + given + work + store + np.where(store > 1, lag, 0) + scalar
            return np.maximum(fetched + given + work + store, scalar)
        if self.waits:
            busy = np.where(moved > 1, moved + lag, 0)
            slowest = np.maximum(np.maximum(busy, given) + BEFORE, work + 2 * BEFORE)
            return np.maximum(slowest, scalar) + np.where(self.f.meets, MEETING, 0)
        chain = (fetched + given + work) / (lead + 1)
        return np.maximum(np.maximum(np.maximum(np.maximum(moved, given), work), chain), scalar)

    @cached_property
    def fits(self) -> Array:
        core = self.machine.core
        nram, wram = self.used
        room = (core.nram.kib - core.nram.reserved_kib) * 1024
        if self.walking.lead != 1:  # what cores share runs a step ahead of double buffers
            nram = np.where(self.f.meets, room + 1, nram)
        if self.nest.image.home is not None:  # multicasts are of whole rows
            cut = self.f.meets_left & ((self.f.count["k"] > 1) | (self.f.count["q"] > 1))
            nram = np.where(cut, room + 1, nram)
        far = room_of(self.machine, "sram")
        pool = core.pool_kib * 1024 or room + core.wram.bytes
        return np.asarray(
            (self.f.sram <= far) & (nram <= room) & (wram <= core.wram.bytes) & (nram + wram <= pool)
        )


def _aligned(count: Array) -> Array:
    return np.asarray(-(-count // ALIGN) * ALIGN)
