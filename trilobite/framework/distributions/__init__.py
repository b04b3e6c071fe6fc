"""`tb.distributions`: draws, densities and divergences of distributions, under PyTorch's names."""

from trilobite.framework.distributions import (
    base,
    constraints,
    continuous,
    discrete,
    divergence,
    multivariate,
)
from trilobite.framework.distributions.base import Distribution
from trilobite.framework.distributions.continuous import (
    Beta,
    Cauchy,
    Chi2,
    Exponential,
    Gamma,
    Gumbel,
    HalfNormal,
    Laplace,
    LogNormal,
    Normal,
    StudentT,
    Uniform,
)
from trilobite.framework.distributions.discrete import (
    Bernoulli,
    Binomial,
    Categorical,
    Geometric,
    Multinomial,
    OneHotCategorical,
    Poisson,
)
from trilobite.framework.distributions.divergence import kl_divergence, register_kl
from trilobite.framework.distributions.multivariate import Dirichlet, Independent, MultivariateNormal

__all__ = [
    "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2", "Dirichlet", "Distribution",
    "Exponential", "Gamma", "Geometric", "Gumbel", "HalfNormal", "Independent", "Laplace", "LogNormal",
    "Multinomial", "MultivariateNormal", "Normal", "OneHotCategorical", "Poisson", "StudentT", "Uniform",
    "constraints", "kl_divergence", "register_kl",
]  # fmt: skip

normal = uniform = beta = gamma = cauchy = laplace = gumbel = log_normal = continuous
categorical = bernoulli = binomial = geometric = poisson = discrete
multivariate_normal = independent = dirichlet = multivariate
distribution, kl = base, divergence  # PyTorch has a room for each
