"""Lines too long for one kernel are sorted by a network: every length, equal keys, NaN, and what fills up."""

from __future__ import annotations

import numpy as np
import pytest

from trilobite.compiler.targets.dlp.expand import order

rng = np.random.default_rng(6)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33])
@pytest.mark.parametrize("kind", ["floats", "few", "NaN", "bytes"])
def test_the_network_is_a_stable_order(n: int, kind: str) -> None:
    x = rng.standard_normal((3, n)).astype(np.float32)
    if kind == "few":
        x = np.round(x)
    if kind == "NaN":
        x[rng.random(x.shape) < 0.4] = np.nan
    if kind == "bytes":
        x = rng.integers(-128, 128, (3, n)).astype(np.int8)
    places = np.tile(np.arange(n, dtype=np.int32), (3, 1))
    assert np.array_equal(order._network(x, places), np.argsort(x, axis=1, kind="stable"))


@pytest.mark.parametrize("n", [order.LONGEST - 1, order.LONGEST, order.LONGEST + 1])
def test_both_sides_of_the_longest_line(n: int) -> None:
    x = rng.integers(0, 50, (1, n)).astype(np.int16)
    assert np.array_equal(order._sorted_places(x), np.argsort(x, axis=1, kind="stable"))
