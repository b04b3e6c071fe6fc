"""`orthogonal_` draws uniformly: no corner of the space is preferred."""

from __future__ import annotations

import numpy as np

import trilobite as tb
from trilobite import nn


def test_every_entry_is_as_often_above_zero_as_below() -> None:
    """Signs of 400 draws: a sign left to the factorisation prefers one half of the space."""
    tb.manual_seed(5)
    drawn = np.stack([nn.init.orthogonal_(tb.empty((3, 3))).numpy() for _ in range(400)])
    above = (drawn > 0).mean(0)
    assert (np.abs(above - 0.5) < 0.12).all(), above
    assert (np.abs(np.linalg.det(drawn.astype(np.float64))) - 1 < 1e-4).all()
    assert 0.38 < (np.linalg.det(drawn) > 0).mean() < 0.62
