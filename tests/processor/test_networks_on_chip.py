"""Links and ways of networks on chip beside neighbours that are counted out."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from trilobite.processor.machine.description import Noc
from trilobite.processor.machine.noc import links_of, routes


def neighbours(shape: tuple[int, ...], wrap: bool) -> set[tuple[int, int]]:
    places = list(product(*map(range, shape)))
    found = set()
    for a, b in product(places, places):
        apart = []
        for x, y, n in zip(a, b, shape, strict=True):
            d = abs(x - y)
            apart.append(min(d, n - d) if wrap else d)
        if sum(apart) == 1:
            found.add((places.index(a), places.index(b)))
    return found


@pytest.mark.parametrize("kind", ["mesh", "torus"])
@pytest.mark.parametrize("shape", [(4,), (1, 3), (2, 2), (2, 3), (3, 3), (4, 2), (5, 1), (2, 3, 3)])
def test_links_of_grids(kind: str, shape: tuple[int, ...]) -> None:
    noc: Any = Noc(kind=kind, shape=shape)
    count = 1
    for n in shape:
        count *= n
    assert set(links_of(noc, count)) == neighbours(shape, kind == "torus")


@pytest.mark.parametrize("count", [1, 2, 3, 6])
def test_a_ring_and_its_shortest_ways(count: int) -> None:
    noc: Any = Noc(kind="ring")
    around = {(i, (i + 1) % count) for i in range(count) if count > 1}
    assert set(links_of(noc, count)) == around | {(b, a) for a, b in around}
    table = routes(noc, count)
    for a, b in product(range(count), range(count)):
        way = table[a, b]
        assert len(way) == min(abs(a - b), count - abs(a - b))
        assert [x for x, _ in way] == [a, *(y for _, y in way)][: len(way)] and (not way or way[-1][1] == b)
