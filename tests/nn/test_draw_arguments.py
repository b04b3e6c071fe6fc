"""What draws take: shapes, dtypes and ranges; wrong ones say so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite import random
from trilobite.base.errors import DTypeError, ShapeError

REAL = {
    "uniform": random.uniform, "normal": random.normal, "truncated_normal": random.truncated_normal,
}  # fmt: skip


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("shape", [-1, (2, -1), 1.5, (2, 3.0), True, (2, False), "3", None])
def test_wrong_shapes(name: str, shape: Any) -> None:
    with pytest.raises(ShapeError, match="numbers of at least 0"):
        REAL[name](shape)


@pytest.mark.parametrize("name", REAL)
def test_shapes_and_dtypes(name: str) -> None:
    for shape, wanted in ((3, (3,)), ((), ()), ([2, 0], (2, 0)), ((np.int64(2), 3), (2, 3))):
        assert REAL[name](shape).shape == wanted
    assert REAL[name]((2,), dtype=tb.float64).dtype == tb.float64
    for dtype in (tb.int32, tb.bool, tb.uint8):
        with pytest.raises(DTypeError):
            REAL[name]((2,), dtype=dtype)


def test_the_end_of_a_range_is_never_drawn() -> None:
    """Where a range is two steps of its numbers wide, rounding arrives at the end every second time."""
    low = 1.0
    for dtype, high in ((tb.float32, 1.0 + 2.0**-22), (tb.float64, 1.0 + 2.0**-51), (tb.float32, 2.0)):
        drawn = random.uniform((4000,), low, high, dtype=dtype, key=random.key(3)).numpy()
        assert (drawn >= low).all() and (drawn < high).all() and len(set(drawn.tolist())) > 1
    assert (random.uniform((50,), 2.5, 2.5).numpy() == 2.5).all()
    falling = random.uniform((50,), -3.0, -1.0, key=random.key(4)).numpy()
    assert (falling >= -3).all() and (falling < -1).all() and falling.std() > 0.3
