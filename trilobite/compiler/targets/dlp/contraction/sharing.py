"""Who loads a tile together: cores that need the same tile at the same step fetch it once.

Enters: a nest and a mapping. Leaves: for an operand the cores of a cluster and the clusters that need its
tiles alike, and which of them a core is. Each of them loads its part of the tile from DRAM into its cluster's
SRAM; a step later every core gets the whole tile from the SRAMs of the clusters that have a part, over the
network where it is another's, and through one multicast where several cores of a cluster want the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from trilobite.compiler.targets.dlp.contraction.mapping import Mapping
from trilobite.compiler.targets.dlp.contraction.nest import DIMS, Nest
from trilobite.processor.machine import Machine
from trilobite.processor.machine.noc import routes

OPERANDS = ("left", "right")
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
    if "left" in m.shared and nest.image.home is not None and not _is_whole(nest, m):
        return False
    for name in OPERANDS:
        made = sharing_of(nest, m, name)
        if (made.within and made.cores.count == 1) or (made.across and made.clusters.count == 1):
            return False
    return True


def _is_whole(nest: Nest, m: Mapping) -> bool:
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
