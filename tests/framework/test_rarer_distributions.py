"""Distributions that are made of others, beside SciPy or their definitions, with parameters at the edges."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special, stats

import trilobite as tb
from trilobite import distributions as d
from trilobite.framework.distributions import conversions

A, B = [0.7, 2.0, 3.3], [1.9, 0.6, 1.25]
TAILS = [0.5, 1.0, 1.5, 2.0, 2.5, 7.0]  # moments exist above 1 and above 2, not at them


def t(values: Any) -> tb.Tensor:
    return tb.tensor(values, dtype=tb.float64)


def close(found: Any, wanted: Any, within: float = 1e-9) -> None:
    np.testing.assert_allclose(found.numpy(), wanted, rtol=within, atol=within)


Pair = tuple[Callable[[], Any], Callable[[], Any]]
WIDE = np.linspace(0.3, 1.9, len(TAILS))
PAIRS: dict[str, Pair] = {
    "HalfCauchy": (lambda: d.HalfCauchy(t(B)), lambda: stats.halfcauchy(scale=B)),
    "Weibull": (lambda: d.Weibull(t(B), t(A)), lambda: stats.weibull_min(A, scale=B)),
    "Pareto": (lambda: d.Pareto(t(WIDE), t(TAILS)), lambda: stats.pareto(TAILS, scale=WIDE)),
    "InverseGamma": (lambda: d.InverseGamma(t(TAILS), t(WIDE)), lambda: stats.invgamma(TAILS, scale=WIDE)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_densities_and_sums(name: str) -> None:
    ours, theirs = (make() for make in PAIRS[name])
    points = theirs.ppf(np.linspace(0.03, 0.97, 9)[:, None])
    close(ours.log_prob(t(points)), theirs.logpdf(points), 1e-8)
    if name != "InverseGamma":  # the gamma distribution's sums are not there
        close(ours.cdf(t(points)), theirs.cdf(points), 1e-8)


@pytest.mark.parametrize("name", PAIRS)
def test_entropies(name: str) -> None:
    ours, theirs = (make() for make in PAIRS[name])
    close(ours.entropy(), theirs.entropy(), 1e-7)


@pytest.mark.parametrize("name", ["Weibull", "Pareto", "InverseGamma"])
def test_moments_where_they_exist(name: str) -> None:
    """A tail of exactly 1 has no mean, one of exactly 2 no variance."""
    ours, theirs = (make() for make in PAIRS[name])
    mean, variance = theirs.mean(), theirs.var()
    if name != "Weibull":
        tails = np.asarray(TAILS)
        mean, variance = np.where(tails > 1, mean, np.inf), np.where(tails > 2, variance, np.inf)
    close(ours.mean, mean)
    close(ours.variance, variance)


def test_density_of_half_a_cauchy_is_zero_below_zero_alone() -> None:
    ours = d.HalfCauchy(t(2.0))
    found = ours.log_prob(t([-1e-9, 0.0, 1e-9])).numpy()
    assert found[0] == -math.inf
    np.testing.assert_allclose(found[1:], math.log(2 / (math.pi * 2)), rtol=1e-9)
    drawn = ours.rsample((4000,)).numpy()
    assert drawn.min() >= 0 and abs(np.median(drawn) - 2.0) < 0.25


def test_kumaraswamy_beside_its_density() -> None:
    a, b = np.asarray(A), np.asarray(B)
    ours = d.Kumaraswamy(t(A), t(B))
    points = np.asarray([[0.1], [0.45], [0.9]])
    close(ours.log_prob(t(points)), np.log(a * b * points ** (a - 1) * (1 - points**a) ** (b - 1)), 1e-8)
    moments = [
        [integrate.quad(lambda x, p=p, q=q, n=n: x**n * p * q * x ** (p - 1) * (1 - x**p) ** (q - 1), 0, 1)[0]
         for p, q in zip(A, B, strict=True)]
        for n in (1, 2)
    ]  # fmt: skip
    close(ours.mean, moments[0], 1e-6)
    close(ours.variance, np.asarray(moments[1]) - np.asarray(moments[0]) ** 2, 1e-6)


def test_waiting_for_failures() -> None:
    """The total of successes before n failures: SciPy counts the other way round."""
    n, p = np.asarray([1.0, 3.0, 4.5]), np.asarray([0.2, 0.5, 0.85])
    ours, theirs = d.NegativeBinomial(t(n), t(p)), stats.nbinom(n, 1 - p)
    counts = np.arange(12.0)[:, None]
    close(ours.log_prob(t(counts)), theirs.logpmf(counts), 1e-8)
    close(ours.mean, theirs.mean())
    close(ours.variance, theirs.var())
    close(d.NegativeBinomial(t(0.0), t(0.3)).log_prob(t(0.0)), 0.0)
    drawn = ours.sample((6000,)).numpy()
    error = np.sqrt(theirs.var() / 6000)
    assert (np.abs(drawn.mean(axis=0) - theirs.mean()) < 5 * error).all()


def test_mixtures_of_numbers_and_of_vectors() -> None:
    weights, loc, scale = (
        np.asarray([0.2, 0.5, 0.3]),
        np.asarray([-2.0, 0.5, 3.0]),
        np.asarray([0.5, 1.0, 2.0]),
    )
    ours = d.MixtureSameFamily(d.Categorical(t(weights)), d.Normal(t(loc), t(scale)))
    x = np.linspace(-4, 6, 11)
    close(ours.log_prob(t(x)), np.log((weights * stats.norm(loc, scale).pdf(x[:, None])).sum(-1)))
    close(ours.cdf(t(x)), (weights * stats.norm(loc, scale).cdf(x[:, None])).sum(-1), 1e-7)
    mean = (weights * loc).sum()
    variance = (weights * (scale**2 + loc**2)).sum() - mean**2
    close(ours.mean, mean)
    close(ours.variance, variance)
    drawn = ours.sample((5000,)).numpy()
    assert drawn.shape == (5000,) and abs(drawn.mean() - mean) < 0.2
    assert abs(drawn.var() - variance) < 0.6
    two = np.stack([loc, loc[::-1] * 2], -1)
    vectors = d.MixtureSameFamily(
        d.Categorical(t(weights)), d.Independent(d.Normal(t(two), t(np.ones((3, 2)))), 1)
    )
    close(vectors.mean, (weights[:, None] * two).sum(0))
    wanted = (weights[:, None] * (1 + two**2)).sum(0) - (weights[:, None] * two).sum(0) ** 2
    close(vectors.variance, wanted)
    assert vectors.sample((7,)).shape == (7, 2) and vectors.batch_shape == () and vectors.event_shape == (2,)
    at = np.asarray([0.3, -0.2])
    each = stats.norm(two, 1.0).logpdf(at).sum(-1)
    close(vectors.log_prob(t(at)), special.logsumexp(each + np.log(weights)))


@pytest.mark.parametrize("heat", [0.4, 1.0, 2.5])
def test_relaxed_trials_and_choices(heat: float) -> None:
    p = 0.3
    ours = d.RelaxedBernoulli(t(heat), t(p))
    logistic = stats.logistic(loc=math.log(p / (1 - p)) / heat, scale=1 / heat)
    x = np.linspace(-3, 3, 7)
    close(d.LogitRelaxedBernoulli(t(heat), t(p)).log_prob(t(x)), logistic.logpdf(x))
    y = 1 / (1 + np.exp(-x))
    close(ours.log_prob(t(y)), logistic.logpdf(x) - np.log(y * (1 - y)), 1e-8)
    drawn = ours.sample((4000,)).numpy()
    assert abs((drawn > 0.5).mean() - p) < 0.04
    probs, k = np.asarray([0.2, 0.5, 0.3]), 3
    choice = d.RelaxedOneHotCategorical(t(heat), t(probs))
    y = np.asarray([0.25, 0.35, 0.4])
    top = math.lgamma(k) + (k - 1) * math.log(heat) + np.sum(np.log(probs) - (heat + 1) * np.log(y))
    close(choice.log_prob(t(y)), top - k * np.log((probs * y**-heat).sum()), 1e-8)
    shares = choice.sample((3000,)).numpy()
    np.testing.assert_allclose(shares.sum(-1), 1.0, rtol=1e-9)
    assert np.abs(np.eye(3)[shares.argmax(-1)].mean(0) - probs).max() < 0.05
    close(choice.probs, probs)
    assert float(choice.temperature) == heat


def test_wishart_beside_scipy() -> None:
    cover = np.asarray([[2.0, 0.3, -0.4], [0.3, 1.5, 0.2], [-0.4, 0.2, 0.9]])
    ours, theirs = d.Wishart(t(4.5), covariance_matrix=t(cover)), stats.wishart(4.5, cover)
    close(ours.mean, theirs.mean())
    close(ours.variance, theirs.var())
    close(ours.covariance_matrix, cover)
    close(ours.precision_matrix, np.linalg.inv(cover))
    points = theirs.rvs(4, random_state=1)
    close(ours.log_prob(t(points)), [theirs.logpdf(p) for p in points], 1e-8)
    drawn = ours.sample((4000,)).numpy()
    assert (np.abs(drawn.mean(0) - theirs.mean()) < 5 * np.sqrt(theirs.var() / 4000)).all()
    assert d.Wishart(t(2.1), covariance_matrix=t(cover)).df.item() == 2.1
    with pytest.raises(Exception, match="Wishart"):
        d.Wishart(t(2.0), covariance_matrix=t(cover))


@pytest.mark.parametrize("power", [0.5, 1.0, 3.0])
def test_factors_of_correlations(power: float) -> None:
    """Of two dimensions the correlation has a beta law; the density of factors integrates to 1 over it."""
    ours = d.LKJCholesky(2, t(power))

    def density(r: float) -> float:
        factor = np.asarray([[1.0, 0.0], [r, math.sqrt(1 - r * r)]])
        return float(ours.log_prob(t(factor)).exp().item())

    area, _ = integrate.quad(density, -1, 1, limit=200)
    assert area == pytest.approx(1.0, rel=1e-4)
    wanted = stats.beta(power, power, loc=-1, scale=2)
    assert density(0.3) == pytest.approx(wanted.pdf(0.3), rel=1e-8)
    factors = d.LKJCholesky(4, t(power)).sample((1500,)).numpy()
    products = factors @ factors.swapaxes(-1, -2)
    np.testing.assert_allclose(np.diagonal(products, axis1=-2, axis2=-1), 1.0, rtol=1e-9)
    alpha = power + 1  # of each correlation among four
    assert products[:, 2, 0].var() == pytest.approx(1 / (2 * alpha + 1), rel=0.2)
    assert products[:, 3, 2].var() == pytest.approx(1 / (2 * alpha + 1), rel=0.2)
    with pytest.raises(Exception, match="dim 1"):
        d.LKJCholesky(1)


def test_logistic_normal_density() -> None:
    ours = d.LogisticNormal(t([0.2]), t([0.8]))

    def density(x: float) -> float:
        return float(ours.log_prob(t([x, 1 - x])).exp().item())

    assert integrate.quad(density, 1e-9, 1 - 1e-9)[0] == pytest.approx(1.0, abs=1e-4)
    assert ours.sample((5,)).shape == (5, 2)


def test_chances_of_what_cannot_happen() -> None:
    """Zero times minus infinity is nothing only where the outcome did not occur."""
    ours = d.Multinomial(5, logits=t([0.0, 0.0, -math.inf]))
    close(ours.log_prob(t([[2, 3, 0]])), [stats.multinomial(5, [0.5, 0.5, 0.0]).logpmf([2, 3, 0])])
    assert ours.log_prob(t([2, 2, 1])).item() == -math.inf
    tilted = d.Multinomial(4, t([0.1, 0.2, 0.7]))
    values = np.asarray([[0.0, 0.0, 4.0], [1.0, 0.0, 3.0], [1.0, 1.0, 2.0]])
    close(tilted.log_prob(t(values)), stats.multinomial(4, [0.1, 0.2, 0.7]).logpmf(values))
    close(tilted.mean, [0.4, 0.8, 2.8])
    close(tilted.variance, [4 * 0.09, 4 * 0.16, 4 * 0.21])


def test_parameters_of_several_kinds_become_floats_of_one() -> None:
    whole = d.Normal(tb.tensor([1, 2]), tb.tensor([1.5, 0.5], dtype=tb.float64))
    assert whole.loc.dtype == whole.scale.dtype == tb.float64
    assert d.Normal(tb.tensor([1, 2]), 1).loc.dtype == tb.float32
    assert d.Normal(0, tb.tensor(1.0, dtype=tb.float64)).loc.dtype == tb.float64
    found = conversions.broadcast_all(1, tb.tensor([1.0, 2.0]), tb.tensor([[3], [4]]))
    assert [tuple(v.shape) for v in found] == [(2, 2)] * 3 and {v.dtype for v in found} == {tb.float32}


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("diagonal", [-1, 0])
def test_triangles_as_vectors_and_back(size: int, diagonal: int) -> None:
    whole = np.arange(2.0 * size * size).reshape(2, size, size) + 1
    rows = np.tril_indices(size, diagonal)
    vector = conversions.tril_matrix_to_vec(t(whole), diagonal)
    np.testing.assert_array_equal(vector.numpy(), whole[:, rows[0], rows[1]])
    if vector.shape[-1]:
        back = conversions.vec_to_tril_matrix(vector, diagonal)
        np.testing.assert_array_equal(back.numpy(), np.tril(whole, diagonal))
    for wrong in (size, -size - 1):
        with pytest.raises(ValueError, match="outside"):
            conversions.tril_matrix_to_vec(t(whole), wrong)


def test_conversions_of_chances() -> None:
    p = np.asarray([[0.2, 0.3, 0.5]])
    close(conversions.probs_to_logits(t(p)), np.log(p))
    close(conversions.probs_to_logits(t(p), is_binary=True), np.log(p / (1 - p)))
    close(conversions.logits_to_probs(t(p)), special.softmax(p, -1))
    close(conversions.logits_to_probs(t(p), is_binary=True), special.expit(p))
    eps = np.finfo(np.float64).eps
    assert conversions.clamp_probs(t([0.0, 0.5, 1.0])).tolist() == [eps, 0.5, 1 - eps]
    assert conversions.euler_constant == pytest.approx(np.euler_gamma, rel=1e-15)


def test_a_lazy_property_is_computed_once() -> None:
    calls = []

    class Holder:
        @conversions.lazy_property
        def heavy(self) -> int:
            """Told."""
            calls.append(1)
            return 7

    holder = Holder()
    assert (holder.heavy, holder.heavy, calls) == (7, 7, [1])
    assert isinstance(Holder.heavy, property) and vars(Holder)["heavy"].__doc__ == "Told."
