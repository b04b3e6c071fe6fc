"""Pad by reflection, edge and wrap, of all sizes, beside NumPy's: pieces joined, and places gathered."""

from __future__ import annotations

import numpy as np
import pytest

import trilobite as tb
from trilobite.inference.operators import joining

RNG = np.random.default_rng(8)
NUMPY = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}


@pytest.mark.parametrize("mode", sorted(NUMPY))
@pytest.mark.parametrize("sides", [(1, 1), (0, 3), (4, 0), (2, 5), (13, 9), (30, 1)])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_padding_is_numpys(mode: str, sides: tuple[int, int], axis: int) -> None:
    x = RNG.standard_normal((5, 7, 6)).astype(np.float32)
    widths = [(0, 0)] * 3
    widths[axis] = sides
    low, high = ([w[k] for w in widths] for k in (0, 1))
    found = joining._padded(tb.tensor(x), [*low, *high], range(3), mode, 0)
    np.testing.assert_array_equal(found.numpy(), np.pad(x, widths, mode=NUMPY[mode]))


@pytest.mark.parametrize("mode", sorted(NUMPY))
def test_one_element_and_cropping(mode: str) -> None:
    one = RNG.standard_normal((1, 4)).astype(np.float32)
    found = joining._padded(tb.tensor(one), [2, 0, 3, 0], range(2), mode, 0)
    np.testing.assert_array_equal(found.numpy(), np.pad(one, ((2, 3), (0, 0)), mode="edge"))
    row = RNG.standard_normal((1, 9)).astype(np.float32)
    cropped = joining._padded(tb.tensor(row), [0, -2, 0, 3], range(2), mode, 0)
    places = joining._sources(9, -2, 3, mode)
    np.testing.assert_array_equal(cropped.numpy(), row[:, places])
