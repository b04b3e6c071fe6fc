"""Ranges of mirrored numbers are mirrored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trilobite.framework.quantization.calibrate import Range
from trilobite.framework.quantization.scheme import Scheme

RNG = np.random.default_rng(4)


def seen(x: Any) -> Range:
    found = Range()
    for look in (Range.look, Range.count):
        look(found, x)
    return found


@pytest.mark.parametrize("sign", [1, -1])
def test_least_loss_follows_the_longer_side(sign: int) -> None:
    """A range around 0 reaches the far numbers wherever they are; mirrored numbers have a mirrored one."""
    x = np.concatenate([RNG.normal(size=5000) * 0.1, RNG.uniform(2, 6, 5000)]) * sign
    low, high = seen(x).chosen(Scheme(calibration="entropy"), True)
    far = high if sign > 0 else -low
    assert far > 3 and low < 0 < high
    other = seen(-x).chosen(Scheme(calibration="entropy"), True)
    assert (low, high) == pytest.approx((-other[1], -other[0]), rel=1e-6)
