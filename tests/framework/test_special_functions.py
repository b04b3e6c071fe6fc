"""`tb.special` beside SciPy, on both sides of every bound at which a series gives way to another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

import trilobite as tb
from trilobite.base.errors import ArgumentError

SIZES = np.concatenate(
    [np.linspace(0, 19.9, 41), np.nextafter([20.0, 20.0], [0, 40]), [20.0, 23.0, 40.0, 300.0]]
)
BOTH = np.concatenate([-SIZES[::-1], SIZES])
NORMAL = np.concatenate([[-300.0, -60, -30.5, -30, -29.5, -11, -10, -9.5], np.linspace(-6, 6, 25), [9.0]])
POSITIVE = np.asarray([0.05, 0.3, 0.5, 0.75, 1.0, 1.5, 2.5, 7.0, 19.0, 20.5, 150.0])
CHANCES = np.asarray([1e-3, 0.02, 0.3, 0.5, 0.77, 0.999])
CASES: dict[str, tuple[Any, Any, np.ndarray]] = {
    "i0": (tb.special.i0, special.i0, BOTH),
    "i0e": (tb.special.i0e, special.i0e, BOTH),
    "i1": (tb.special.i1, special.i1, BOTH),
    "i1e": (tb.special.i1e, special.i1e, BOTH),
    "ndtr": (tb.special.ndtr, special.ndtr, NORMAL),
    "log_ndtr": (tb.special.log_ndtr, special.log_ndtr, NORMAL),
    "ndtri": (tb.special.ndtri, special.ndtri, CHANCES),
    "entr": (tb.special.entr, special.entr, np.asarray([-1.0, 0.0, 0.2, 1.0, 3.0])),
    "trigamma": (lambda x: tb.special.polygamma(1, x), lambda x: special.polygamma(1, x), POSITIVE),
    **{
        f"polygamma {n}": (
            lambda x, n=n: tb.special.polygamma(n, x),
            lambda x, n=n: special.polygamma(n, x),
            POSITIVE,
        )
        for n in (0, 2, 3, 6)
    },
    **{
        f"multigammaln {p}": (
            lambda x, p=p: tb.special.multigammaln(x, p),
            lambda x, p=p: np.vectorize(lambda v: special.multigammaln(v, p))(x),
            POSITIVE + (p - 1) / 2,
        )
        for p in (1, 2, 5)
    },
}


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    ours, theirs, at = CASES[name]
    found, wanted = ours(tb.tensor(at, dtype=tb.float64)).numpy(), theirs(at)
    np.testing.assert_allclose(found, wanted, rtol=2e-10, atol=1e-300)
    single = ours(tb.tensor(at, dtype=tb.float32)).numpy()
    keep = np.abs(wanted) < 1e30
    np.testing.assert_allclose(single[keep], wanted[keep], rtol=2e-4, atol=1e-7)
    assert single.dtype == np.float32


@pytest.mark.parametrize("name", ["i0", "i0e", "i1", "i1e", "log_ndtr", "trigamma"])
def test_slopes(name: str) -> None:
    """Beside differences of SciPy's values."""
    ours, theirs, at = CASES[name]
    at = at[(np.abs(at) < 60) & (np.abs(np.abs(at) - 20) > 0.01) & (np.abs(at + 30) > 0.01)]
    x = tb.tensor(at, dtype=tb.float64, requires_grad=True)
    ours(x).sum().backward()
    step = 1e-4 * np.maximum(1e-2, np.minimum(np.abs(at), 1.0))
    slope = (theirs(at + step) - theirs(at - step)) / (2 * step)
    np.testing.assert_allclose(x.grad.numpy(), slope, rtol=1e-4, atol=1e-6)


def test_trigamma_below_zero_is_reflected() -> None:
    at = np.asarray([-3.7, -1.2, -0.4, 0.2, 0.49, 0.5, 0.51])
    wanted = special.zeta(2, at + 6) + sum(1 / (at + k) ** 2 for k in range(6))
    found = tb.special.polygamma(1, tb.tensor(at, dtype=tb.float64)).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-10)


def test_products_with_a_logarithm_that_is_not_finite() -> None:
    x = np.asarray([0.0, 0.0, 0.0, 0.0, 2.0, 2.0, 2.0])
    y = np.asarray([-1.0, -3.0, np.inf, np.nan, -1.0, 0.5, -0.5])
    with np.errstate(all="ignore"):
        wanted = special.xlog1py(x, y)
    found = tb.special.xlog1py(tb.tensor(x, dtype=tb.float64), tb.tensor(y, dtype=tb.float64)).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_whole_numbers_become_floats_and_wrong_orders_are_told() -> None:
    assert tb.special.i0(tb.tensor([1, 2])).dtype == tb.float32
    with pytest.raises(ArgumentError, match="order -1"):
        tb.special.polygamma(-1, tb.ones(2))
