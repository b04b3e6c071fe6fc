"""What a tiling costs whatever the order of its loops: sizes of tiles, the unit's time, copies.

Enters: a nest, a machine, what follows the sums, and tiles, parts and shared operands of many mappings as
arrays. Leaves: `Figures`. The unit's time is the closed form of T1 (`timing/arrays.py`), summed over full
tiles and edges; copies follow T1's rules for engines, granules, channels and requests under way, with DRAM
divided among the cores that work.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from trilobite.compiler.targets.dlp.contraction.behind import Extra, Shape
from trilobite.compiler.targets.dlp.contraction.near import (
    SEARCHED,
    is_aligned,
    is_kept_there,
    is_near,
    is_read_there,
    near_cycles,
    searched_clusters,
)
from trilobite.compiler.targets.dlp.contraction.nest import DIMS, Filter, Nest, View
from trilobite.compiler.targets.dlp.contraction.places import CHUNK, HEAVY
from trilobite.compiler.targets.dlp.contraction.sharing import Together, turns_among
from trilobite.compiler.targets.dlp.contraction.traffic import Copy, copy_cost
from trilobite.compiler.targets.dlp.contraction.walk import SHORT
from trilobite.processor.machine import Machine
from trilobite.processor.sim.timing.arrays import product_cycles

Array = Any  # of NumPy, one entry for each mapping
WRITTEN = 0.35  # of a step's scalar work that is left where each step is written by itself
ISSUE = 12  # cycles between two vector instructions of a body


@dataclass(frozen=True)
class Figures:
    """Of many tilings, one entry for each: tiles along the dims that a core visits and their product; cycles
    of the unit over all steps, of one load of each operand, of one store with what follows the sums, of the
    bus for a shared tile; elements of the tiles; whether sums come in parts and whether cores meet; cycles of
    the scalar work of a step; bytes of SRAM."""

    count: dict[str, Array]
    steps: Array
    unit: Array
    left: Array
    right: Array
    store: Array
    given_left: Array
    given_right: Array
    given_store: Array
    vector: Array
    elements: dict[str, Array]
    split: Array
    meets: Array
    scalar: Array
    sram: Array
    meets_left: Array
    chunk: Array  # elements that vector instructions finish at a time
    left_there: Array  # whether the unit reads the left operand where it is at home
    tile: dict[str, Array]

    def take(self, rows: Array) -> Figures:
        """The same of some rows."""
        found: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            found[field.name] = (
                {k: v[rows] for k, v in value.items()} if isinstance(value, dict) else value[rows]
            )
        return Figures(**found)

    @cached_property
    def size(self) -> int:
        return len(self.steps)

    def bound(self, nest: Nest, is_early: bool = False) -> Array:
        """Cycles that no order of the loops can beat: the unit, or every tile loaded and stored once."""
        own = nest.own
        times = {name: np.prod([self.count[d] for d in own[name]], axis=0) for name in own}
        moved = self.left * times["left"] + self.store * times["out"]
        return np.maximum(self.unit, moved if is_early else moved + self.right * times["right"])


def ceil_div(a: Array, b: Array) -> Array:
    return -(-a // b)


def figures_of(
    nest: Nest, machine: Machine, shape: Shape, tiles: dict[str, Array], parts: dict[str, Array],
    shared: dict[str, Together], outer: Array,
) -> Figures:  # fmt: skip
    """`tiles` and `parts` by dim; `shared` says who loads the left, the right operand together, `outer` in
    how many parts clusters have dim p."""
    made = _Tilings(nest, machine, shape, tiles, parts, shared, outer)
    left, right, store = made.transfers
    return Figures(
        made.count, made.steps, made.unit, left, right, store, made.given("left"), made.given("right"),
        made.given_store, made.vector, made.elements, made.split, made.meets, made.scalar, made.sram,
        made.shared["left"].parts > 1, made.chunk, made.left_there, made.tile,
    )  # fmt: skip


class _Tilings:
    def __init__(
        self, nest: Nest, machine: Machine, shape: Shape, tiles: dict[str, Array], parts: dict[str, Array],
        shared: dict[str, Together], outer: Array,
    ) -> None:  # fmt: skip
        self.nest, self.machine, self.shape, self.parts, self.shared = nest, machine, shape, parts, shared
        self.outer = outer
        e = nest.extents
        self.size = len(tiles["p"])
        self.tile = {d: np.minimum(tiles[d], e[d]) for d in DIMS}
        self.count = {d: ceil_div(ceil_div(e[d], self.tile[d]), parts[d]) for d in DIMS}
        self.steps = np.prod([self.count[d] for d in DIMS], axis=0)
        self.split = np.any([self.count[d] > 1 for d in nest.reduced], axis=0)

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

    # times
    @cached_property
    def unit(self) -> Array:
        """Cycles of the matrix unit over all steps of the busiest core."""
        total = np.zeros(self.size, np.int64)
        ends = {d: self._edge(d) for d in "pqnk"}
        for choice in product((0, 1), repeat=4):
            sizes, weight = {}, np.ones(self.size, np.int64)
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
            return ceil_div(terms * nest.image.item, self.machine.core.vfu.bytes_per_cycle)
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
        out = self.elements["out"] * np.where(self.split, 2 * self.nest.accumulate.bits // 8, self.shape.sums)
        near = (self.elements["left"] * item + out) // max(1, core.nram.bytes_per_cycle)
        far = self.elements["right"] * item // max(1, core.wram.bytes_per_cycle)
        return np.maximum(near, far)

    @cached_property
    def chunk(self) -> Array:
        """`Plan.chunk` of each."""
        out, found = self.elements["out"], self.elements["out"]
        outputs = np.maximum(self.tile["n"] * self.tile["g"], 1)
        rows = CHUNK // outputs * outputs
        for chosen, behind in ((~self.split, self.shape.behind), (self.split, self.shape.behind_parts)):
            is_heavy = behind.scratch + behind.spread >= HEAVY and self.nest.kind != "weight_grad"
            is_heavy = is_heavy and self.machine.interlock != "ranges"
            found = np.where(chosen & is_heavy & (rows > 0) & (rows < out), rows, found)
        return found

    @cached_property
    def vector(self) -> Array:
        """Cycles of the vector unit for what follows the sums of a tile."""
        vfu, parts = self.machine.core.vfu, self.split
        found = np.zeros(self.size)
        for chosen, behind in ((~parts, self.shape.behind), (parts, self.shape.behind_parts)):
            passed = self.elements["out"] * behind.lanes / vfu.bytes_per_cycle
            rounds = behind.instructions * ceil_div(self.elements["out"], self.chunk)
            found = found + np.where(chosen, passed + rounds * (vfu.latency + ISSUE), 0)
        narrowed = parts & (self.shape.sums != self.nest.accumulate.bits // 8) & (not self.shape.extras)
        wide = self.elements["out"] * self.nest.accumulate.bits // 8
        return found + np.where(narrowed, wide // vfu.bytes_per_cycle + vfu.latency, 0)

    def _image_copy(self) -> Copy:
        t, v, (rows, columns) = self.tile, self.nest.image, self._places_in
        steps = {"g": v.group, "b": v.image, "p": v.row * self._step_of(0), "q": v.column * self._step_of(1),
                 "k": v.channel}  # fmt: skip
        if self.nest.kind == "product" and v.channel != v.item and v.row == v.item:
            return self._copy([(rows, v.row), (t["k"], v.channel)], v.item, steps)
        axes = [(t["k"], v.channel), (t["g"], v.group), (columns, v.column), (rows, v.row)]
        return self._turned(self._copy(axes, v.item, steps))

    def _step_of(self, axis: int) -> int:
        """Places of the image from one p, or q, to the next, about."""
        stride = self.nest.window.stride[axis]
        return 1 if self.nest.kind in ("product", "input_grad") else stride

    def _copy(
        self, axes: list[tuple[Any, int]], item: int, steps: dict[str, int], is_write: bool = False
    ) -> Copy:
        """`steps`: bytes from one element of a dim to the next."""
        shifts = [
            (self.parts[d], self.count[d] * self.tile[d] * step)
            for d, step in steps.items()
            if (self.parts[d] > 1).any()
        ]
        return copy_cost(self.machine, axes, item, is_write, self.size, shifts)

    def _result_copy(self, v: View | Filter, is_write: bool) -> Copy:
        if isinstance(v, Filter):
            return self._filter_copy(v, is_write)
        t = self.tile
        axes = [(t["n"], v.channel), (t["g"], v.group), (t["q"], v.column), (t["p"], v.row)]
        steps = {"g": v.group, "b": v.image, "p": v.row, "q": v.column, "n": v.channel}
        return self._copy(axes, v.item, steps, is_write)

    def _filter_copy(self, v: Filter, is_write: bool = False) -> Copy:
        t, (kh, kw) = self.tile, self.nest.window.kernel
        back = self.nest.kind == "input_grad"
        outputs, inputs = (t["k"], t["n"]) if back else (t["n"], t["k"])
        steps = {"g": v.group, "n": v.input if back else v.output, "k": v.output if back else v.input}
        if self.nest.kind == "product" and v.input != v.item and v.output == v.item:
            return self._copy([(outputs, v.output), (inputs, v.input)], v.item, steps)
        axes = [(inputs, v.input), (kw, v.column), (kh, v.row), (outputs, v.output), (t["g"], v.group)]
        return self._turned(self._copy(axes, v.item, steps, is_write))

    def _turned(self, copy: Copy) -> Copy:
        return replace(copy, together=np.minimum(copy.together * self._turns, 1.0))

    @cached_property
    def _turns(self) -> Array:
        return turns_among(self.nest, self.machine, self.shared, self.cores, self.tile["k"], self.count["k"])

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
        busy = np.ones(self.size)
        for dim in DIMS:
            tiles = ceil_div(self.nest.extents[dim], self.tile[dim])
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
        store = np.zeros(self.size)
        for extra in self._whole_extras(result):
            if not is_near(extra.view):
                store = store + self._cycles_of(self._result_copy(extra.view, extra.is_result))
        own = self.nest.own
        return (
            self._load(left, "left") * self._filled(own["left"]) * (0 if self._left_near else 1),
            self._load(right, "right") * self._filled(own["right"]),
            store * self._filled(own["out"]),
        )

    @cached_property
    def left_there(self) -> Array:
        there = is_read_there(self.nest, self.tile["k"], self.tile["q"])
        return np.broadcast_to(there, (self.size,))

    def _whole_extras(self, result: View | Filter) -> list[Extra]:
        """Results, and operands of the epilogue that have a number for every place."""
        found = [x for x in self.shape.extras if x.is_result] or [Extra(result, True, False)]
        return found + [x for x in self.shape.extras if not (x.is_result or x.is_vector or x.is_scalar)]

    @property
    def _left_near(self) -> bool:
        return self.nest.kind != "weight_grad" and is_near(self.nest.image)

    @cached_property
    def given_store(self) -> Array:
        """Cycles of the bus for results and extras of a tile that are at home on chip."""
        t, found = self.tile, np.zeros(self.size)
        result: View | Filter = self.nest.filter if self.nest.kind == "weight_grad" else self.nest.other
        for extra in self._whole_extras(result):
            if isinstance(v := extra.view, View) and v.home is not None:
                piece = t["n"] * v.item * np.where(t["n"] * v.item == v.column, t["q"], 1)
                size = self.elements["out"] * v.item
                copied = self._near(v, size, piece, self.machine.cores_per_cluster)
                found = found + np.where(is_kept_there(self.nest, v, t["n"], t["q"]), 0, copied)
        return found * self._filled(self.nest.own["out"])

    def _near(self, view: View, size: Array, piece: Array, takers: Array) -> Array:
        p = self.count["p"], self.tile["p"], self.outer, self.parts["p"] // self.outer
        return near_cycles(self.machine, view, size, piece, takers, is_aligned(self.nest, view, *p))

    def _filled(self, dims: tuple[str, ...]) -> Array:
        """How much of its tiles an operand fills on average: the last one may be smaller."""
        found = np.ones(self.size)
        for dim in dims:
            covered = np.minimum(self.count[dim] * self.tile[dim], self.nest.extents[dim])
            found = found * covered / (self.count[dim] * self.tile[dim])
        return found

    @property
    def scalar(self) -> Array:
        """Cycles of a step's scalar work: places, edges, counters; fitted to generated kernels."""
        loops = np.zeros(self.size)
        for dim in DIMS:
            loops = loops + (self.count[dim] > 1)
        copies = sum(np.where(x.parts > 1, 110 + 70 * x.homes, 0) for x in self.shared.values())
        found = copies + np.where(self.split, 100, 0) + 90 * loops - 100
        if self.nest.kind != "product":
            uneven = self.nest.extents["p"] % self.tile["p"] != 0
            found = found + 230 + np.where(self.count["q"] > 1, 220, 0) + np.where(uneven, 130, 0)
        found = found + SEARCHED * searched_clusters(self.nest)
        waits = self.machine.interlock != "ranges"
        return np.maximum(np.where(waits & (self.steps <= SHORT), WRITTEN * found, found), 130)

    def _load(self, copy: Copy, name: str) -> Array:
        """Of a shared operand a core loads only its part."""
        sharers = self.shared[name].parts
        part = replace(copy, own=copy.own / sharers, moved=copy.moved / sharers)
        return self._cycles_of(part)

    @property
    def meets(self) -> Array:
        return (self.shared["left"].parts > 1) | (self.shared["right"].parts > 1)

    @property
    def sram(self) -> Array:
        """Bytes of parts of tiles, twice: the next ones come while these go."""
        found = np.zeros(self.size)
        for name, x in self.shared.items():
            if name == "left" and self._left_near:
                continue
            found = found + np.where(x.parts > 1, 2 * x.kinds * self.elements[name] * self.nest.image.item, 0)
        return found

    def given(self, name: str) -> Array:
        """Cycles of the bus and of the network that take a shared tile to the cores."""
        m, x = self.machine, self.shared[name]
        if name == "left" and self._left_near:
            v, (_, columns), t = self.nest.image, self._places_in, self.tile
            piece = t["k"] * v.item * np.where(t["k"] * v.item == v.column, columns, 1)
            takers = np.where(x.parts > 1, x.kinds, m.cores_per_cluster)
            copied = self._near(v, self.elements["left"] * v.item, piece, takers)
            return np.where(self.left_there, 0.0, copied)
        bus = max(1, min(m.sram.bus_bytes_per_cycle, m.sram.bytes_per_cycle))
        size = self.elements[name] * self.nest.image.item
        carried = np.maximum(size * x.kinds / bus, size * x.links / max(1, m.noc.link_bytes_per_cycle))
        return np.where(x.parts > 1, carried + x.homes * m.core.move_dma.setup, 0.0)
