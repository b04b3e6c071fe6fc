"""Distributions of transformed draws: densities by the change of variables, as PyTorch has them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from trilobite.distributions import transforms as T
from trilobite.distributions.transformed_distribution import TransformedDistribution

import trilobite as tb
from trilobite.base.errors import ArgumentError

D = tb.distributions
EACH: dict[str, Callable[[], Any]] = {
    "affine": lambda: T.AffineTransform(0.5, -2.0),
    "affine of tensors": lambda: T.AffineTransform(tb.tensor([0.1, -3.0, 2.0]), tb.tensor([2.0, 0.3, -1.5])),
    "exp": T.ExpTransform,
    "sigmoid": T.SigmoidTransform,
    "tanh": lambda: T.TanhTransform(cache_size=1),
    "softplus": T.SoftplusTransform,
    "power": lambda: T.ComposeTransform([T.ExpTransform(), T.PowerTransform(1.7)]),
    "inverse": lambda: T.ComposeTransform([T.SigmoidTransform(), T.SigmoidTransform().inv]),
    "composed": lambda: T.ComposeTransform(
        [T.AffineTransform(1.0, 0.5), T.TanhTransform(), T.ExpTransform()]
    ),
}


def _points() -> tb.Tensor:
    return tb.tensor(np.random.default_rng(1).normal(0, 1.2, (4, 3)))


@pytest.mark.parametrize("name", EACH)
def test_inverse_and_stretch(name: str) -> None:
    transform, x = EACH[name](), _points()
    y = transform(x)
    np.testing.assert_allclose(transform.inv(y).numpy(), x.numpy(), rtol=1e-9, atol=1e-12)
    assert transform.inv.inv is transform
    step = 1e-6
    slope = (transform(x + step) - transform(x - step)).numpy() / (2 * step)
    found = transform.log_abs_det_jacobian(x, y)
    np.testing.assert_allclose(found.numpy(), np.log(np.abs(slope)), rtol=1e-6, atol=1e-6)
    back = transform.inv.log_abs_det_jacobian(y, x)
    np.testing.assert_allclose(back.numpy(), -found.numpy(), rtol=1e-9, atol=1e-9)


def test_the_exponential_of_a_normal_is_log_normal() -> None:
    made = TransformedDistribution(D.Normal(0.3, 0.8), T.ExpTransform())
    known, at = D.LogNormal(0.3, 0.8), tb.tensor([0.1, 1.0, 4.0])
    np.testing.assert_allclose(made.log_prob(at).numpy(), known.log_prob(at).numpy(), rtol=1e-6)
    np.testing.assert_allclose(made.cdf(at).numpy(), known.cdf(at).numpy(), rtol=1e-6)
    np.testing.assert_allclose(
        made.icdf(tb.tensor(0.3)).numpy(), known.icdf(tb.tensor(0.3)).numpy(), rtol=1e-6
    )


def test_a_falling_transform_exchanges_the_sides() -> None:
    made = TransformedDistribution(D.Normal(0.0, 1.0), T.AffineTransform(1.0, -2.0))
    known, at = D.Normal(1.0, 2.0), tb.tensor([-3.0, 0.2, 5.0])
    np.testing.assert_allclose(made.cdf(at).numpy(), known.cdf(at).numpy(), rtol=1e-5)
    np.testing.assert_allclose(made.icdf(made.cdf(at)).numpy(), at.numpy(), rtol=1e-4)


@pytest.mark.parametrize("name", ["affine", "exp", "sigmoid", "tanh", "softplus", "composed"])
def test_densities_integrate_to_one(name: str) -> None:
    made = TransformedDistribution(D.Normal(tb.tensor(0.2, dtype=tb.float64), 0.7), EACH[name]())
    x = tb.linspace(-6, 6, 20001, dtype=tb.float64)
    y = EACH[name]()(x).numpy()
    density = np.exp(made.log_prob(tb.tensor(y)).numpy())
    assert abs(np.trapezoid(density, y)) == pytest.approx(1, abs=1e-5)


def test_events_have_the_shape_of_base_and_transforms() -> None:
    base = D.Normal(tb.zeros(5, 3), tb.ones(3))
    made = TransformedDistribution(base, [T.AffineTransform(0.0, tb.tensor([1.0, 2.0, 4.0]), event_dim=1)])
    assert made.batch_shape == (5,) and made.event_shape == (3,)
    at = made.sample((7,))
    assert at.shape == (7, 5, 3) and not at.requires_grad
    want = base.log_prob(at / tb.tensor([1.0, 2.0, 4.0])).sum(-1) - math.log(8)
    np.testing.assert_allclose(made.log_prob(at).numpy(), want.numpy(), rtol=1e-5)
    joint = TransformedDistribution(D.Independent(base, 1), T.TanhTransform())
    assert joint.event_shape == (3,) and joint.log_prob(joint.sample()).shape == (5,)
    with pytest.raises(ArgumentError, match="axes"):
        TransformedDistribution(D.Normal(0.0, 1.0), T.AffineTransform(0.0, 1.0, event_dim=1))


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_through_a_squashed_policy(compiled: bool) -> None:
    """What reinforcement learning does: a draw, its density far out, gradients of mean and width."""
    mean, width = (tb.tensor(v, requires_grad=True) for v in ([0.3, 6.0], [0.5, 0.9]))

    def loss() -> tb.Tensor:
        policy = TransformedDistribution(D.Normal(mean, width), [T.TanhTransform(cache_size=1)])
        action = policy.rsample()
        total = (policy.log_prob(action) + action).sum()
        total.backward()
        return total

    found = (tb.jit(loss) if compiled else loss)()
    assert np.isfinite(found.item())
    assert all(np.isfinite(v.grad.numpy()).all() and np.abs(v.grad.numpy()).min() > 0 for v in (mean, width))
