"""Boxes that the native suppression keeps beside those of its meaning in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trilobite.inference.operators.suppression import kept, kept_plainly

Array = np.ndarray[Any, Any]


def boxes(seed: int, count: int) -> Array:
    """Small integers, so that many overlap by the same share and some are empty."""
    rng = np.random.default_rng(seed)
    start = rng.integers(0, 20, (2, count))
    sizes = rng.integers(0, 9, (2, count))
    scale = rng.choice([1.0, 0.37])
    return (np.concatenate([start, start + sizes]) * scale).astype(np.float32)


@pytest.mark.parametrize("edge", [0.0, 0.25, 1 / 3, 0.5, 1.0])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 16, 33, 400])
def test_the_same_boxes_are_kept(count: int, edge: float) -> None:
    for seed in range(4):
        corners = boxes(seed, count)
        order = np.random.default_rng(seed + 50).permutation(count)[: count - count // 5]
        for limit in (0, 1, 5, count, 10 * count):
            expected = kept_plainly(corners, order, limit, edge)
            np.testing.assert_array_equal(kept(corners, order, limit, edge), expected)


@pytest.mark.parametrize("count", [3, 9, 100])
def test_boxes_around_zero(count: int) -> None:
    """Vectors of kept boxes end in boxes of nothing, which stand at zero."""
    for seed in range(4):
        corners = boxes(seed, count) - np.float32(9)
        for edge in (0.0, 0.3):
            expected = kept_plainly(corners, np.arange(count), count, edge)
            np.testing.assert_array_equal(kept(corners, np.arange(count), count, edge), expected)


def test_equal_boxes_and_touching_ones() -> None:
    corners = np.array([[0, 0, 2, 2], [0, 0, 2, 2], [2, 0, 4, 2], [0, 0, 2, 1]], np.float32).T
    assert kept(corners, np.arange(4), 9, 0.5).tolist() == [0, 2, 3]  # a half is not more than a half
    assert kept(corners, np.arange(4), 9, 0.49).tolist() == [0, 2]
    assert kept(corners, np.arange(4)[::-1], 9, 0.49).tolist() == [3, 2]


def test_broken_boxes_overlap_nothing() -> None:
    corners = np.array([[0, 0, 2, 2], [np.nan, 0, 2, 2], [0, 0, np.inf, np.inf]], np.float32).T
    expected = kept_plainly(corners, np.arange(3), 9, 0.5)
    np.testing.assert_array_equal(kept(corners, np.arange(3), 9, 0.5), expected)
