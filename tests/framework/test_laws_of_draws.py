"""What is drawn follows its law: shares below chosen points beside the exact distribution function.

The seed is fixed, so a result is the same in every run; a share of so many draws strays from its chance by
less than four of its standard deviations.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ArgumentError, DTypeError

MANY = 20_000
Law = tuple[Callable[[], Any], Callable[[float], float], tuple[float, ...]]


def normal(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2))


def whole(chances: list[float]) -> Callable[[float], float]:
    return lambda x: sum(chances[: math.floor(x) + 1])


def filled(name: str, *arguments: float) -> Callable[[], Any]:
    return lambda: getattr(tb.empty(MANY), name)(*arguments)


POISSON = [math.exp(-2.5) * 2.5**k / math.factorial(k) for k in range(30)]
BINOMIAL = [math.comb(9, k) * 0.3**k * 0.7 ** (9 - k) for k in range(10)]
GEOMETRIC = [0.0, *(0.3 * 0.7**k for k in range(60))]
LAWS: dict[str, Law] = {
    "uniform_": (filled("uniform_", -3.0, 5.0), lambda x: (x + 3) / 8, (-2.0, 0.5, 4.0)),
    "normal_": (filled("normal_", 2.0, 3.0), lambda x: normal((x - 2) / 3), (-3.0, 1.0, 2.0, 6.0)),
    "exponential_": (filled("exponential_", 0.5), lambda x: 1 - math.exp(-x / 2), (0.3, 1.0, 4.0)),
    "log_normal_": (
        filled("log_normal_", 0.5, 0.8), lambda x: normal((math.log(x) - 0.5) / 0.8), (0.5, 2.0, 6.0),
    ),
    "cauchy_": (
        filled("cauchy_", 1.0, 2.0), lambda x: 0.5 + math.atan((x - 1) / 2) / math.pi, (-6.0, 0.0, 1.0, 4.0),
    ),
    "geometric_": (filled("geometric_", 0.3), whole(GEOMETRIC), (1.5, 2.5, 6.5)),
    "random_": (filled("random_", 3, 11), lambda x: (math.floor(x) - 2) / 8, (3.5, 6.5, 9.5)),
    "bernoulli_": (filled("bernoulli_", 0.2), whole([0.8, 0.2]), (0.5,)),
    "poisson": (lambda: tb.poisson(tb.full((MANY,), 2.5)), whole(POISSON), (0.5, 2.5, 5.5)),
    "binomial": (
        lambda: tb.binomial(tb.full((MANY,), 9.0), tb.full((MANY,), 0.3)), whole(BINOMIAL), (0.5, 2.5, 4.5),
    ),
    "gumbel": (lambda: tb.random.gumbel((MANY,)), lambda x: math.exp(-math.exp(-x)), (-0.8, 0.3, 2.0)),
    "choice": (
        lambda: tb.random.choice(4, (MANY,), p=tb.tensor([0.1, 0.2, 0.3, 0.4])), whole([0.1, 0.2, 0.3, 0.4]),
        (0.5, 1.5, 2.5),
    ),
    "multinomial": (
        lambda: tb.multinomial(tb.tensor([1.0, 2.0, 3.0, 4.0]), MANY, replacement=True),
        whole([0.1, 0.2, 0.3, 0.4]), (0.5, 1.5, 2.5),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LAWS)
def test_shares_are_those_of_the_law(name: str) -> None:
    draw, below, points = LAWS[name]
    tb.manual_seed(5)
    found = np.asarray(draw().numpy(), np.float64)
    assert found.shape == (MANY,)
    for point in points:
        chance = below(point)
        assert abs((found <= point).mean() - chance) < 4 * math.sqrt(chance * (1 - chance) / MANY), point


def test_multinomial_puts_nothing_back_unless_told() -> None:
    drawn = tb.multinomial(tb.ones((200, 5)), 5).numpy()
    assert (np.sort(drawn, axis=1) == np.arange(5)).all()


def test_choices_of_many_axes_have_the_shape_asked_for() -> None:
    tb.manual_seed(1)
    drawn = tb.random.choice(3, (4, 5), p=tb.tensor([0.0, 0.5, 0.5])).numpy()
    assert drawn.shape == (4, 5) and set(np.unique(drawn)) == {1, 2}


def test_the_largest_number_of_a_range_is_drawn_but_not_its_end() -> None:
    tb.manual_seed(0)
    drawn = tb.random.uniform((MANY,), 1.0, float(np.nextafter(np.float32(1), np.float32(2)))).numpy()
    assert set(np.unique(drawn)) == {np.float32(1.0)}


@pytest.mark.parametrize(("low", "high"), [(3, 3), (0, 2**65)])
def test_ranges_that_no_number_fits_are_refused(low: int, high: int) -> None:
    with pytest.raises(ArgumentError, match="randint from"):
        tb.random.randint(low, high, (2,))


def test_draws_over_the_reals_have_a_dtype_of_reals() -> None:
    for draw in (tb.random.uniform, tb.random.normal, tb.random.gumbel, tb.random.exponential):
        with pytest.raises(DTypeError):
            draw((2,), dtype=tb.int32)


def test_keys_of_a_batch_split_as_each_alone() -> None:
    keys = tb.stack([tb.random.key(3), tb.random.key(4), tb.random.key(9)])
    together = tb.vmap(lambda k: tb.stack(list(tb.random.split(k, 3))))(keys)
    for row, key in zip(together.numpy(), keys, strict=True):
        assert (row == np.stack([k.numpy() for k in tb.random.split(key, 3)])).all()
