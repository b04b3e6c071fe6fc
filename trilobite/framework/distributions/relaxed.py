"""Distributions made of others: relaxed choices, mixtures, waiting times with heavy tails."""

from __future__ import annotations

import math
from typing import Any

from trilobite.base.wrong_use import explain_room
from trilobite.framework.distributions.base import Distribution, broadcast, check, op, positive
from trilobite.framework.distributions.continuous import Cauchy, Exponential, Gamma, Uniform
from trilobite.framework.distributions.discrete import OneHotCategorical, _Trials
from trilobite.framework.distributions.transformed import TransformedDistribution
from trilobite.framework.distributions.transforms import (
    AffineTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
)
from trilobite.framework.nn.functional import log_softmax, softplus
from trilobite.framework.ops import special
from trilobite.framework.random import draws
from trilobite.framework.random.calls import poisson

_EULER = 0.57721566490153286060


def _inside(u: Any) -> Any:
    """Uniform numbers kept away from 0 and 1, whose logarithms are not finite."""
    eps = op("finfo")(u.dtype).eps
    return op("clip")(u, eps, 1 - eps)


class LogitRelaxedBernoulli(_Trials):
    """The logit of a relaxed trial: the logistic distribution around that of the trial, over a temperature
    (Maddison, Mnih, Teh 2017).
    """

    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(probs, logits)
        self.temperature = temperature

    def _draw(self, shape: tuple[Any, ...]) -> Any:
        u = _inside(draws.uniform(shape, dtype=self.logits.dtype))
        return (u.log() - op("log1p")(-u) + self.logits) / self.temperature

    def log_prob(self, value: Any) -> Any:
        gap = self.logits - value * self.temperature
        return op("log")(op("asarray")(self.temperature, dtype=gap.dtype)) + gap - 2 * softplus(gap)


class _Relaxed(TransformedDistribution):
    """Draws of a relaxed choice, whose parameters are the base's."""

    @property
    def temperature(self) -> Any:
        return self.base_dist.temperature

    @property
    def logits(self) -> Any:
        return self.base_dist.logits

    @property
    def probs(self) -> Any:
        return self.base_dist.probs


class RelaxedBernoulli(_Relaxed):
    """A trial made smooth: numbers between 0 and 1, near both ends for low temperatures."""

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(LogitRelaxedBernoulli(temperature, probs, logits), SigmoidTransform())


class ExpRelaxedCategorical(OneHotCategorical):
    """The logarithm of a relaxed choice (Maddison, Mnih, Teh 2017; Jang, Gu, Poole 2017)."""

    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(probs, logits)
        self.temperature = temperature

    def _draw(self, shape: tuple[Any, ...]) -> Any:
        u = _inside(draws.uniform(shape, dtype=self.logits.dtype))
        return log_softmax((self.logits - (-u.log()).log()) / self.temperature, -1)

    def log_prob(self, value: Any) -> Any:
        k = self.logits.shape[-1]
        heat = op("asarray")(self.temperature, dtype=value.dtype)
        score = log_softmax(self.logits - value * heat, -1).sum(axis=-1)
        return score + math.lgamma(k) + (k - 1) * op("log")(heat)


class RelaxedOneHotCategorical(_Relaxed):
    """A choice made smooth: numbers that add up to 1, near one of them alone for low temperatures."""

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(ExpRelaxedCategorical(temperature, probs, logits), ExpTransform())


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """A choice whose gradient is that of its probabilities (Bengio, Léonard, Courville 2013)."""

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Any:
        """The draw, with the gradient of the probabilities."""
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class HalfCauchy(Distribution):
    """The size of a number of the Cauchy distribution around 0."""

    has_rsample = True

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        positive("HalfCauchy", scale=scale)
        (self.scale,) = broadcast(scale)
        self._whole = Cauchy(0 * self.scale, self.scale)
        super().__init__(self.scale.shape)

    def _draw(self, shape: tuple[Any, ...]) -> Any:
        return self._whole._draw(shape).abs()

    def log_prob(self, value: Any) -> Any:
        return op("where")(value >= 0, self._whole.log_prob(value) + math.log(2.0), -math.inf)

    def cdf(self, value: Any) -> Any:
        return 2 * self._whole.cdf(value) - 1

    def entropy(self) -> Any:
        return self._whole.entropy() - math.log(2.0)


class Weibull(TransformedDistribution):
    """scale times an exponential number to the power 1 / concentration."""

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        positive("Weibull", scale=scale, concentration=concentration)
        self.scale, self.concentration = broadcast(scale, concentration)
        one = op("ones_like")(self.scale)
        turns = [PowerTransform(1 / self.concentration), AffineTransform(0, self.scale)]
        super().__init__(Exponential(one), turns)

    @property
    def mean(self) -> Any:
        return self.scale * op("lgamma")(1 + 1 / self.concentration).exp()

    @property
    def variance(self) -> Any:
        one, two = (op("lgamma")(1 + n / self.concentration) for n in (1, 2))
        return self.scale**2 * (two.exp() - (2 * one).exp())

    def entropy(self) -> Any:
        inverse = 1 / self.concentration
        return _EULER * (1 - inverse) + (self.scale * inverse).log() + 1


class Pareto(TransformedDistribution):
    """Numbers from scale on, with a tail that falls as a power."""

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        positive("Pareto", scale=scale, alpha=alpha)
        self.scale, self.alpha = broadcast(scale, alpha)
        super().__init__(Exponential(self.alpha), [ExpTransform(), AffineTransform(0, self.scale)])

    @property
    def mean(self) -> Any:
        inside = self.alpha * self.scale / (self.alpha - 1)
        return op("where")(self.alpha > 1, inside, math.inf)

    @property
    def variance(self) -> Any:
        a = self.alpha
        return op("where")(a > 2, self.scale**2 * a / ((a - 1) ** 2 * (a - 2)), math.inf)

    def entropy(self) -> Any:
        return (self.scale / self.alpha).log() + 1 + 1 / self.alpha


class InverseGamma(TransformedDistribution):
    """One over a number of the gamma distribution."""

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate)
        self.concentration, self.rate = base.concentration, base.rate
        super().__init__(base, PowerTransform(-op("ones_like")(base.rate)))

    @property
    def mean(self) -> Any:
        a = self.concentration
        return op("where")(a > 1, self.rate / (a - 1), math.inf)

    @property
    def variance(self) -> Any:
        a = self.concentration
        return op("where")(a > 2, self.rate**2 / ((a - 1) ** 2 * (a - 2)), math.inf)

    def entropy(self) -> Any:
        a = self.concentration
        return a + self.rate.log() + op("lgamma")(a) - (1 + a) * special.digamma(a)


class Kumaraswamy(TransformedDistribution):
    """Between 0 and 1, much like the beta distribution, with a density in closed form."""

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        positive("Kumaraswamy", concentration1=concentration1, concentration0=concentration0)
        a, b = self.concentration1, self.concentration0 = broadcast(concentration1, concentration0)
        turns = [PowerTransform(1 / b), AffineTransform(1, -1), PowerTransform(1 / a)]
        super().__init__(Uniform(0 * a, op("ones_like")(a)), turns)

    def _moment(self, n: int) -> Any:
        a, b = self.concentration1, self.concentration0
        value = 1 + n / a
        return (b.log() + op("lgamma")(value) + op("lgamma")(b) - op("lgamma")(value + b)).exp()

    @property
    def mean(self) -> Any:
        return self._moment(1)

    @property
    def variance(self) -> Any:
        return self._moment(2) - self._moment(1) ** 2


class NegativeBinomial(_Trials):
    """How often trials succeed before total_count of them have failed."""

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        check("NegativeBinomial", "total_count", total_count, lambda v: v >= 0, ">= 0")
        super().__init__(probs, logits)
        self.total_count, value = broadcast(total_count, self._given[1])
        self._given = (self._given[0], value)
        Distribution.__init__(self, value.shape)

    @property
    def mean(self) -> Any:
        return self.total_count * self.logits.exp()

    @property
    def variance(self) -> Any:
        return self.mean / op("sigmoid")(-self.logits)

    def _draw(self, shape: tuple[Any, ...]) -> Any:
        rate = (-self.logits).exp()
        return poisson(Gamma(self.total_count, rate)._draw(shape))

    def log_prob(self, value: Any) -> Any:
        n, logits = self.total_count, self.logits
        score = -n * softplus(logits) - value * softplus(-logits)
        counts = op("lgamma")(n + value) - op("lgamma")(1.0 + value) - op("lgamma")(n)
        return score + op("where")(n + value == 0, op("zeros_like")(counts), counts)


class MixtureSameFamily(Distribution):
    """One of several distributions of a family, the last axis of their batch, chosen by a categorical one."""

    def __init__(
        self, mixture_distribution: Any, component_distribution: Any, validate_args: bool | None = None
    ) -> None:
        self.mixture_distribution, self.component_distribution = (
            mixture_distribution,
            component_distribution,
        )
        self._axes = len(component_distribution.event_shape)
        super().__init__(component_distribution.batch_shape[:-1], component_distribution.event_shape)

    def _weights(self) -> Any:
        probs = self.mixture_distribution.probs
        return probs.reshape(*probs.shape, *(1,) * self._axes)

    def _average(self, values: Any) -> Any:
        return (self._weights() * values).sum(axis=-1 - self._axes)

    @property
    def mean(self) -> Any:
        return self._average(self.component_distribution.mean)

    @property
    def variance(self) -> Any:
        parts = self.component_distribution
        gap = parts.mean - op("expand_dims")(self.mean, axis=-1 - self._axes)
        return self._average(parts.variance) + self._average(gap**2)

    def log_prob(self, value: Any) -> Any:
        wide = op("expand_dims")(value, axis=-1 - self._axes)
        scores = self.component_distribution.log_prob(wide)
        return op("logsumexp")(scores + log_softmax(self.mixture_distribution.logits, -1), axis=-1)

    def cdf(self, value: Any) -> Any:
        wide = op("expand_dims")(value, axis=-1 - self._axes)
        return (self.component_distribution.cdf(wide) * self.mixture_distribution.probs).sum(axis=-1)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draws of a component each."""
        which = self.mixture_distribution.sample(sample_shape)
        drawn = self.component_distribution.sample(sample_shape)
        places = which.reshape(*which.shape, *(1,) * (1 + self._axes))
        places = op("broadcast_to")(places, (*which.shape, 1, *self.event_shape))
        return op("take_along_axis")(drawn, places, axis=-1 - self._axes).squeeze(-1 - self._axes)


__all__ = [
    "ExpRelaxedCategorical", "HalfCauchy", "InverseGamma", "Kumaraswamy", "LogitRelaxedBernoulli",
    "MixtureSameFamily", "NegativeBinomial", "OneHotCategoricalStraightThrough", "Pareto",
    "RelaxedBernoulli", "RelaxedOneHotCategorical", "Weibull",
]  # fmt: skip


explain_room(globals())
