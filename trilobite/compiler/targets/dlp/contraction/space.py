"""Which mappings there are: what is legal, and the candidates that the search looks at.

The space is the product of: divisions of clusters and of cores among the dims that are not summed; tiles of
each dim that divide a core's part evenly up to the unit's granule; the order of the three loop groups (places
b p q, outputs n, inputs k; g outside); the level at which each operand is kept; buffers. Candidates come in
batches that share everything but tiles and parts, as the cost model takes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations, product
from math import prod
from typing import Any

import numpy as np

from trilobite.compiler.targets.dlp.contraction.behind import Shape
from trilobite.compiler.targets.dlp.contraction.figures import Figures, figures_of
from trilobite.compiler.targets.dlp.contraction.mapping import ONES, Mapping, ceil_div
from trilobite.compiler.targets.dlp.contraction.near import blocks_of
from trilobite.compiler.targets.dlp.contraction.nest import DIMS, Nest, View
from trilobite.compiler.targets.dlp.contraction.predict import Walking
from trilobite.compiler.targets.dlp.contraction.sharing import (
    OPERANDS,
    Members,
    Sharing,
    Together,
    is_shareable,
    is_whole,
    together,
)
from trilobite.processor.machine import Machine

MOST_TILES = 10  # sizes of tiles that are looked at along a dim
NARROW = 16  # outputs that a narrow tile has at least
UNEVEN = 8  # rows of a core, from which on it costs little if some have one less
FINE_TILES = 6  # and below the granule, where scratchpads are tiny


def is_legal(nest: Nest, m: Mapping, machine: Machine) -> bool:
    """Several groups at once only whole; whole images where a window may lie in the frame."""
    if m.tile("g") > 1 and not _is_group_whole(nest, m):
        return False
    if (m.shared or m.across) and not is_shareable(nest, m, machine):
        return False
    if not _keeps_blocks(nest, m):
        return False
    return not nest.whole_images or (m.tile("p") >= nest.extents["p"] and m.tile("q") >= nest.extents["q"])


def _keeps_blocks(nest: Nest, m: Mapping) -> bool:
    """Has every core the block that lies in its NRAM, in whole tiles?"""
    blocks = blocks_of(nest)
    if blocks is None:
        return True
    cut = {"p": blocks[0], "q": blocks[1]}
    if any(m.parts(d) != cut.get(d, 1) for d in DIMS) or m.clusters[DIMS.index("q")] > 1:
        return False
    return all(nest.extents[d] // n % min(m.tile(d), nest.extents[d] // n) == 0 for d, n in cut.items())


def _is_group_whole(nest: Nest, m: Mapping) -> bool:
    return m.tile("n") >= nest.extents["n"] and m.tile("k") >= nest.extents["k"]


def divided_dims(nest: Nest) -> tuple[str, ...]:
    """Dims that cores may share out: those of the result, as far as they have more than one place."""
    whole = nest.whole_images
    return tuple(
        d for d in DIMS if d not in nest.reduced and nest.extents[d] > 1 and not (whole and d in "pq")
    )  # fmt: skip


@dataclass(frozen=True)
class Division:
    """Parts for clusters and for the cores of one, and which operands they load together."""

    clusters: tuple[int, ...] = ONES
    cores: tuple[int, ...] = ONES
    shared: str = ""
    across: str = ""


def divisions(nest: Nest, machine: Machine, cores: int) -> list[Division]:
    """Every factorisation: nothing shared, what the cores of a cluster need alike, and what any cores do."""
    if cores == 1:
        return [Division()]
    dims = divided_dims(nest)
    clusters, blocks = cores // machine.cores_per_cluster, blocks_of(nest)
    if blocks is not None:
        a, b = (1, 1, clusters, 1, 1, 1), (1, 1, blocks[0] // clusters, blocks[1], 1, 1)
        return [Division(a, b), *_shared(nest, machine, a, b)]
    outer, inner = _factorised(clusters, dims), _factorised(machine.cores_per_cluster, dims)
    found: list[Division] = []
    for first, second in product(outer, inner):
        if _useful(nest, first, second):
            found += [Division(first, second), *_shared(nest, machine, first, second)]
    return found or [Division()]


def _shared(nest: Nest, machine: Machine, a: tuple[int, ...], b: tuple[int, ...]) -> list[Division]:
    """Where the machine can multicast: sharing within clusters, and as far as it goes."""
    if machine.interlock == "ranges" or not (machine.sram.multicast and machine.sram.kib):
        return []
    alike = [[name for name in OPERANDS if Members(parts, nest.own[name]).count > 1] for parts in (b, a)]
    if nest.image.home is not None:  # then it comes from all clusters, whoever shares it
        alike[1] = [name for name in alike[1] if name != "left"]
    within, across = ("+".join(names) for names in alike)
    tries = ([Division(a, b, within)] if within else []) + (
        [Division(a, b, within, across)] if across else []
    )
    if nest.image.home is not None and alike[0] == ["left", "right"]:
        tries += [Division(a, b, "right", d.across) for d in tries]
    elif nest.image.home is not None and alike[0] == ["left"] and across:
        tries.append(Division(a, b, "", across))
    tile = tuple(nest.extents[d] for d in DIMS)
    return [
        d for d in tries
        if is_shareable(nest, Mapping(tile, clusters=a, cores=b, shared=d.shared, across=d.across), machine)
    ]  # fmt: skip


def _useful(nest: Nest, a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """No dim in more parts than it has places; columns only of windows whose rows would not come out even."""
    parts = {d: x * y for d, x, y in zip(DIMS, a, b, strict=True)}
    if any(n > nest.extents[d] for d, n in parts.items()):
        return False
    rows, both = nest.extents["p"], parts["p"] * parts["q"]
    is_uneven = rows % both != 0 and rows < UNEVEN * both and nest.extents["q"] % parts["q"] == 0
    return parts["q"] == 1 or (is_uneven and nest.window.taps > 1)


def _factorised(total: int, dims: tuple[str, ...]) -> list[tuple[int, ...]]:
    """All ways to write a number as a product over dims; smaller numbers too where it cannot be used up."""
    found = []
    for choice in product(*([n for n in range(1, total + 1) if total % n == 0] for _ in dims)):
        if prod(choice) == total:
            parts = dict(zip(dims, choice, strict=True))
            found.append(tuple(parts.get(d, 1) for d in DIMS))
    return found or [ONES]


def tile_sizes(extent: int, granule: int) -> list[int]:
    """Sizes that cut an extent into equal tiles, rounded up to the granule, largest first: into 1 to 8, then
    into ever more."""
    found: list[int] = []
    pieces = 1
    while True:
        size = ceil_div(extent, pieces)
        if granule > 1 and size < extent:
            size = min(extent, ceil_div(size, granule) * granule)
        if size not in found:
            found.append(size)
        if size <= granule or pieces >= extent:
            return found
        pieces = pieces + 1 if pieces < 8 else pieces * 3 // 2


def _thinned(sizes: list[int], most: int) -> list[int]:
    """At most so many of them, evenly; the largest and the smallest stay."""
    if len(sizes) <= most:
        return sizes
    places = np.unique(np.round(np.linspace(0, len(sizes) - 1, most)).astype(int))
    return [sizes[i] for i in places]


def granules(nest: Nest, machine: Machine) -> dict[str, int]:
    """What tiles are multiples of: the unit's rows along k, its columns along n."""
    mfu = machine.core.mfu
    deep = min(mfu.rows, nest.extents["k"])
    return {"n": min(mfu.cols, nest.extents["n"]), "k": deep, "p": 1, "q": 1, "g": 1, "b": 1}


class Space:
    """The candidates of one problem on one machine."""

    def __init__(self, nest: Nest, machine: Machine, cores: int) -> None:
        self.nest, self.machine, self.cores = nest, machine, cores
        self.divisions = divisions(nest, machine, cores)
        self._rows = self._tilings()

    def _sizes(self, dim: str, parts: int, fine: bool) -> list[int]:
        nest, extent = self.nest, self.nest.extents[dim]
        if dim == "b" or (dim == "g" and nest.kind == "product"):
            return [1]
        mine = ceil_div(extent, parts)
        if nest.whole_images and dim in "pq":
            return [mine]
        granule = 1 if fine else granules(nest, self.machine)[dim]
        sizes = tile_sizes(mine, granule)
        if dim == "p" and not fine:
            sizes = self._with_home(sizes, parts)
        if dim in "pq" and blocks_of(nest) is not None:
            sizes = [size for size in sizes if mine % size == 0]
        if dim == "n" and not fine:
            sizes = sizes + self._narrow(mine)
        if fine:
            return _thinned(sizes, FINE_TILES)
        return sizes[:3] if dim == "q" else _thinned(sizes, MOST_TILES)

    def _narrow(self, outputs: int) -> list[int]:
        """Fewer outputs than the unit has columns, where weights of so many do not fit with all their inputs:
        whole sums leave the unit finished, and weights are read in long pieces. As many tiles as fill all
        buffers equally often: the next group's first ones find theirs empty."""
        nest, columns = self.nest, granules(self.nest, self.machine)["n"]
        deep = nest.extents["k"] * nest.window.taps * nest.image.item
        room, found = self.machine.core.wram.bytes, list[int]()
        for buffers in (2, 3) if nest.kind != "weight_grad" else ():
            most = room // (buffers * deep)
            if NARROW <= most < min(columns, outputs):
                pieces = ceil_div(ceil_div(outputs, most), buffers) * buffers
                found.append(ceil_div(outputs, pieces))
        return list(dict.fromkeys(found))

    def _with_home(self, sizes: list[int], parts: int) -> list[int]:
        """Rows that lie in one cluster, divided among its cores, where they are not as many anyway."""
        views = [v for v in (self.nest.image, self.nest.other, *self.nest.extras) if isinstance(v, View)]
        found = list(sizes)
        for view in views:
            if view.home is not None and view.home.clusters > 1 and view.row:
                rows = view.home.part // view.row * view.home.clusters
                found += [ceil_div(rows, parts)] if rows >= parts >= view.home.clusters else []
        return list(dict.fromkeys(found))

    def _tilings(self) -> list[tuple[int, ...]]:
        """Tiles and the number of the division, in a fixed order."""
        found: list[tuple[int, ...]] = []
        for number, division in enumerate(self.divisions):
            parts = [x * y for x, y in zip(division.clusters, division.cores, strict=True)]
            for fine in (False, True) if self._tiny else (False,):
                lists = [self._sizes(d, n, fine) for d, n in zip(DIMS, parts, strict=True)]
                found += [(*tiles, number) for tiles in product(*lists) if self._is_legal(tiles, division)]
        return list(dict.fromkeys(found))

    @property
    def _tiny(self) -> bool:
        """Scratchpads too small for a granule of everything: tiles below the granule are needed."""
        core, g = self.machine.core, granules(self.nest, self.machine)
        need = g["n"] * g["k"] * self.nest.window.taps * self.nest.image.item
        return 2 * need > core.wram.bytes or core.nram.kib < 64

    def _is_legal(self, tiles: tuple[int, ...], division: Division) -> bool:
        """What `is_legal` asks of tiles, so that what is found may be kept; divisions are asked the rest."""
        nest, mapping = self.nest, Mapping(tiles, shared=division.shared)
        if tiles[DIMS.index("g")] > 1 and not _is_group_whole(nest, mapping):
            return False
        return nest.image.home is None or "left" not in division.shared or is_whole(nest, mapping)

    def orders(self) -> list[tuple[str, ...]]:
        """g outermost; then places, outputs and inputs in any order. Groups of one tile change nothing."""
        groups = {"places": ("b", "p", "q"), "outputs": ("n",), "inputs": ("k",)}
        return [("g", *(d for name in names for d in groups[name])) for names in permutations(groups)]

    def levels(self, order: tuple[str, ...], own: tuple[str, ...]) -> list[int]:
        """Everything, a tile, or what the loops inside one of the operand's own need."""
        found = [0, *(i + 1 for i, d in enumerate(order) if d in own)]
        ends = [level for level in found if level < 2 or level == len(order) or not _together(order, level)]
        return sorted(set(ends))

    def figures(self, shape: Shape) -> Figures:
        """What the tilings cost whatever the order of loops."""
        rows = np.array(self._rows, np.int64)
        tiles = {d: rows[:, i] for i, d in enumerate(DIMS)}
        which = rows[:, -1]
        split = np.array([np.multiply(d.clusters, d.cores) for d in self.divisions], np.int64)
        parts = {d: split[which, i] for i, d in enumerate(DIMS)}
        shared = {name: self._together(name, which) for name in OPERANDS}
        outer = np.array([d.clusters[DIMS.index("p")] for d in self.divisions], np.int64)[which]
        return figures_of(self.nest, self.machine, shape, tiles, parts, shared, outer)

    def _together(self, name: str, which: Any) -> Together:
        made = [
            Sharing(
                Members(d.cores, self.nest.own[name]), Members(d.clusters, self.nest.own[name]),
                name in d.shared, name in d.across,
            )
            for d in self.divisions
        ]  # fmt: skip
        return together(self.machine, made).take(which)

    def walks(self, lead: int) -> Iterator[Walking]:
        """Orders and levels; each goes with every tiling."""
        own = self.nest.own
        for order in self.orders():
            for left, right in product(self.levels(order, own["left"]), self.levels(order, own["right"])):
                yield Walking(order, left, right, lead)

    def mapping(self, walking: Walking, row: int) -> Mapping:
        chosen, w = self._rows[row], walking
        d, kept = self.divisions[chosen[-1]], (w.keep_left, w.keep_right)
        return Mapping(tuple(chosen[:-1]), w.order, *kept, w.lead, d.clusters, d.cores, d.shared, d.across)

    @property
    def size(self) -> int:
        """How many candidates there are for one number of buffers."""
        own = self.nest.own
        kept = sum(
            len(self.levels(o, own["left"])) * len(self.levels(o, own["right"])) for o in self.orders()
        )
        return kept * len(self._rows)


def _together(order: tuple[str, ...], level: int) -> bool:
    """Inside the group of loops over places: levels there are not looked at."""
    places = ("b", "p", "q")
    return order[level - 1] in places and level < len(order) and order[level] in places
