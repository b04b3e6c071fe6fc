"""Distributions beside SciPy's and beside plain sums: densities, moments, entropies, divergences.

Parameters come in batches of odd values; draws are compared with the moments that were compared before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special, stats

import trilobite as tb
from trilobite import distributions as d
from trilobite.base.errors import ArgumentError

A, B = [0.7, 2.5, 3.3], [1.9, 0.6, 1.25]  # of each family three members
P = [0.15, 0.5, 0.8]
SQUARE = np.array([[2.0, 0.3, -0.4], [0.3, 1.5, 0.2], [-0.4, 0.2, 0.9]])


def t(values: Any) -> tb.Tensor:
    return tb.tensor(values, dtype=tb.float64)


Pair = tuple[Callable[[], Any], Callable[[], Any]]
CONTINUOUS: dict[str, Pair] = {
    "Normal": (lambda: d.Normal(t(A), t(B)), lambda: stats.norm(A, B)),
    "LogNormal": (lambda: d.LogNormal(t(A), t(P)), lambda: stats.lognorm(P, scale=np.exp(A))),
    "HalfNormal": (lambda: d.HalfNormal(t(B)), lambda: stats.halfnorm(scale=B)),
    "Uniform": (lambda: d.Uniform(t(A), t(A) + t(B)), lambda: stats.uniform(A, B)),
    "Exponential": (lambda: d.Exponential(t(A)), lambda: stats.expon(scale=1 / np.array(A))),
    "Laplace": (lambda: d.Laplace(t(A), t(B)), lambda: stats.laplace(A, B)),
    "Gumbel": (lambda: d.Gumbel(t(A), t(B)), lambda: stats.gumbel_r(A, B)),
    "Gamma": (lambda: d.Gamma(t(A), t(B)), lambda: stats.gamma(A, scale=1 / np.array(B))),
    "Chi2": (lambda: d.Chi2(t(A)), lambda: stats.chi2(A)),
    "Beta": (lambda: d.Beta(t(A), t(B)), lambda: stats.beta(A, B)),
    "StudentT": (lambda: d.StudentT(t([2.5, 3.0, 7.0]), t(A), t(B)), lambda: stats.t([2.5, 3.0, 7.0], A, B)),
    "Cauchy": (lambda: d.Cauchy(t(A), t(B)), lambda: stats.cauchy(A, B)),
}
DISCRETE: dict[str, Pair] = {
    "Bernoulli": (lambda: d.Bernoulli(t(P)), lambda: stats.bernoulli(P)),
    "Bernoulli of logits": (lambda: d.Bernoulli(logits=t(special.logit(P))), lambda: stats.bernoulli(P)),
    "Geometric": (lambda: d.Geometric(t(P)), lambda: stats.geom(P, loc=-1)),
    "Binomial": (lambda: d.Binomial(t([1, 4, 9]), t(P)), lambda: stats.binom([1, 4, 9], P)),
    "Poisson": (lambda: d.Poisson(t(A)), lambda: stats.poisson(A)),
}


def close(found: Any, wanted: Any, within: float = 1e-9) -> None:
    np.testing.assert_allclose(found.numpy(), wanted, rtol=within, atol=within)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_densities_and_their_sums(name: str) -> None:
    ours, theirs = (make() for make in CONTINUOUS[name])
    levels = np.linspace(0.03, 0.97, 13)[:, None]
    points = theirs.ppf(levels)
    close(ours.log_prob(t(points)), theirs.logpdf(points))
    for method, value, wanted in (
        ("cdf", points, np.broadcast_to(levels, points.shape)),
        ("icdf", levels, points),
    ):
        if hasattr(ours, method):
            close(getattr(ours, method)(t(value)), wanted, 1e-7)


def test_what_has_sums_and_quantiles() -> None:
    """So that the test above cannot pass by what is missing."""
    both = {name for name, (make, _) in CONTINUOUS.items() if {"cdf", "icdf"} <= set(dir(make()))}
    assert both >= {"Normal", "LogNormal", "Uniform", "Exponential"}


@pytest.mark.parametrize("name", sorted({*CONTINUOUS, *DISCRETE} - {"Cauchy"}))
def test_moments_and_draws(name: str) -> None:
    ours, theirs = (make() for make in (CONTINUOUS | DISCRETE)[name])
    close(ours.mean, theirs.mean())
    close(ours.variance, theirs.var())
    close(ours.stddev, theirs.std())
    tb.manual_seed(len(name))
    drawn = ours.sample((20_000,)).numpy()
    assert drawn.shape == (20_000, 3)
    spread = theirs.std() / np.sqrt(20_000)
    assert (np.abs(drawn.mean(axis=0) - theirs.mean()) < 5 * spread).all()
    if name != "StudentT":  # its fourth moment is not finite
        np.testing.assert_allclose(drawn.var(axis=0), theirs.var(), rtol=0.25)


@pytest.mark.parametrize("name", sorted({*CONTINUOUS, *DISCRETE}))
def test_entropies(name: str) -> None:
    ours, theirs = (make() for make in (CONTINUOUS | DISCRETE)[name])
    try:
        found = ours.entropy()
    except NotImplementedError:
        assert name in ("Binomial", "Poisson", "StudentT")
        return
    close(found, theirs.entropy(), 1e-6)


@pytest.mark.parametrize("name", DISCRETE)
def test_chances(name: str) -> None:
    ours, theirs = (make() for make in DISCRETE[name])
    points = np.arange(2.0 if "Bernoulli" in name else 10.0)[:, None] * np.ones(3)
    inside = theirs.pmf(points) > 0
    found = ours.log_prob(t(points)).exp().numpy()
    np.testing.assert_allclose(found[inside], theirs.pmf(points)[inside], rtol=1e-9)


def test_several_outcomes() -> None:
    chances = np.array([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]])
    one = d.Categorical(t(3 * chances))
    close(one.probs, chances)
    close(d.Categorical(logits=t(np.log(chances) + 7)).probs, chances)
    close(one.log_prob(tb.tensor([[0, 1], [2, 2]])), np.log([[0.2, 0.1], [0.3, 0.3]]))
    close(one.entropy(), stats.entropy(chances, axis=1))
    close(one.perplexity(), np.exp(stats.entropy(chances, axis=1)))
    assert one.mode.numpy().tolist() == [1, 0] and one.enumerate_support().shape == (3, 2)
    hot = d.OneHotCategorical(t(chances))
    close(hot.mean, chances)
    close(hot.variance, chances * (1 - chances))
    close(hot.log_prob(t([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])), np.log([0.5, 0.3]))
    several = d.Multinomial(7, t(chances))
    close(several.mean, 7 * chances)
    close(several.variance, 7 * chances * (1 - chances))
    counts = np.array([[2.0, 4.0, 1.0], [7.0, 0.0, 0.0]])
    close(
        several.log_prob(t(counts)),
        [stats.multinomial(7, p).logpmf(c) for p, c in zip(chances, counts, strict=True)],
    )
    tb.manual_seed(5)
    for made, mean in ((hot, chances), (several, 7 * chances)):
        drawn = made.sample((4000,)).numpy()
        np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=0.15)
    assert (several.sample((50,)).numpy().sum(axis=-1) == 7).all()


def test_vectors() -> None:
    loc, alpha = np.array([0.5, -1.0, 2.0]), np.array([0.8, 2.5, 1.7])
    theirs, simplex = stats.multivariate_normal(loc, SQUARE), stats.dirichlet(alpha)
    points = theirs.rvs(5, random_state=1)
    factor = np.linalg.cholesky(SQUARE)
    for given in (
        {"covariance_matrix": SQUARE},
        {"precision_matrix": np.linalg.inv(SQUARE)},
        {"scale_tril": factor},
    ):
        ours = d.MultivariateNormal(t(loc), **{name: t(m) for name, m in given.items()})
        close(ours.log_prob(t(points)), theirs.logpdf(points))
        close(ours.entropy(), theirs.entropy())
        close(ours.covariance_matrix, SQUARE)
        close(ours.precision_matrix, np.linalg.inv(SQUARE))
        close(ours.variance, np.diag(SQUARE))
        close(ours.mean, loc)
    tb.manual_seed(3)
    np.testing.assert_allclose(np.cov(ours.sample((8000,)).numpy().T), SQUARE, atol=0.15)
    batch = d.MultivariateNormal(t([loc, 2 * loc]), scale_tril=t(factor))
    assert batch.batch_shape == (2,) and batch.event_shape == (3,)
    ours = d.Dirichlet(t(alpha))
    places = simplex.rvs(4, random_state=2)
    close(ours.log_prob(t(places)), simplex.logpdf(places.T))
    close(ours.entropy(), simplex.entropy())
    close(ours.mean, simplex.mean())
    close(ours.variance, simplex.var())
    tb.manual_seed(4)
    np.testing.assert_allclose(ours.sample((4000,)).numpy().mean(axis=0), simplex.mean(), atol=0.03)
    together = d.Independent(d.Normal(t([A, B]), t(1.5)), 1)
    assert (together.batch_shape, together.event_shape) == ((2,), (3,))
    close(together.log_prob(t([P, A])), stats.norm([A, B], 1.5).logpdf([P, A]).sum(axis=1))
    close(together.entropy(), stats.norm([A, B], 1.5).entropy().sum(axis=1))


SIDES = {
    "Normal": (d.Normal, (0.3, 1.2), (-0.5, 0.8)), "Exponential": (d.Exponential, (0.7,), (1.9,)),
    "Gamma": (d.Gamma, (2.5, 1.3), (1.7, 0.6)), "Beta": (d.Beta, (2.5, 1.3), (1.7, 3.1)),
    "Laplace": (d.Laplace, (0.3, 1.2), (-0.5, 0.8)), "Uniform": (d.Uniform, (0.2, 0.9), (-0.5, 1.8)),
    "Bernoulli": (d.Bernoulli, (0.3,), (0.8,)), "Poisson": (d.Poisson, (2.5,), (1.1,)),
    "Geometric": (d.Geometric, (0.35,), (0.6,)),
}  # fmt: skip


@pytest.mark.parametrize("name", SIDES)
def test_divergences_are_the_mean_of_the_logarithms_difference(name: str) -> None:
    kind, here, there = SIDES[name]
    p, q = kind(*map(t, here)), kind(*map(t, there))

    def term(x: float) -> float:
        at = p.log_prob(t(x))
        return float((at.exp() * (at - q.log_prob(t(x)))).item())

    if name in ("Bernoulli", "Poisson", "Geometric"):
        wanted = sum(term(float(x)) for x in range(2 if name == "Bernoulli" else 60))
    else:
        low, high = {"Normal": (-9, 9), "Laplace": (-25, 25), "Beta": (0, 1), "Uniform": (0.2, 0.9)}.get(
            name, (0, 60)
        )
        wanted = integrate.quad(term, low, high, points=[0.3] if name == "Laplace" else None, limit=60)[0]
    np.testing.assert_allclose(d.kl_divergence(p, q).item(), wanted, rtol=1e-5)
    assert d.kl_divergence(p, p).abs().item() < 1e-12


def test_divergences_of_vectors() -> None:
    chances = (t([0.2, 0.5, 0.3]), t([0.6, 0.1, 0.3]))
    close(d.kl_divergence(*map(d.Categorical, chances)), stats.entropy(*(c.numpy() for c in chances)))
    assert d.kl_divergence(d.Categorical(chances[0]), d.Categorical(t([0.5, 0.0, 0.5]))).item() == np.inf
    assert d.kl_divergence(d.Uniform(t(0.0), t(1.0)), d.Uniform(t(0.5), t(2.0))).item() == np.inf
    tb.manual_seed(1)
    normals = (
        d.MultivariateNormal(t([0.5, -1.0, 2.0]), t(SQUARE)),
        d.MultivariateNormal(t(A), t(np.eye(3) + SQUARE)),
    )
    simplices = d.Dirichlet(t([2.8, 2.5, 1.7])), d.Dirichlet(t(A))
    rows = tuple(d.Independent(d.Normal(t(loc), t(B)), 1) for loc in (A, P))
    for p, q in (normals, simplices, rows):
        x = p.sample((20_000,))
        gaps = (p.log_prob(x) - q.log_prob(x)).numpy()
        assert abs(gaps.mean() - d.kl_divergence(p, q).item()) < 5 * gaps.std() / np.sqrt(20_000)


@pytest.mark.parametrize(
    ("kind", "edge", "inside"),
    [
        (d.Poisson, (0.0,), True), (d.Poisson, (-1e-9,), False), (d.Bernoulli, (0.0,), True),
        (d.Bernoulli, (1.0,), True), (d.Bernoulli, (1.0 + 1e-9,), False), (d.Binomial, (3, -1e-9), False),
        (d.Normal, (0.0, 0.0), False), (d.Normal, (0.0, 1e-9), True), (d.Uniform, (1.0, 1.0), False),
        (d.Exponential, (0.0,), False), (d.Gamma, (1.0, 0.0), False), (d.Gamma, (0.0, 1.0), False),
        (d.Beta, (0.0, 1.0), False), (d.Beta, (1.0, 0.0), False), (d.StudentT, (0.0,), False),
        (d.Laplace, (0.0, 0.0), False), (d.HalfNormal, (0.0,), False), (d.Chi2, (0.0,), False),
        (d.Gumbel, (0.0, 0.0), False), (d.Cauchy, (0.0, 0.0), False),
    ],
)  # fmt: skip
def test_the_edges_of_parameters(kind: Any, edge: tuple[float, ...], inside: bool) -> None:
    if inside:
        assert kind(*map(t, edge)).batch_shape == ()
        return
    with pytest.raises(ArgumentError, match=rf"{kind.__name__}: "):
        kind(*map(t, edge))


def test_chances_of_nothing_and_of_all() -> None:
    assert d.Poisson(t(0.0)).log_prob(t([0.0, 1.0])).numpy().tolist() == [0.0, -np.inf]
    close(d.Bernoulli(t([0.0, 1.0])).log_prob(t([0.0, 1.0])), [0.0, 0.0], 1e-6)
    close(d.Binomial(3, t([0.0, 1.0])).log_prob(t([0.0, 3.0])), [0.0, 0.0], 1e-6)
