"""Products of matrices: what the definition leaves to NumPy and what it must not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("left", "right"), [((4, 1), (1, 1)), ((1, 1), (1, 3)), ((1,), (1,)), ((1, 1), (1, 1))]
)
@pytest.mark.parametrize(("x", "y"), [(np.nan, 0.0), (0.0, np.inf), (-np.inf, 0.0), (0.0, np.nan)])
def test_a_product_with_one_element_is_no_scaling(
    left: Any, right: Any, x: float, y: float, dtype: Any
) -> None:
    """NumPy's `dot` takes an operand of one element for a factor, and a factor of 0 makes 0 of NaN."""
    a, b = tb.tensor(np.full(left, x, dtype)), tb.tensor(np.full(right, y, dtype))
    for _ in range(3):  # eager, and replayed
        assert np.isnan((a @ b).numpy()).all()
    assert np.isnan(tb.jit(lambda a, b: a @ b, target="reference")(a, b).numpy()).all()
