"""T0 of mappings: cycles of many candidates at once, without making a kernel.

Enters: a nest, a machine, and mappings that differ in tiles and parts but share the order of their loops,
what they keep and how far they load ahead. Leaves: for each whether it fits, its cycles, and what bounds it.

A walk of n steps costs its first load, n times the slowest queue of a step, and its last store. Steps differ:
an operand is loaded only when its tile changes, so a step's queue times are averaged over the kinds of steps
that there are, each with its share. The unit's time is the closed form of T1 (`timing/arrays.py`), summed
over full tiles and edges; copies follow T1's rules for engines, granules, channels and requests under way,
with DRAM divided among the cores that work.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from trilobite.compiler.targets.dlp.contraction.mapping import ALIGN, Mapping
from trilobite.compiler.targets.dlp.contraction.nest import DIMS, Filter, Nest, View
from trilobite.compiler.targets.dlp.contraction.traffic import Copy, copy_cost
from trilobite.processor.machine import Machine
from trilobite.processor.sim.timing.arrays import product_cycles

Array = Any  # of NumPy, one entry for each mapping

# Scalar work of a step, in cycles: between a wait and the first copy, and in all; of generated kernels.
BEFORE, WHOLE = 30, 150
MEETING = 24  # cycles of a barrier of a cluster in a step


@dataclass(frozen=True)
class Batch:
    """Mappings as arrays: `tiles` and `parts` by dim; everything else they have in common."""

    tiles: dict[str, Array]
    parts: dict[str, Array]
    shared: dict[str, Array]  # whether the left, the right operand comes through SRAM
    order: tuple[str, ...]
    keep_left: int
    keep_right: int
    lead: int

    @property
    def size(self) -> int:
        return len(self.tiles["p"])


def batch_of(mappings: list[Mapping]) -> Batch:
    """Mappings with equal orders, levels and leads as one batch."""
    first = mappings[0]
    tiles = {d: np.array([m.tile(d) for m in mappings], np.int64) for d in DIMS}
    parts = {d: np.array([m.parts(d) for m in mappings], np.int64) for d in DIMS}
    shared = {name: np.array([m.shared == name for m in mappings]) for name in ("left", "right")}
    return Batch(tiles, parts, shared, first.order, first.keep_left, first.keep_right, first.lead)


@dataclass(frozen=True)
class Extra:
    """An operand or a result of the epilogue: where it lies and bytes of an element."""

    view: View | Filter
    is_result: bool
    is_vector: bool


@dataclass(frozen=True)
class Shape:
    """What the cost depends on beside the nest: bytes of an element of the sums and of the results, whether a
    body of vector instructions follows, and its extra tensors."""

    sums: int
    results: tuple[int, ...]
    is_direct: bool
    passes: int = 0
    passes_of_parts: int = 0  # beside them, where sums come in parts that the drain cannot finish
    extras: tuple[Extra, ...] = ()


def ceil_div(a: Array, b: Array) -> Array:
    return np.asarray(-(-a // b))


class Prediction:
    """Costs of one batch. Attributes are arrays with one entry for each mapping."""

    def __init__(self, nest: Nest, machine: Machine, shape: Shape, batch: Batch) -> None:
        self.nest, self.machine, self.shape, self.batch = nest, machine, shape, batch
        e = nest.extents
        self.tile = {d: np.minimum(batch.tiles[d], e[d]) for d in DIMS}
        self.count = {d: ceil_div(ceil_div(np.int64(e[d]), self.tile[d]), batch.parts[d]) for d in DIMS}
        self.steps = np.prod([self.count[d] for d in DIMS], axis=0)
        self.waits = machine.interlock != "ranges"

    # residence
    def _level(self, own: tuple[str, ...], wanted: int) -> tuple[Array, dict[str, Array]]:
        """Places of tiles that stay, and for each dim whether it must be at its first tile for a load."""
        order, ones = self.batch.order, np.ones(self.batch.size, np.int64)
        places, zero = ones, {d: np.zeros(self.batch.size, bool) for d in DIMS}
        for dim in order[wanted:]:
            if dim in own:
                places = places * self.count[dim]
            else:
                zero[dim] = self.count[dim] > 1
        open_ = np.ones(self.batch.size, bool)
        for dim in reversed(order[:wanted]):
            if dim in own:
                open_ = open_ & (self.count[dim] == 1)
            else:
                zero[dim] = open_ & (self.count[dim] > 1)
        self._outermost = open_
        return places, zero

    def _slots(self, own: tuple[str, ...], wanted: int, depth: int) -> tuple[Array, dict[str, Array]]:
        places, zero = self._level(own, wanted)
        phases = np.where(self._outermost, 1, ceil_div(np.int64(depth), places))
        return places * phases, zero

    @cached_property
    def _split(self) -> Array:
        """Whether sums come in parts."""
        return np.any([self.count[d] > 1 for d in self.nest.reduced], axis=0)

    def _sum_places(self) -> Array:
        order = self.batch.order
        inside, found = np.zeros(self.batch.size, bool), np.ones(self.batch.size, np.int64)
        for dim in order:
            if dim in self.nest.reduced:
                inside = inside | (self.count[dim] > 1)
            else:
                found = np.where(inside, found * self.count[dim], found)
        twice = 2 if self.batch.lead and (self.shape.is_direct or not self.waits) else 1
        return np.where(self.steps == 1, 1, np.maximum(found, twice))

    # sizes
    @cached_property
    def _places_in(self) -> tuple[Array, Array]:
        nest, w = self.nest, self.nest.window
        if nest.kind == "product":
            return self.tile["p"], self.tile["q"]
        found = []
        for axis, dim in enumerate("pq"):
            t = self.tile[dim]
            if nest.kind == "input_grad":
                found.append(np.minimum((t + w.reach(axis) - 2) // w.stride[axis] + 2, w.out[axis]))
            else:
                found.append(np.minimum((t - 1) * w.stride[axis] + w.reach(axis), w.extent(axis)))
        return found[0], found[1]

    @cached_property
    def elements(self) -> dict[str, Array]:
        t, (rows, columns), taps = self.tile, self._places_in, self.nest.window.taps
        if self.nest.kind == "weight_grad":
            return {"left": t["p"] * t["q"] * t["g"] * t["n"], "right": rows * columns * t["g"] * t["k"],
                    "out": t["g"] * t["n"] * taps * t["k"]}  # fmt: skip
        return {"left": rows * columns * t["g"] * t["k"], "right": t["g"] * t["n"] * taps * t["k"],
                "out": t["p"] * t["q"] * t["g"] * t["n"]}  # fmt: skip

    @cached_property
    def used(self) -> tuple[Array, Array]:
        """Bytes of NRAM and WRAM that the buffers take."""
        item, depth, own, b = self.nest.image.item, self.batch.lead + 1, self.nest.own, self.batch
        left, _ = self._slots(own["left"], b.keep_left, depth)
        right, _ = self._slots(own["right"], b.keep_right, depth)
        nram = left * _aligned(self.elements["left"] * item)
        wide = np.where(self._split, self.nest.accumulate.bits // 8, self.shape.sums)
        nram = nram + self._sum_places() * _aligned(self.elements["out"] * wide)
        narrow = self._split & (wide != self.shape.sums) | np.full(b.size, not self.shape.is_direct)
        for item_out in self.shape.results:
            again = _aligned(self.elements["out"] * item_out) * (2 if b.lead else 1)
            nram = nram + np.where(narrow, again, 0)
        for extra in self.shape.extras:
            nram = nram + self._extra_bytes(extra)
        return nram, right * _aligned(self.elements["right"] * item)

    def _extra_bytes(self, extra: Extra) -> Array:
        if extra.is_result:
            return np.zeros(self.batch.size, np.int64)
        item = extra.view.item
        outputs = self.nest.extents["n"] * self.nest.extents["g"] * item
        whole = _aligned(self.elements["out"] * item)
        if extra.is_vector:
            return (whole if self.shape.passes else 0) + np.full(self.batch.size, outputs + 64 * 16)
        return whole * (self.batch.lead + 2)

    # times
    @cached_property
    def unit(self) -> Array:
        """Cycles of the matrix unit over all steps of the busiest core."""
        total = np.zeros(self.batch.size, np.int64)
        ends = {d: self._edge(d) for d in "pqnk"}
        for choice in product((0, 1), repeat=4):
            sizes, weight = {}, np.ones(self.batch.size, np.int64)
            for dim, edge in zip("pqnk", choice, strict=True):
                sizes[dim] = ends[dim] if edge else self.tile[dim]
                weight = weight * (1 if edge else self.count[dim] - 1)
            if not weight.any():
                continue
            total += weight * self._cycles(sizes)
        return total * self.count["g"] * self.count["b"]

    def _edge(self, dim: str) -> Array:
        """Elements of the last tile of the busiest core."""
        covered = np.minimum(self.count[dim] * self.tile[dim], self.nest.extents[dim])
        return np.asarray(covered - (self.count[dim] - 1) * self.tile[dim])

    def _cycles(self, t: dict[str, Array]) -> Array:
        nest, mfu, g = self.nest, self.machine.core.mfu, self.tile["g"]
        places, n, k = t["p"] * t["q"], t["n"] * g, t["k"] * g
        if nest.kind == "input_grad":
            (rows, columns), n, k = self._behind(t), k, n
            places = rows * columns
        rate = nest.left.rate
        if rate not in mfu.macs_per_cycle:
            terms = places * n * k * nest.window.taps // g
            return ceil_div(terms * nest.image.item, np.int64(self.machine.core.vfu.bytes_per_cycle))
        cycles = product_cycles(mfu, rate, places, n, k, nest.window.taps, g)
        return np.maximum(cycles, self._pads())

    def _behind(self, t: dict[str, Array]) -> tuple[Array, Array]:
        w = self.nest.window
        rows, columns = (np.minimum((t[d] + w.reach(a) - 2) // w.stride[a] + 1, w.out[a])
                         for a, d in enumerate("pq"))  # fmt: skip
        return rows, columns

    def _pads(self) -> Array:
        """What the scratchpads need for a full tile's bytes."""
        item, core = self.nest.image.item, self.machine.core
        out = self.elements["out"] * np.where(
            self._split, 2 * self.nest.accumulate.bits // 8, self.shape.sums
        )
        near = (self.elements["left"] * item + out) // max(1, core.nram.bytes_per_cycle)
        far = self.elements["right"] * item // max(1, core.wram.bytes_per_cycle)
        return np.maximum(near, far)

    @cached_property
    def vector(self) -> Array:
        """Cycles of the vector unit for what follows the sums of a tile."""
        size = self.elements["out"] * max(4, self.shape.sums)
        narrowed = self._split & (self.shape.sums != self.nest.accumulate.bits // 8)
        passes = np.where(narrowed, 1 + self.shape.passes_of_parts, 0) + self.shape.passes
        return passes * (size // self.machine.core.vfu.bytes_per_cycle + self.machine.core.vfu.latency)

    def _image_copy(self) -> Copy:
        t, v, (rows, columns) = self.tile, self.nest.image, self._places_in
        steps = {"g": v.group, "b": v.image, "p": v.row * self._row_step, "k": v.channel}
        if self.nest.kind == "product" and v.channel != v.item and v.row == v.item:
            return self._copy([(rows, v.row), (t["k"], v.channel)], v.item, steps)
        axes = [(t["k"], v.channel), (t["g"], v.group), (columns, v.column), (rows, v.row)]
        return self._copy(axes, v.item, steps)

    @property
    def _row_step(self) -> int:
        """Rows of the image from one p to the next, about."""
        stride = self.nest.window.stride[0]
        return 1 if self.nest.kind in ("product", "input_grad") else stride

    def _copy(
        self, axes: list[tuple[Any, int]], item: int, steps: dict[str, int], is_write: bool = False
    ) -> Copy:
        """`steps`: bytes from one element of a dim to the next."""
        shifts = [
            (self.batch.parts[d], self.count[d] * self.tile[d] * step)
            for d, step in steps.items()
            if (self.batch.parts[d] > 1).any()
        ]
        return copy_cost(self.machine, axes, item, is_write, self.batch.size, shifts)

    def _result_copy(self, v: View | Filter, is_write: bool) -> Copy:
        if isinstance(v, Filter):
            return self._filter_copy(v, is_write)
        t = self.tile
        axes = [(t["n"], v.channel), (t["g"], v.group), (t["q"], v.column), (t["p"], v.row)]
        steps = {"g": v.group, "b": v.image, "p": v.row, "n": v.channel}
        return self._copy(axes, v.item, steps, is_write)

    def _filter_copy(self, v: Filter, is_write: bool = False) -> Copy:
        t, (kh, kw) = self.tile, self.nest.window.kernel
        back = self.nest.kind == "input_grad"
        outputs, inputs = (t["k"], t["n"]) if back else (t["n"], t["k"])
        steps = {"g": v.group, "n": v.input if back else v.output, "k": v.output if back else v.input}
        if self.nest.kind == "product" and v.input != v.item and v.output == v.item:
            return self._copy([(outputs, v.output), (inputs, v.input)], v.item, steps)
        axes = [(inputs, v.input), (kw, v.column), (kh, v.row), (outputs, v.output), (t["g"], v.group)]
        return self._copy(axes, v.item, steps, is_write)

    def _cycles_of(self, copy: Copy) -> Array:
        """One copy with DRAM divided among the cores that work."""
        m = self.machine
        engine, dram = m.core.io_dma, m.dram
        flight = engine.outstanding * dram.burst_bytes / max(1, m.cycles(dram.latency_ns))
        share = m.dram_bytes_per_cycle * np.minimum(copy.spread, copy.together / self.cores)
        return np.maximum(copy.own, copy.moved / np.minimum(flight, share))

    @cached_property
    def cores(self) -> Array:
        """Cores that have work."""
        busy = np.ones(self.batch.size)
        for dim in DIMS:
            tiles = ceil_div(np.int64(self.nest.extents[dim]), self.tile[dim])
            busy = busy * ceil_div(tiles, self.count[dim])
        return busy

    @cached_property
    def transfers(self) -> tuple[Array, Array, Array]:
        """Cycles of loading the left and the right tile, and of storing a result, with its epilogue's."""
        if self.nest.kind == "weight_grad":
            left, right = self._result_copy(self.nest.other, False), self._image_copy()
            result: View | Filter = self.nest.filter
        else:
            left, right, result = self._image_copy(), self._filter_copy(self.nest.filter), self.nest.other
        views = [x for x in self.shape.extras if x.is_result] or [Extra(result, True, False)]
        store = sum(
            (self._cycles_of(self._result_copy(x.view, True)) for x in views), np.zeros(self.batch.size)
        )
        for extra in self.shape.extras:
            if not extra.is_result and not extra.is_vector:
                store = store + self._cycles_of(self._result_copy(extra.view, False))
        return self._load(left, "left"), self._load(right, "right"), store

    def _load(self, copy: Copy, name: str) -> Array:
        """Of a shared operand a core loads only its part."""
        sharers = np.where(self.batch.shared[name], self.machine.cores_per_cluster, 1)
        part = replace(copy, own=copy.own / sharers, moved=copy.moved / sharers)
        return self._cycles_of(part)

    def _given(self, name: str) -> Array:
        """Cycles of the bus that takes a shared tile to the cores."""
        bus = max(1, min(self.machine.sram.bus_bytes_per_cycle, self.machine.sram.bytes_per_cycle))
        size = self.elements[name] * self.nest.image.item
        return np.where(self.batch.shared[name], size / bus + self.machine.core.move_dma.setup, 0.0)

    @cached_property
    def cycles(self) -> Array:
        own, b = self.nest.own, self.batch
        left, right, store = self.transfers
        _, zero_left = self._level(own["left"], b.keep_left)
        _, zero_right = self._level(own["right"], b.keep_right)
        ones = np.ones(b.size)
        pl, pr, both, ps = ones, ones, ones, ones
        for dim in DIMS:
            share = 1 / self.count[dim]
            pl = pl * np.where(zero_left[dim], share, 1)
            pr = pr * np.where(zero_right[dim], share, 1)
            both = both * np.where(zero_left[dim] | zero_right[dim], share, 1)
            if dim in self.nest.reduced:
                ps = ps * share
        gl, gr = self._given("left"), self._given("right")
        kinds = ((both, left + right, gl + gr), (pl - both, left, gl), (pr - both, right, gr),
                 (1 - pl - pr + both, 0 * left, 0 * left))  # fmt: skip
        unit = self.unit / np.maximum(self.steps, 1)
        each = np.zeros(b.size)
        for weight, load, given in kinds:
            with_store, without = (self._step(load, given, unit, amount) for amount in (store, 0 * store))
            each = each + weight * (ps * with_store + (1 - ps) * without)
        first = left + right + self.latency + BEFORE + np.where(gl + gr > 0, gl + gr + MEETING, 0)
        last = store + self.latency
        total = np.where(self.steps == 1, first + unit + self.vector + last, first + self.steps * each + last)
        return np.asarray(total)

    @property
    def latency(self) -> int:
        m = self.machine
        return m.core.io_dma.setup + m.cycles(m.dram.latency_ns)

    def _step(self, load: Array, given: Array, unit: Array, store: Array) -> Array:
        """Cycles of one step with these loads and this store."""
        lag, lead = self.latency, self.batch.lead
        work = unit + np.where(store > 0, self.vector, 0)
        moved = load + store
        busy = np.where(moved > 0, moved + lag, 0)
        if lead == 0:
            return load + np.where(load > 0, lag, 0) + work + store + np.where(store > 0, lag, 0) + WHOLE
        if self.waits:
            met = np.where(self.batch.shared["left"] | self.batch.shared["right"], MEETING, 0)
            slowest = np.maximum(np.maximum(busy, given) + BEFORE, work + 2 * BEFORE)
            return np.maximum(slowest, WHOLE) + met
        chain = (load + np.where(load > 0, lag, 0) + work) / (lead + 1)
        return np.maximum(np.maximum(np.maximum(moved, work), chain), WHOLE)

    @cached_property
    def fits(self) -> Array:
        core = self.machine.core
        nram, wram = self.used
        room = (core.nram.kib - core.nram.reserved_kib) * 1024
        return np.asarray((nram <= room) & (wram <= core.wram.bytes))


def _aligned(count: Array) -> Array:
    return np.asarray(-(-count // ALIGN) * ALIGN)
