"""Operations that are flat almost everywhere have gradients of zeros, as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb

FLAT: dict[str, Callable[[Any], Any]] = {
    "floor": tb.floor,
    "ceil": tb.ceil,
    "trunc": tb.trunc,
    "fix": tb.fix,
    "round": tb.round,
    "round to a digit": lambda x: tb.round(x, decimals=1),
    "sign": tb.sign,
    "sgn": tb.sgn,
    "method": lambda x: x.floor(),
    "floor_divide": lambda x: x // 0.3,
    "divided by": lambda x: 3.0 // x,
    "rounding mode": lambda x: tb.div(x, 0.3, rounding_mode="floor"),
    "truncating mode": lambda x: tb.div(x, 0.3, rounding_mode="trunc"),
    "sign of copysign": lambda x: tb.copysign(tb.ones(3, 4), x),
    "behind another": lambda x: tb.floor(tb.exp(x) * 3),
    "before another": lambda x: tb.exp(tb.floor(x * 3)),
}


def _values() -> tb.Tensor:
    x = np.random.default_rng(3).uniform(-2, 2, (3, 4))
    return tb.tensor(x, requires_grad=True)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", FLAT)
def test_the_gradient_is_zero(name: str, compiled: bool) -> None:
    x = _values()

    def step(x: tb.Tensor) -> tb.Tensor:
        y = FLAT[name](x).sum()
        y.backward()
        return y

    (tb.jit(step) if compiled else step)(x)
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), np.zeros((3, 4)))


def test_zeros_add_nothing_to_what_is_there() -> None:
    x = _values()
    (x - x.floor() + x * x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), (1 + 2 * x.detach()).numpy())


def test_the_number_next_to_x_moves_with_x() -> None:
    x, y = _values(), _values()
    tb.nextafter(x, y + 1).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.ones((3, 4)))
    np.testing.assert_array_equal(y.grad.numpy(), np.zeros((3, 4)))


def test_what_is_detached_has_none() -> None:
    x = _values()
    (tb.floor(x.detach()).sum() + tb.ones((), requires_grad=True)).backward()
    assert x.grad is None


def test_gradients_of_gradients() -> None:
    x = _values()
    (slope,) = tb.autograd.grad((x.floor() * x).sum(), x, create_graph=True)
    np.testing.assert_array_equal(slope.detach().numpy(), np.floor(x.detach().numpy()))
    slope.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.zeros((3, 4)))


def test_hooks_see_zeros() -> None:
    x, seen = _values(), []
    y = x * 2
    y.register_hook(lambda g: seen.append(g.numpy().copy()))
    y.round().sum().backward()
    np.testing.assert_array_equal(seen[0], np.zeros((3, 4)))


def test_grad_of_a_function_is_zero() -> None:
    x = _values().detach()
    np.testing.assert_array_equal(tb.grad(lambda x: tb.floor(x).sum())(x).numpy(), np.zeros((3, 4)))
