"""Products of formats that the matrix unit does not multiply, beside NumPy's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trilobite as tb


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.int64, np.uint8])
@pytest.mark.parametrize(("m", "k", "n"), [(1, 7, 5), (37, 130, 19), (17, 3, 2100), (5, 1, 1), (19, 1, 33)])
def test_products_that_the_matrix_unit_does_not_take(
    m: int, k: int, n: int, dtype: Any, odd_machine: Path
) -> None:
    """Rows on the vector unit, in tiles that share what they read."""
    rng = np.random.default_rng(m + k + n)
    x, y = (tb.tensor(rng.integers(0, 9, s).astype(dtype)) for s in ((2, m, k), (2, k, n)))
    machine = ("dlp-s", "dlp-m", str(odd_machine))[(m + k + n) % 3]
    chip = tb.jit(lambda x, y: (x @ y, x @ y[0]), target=f"dlp:{machine}", options={"checks": m * k < 50})
    for found, wanted in zip(chip(x, y), (x.numpy() @ y.numpy(), x.numpy() @ y.numpy()[0]), strict=True):
        assert np.array_equal(found.numpy(), wanted)


def test_factors_of_such_products_are_not_read_one_by_one_from_dram() -> None:
    x = tb.tensor(np.random.default_rng(0).integers(-9, 9, (24, 200)))
    chip = tb.jit(lambda x: x @ x.T, target="dlp:dlp-s")
    assert np.array_equal(chip(x).numpy(), x.numpy() @ x.numpy().T)
    assert chip.last_run.cycles < 3 * 24 * 24 * 200
