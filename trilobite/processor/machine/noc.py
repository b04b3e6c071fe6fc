"""The links of a network on chip and the way a transfer takes through it.

Enters: a `Noc` and a number of clusters. Leaves: directed links and fixed shortest routes.
Routes are breadth-first with neighbours in ascending order, so a route is the same on every run.
"""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from itertools import product
from math import prod

from trilobite.processor.machine.description import Noc

Link = tuple[int, int]


def links_of(noc: Noc, clusters: int) -> tuple[Link, ...]:
    """Every directed link, sorted; a link of the description carries both ways."""
    if noc.kind == "links":
        pairs = set(noc.links)
    elif noc.kind == "ring":
        pairs = {(i, (i + 1) % clusters) for i in range(clusters) if clusters > 1}
    elif noc.kind in ("mesh", "torus"):
        pairs = _grid_links(noc.shape, wrap=noc.kind == "torus")
    else:
        pairs = set()
    both = {(a, b) for a, b in pairs if a != b} | {(b, a) for a, b in pairs if a != b}
    return tuple(sorted(both))


def _grid_links(shape: tuple[int, ...], wrap: bool) -> set[Link]:
    number = {place: index for index, place in enumerate(product(*map(range, shape)))}
    pairs = set()
    for place, index in number.items():
        for axis, extent in enumerate(shape):
            step = place[axis] + 1
            if step < extent or (wrap and extent > 2):
                there = (*place[:axis], step % extent, *place[axis + 1 :])
                pairs.add((index, number[there]))
    return pairs


@lru_cache(maxsize=64)
def routes(noc: Noc, clusters: int) -> dict[Link, tuple[Link, ...]]:
    """(from, to) -> the links passed in order, for every pair that is connected."""
    neighbours: dict[int, list[int]] = {c: [] for c in range(clusters)}
    for a, b in links_of(noc, clusters):
        if a < clusters and b < clusters:
            neighbours[a].append(b)
    table: dict[Link, tuple[Link, ...]] = {}
    for start in range(clusters):
        table[start, start] = ()
        waiting = deque([start])
        while waiting:
            here = waiting.popleft()
            for there in neighbours[here]:
                if (start, there) not in table:
                    table[start, there] = (*table[start, here], (here, there))
                    waiting.append(there)
    return table


def unreachable(noc: Noc, clusters: int) -> list[int]:
    """Clusters that a transfer from cluster 0 cannot reach."""
    table = routes(noc, clusters)
    return [c for c in range(clusters) if (0, c) not in table]


def places(noc: Noc) -> int:
    return prod(noc.shape) if noc.shape else 0
