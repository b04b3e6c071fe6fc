"""What every distribution says of itself, and transforms of several events beside Jacobians by NumPy."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from trilobite.distributions import transforms as T

import trilobite as tb

d = tb.distributions
RNG = np.random.default_rng(5)
EYE = np.eye(2) + 0.3


def t(values: Any) -> Any:
    return tb.tensor(np.asarray(values, np.float64))


# name -> one of them, and whether draws are a smooth function of parameters (as PyTorch has it)
EACH: dict[str, tuple[Callable[[], Any], bool]] = {
    "Normal": (lambda: d.Normal(t([0.5, -3.0]), t([2.0, 0.25])), True),
    "LogNormal": (lambda: d.LogNormal(t(0.5), t(0.4)), True),
    "HalfNormal": (lambda: d.HalfNormal(t(2.0)), True),
    "Uniform": (lambda: d.Uniform(t(-1.0), t(3.0)), True),
    "Exponential": (lambda: d.Exponential(t(2.0)), True),
    "Laplace": (lambda: d.Laplace(t(0.5), t(2.0)), True),
    "Cauchy": (lambda: d.Cauchy(t(0.5), t(2.0)), True),
    "Gumbel": (lambda: d.Gumbel(t(0.5), t(2.0)), True),
    "Gamma": (lambda: d.Gamma(t(2.5), t(0.5)), True),
    "Chi2": (lambda: d.Chi2(t(3.0)), True),
    "Beta": (lambda: d.Beta(t(2.0), t(5.0)), True),
    "StudentT": (lambda: d.StudentT(t(5.0), t(1.0), t(2.0)), True),
    "HalfCauchy": (lambda: d.HalfCauchy(t(2.0)), True),
    "Weibull": (lambda: d.Weibull(t(2.0), t(1.5)), True),
    "Pareto": (lambda: d.Pareto(t(2.0), t(4.0)), True),
    "InverseGamma": (lambda: d.InverseGamma(t(4.0), t(2.0)), True),
    "Kumaraswamy": (lambda: d.Kumaraswamy(t(2.0), t(3.0)), True),
    "Dirichlet": (lambda: d.Dirichlet(t([0.5, 2.0, 3.0])), True),
    "MultivariateNormal": (lambda: d.MultivariateNormal(t([1.0, -2.0]), t(EYE)), True),
    "LogisticNormal": (lambda: d.LogisticNormal(t([2.0, -1.0]), t([0.2, 0.4])), True),
    "Bernoulli": (lambda: d.Bernoulli(t(0.3)), False),
    "Geometric": (lambda: d.Geometric(t(0.3)), False),
    "Binomial": (lambda: d.Binomial(5, t(0.3)), False),
    "Poisson": (lambda: d.Poisson(t(3.0)), False),
    "Categorical": (lambda: d.Categorical(t([0.2, 0.5, 0.3])), False),
    "OneHotCategorical": (lambda: d.OneHotCategorical(t([0.2, 0.5, 0.3])), False),
    "Multinomial": (lambda: d.Multinomial(4, t([0.2, 0.5, 0.3])), False),
    "NegativeBinomial": (lambda: d.NegativeBinomial(5, t(0.3)), False),
    "RelaxedBernoulli": (lambda: d.RelaxedBernoulli(t(0.7), t(0.3)), True),
    "LogitRelaxedBernoulli": (lambda: d.LogitRelaxedBernoulli(t(0.7), t(0.3)), True),
    "RelaxedOneHotCategorical": (lambda: d.RelaxedOneHotCategorical(t(0.7), t([0.2, 0.5, 0.3])), True),
    "Independent of normals": (lambda: d.Independent(d.Normal(t([0.0, 1.0]), t(1.0)), 1), True),
    "Independent of trials": (lambda: d.Independent(d.Bernoulli(t([0.2, 0.7])), 1), False),
    "Transformed normal": (
        lambda: d.TransformedDistribution(d.Normal(t(0.0), t(1.0)), T.ExpTransform()), True
    ),
    "Transformed count": (lambda: d.TransformedDistribution(d.Poisson(t(3.0)), T.ExpTransform()), False),
    "Mixture": (
        lambda: d.MixtureSameFamily(d.Categorical(t([0.4, 0.6])), d.Normal(t([0.0, 1.0]), t(1.0))), False
    ),
}  # fmt: skip
ELSEWHERE = {"Distribution", "ExponentialFamily", "Independent", "TransformedDistribution", "Wishart",
             "LKJCholesky", "ExpRelaxedCategorical", "OneHotCategoricalStraightThrough",
             "MixtureSameFamily"}  # fmt: skip


def test_every_distribution_stands_in_the_table() -> None:
    public = {
        n for n in dir(d) if inspect.isclass(kind := getattr(d, n)) and issubclass(kind, d.Distribution)
    }
    assert public <= {*EACH, *ELSEWHERE}, public - {*EACH, *ELSEWHERE}


@pytest.mark.parametrize("name", EACH)
def test_smooth_draws_are_given_where_there_are_any(name: str) -> None:
    make, smooth = EACH[name]
    ours = make()
    shape = (3, *ours.batch_shape, *ours.event_shape)
    assert ours.has_rsample is smooth and ours.sample((3,)).shape == shape
    if smooth:
        assert ours.rsample((3,)).shape == shape
    else:
        with pytest.raises(tb.errors.GradientError, match="has_rsample"):
            ours.rsample((3,))


@pytest.mark.parametrize("kind", [d.Normal, d.Laplace, d.Gumbel, d.Cauchy, d.LogisticNormal, d.LogNormal])
def test_draws_move_by_the_slopes_of_their_parameters(kind: Any) -> None:
    """The same numbers drawn at parameters a little apart: differences are the gradients."""
    loc, scale = np.asarray([0.3, -1.0]), np.asarray([0.4, 2.0])

    def drawn(a: Any, b: Any) -> Any:
        tb.manual_seed(7)
        return (kind(a, b).rsample((4,)) ** 2).sum()

    a, b = tb.tensor(loc, requires_grad=True), tb.tensor(scale, requires_grad=True)
    drawn(a, b).backward()
    step = 1e-6
    for i in range(2):
        nudge = np.eye(2)[i] * step
        up, down = drawn(t(loc + nudge), t(scale)), drawn(t(loc - nudge), t(scale))
        np.testing.assert_allclose(a.grad.numpy()[i], (up - down).item() / 2 / step, rtol=1e-4, atol=1e-6)
        up, down = drawn(t(loc), t(scale + nudge)), drawn(t(loc), t(scale - nudge))
        np.testing.assert_allclose(b.grad.numpy()[i], (up - down).item() / 2 / step, rtol=1e-4, atol=1e-6)


def test_logistic_normal_beside_its_formula() -> None:
    """Stick breaking by hand: y = sigmoid(z - log(rest of the numbers)), of what is left each time."""
    loc, scale = np.asarray([0.7, -1.2, 0.1]), np.asarray([0.3, 1.5, 0.8])
    z = loc + scale * RNG.standard_normal(3)
    left, probabilities, stretch = 1.0, [], 0.0
    for k, each in enumerate(z):
        share = 1 / (1 + math.exp(-(each - math.log(3 - k))))
        stretch += math.log(share * (1 - share) * left)
        probabilities.append(left * share)
        left *= 1 - share
    normal = -(((z - loc) / scale) ** 2) / 2 - np.log(scale) - math.log(2 * math.pi) / 2
    ours = d.LogisticNormal(t(loc), t(scale))
    found = ours.log_prob(t([*probabilities, left])).item()
    assert found == pytest.approx(normal.sum() - stretch, rel=1e-9)


# -- transforms ----------------------------------------------------------------------------------------------

MIXED: dict[str, Callable[[], Any]] = {
    "a vector, then numbers": lambda: T.ComposeTransform(
        [T.AffineTransform(0.5, t([2.0, -3.0, 0.5]), event_dim=1), T.ExpTransform()]
    ),
    "numbers, then a vector": lambda: T.ComposeTransform(
        [T.TanhTransform(), T.AffineTransform(t([1.0, 2.0, 3.0]), 2.0, event_dim=1)]
    ),
    "numbers, then a stick": lambda: T.ComposeTransform(
        [T.AffineTransform(0.5, 0.7), T.StickBreakingTransform()]
    ),
    "none": lambda: T.ComposeTransform([]),
}
EVENTS = {"a vector, then numbers": 1, "numbers, then a vector": 1, "numbers, then a stick": 1, "none": 0}


@pytest.mark.parametrize("name", MIXED)
def test_events_of_composed_transforms_are_those_of_the_largest(name: str) -> None:
    made, x = MIXED[name](), t(RNG.standard_normal((4, 3)))
    assert made.event_dim == EVENTS[name] and made.inv.event_dim == EVENTS[name]
    y = made(x)
    np.testing.assert_allclose(made.inv(y).numpy(), x.numpy(), rtol=1e-8, atol=1e-9)
    found = made.log_abs_det_jacobian(x, y)
    if name == "none":
        assert found.shape == (4, 3) and not found.numpy().any()
        return
    assert found.shape == (4,)
    step = 1e-6
    for row in range(4):
        slopes = [
            (made(x[row] + t(e) * step) - made(x[row] - t(e) * step)).numpy()[:3] / (2 * step)
            for e in np.eye(3)
        ]
        want = np.linalg.slogdet(np.stack(slopes, 1))[1]
        np.testing.assert_allclose(found[row].item(), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("scale", [2.0, -0.5, [0.5, -2.0]])
def test_signs_of_transforms(scale: Any) -> None:
    given = t(scale) if isinstance(scale, list) else scale
    made = T.ComposeTransform([T.AffineTransform(1.0, given), T.AffineTransform(0.0, -3.0), T.ExpTransform()])
    np.testing.assert_array_equal(np.asarray(made.sign), -np.sign(scale))


def test_a_kept_pair_is_given_back_and_only_for_itself() -> None:
    made, plain = T.ExpTransform(cache_size=1), T.ExpTransform()
    x = t([0.5, 1.0])
    y = made(x)
    assert made(x) is y and made.inv(y) is x and plain(x) is not plain(x)
    other = t([2.0, 3.0])
    np.testing.assert_allclose(made(other).numpy(), np.exp([2.0, 3.0]))
    np.testing.assert_allclose(made.inv(y).numpy(), [0.5, 1.0])
    with pytest.raises(tb.errors.ArgumentError, match="cache_size=2"):
        T.ExpTransform(cache_size=2)
