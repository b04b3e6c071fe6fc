"""Distributions that few models use: how each is made, a value, and what else is asked of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

R = np.random.default_rng(3)
A, B = R.uniform(0.5, 3, 4), R.uniform(0.5, 3, 4)
P, X = R.uniform(0.1, 0.9, 4), R.uniform(0.1, 0.9, 4)
COUNTS, L = R.integers(0, 6, 4).astype(float), R.normal(size=(3, 5))
V = R.normal(size=(3, 3))
V = V @ V.T + np.eye(3)
SHARES = np.exp(L) / np.exp(L).sum(-1, keepdims=True)

Case = tuple[Callable[[Any], Any], np.ndarray, str]
CASES: dict[str, Case] = {
    "RelaxedBernoulli": (
        lambda m: m.distributions.RelaxedBernoulli(m.tensor(np.array(0.7)), probs=m.tensor(P)),
        X,
        "",
    ),
    "RelaxedOneHotCategorical": (
        lambda m: m.distributions.RelaxedOneHotCategorical(m.tensor(np.array(0.7)), logits=m.tensor(L)),
        SHARES,
        "",
    ),
    "HalfCauchy": (lambda m: m.distributions.HalfCauchy(m.tensor(A)), B, "entropy cdf"),
    "Weibull": (
        lambda m: m.distributions.Weibull(m.tensor(A), m.tensor(B)),
        X,
        "entropy mean variance cdf",
    ),
    "Pareto": (
        lambda m: m.distributions.Pareto(m.tensor(A), m.tensor(B)),
        A + X,
        "entropy mean variance cdf",
    ),
    "InverseGamma": (
        lambda m: m.distributions.InverseGamma(m.tensor(A), m.tensor(B)),
        X,
        "entropy mean variance",
    ),
    "Kumaraswamy": (
        lambda m: m.distributions.Kumaraswamy(m.tensor(A), m.tensor(B)),
        X,
        "mean variance cdf",
    ),
    "NegativeBinomial": (
        lambda m: m.distributions.NegativeBinomial(m.tensor(A), probs=m.tensor(P)),
        COUNTS,
        "mean variance",
    ),
    "MixtureSameFamily": (
        lambda m: m.distributions.MixtureSameFamily(
            m.distributions.Categorical(logits=m.tensor(L)),
            m.distributions.Normal(m.tensor(2 * L), m.tensor(np.abs(L) + 0.1)),
        ),
        L[:, 0],
        "mean variance cdf",
    ),
    "mixture of vectors": (
        lambda m: m.distributions.MixtureSameFamily(
            m.distributions.Categorical(logits=m.tensor(L[0])),
            m.distributions.Independent(
                m.distributions.Normal(m.tensor(L.T.copy()), m.tensor(np.abs(L.T) + 0.1)), 1
            ),
        ),
        L[:, 0],
        "mean variance",
    ),
    "OneHotCategoricalStraightThrough": (
        lambda m: m.distributions.OneHotCategoricalStraightThrough(logits=m.tensor(L)),
        np.eye(5)[[1, 2, 4]],
        "entropy mean",
    ),
    "LogisticNormal": (
        lambda m: m.distributions.LogisticNormal(m.tensor(A), m.tensor(B)),
        np.append(X, 1.0) / (X.sum() + 1),
        "",
    ),
    "Wishart": (
        lambda m: m.distributions.Wishart(m.tensor(np.array(5.0)), covariance_matrix=m.tensor(V)),
        2 * V + np.eye(3),
        "mean variance",
    ),
}
