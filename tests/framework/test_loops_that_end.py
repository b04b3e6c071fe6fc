"""Loops over values end whatever the values are: NaN, infinities, the most negative integer."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite import distributions
from trilobite.base.errors import DTypeError

pytestmark = pytest.mark.timeout(60)
INTEGERS = ("int8", "uint8", "int16", "int32", "int64")
ODD = (math.nan, math.inf, -math.inf, 1.5, 1j, True)


@pytest.mark.parametrize("name", ["gcd", "lcm"])
@pytest.mark.parametrize("odd", ODD)
def test_no_divisors_but_of_integers(name: str, odd: Any) -> None:
    fn, x = getattr(tb, name), tb.tensor([odd, odd])
    for pair in ((x, x), (x, tb.tensor([True, False])), (x, x[0])):
        with pytest.raises(DTypeError, match=f"{name} of .*\n.*\n.*integer"):
            fn(*pair)
        with pytest.raises(DTypeError, match=f"{name} of .*\n.*\n.*integer"):
            tb.jit(fn)(*pair)
    if odd is not True:
        with pytest.raises(DTypeError, match="integer"):
            fn(tb.tensor([4, 6]), odd)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("left", INTEGERS)
@pytest.mark.parametrize("right", INTEGERS)
def test_divisors_over_two_dtypes(left: str, right: str, compiled: bool) -> None:
    """Both operands meet in the dtype that holds them: nothing is cut to the first one's."""
    draw = np.random.default_rng(7)
    ends = [np.iinfo(d) for d in (left, right)]
    a = draw.integers(ends[0].min, ends[0].max, 60, dtype=left, endpoint=True)
    b = draw.integers(ends[1].min, ends[1].max, 60, dtype=right, endpoint=True)
    a[:6], b[:6] = (0, 0, ends[0].min, ends[0].max, 6, ends[0].min), (0, 9, ends[1].max, 0, ends[1].min, 1)
    fn = tb.jit(tb.gcd) if compiled else tb.gcd
    got = fn(tb.tensor(a), tb.tensor(b))
    want = np.gcd(a, b)
    assert got.numpy().dtype == want.dtype
    np.testing.assert_array_equal(got.numpy(), want)
    small = (a % 11).astype(left), (b % 13).astype(right)
    fn = tb.jit(tb.lcm) if compiled else tb.lcm
    np.testing.assert_array_equal(fn(*map(tb.tensor, small)).numpy(), np.lcm(*small))


def test_divisors_beside_a_number() -> None:
    x = tb.tensor([100, -75], dtype=tb.int8)
    assert tb.gcd(x, 10).dtype == tb.int8
    assert tb.gcd(x, 10).tolist() == [10, 5]
    assert tb.gcd(tb.tensor([[4], [6]]), tb.tensor([2, 3])).tolist() == [[2, 1], [2, 3]]


@pytest.mark.parametrize("compiled", [False, True])
def test_gamma_of_what_has_no_law(compiled: bool) -> None:
    """Values are not seen in compiled code: no draw is accepted for them, and none is waited for."""
    odd = [math.inf, 2.0] if not compiled else [math.inf, math.nan, -0.5, -0.7, -3.0, -math.inf, 2.0]

    def draw(a: Any) -> Any:
        return tb.random.gamma(a, key=tb.random.key(3))

    fn = tb.jit(draw) if compiled else draw
    got = fn(tb.tensor(odd)).numpy()
    assert got[0] == math.inf
    assert np.isnan(got[1:-1]).all()
    assert 0 < got[-1] < math.inf
    with pytest.raises(tb.errors.ArgumentError, match="concentration"):
        draw(tb.tensor([math.nan]))


def test_laws_of_infinite_concentration() -> None:
    tb.manual_seed(0)
    assert distributions.Gamma(math.inf, 1.0, validate_args=False).sample().item() == math.inf
    assert math.isnan(distributions.Beta(math.inf, math.inf, validate_args=False).sample().item())


@pytest.mark.parametrize("odd", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("name", ["svd", "svdvals", "pinv", "cond", "matrix_rank", "lstsq"])
def test_singular_values_of_infinities(name: str, odd: float) -> None:
    """Matrices beside the one with an infinity stay as they are."""
    x = np.random.default_rng(0).random((2, 3, 3)).astype("f4") + 0.1
    x[0, 0, 0] = odd
    fn = getattr(tb.linalg, name)
    if name == "lstsq":
        assert np.isnan(fn(tb.tensor(x[0]), tb.tensor(x[1]))[0].numpy()).any()
        return
    found, alone = fn(tb.tensor(x)), fn(tb.tensor(x[1]))
    if name == "svd":
        found, alone = found[1], alone[1]
    np.testing.assert_allclose(found[1].numpy(), alone.numpy(), rtol=1e-5)
