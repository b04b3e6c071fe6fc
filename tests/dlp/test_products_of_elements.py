"""Products over an axis on the chip: halves are multiplied, and what is odd waits for the next round."""

from __future__ import annotations

import numpy as np
import pytest

import trilobite as tb


@pytest.mark.parametrize("n", [1, 2, 3, 5, 7, 11])
def test_every_element_is_a_factor(n: int) -> None:
    x = np.random.default_rng(n).integers(-3, 4, (4, n, 2)).astype(np.int32)
    x[x == 0] = 5
    found = tb.jit(lambda x: tb.prod(x, axis=1), target="dlp:dlp-s")(tb.asarray(x))
    assert (found.numpy() == x.prod(axis=1)).all()


@pytest.mark.parametrize("n", [1, 2, 3, 5, 7, 11])
def test_every_complex_element_is_a_factor(n: int) -> None:
    rng = np.random.default_rng(n)
    x = (rng.normal(size=(4, n, 2)) + 1j * rng.normal(size=(4, n, 2))).astype(np.complex64)
    found = tb.jit(lambda x: tb.prod(x, axis=1), target="dlp:dlp-s")(tb.asarray(x)).numpy()
    np.testing.assert_allclose(found, x.astype(np.complex128).prod(axis=1), rtol=2e-5)
