"""Means and variances at the edges of where they exist."""

from __future__ import annotations

import math

import numpy as np
import pytest

import trilobite as tb

D = tb.distributions


@pytest.mark.parametrize(
    ("df", "mean", "variance"),
    [
        (0.5, math.nan, math.nan),
        (1.0, math.nan, math.nan),
        (1.5, 3.0, math.inf),
        (2.0, 3.0, math.inf),
        (2.5, 3.0, 20.0),
        (4.0, 3.0, 8.0),
    ],
)
def test_student_t(df: float, mean: float, variance: float) -> None:
    made = D.StudentT(tb.tensor(df, dtype=tb.float64), 3.0, 2.0)
    np.testing.assert_allclose([made.mean.item(), made.variance.item()], [mean, variance], rtol=1e-12)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 1.5, 2.0, 2.5, 3.0])
def test_pareto(alpha: float) -> None:
    made = D.Pareto(tb.tensor(2.0, dtype=tb.float64), alpha)
    mean = 2 * alpha / (alpha - 1) if alpha > 1 else math.inf
    variance = 4 * alpha / ((alpha - 1) ** 2 * (alpha - 2)) if alpha > 2 else math.inf
    np.testing.assert_allclose([made.mean.item(), made.variance.item()], [mean, variance], rtol=1e-12)
