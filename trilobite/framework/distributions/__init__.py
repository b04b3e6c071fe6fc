"""`tb.distributions`: draws, densities and divergences of distributions, under PyTorch's names.

Enters: parameters as tensors. Leaves: draws, densities, entropies as tensors. May import `framework` and
`ir`. Read `base.py` first.
"""

from trilobite.base.rooms import inner_room
from trilobite.framework.distributions import (
    base,
    constraints,
    continuous,
    discrete,
    divergence,
    matrices,
    multivariate,
    relaxed,
    transformed,
    transforms,
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
from trilobite.framework.distributions.matrices import LKJCholesky, LogisticNormal, Wishart
from trilobite.framework.distributions.multivariate import Dirichlet, Independent, MultivariateNormal
from trilobite.framework.distributions.relaxed import (
    HalfCauchy,
    InverseGamma,
    Kumaraswamy,
    LogitRelaxedBernoulli,
    MixtureSameFamily,
    NegativeBinomial,
    OneHotCategoricalStraightThrough,
    Pareto,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
    Weibull,
)
from trilobite.framework.distributions.transformed import TransformedDistribution
from trilobite.framework.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
    biject_to,
    identity_transform,
    transform_to,
)

__all__ = [
    "AffineTransform", "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2", "ComposeTransform",
    "Dirichlet", "Distribution", "ExpTransform", "Exponential", "Gamma", "Geometric", "Gumbel",
    "HalfNormal", "Independent", "Laplace", "LogNormal", "Multinomial", "MultivariateNormal", "Normal",
    "OneHotCategorical", "Poisson", "PowerTransform", "SigmoidTransform", "SoftplusTransform", "StudentT",
    "TanhTransform", "Transform", "TransformedDistribution", "Uniform", "constraints", "kl_divergence",
    "LKJCholesky", "biject_to", "identity_transform", "register_kl", "transform_to", "transforms",
    "HalfCauchy", "InverseGamma", "Kumaraswamy", "LogitRelaxedBernoulli",
    "MixtureSameFamily", "NegativeBinomial", "OneHotCategoricalStraightThrough", "Pareto",
    "RelaxedBernoulli", "RelaxedOneHotCategorical", "Weibull", "AbsTransform", "LogisticNormal",
    "SoftmaxTransform", "StickBreakingTransform", "Wishart",
]  # fmt: skip

normal = uniform = beta = gamma = cauchy = laplace = gumbel = log_normal = continuous
categorical = bernoulli = binomial = geometric = poisson = discrete
multivariate_normal = independent = dirichlet = multivariate
transformed_distribution = transformed
relaxed_bernoulli = relaxed_categorical = half_cauchy = weibull = pareto = inverse_gamma = relaxed
kumaraswamy = negative_binomial = mixture_same_family = relaxed
wishart = logistic_normal = matrices
distribution, kl = base, divergence  # PyTorch has a room for each


def __getattr__(name: str) -> object:
    return inner_room("distributions", name)
