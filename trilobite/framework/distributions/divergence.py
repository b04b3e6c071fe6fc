"""How far one distribution is from another: the Kullback-Leibler divergence, by pairs of classes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.framework.distributions import continuous as c
from trilobite.framework.distributions import discrete as d
from trilobite.framework.distributions import multivariate as m
from trilobite.framework.distributions.base import op
from trilobite.framework.nn.functional import softplus
from trilobite.framework.ops import linalg

Rule = Callable[[Any, Any], Any]
_rules: dict[tuple[type, type], Rule] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Rule], Rule]:
    """Enter a rule for a pair of classes."""

    def enter(fn: Rule) -> Rule:
        _rules[type_p, type_q] = fn
        return fn

    return enter


def kl_divergence(p: Any, q: Any) -> Any:
    """The mean of log p(x) - log q(x) over draws x of p."""
    for a in type(p).__mro__:
        for b in type(q).__mro__:
            if (a, b) in _rules:
                return _rules[a, b](p, q)
    raise ArgumentError(
        f"kl_divergence of {type(p).__name__} and {type(q).__name__}",
        where=user_location(),
        expected="a pair for which there is a rule",
        remedy="estimate it: (p.log_prob(x) - q.log_prob(x)).mean() for x = p.sample((1000,)), "
        "or enter a rule with register_kl",
    )


@register_kl(c.Normal, c.Normal)
def _normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale) ** 2
    gap = ((p.loc - q.loc) / q.scale) ** 2
    return 0.5 * (ratio + gap - 1 - ratio.log())


@register_kl(d.Bernoulli, d.Bernoulli)
def _bernoulli(p: Any, q: Any) -> Any:
    one = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    return one + (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))


@register_kl(d.Categorical, d.Categorical)
def _categorical(p: Any, q: Any) -> Any:
    terms = p.probs * (p.logits - q.logits)
    terms = op("where")(q.probs == 0, math.inf, terms)
    return op("where")(p.probs == 0, 0.0, terms).sum(axis=-1)


@register_kl(c.Exponential, c.Exponential)
def _exponential(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@register_kl(c.Gamma, c.Gamma)
def _gamma(p: Any, q: Any) -> Any:
    rates = q.concentration * (p.rate / q.rate).log()
    sizes = op("lgamma")(q.concentration) - op("lgamma")(p.concentration)
    slope = (p.concentration - q.concentration) * op("digamma")(p.concentration)
    return rates + sizes + slope + (q.rate - p.rate) * (p.concentration / p.rate)


@register_kl(c.Beta, c.Beta)
def _beta(p: Any, q: Any) -> Any:
    log_gamma, psi = op("lgamma"), op("digamma")
    pa, pb, qa, qb = p.concentration1, p.concentration0, q.concentration1, q.concentration0
    whole = log_gamma(qa) + log_gamma(qb) + log_gamma(pa + pb)
    other = log_gamma(pa) + log_gamma(pb) + log_gamma(qa + qb)
    slopes = (pa - qa) * psi(pa) + (pb - qb) * psi(pb) + (qa + qb - pa - pb) * psi(pa + pb)
    return whole - other + slopes


@register_kl(m.Dirichlet, m.Dirichlet)
def _dirichlet(p: Any, q: Any) -> Any:
    log_gamma, psi = op("lgamma"), op("digamma")
    a, b = p.concentration, q.concentration
    total = a.sum(axis=-1)
    whole = log_gamma(total) - log_gamma(b.sum(axis=-1))
    parts = (log_gamma(a) - log_gamma(b)).sum(axis=-1)
    return whole - parts + ((a - b) * (psi(a) - psi(total)[..., None])).sum(axis=-1)


@register_kl(c.Laplace, c.Laplace)
def _laplace(p: Any, q: Any) -> Any:
    ratio, gap = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + gap / q.scale + ratio * (-gap / p.scale).exp() - 1


@register_kl(c.Uniform, c.Uniform)
def _uniform(p: Any, q: Any) -> Any:
    out = ((q.high - q.low) / (p.high - p.low)).log()
    return op("where")((q.low > p.low) | (q.high < p.high), math.inf, out)


@register_kl(d.Poisson, d.Poisson)
def _poisson(p: Any, q: Any) -> Any:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(d.Geometric, d.Geometric)
def _geometric(p: Any, q: Any) -> Any:
    return -p.entropy() - op("log1p")(-q.probs) / p.probs - q.logits


@register_kl(m.Independent, m.Independent)
def _independent(p: Any, q: Any) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise ArgumentError("kl_divergence of Independents", where=user_location(), expected="as many axes")
    return p._summed(kl_divergence(p.base_dist, q.base_dist))


@register_kl(m.MultivariateNormal, m.MultivariateNormal)
def _multivariate(p: Any, q: Any) -> Any:
    n = p.event_shape[0]
    spread = linalg.solve(q.scale_tril, p.scale_tril)
    gap = linalg.solve(q.scale_tril, (q.loc - p.loc)[..., None])[..., 0]
    both = (spread**2).sum(axis=(-2, -1)) + (gap**2).sum(axis=-1)
    return q._half_log_det() - p._half_log_det() + 0.5 * (both - n)
