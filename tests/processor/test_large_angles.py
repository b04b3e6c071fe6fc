"""Angles far beyond a turn: the exact rest by a quarter turn, and the quarter, as the C library has sines."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trilobite.processor.isa.functions import _reduce_exactly

LARGE = [1e5, -1e5, 7e15, -7e15, 2.0**60, 1.5e100, -3.7e200, 1.7e308, math.pi * 1e6, 355.0, 2.0**1000 / 3]


@pytest.mark.parametrize("x", [*LARGE, *np.random.default_rng(2).uniform(-1e9, 1e9, 40)])
def test_the_rest_of_an_angle(x: float) -> None:
    quarter, rest = _reduce_exactly(float(x))
    assert abs(rest) <= math.pi / 4 * (1 + 1e-15)
    expected = (math.sin(rest), math.cos(rest), -math.sin(rest), -math.cos(rest))[quarter]
    assert math.isclose(math.sin(x), expected, rel_tol=1e-14, abs_tol=1e-16)
