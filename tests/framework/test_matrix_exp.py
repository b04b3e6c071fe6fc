"""The exponential of matrices of every norm: around each number of squarings, beside a sum of powers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import trilobite as tb

BOUNDS = [2.0 * 2.0**k for k in range(5)]  # norms from which on the matrix is halved once more


def meant(a: np.ndarray) -> np.ndarray:
    """The series of the halved matrix in extended precision, squared again."""
    halvings = max(0, int(np.ceil(np.log2(max(float(np.abs(a).sum(0).max()), 1e-30)))) + 6)
    x = a.astype(np.longdouble) / np.longdouble(2) ** halvings
    term = total = np.eye(len(a), dtype=np.longdouble)
    for k in range(1, 30):
        term = term @ x / k
        total = total + term
    for _ in range(halvings):
        total = total @ total
    return total


@pytest.mark.parametrize("norm", [1e-6, 0.3, 1.0, *(b * f for b in BOUNDS for f in (0.999, 1.0, 1.001))])
def test_every_number_of_squarings(norm: float) -> None:
    rng = np.random.default_rng(3)
    a = rng.standard_normal((5, 5))
    a *= norm / np.abs(a).sum(0).max()
    expected = meant(a).astype(np.float64)
    found = tb.linalg.matrix_exp(tb.asarray(a)).numpy()
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-14 * max(norm, 1) * np.abs(expected).max())
    together = tb.linalg.matrix_exp(tb.asarray(np.stack([a, 0 * a, -a]))).numpy()
    np.testing.assert_allclose(together[0], found, rtol=1e-13, atol=1e-13 * np.abs(expected).max())
    np.testing.assert_allclose(together[1], np.eye(5), atol=1e-15)


def test_the_approximant_is_that_of_degree_thirteen() -> None:
    """Its numerator and denominator: e^x to the order of x^26, by exact fractions."""
    from trilobite.framework.ops.linalg_more import _PADE

    b = [Fraction(int(c)) for c in _PADE]
    factorials = [Fraction(1)]
    for k in range(1, 27):
        factorials.append(factorials[-1] * k)
    for order in range(27):  # of e^x * denominator - numerator
        found = sum(b[j] * (-1) ** j / factorials[order - j] for j in range(min(order, 13) + 1))
        assert found == (b[order] if order <= 13 else 0)
