"""Ranges and grids by themselves."""

from __future__ import annotations

import numpy as np
import pytest

from trilobite.base.dtypes import int8, int16
from trilobite.framework.quantization.calibrate import Range
from trilobite.framework.quantization.grids import Grid, weight_codes
from trilobite.framework.quantization.scheme import Scheme


def seen(*batches: np.ndarray) -> Range:  # type: ignore[type-arg]
    found = Range()
    for look in (Range.look, Range.count):
        for x in batches:
            look(found, x)
    return found


def error(x: np.ndarray, grid: Grid) -> float:  # type: ignore[type-arg]
    info = np.iinfo(grid.dtype)
    codes = np.clip(np.rint(x / grid.scale) + grid.zero, info.min, info.max)
    return float(((x - (codes - grid.zero) * grid.scale) ** 2).mean())


def test_extremes_over_batches_without_what_is_not_finite() -> None:
    found = seen(np.array([1.0, np.nan, -2.0]), np.array([np.inf, 3.5]))
    assert found.chosen(Scheme(), True) == (-2.0, 3.5)


@pytest.mark.parametrize("calibration", ["minmax", "percentile", "entropy"])
def test_one_number_is_its_own_range_and_nothing_is_zero(calibration: str) -> None:
    scheme = Scheme(calibration=calibration)
    assert seen(np.full(7, 2.5)).chosen(scheme, True) == (2.5, 2.5)
    assert seen(np.array([np.nan])).chosen(scheme, True) == (0.0, 0.0)


def test_least_loss_moves_both_ends_of_a_symmetric_range() -> None:
    """A few far outliers on both sides cost less when they are cut off."""
    x = np.random.default_rng(3).normal(size=20_000)
    x[:2] = -60.0, 60.0
    low, high = seen(x).chosen(Scheme(calibration="entropy"), True)
    assert -30 < low < -2 and 2 < high < 30 and low == pytest.approx(-high)
    assert seen(np.array([np.nan])).chosen(Scheme(), True) == (0.0, 0.0)


def test_a_percentile_cuts_both_tails() -> None:
    x = np.random.default_rng(0).normal(size=100_000)
    x[:5], x[5:10] = 50.0, -60.0
    low, high = seen(x).chosen(Scheme(calibration="percentile", percentile=99.0), False)
    assert -2.75 < low < -2.4 and 2.4 < high < 2.75
    assert seen(x).chosen(Scheme(calibration="percentile", percentile=100.0), False) == (-60.0, 50.0)


@pytest.mark.parametrize("symmetric", [True, False])
def test_entropy_leaves_outliers_away_and_keeps_what_is_even(symmetric: bool) -> None:
    rng = np.random.default_rng(1)
    scheme = Scheme(calibration="entropy")
    x = rng.laplace(size=200_000)
    x[:3] = 90.0
    ends = seen(x).chosen(scheme, symmetric)
    assert ends[1] < 45
    assert error(x[3:], Grid.of(*ends, int8, symmetric)) < error(
        x[3:], Grid.of(x.min(), 90.0, int8, symmetric)
    )
    even = rng.uniform(-1, 1, 200_000)
    low, high = seen(even).chosen(scheme, symmetric)
    assert low < -0.9 and high > 0.9


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("dtype", [int8, int16])
@pytest.mark.parametrize(
    "ends", [(-1.0, 3.0), (0.0, 5.0), (2.0, 5.0), (-7.0, -1.0), (0.0, 0.0), (1e-42, 1e-40)]
)
def test_a_grid_reaches_both_ends_and_holds_zero(
    ends: tuple[float, float], dtype: np.dtype, symmetric: bool
) -> None:  # type: ignore[type-arg]
    grid = Grid.of(*ends, dtype, symmetric)
    assert grid.scale > 0 and (grid.zero == 0 or not symmetric)
    assert (grid.code(0.0) - grid.zero) * grid.scale == 0
    for end in ends:
        assert abs((grid.code(end) - grid.zero) * grid.scale - end) <= 0.51 * grid.scale + 1e-30


def test_codes_of_weights_per_channel_and_per_tensor() -> None:
    rng = np.random.default_rng(2)
    w = rng.normal(size=(5, 4, 3)) * np.array([1, 10, 100, 1e-3, 0])[:, None, None]
    codes, scale = weight_codes(w, (0,), int8)
    assert scale.shape == (5,) and (np.abs(codes).max((1, 2))[:4] == 127).all() and not codes[4].any()
    assert (np.abs(codes * scale[:, None, None] - w).max(axis=(1, 2)) <= 0.51 * scale).all()
    one, single = weight_codes(w, (), int8)
    assert single.shape == () and np.abs(one * single - w).max() <= 0.51 * single
    held, least = weight_codes(w, (0,), int8, np.full(5, 0.5))
    assert (least >= 0.5).all() and np.abs(held[0]).max() <= np.abs(w[0]).max() / 0.5 + 0.5
