"""Who loads a tile together: cores that need the same tile at the same step fetch it once.

Enters: a nest and a mapping. Leaves: for an operand the cores of a cluster and the clusters that need its
tiles alike, and which of them a core is. Each of them loads its part of the tile from DRAM into its cluster's
SRAM; a step later every core gets the whole tile from the SRAMs of the clusters that have a part, over the
network where it is another's, and through one multicast where several cores of a cluster want the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import product
from math import prod
from typing import Any, Literal

import numpy as np

from trilobite.compiler.targets.dlp.contraction.mapping import Mapping
from trilobite.compiler.targets.dlp.contraction.nest import DIMS, Nest
from trilobite.compiler.targets.dlp.contraction.traffic import channels_of
from trilobite.processor.machine import Machine
from trilobite.processor.machine.noc import routes

Array = Any  # of NumPy, one entry for each mapping
OPERANDS = ("left", "right")
PIECE = 220  # cycles that one more piece takes: a wait for DRAM, and a barrier
MOST_PIECES = 8
PLACE = 512  # bytes of a place that a multicast of its own is worth


def launched_clusters(machine: Machine) -> int:
    """Clusters of a launch: a power of two, sixteen at most."""
    span = 1
    while span * 2 <= min(machine.clusters, 16):
        span *= 2
    return span


@dataclass(frozen=True)
class Members:
    """Parts of one level (clusters, or cores of one) by dim, and whether an operand's tiles differ along it.

    A number of a core or cluster counts parts, the last dim fastest. Those that differ only in dims which the
    operand lacks need the same tiles: `count` of them, `offsets` from the first one's number.
    """

    parts: tuple[int, ...]
    own: tuple[str, ...]

    @property
    def count(self) -> int:
        return prod(n for d, n in zip(DIMS, self.parts, strict=True) if d not in self.own)

    @property
    def kinds(self) -> int:
        """How many different tiles there are at a time."""
        return prod(self.parts) // self.count

    def _strides(self) -> list[tuple[str, int, int]]:
        """dim, parts, distance of two neighbours; outermost first."""
        return [
            (d, n, prod(self.parts[i + 1 :])) for i, (d, n) in enumerate(zip(DIMS, self.parts, strict=True))
        ]

    @property
    def offsets(self) -> tuple[int, ...]:
        steps = [(n, stride) for d, n, stride in self._strides() if n > 1 and d not in self.own]
        places = product(*(range(n) for n, _ in steps))
        return tuple(sum(i * s for i, (_, s) in zip(at, steps, strict=True)) for at in places)

    def weights(self, same: bool) -> list[tuple[str, int]]:
        """Dims that the operand lacks (`same`) or has, each with what one step of it counts among them."""
        dims = [
            (d, n) for d, n in zip(DIMS, self.parts, strict=True) if n > 1 and (d not in self.own) == same
        ]
        return [(d, prod(n for _, n in dims[i + 1 :])) for i, (d, _) in enumerate(dims)]

    @property
    def firsts(self) -> list[tuple[str, int]]:
        """Dims that the operand has, each with the distance of two neighbours: where a group begins."""
        return [(d, stride) for d, n, stride in self._strides() if n > 1 and d in self.own]


@dataclass(frozen=True)
class Sharing:
    """An operand that is loaded together: by how many cores of a cluster, and by how many clusters."""

    cores: Members
    clusters: Members
    within: bool
    across: bool

    @property
    def sharers(self) -> int:
        """Cores of one cluster that get a tile by one multicast."""
        return self.cores.count if self.within else 1

    @property
    def homes(self) -> int:
        """Clusters whose SRAM has a part of a tile."""
        return self.clusters.count if self.across else 1

    @property
    def parts(self) -> int:
        return self.sharers * self.homes

    def kinds(self, per_cluster: int) -> int:
        """Different tiles in the SRAM of one cluster."""
        return per_cluster // self.sharers


def sharing_of(nest: Nest, m: Mapping, name: str) -> Sharing:
    own = nest.own[name]
    return Sharing(Members(m.cores, own), Members(m.clusters, own), name in m.shared, name in m.across)


def is_shareable(nest: Nest, m: Mapping, machine: Machine) -> bool:
    """All cores take part in every step, and each shared operand has somebody to share it with."""
    if m.lead != 1 or nest.window.spread != (1, 1) or prod(m.cores) != machine.cores_per_cluster:
        return False
    if m.across and (prod(m.clusters) != launched_clusters(machine) or not is_connected(machine)):
        return False
    if "left" in m.across and nest.image.home is not None:
        return False
    if "left" in m.shared and nest.image.home is not None and not is_whole(nest, m):
        return False
    for name in OPERANDS:
        made = sharing_of(nest, m, name)
        if (made.within and made.cores.count == 1) or (made.across and made.clusters.count == 1):
            return False
    return True


def is_whole(nest: Nest, m: Mapping) -> bool:
    """Are tiles of an image at home on chip rows that lie end to end, as a multicast wants them, or places
    that are worth one each?"""
    whole = m.tile("k") >= nest.extents["k"] and m.tile("q") >= nest.extents["q"]
    return whole and (is_run(nest) or _is_apart(nest))


def _is_apart(nest: Nest) -> bool:
    """Does a window of one place see places with all their channels, but not all places of a row?"""
    e, view, w = nest.extents, nest.image, nest.window
    is_point = nest.kind == "forward" and w.taps == 1 and w.space == w.out and w.stride == (1, 1)
    is_one = is_point and e["g"] == e["b"] == 1 and view.channel == view.item
    return is_one and view.column >= e["k"] * view.item >= PLACE


def is_run(nest: Nest) -> bool:
    """Do rows of the image lie end to end, with all their columns and channels?"""
    e, view = nest.extents, nest.image
    width = nest.window.space[1] if nest.kind == "forward" else e["q"]
    whole = view.column == e["k"] * view.item or width == 1
    return view.channel == view.item and whole and view.row == width * e["k"] * view.item


def is_connected(machine: Machine) -> bool:
    """Is there a way from every cluster to every other?"""
    clusters = launched_clusters(machine)
    found = routes(machine.noc, machine.clusters)
    return all((a, b) in found for a in range(clusters) for b in range(clusters))


def pieces_of(load: Any, take: Any, second: Any) -> Any:
    """In how many pieces the first shared tiles come best. Loading them takes so many cycles, and giving them
    out; what the next step loads comes beside the last piece. Numbers, or arrays of them."""
    best, found = first_cycles(load, take, second, 1), np.ones_like(take, dtype=np.int64)
    for pieces in range(2, MOST_PIECES + 1):
        cycles = first_cycles(load, take, second, pieces)
        best, found = np.minimum(best, cycles), np.where(cycles < best, pieces, found)
    return found


def first_cycles(load: Any, take: Any, second: Any, pieces: Any) -> Any:
    """Until the first shared tiles are with the cores."""
    behind = np.maximum(take / pieces, second)
    return load / pieces + (pieces - 1) * (np.maximum(load, take) / pieces + PIECE) + behind


@dataclass(frozen=True)
class Turns:
    """Cores, or clusters of them, that begin with different parts of what is summed, `step` tiles apart: so
    they draw weights from different channels of DRAM at a time."""

    each: Literal["core", "cluster"]
    step: int


def turns_of(nest: Nest, m: Mapping, machine: Machine) -> Turns | None:
    """Where a tile's weights lie in few channels, and nobody needs the same parts at a time. Sums of floats
    of one output are taken in one order at all places."""
    piece, stride = m.tile("k") * nest.image.item, narrow_stride(nest)
    if m.across or stride is None or m.tile("k") >= nest.extents["k"]:
        return None
    right, is_exact = sharing_of(nest, m, "right"), nest.left.kind != "float"
    if channels_of(machine, piece, stride) == 1 or not (is_exact or right.clusters.count == 1):
        return None
    by_core = not m.shared and (is_exact or right.cores.count == 1)
    members = prod(m.clusters) * (prod(m.cores) if by_core else 1)
    apart = machine.dram.burst_bytes * machine.dram.channels // min(members, machine.dram.channels)
    return Turns("core" if by_core else "cluster", max(1, round(apart / piece))) if members > 1 else None


def narrow_stride(nest: Nest) -> int | None:
    """Bytes from one piece of a tile's weights to the next where tiles are cut along inputs that lie end to
    end; None where they do not, or where the order of sums is fixed: a product of floats is one chain."""
    view, is_float = nest.filter, nest.left.kind == "float"
    if nest.kind not in (("forward",) if is_float else ("product", "forward")) or view.input != view.item:
        return None
    return next(
        (s for s, n in zip((view.column, view.row), nest.window.kernel[::-1], strict=True) if n > 1),
        view.output,
    )


def busiest_link(machine: Machine, clusters: Members) -> float:
    """Tiles of one cluster that the busiest link carries while every cluster gets its tile from all homes."""
    table, loads = routes(machine.noc, machine.clusters), dict[tuple[int, int], int]()
    for first in _firsts(clusters):
        members = [first + offset for offset in clusters.offsets]
        for home, there in product(members, members):
            for link in table[home, there]:
                loads[link] = loads.get(link, 0) + 1
    return max(loads.values(), default=0) / clusters.count


def _firsts(clusters: Members) -> Sequence[int]:
    steps = [(n, s) for d, n, s in clusters._strides() if n > 1 and d in clusters.own]
    places = product(*(range(n) for n, _ in steps))
    return [sum(i * s for i, (_, s) in zip(at, steps, strict=True)) for at in places]


@dataclass(frozen=True)
class Together:
    """Of an operand, one entry for each mapping: how many cores load a tile together (1: none), from how many
    clusters it comes, how many different tiles a cluster holds, how many of them the busiest link of the
    network carries, and how many cores of a cluster, and clusters, need the same tile, shared or not."""

    parts: Array
    homes: Array
    kinds: Array
    links: Array
    cores: Array
    clusters: Array

    def take(self, rows: Array) -> Together:
        return Together(*(getattr(self, field.name)[rows] for field in fields(self)))


def together(machine: Machine, made: Sequence[Sharing]) -> Together:
    """Of these, one for each mapping."""
    per_cluster = machine.cores_per_cluster
    rows = [
        (
            x.parts, x.homes, x.kinds(per_cluster), busiest_link(machine, x.clusters) if x.homes > 1 else 0.0,
            x.cores.count, x.clusters.count,
        )
        for x in made
    ]  # fmt: skip
    parts, homes, kinds, links, cores, clusters = np.array(rows, np.float64).reshape(-1, 6).T
    return Together(parts, homes, kinds, links * kinds, cores, clusters)


def turns_among(
    nest: Nest, machine: Machine, shared: dict[str, Together], cores: Array, tile: Array, count: Array
) -> Array:
    """How many cores, or clusters of them, begin with different parts of what is summed (`turns_of`, for many
    mappings): of cores that work, with tiles of so many inputs and so many of them."""
    stride, is_exact = narrow_stride(nest), nest.left.kind != "float"
    if stride is None:
        return np.ones(len(tile))
    left, right = shared["left"], shared["right"]
    is_narrow = channels_of(machine, tile * nest.image.item, np.full(len(tile), stride)) < 1
    alone = (left.parts == 1) & (right.parts == 1) & (is_exact | (right.cores == 1))
    may = is_narrow & (left.homes == 1) & (right.homes == 1) & (is_exact | (right.clusters == 1))
    members = np.maximum(np.where(alone, cores, cores // machine.cores_per_cluster), 1)
    apart = members / -(-members // np.minimum(members, count))  # some begin alike
    return np.where(may, apart, 1)
