"""Distributions over real numbers."""

from __future__ import annotations

import math
from typing import Any

from trilobite.framework.distributions.base import Distribution, broadcast, check, no_path, op, positive
from trilobite.framework.modes import is_grad_enabled
from trilobite.framework.ops import special
from trilobite.framework.random import draws

_LOG_2PI = math.log(2 * math.pi)


class Normal(Distribution):
    """The bell curve with a mean and a deviation."""

    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        positive("Normal", scale=scale)
        self.loc, self.scale = broadcast(loc, scale)
        super().__init__(self.loc.shape)

    @property
    def mean(self) -> Any:
        return self.loc

    mode = mean

    @property
    def stddev(self) -> Any:
        return self.scale

    @property
    def variance(self) -> Any:
        return self.scale * self.scale

    def _draw(self, shape: tuple[Any, ...]) -> Any:
        return self.loc + self.scale * draws.normal(shape, dtype=self.loc.dtype)

    def log_prob(self, value: Any) -> Any:
        z = (value - self.loc) / self.scale
        return -(z * z) / 2 - self.scale.log() - _LOG_2PI / 2

    def cdf(self, value: Any) -> Any:
        return special.ndtr((value - self.loc) / self.scale)

    def icdf(self, value: Any) -> Any:
        return self.loc + self.scale * special.ndtri(value)

    def entropy(self) -> Any:
        return 0.5 + _LOG_2PI / 2 + self.scale.log()


class LogNormal(Normal):
    """e to a normal number."""

    @property
    def mean(self) -> Any:
        return (self.loc + self.scale**2 / 2).exp()

    @property
    def mode(self) -> Any:
        return (self.loc - self.scale**2).exp()

    @property
    def stddev(self) -> Any:
        return self.variance.sqrt()

    @property
    def variance(self) -> Any:
        s2 = self.scale**2
        return op("expm1")(s2) * (2 * self.loc + s2).exp()

    def _draw(self, shape: tuple[Any, ...]) -> Any:
        return super()._draw(shape).exp()

    def log_prob(self, value: Any) -> Any:
        return super().log_prob(value.log()) - value.log()

    def cdf(self, value: Any) -> Any:
        return super().cdf(value.log())

    def icdf(self, value: Any) -> Any:
        return super().icdf(value).exp()

    def entropy(self) -> Any:
        return super().entropy() + self.loc


class HalfNormal(Distribution):
    """The size of a normal number with mean 0."""

    has_rsample = True

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        positive("HalfNormal", scale=scale)
        (self.scale,) = broadcast(scale)
        super().__init__(self.scale.shape)

    @property
    def mean(self) -> Any:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Any:
        return self.scale**2 * (1 - 2 / math.pi)

    def _draw(self, shape: tuple[Any, ...]) -> Any:
        return (self.scale * draws.normal(shape, dtype=self.scale.dtype)).abs()

    def log_prob(self, value: Any) -> Any:
        inside = Normal(0 * self.scale, self.scale).log_prob(value) + math.log(2.0)
        return op("where")(value >= 0, inside, -math.inf)

    def entropy(self) -> Any:
        return Normal(0 * self.scale, self.scale).entropy() - math.log(2.0)


class Uniform(Distribution):
    """All numbers between two ends alike."""

    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast(low, high)
        check("Uniform", "high - low", self.high - self.low, lambda v: v > 0, "> 0")
        super().__init__(self.low.shape)

    @property
    def mean(self) -> Any:
        return (self.low + self.high) / 2

    @property
    def variance(self) -> Any:
        return (self.high - self.low) ** 2 / 12

    def _draw(self, shape: tuple[Any, ...]) -> Any:
        return self.low + (self.high - self.low) * draws.uniform(shape, dtype=self.low.dtype)

    def log_prob(self, value: Any) -> Any:
        inside = (value >= self.low) & (value < self.high)
        return op("where")(inside, -(self.high - self.low).log(), -math.inf)

    def cdf(self, value: Any) -> Any:
        return op("clip")((value - self.low) / (self.high - self.low), 0.0, 1.0)

    def icdf(self, value: Any) -> Any:
        return self.low + value * (self.high - self.low)

    def entropy(self) -> Any:
        return (self.high - self.low).log()


class Exponential(Distribution):
    """Waiting times at a rate."""

    has_rsample = True

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        positive("Exponential", rate=rate)
        (self.rate,) = broadcast(rate)
        super().__init__(self.rate.shape)

    @property
    def mean(self) -> Any:
        return 1 / self.rate

    @property
    def variance(self) -> Any:
        return 1 / self.rate**2

    def _draw(self, shape: tuple[Any, ...]) -> Any:
        return draws.exponential(shape, dtype=self.rate.dtype) / self.rate

    def log_prob(self, value: Any) -> Any:
        return op("where")(value >= 0, self.rate.log() - self.rate * value, -math.inf)

    def cdf(self, value: Any) -> Any:
        return -op("expm1")(-self.rate * value)

    def icdf(self, value: Any) -> Any:
        return -op("log1p")(-value) / self.rate

    def entropy(self) -> Any:
        return 1 - self.rate.log()


class _LocScale(Distribution):
    """A curve that is shifted and stretched."""

    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        positive(type(self).__name__, scale=scale)
        self.loc, self.scale = broadcast(loc, scale)
        super().__init__(self.loc.shape)

    def _centred(self, shape: tuple[Any, ...]) -> Any:
        """Draws with loc 0 and scale 1."""
        raise NotImplementedError

    def _draw(self, shape: tuple[Any, ...]) -> Any:
        return self.loc + self.scale * self._centred(shape)


class Laplace(_LocScale):
    """Two exponentials back to back."""

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        return 2 * self.scale**2

    def _centred(self, shape: tuple[Any, ...]) -> Any:
        u = draws.uniform(shape, dtype=self.loc.dtype) - 0.5
        return -u.sign() * op("log1p")(-2 * u.abs() * (1 - 1e-7))

    def log_prob(self, value: Any) -> Any:
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def entropy(self) -> Any:
        return 1 + (2 * self.scale).log()


class Cauchy(_LocScale):
    """Heavy tails: it has neither mean nor variance."""

    @property
    def mean(self) -> Any:
        return self.loc * math.nan

    @property
    def variance(self) -> Any:
        return self.loc * math.nan

    def _centred(self, shape: tuple[Any, ...]) -> Any:
        return ((draws.uniform(shape, dtype=self.loc.dtype) - 0.5) * math.pi).tan()

    def log_prob(self, value: Any) -> Any:
        z = (value - self.loc) / self.scale
        return -math.log(math.pi) - self.scale.log() - op("log1p")(z * z)

    def entropy(self) -> Any:
        return math.log(4 * math.pi) + self.scale.log()

    def cdf(self, value: Any) -> Any:
        return op("atan")((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value: Any) -> Any:
        return self.loc + self.scale * op("tan")(math.pi * (value - 0.5))


class Gumbel(_LocScale):
    """The largest of many."""

    @property
    def mean(self) -> Any:
        return self.loc + self.scale * 0.5772156649015329

    @property
    def variance(self) -> Any:
        return self.scale**2 * (math.pi**2 / 6)

    def _centred(self, shape: tuple[Any, ...]) -> Any:
        return draws.gumbel(shape, dtype=self.loc.dtype)

    def log_prob(self, value: Any) -> Any:
        z = (value - self.loc) / self.scale
        return -z - (-z).exp() - self.scale.log()

    def entropy(self) -> Any:
        return self.scale.log() + 1 + 0.5772156649015329


class Gamma(Distribution):
    """Sums of waiting times; rsample passes gradients to the rate."""

    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        positive(type(self).__name__, concentration=concentration, rate=rate)
        self.concentration, self.rate = broadcast(concentration, rate)
        super().__init__(self.rate.shape)

    @property
    def mean(self) -> Any:
        return self.concentration / self.rate

    @property
    def variance(self) -> Any:
        return self.concentration / self.rate**2

    def _draw(self, shape: tuple[Any, ...]) -> Any:
        if is_grad_enabled():
            no_path(type(self).__name__, "concentration", self.concentration)
        return draws.gamma(self.concentration.detach(), shape, dtype=self.rate.dtype) / self.rate

    def log_prob(self, value: Any) -> Any:
        a, b = self.concentration, self.rate
        return op("xlogy")(a, b) + op("xlogy")(a - 1, value) - b * value - op("lgamma")(a)

    def entropy(self) -> Any:
        a = self.concentration
        return a - self.rate.log() + op("lgamma")(a) + (1 - a) * op("digamma")(a)


class Chi2(Gamma):
    """Sums of squares of normal numbers."""

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        (self.df,) = broadcast(df)
        super().__init__(self.df / 2, 0 * self.df + 0.5)


class Beta(Distribution):
    """Numbers between 0 and 1. Draws pass no gradients: they are made by rejection."""

    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        positive("Beta", concentration1=concentration1, concentration0=concentration0)
        self.concentration1, self.concentration0 = broadcast(concentration1, concentration0)
        super().__init__(self.concentration1.shape)

    @property
    def mean(self) -> Any:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def variance(self) -> Any:
        a, b = self.concentration1, self.concentration0
        return a * b / ((a + b) ** 2 * (a + b + 1))

    def _draw(self, shape: tuple[Any, ...]) -> Any:
        a, b = self.concentration1, self.concentration0
        if is_grad_enabled():
            no_path("Beta", "concentration", a + b)
        x, y = (draws.gamma(c.detach(), shape, dtype=a.dtype) for c in (a, b))
        return x / (x + y)

    def log_prob(self, value: Any) -> Any:
        a, b = self.concentration1, self.concentration0
        whole = op("lgamma")(a + b) - op("lgamma")(a) - op("lgamma")(b)
        return op("xlogy")(a - 1, value) + special.xlog1py(b - 1, -value) + whole

    def entropy(self) -> Any:
        a, b = self.concentration1, self.concentration0
        psi, log_beta = op("digamma"), op("lgamma")(a) + op("lgamma")(b) - op("lgamma")(a + b)
        return log_beta - (a - 1) * psi(a) - (b - 1) * psi(b) + (a + b - 2) * psi(a + b)


class StudentT(Distribution):
    """A normal number over an uncertain deviation; rsample passes gradients to loc and scale."""

    has_rsample = True

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        positive("StudentT", df=df, scale=scale)
        self.df, self.loc, self.scale = broadcast(df, loc, scale)
        super().__init__(self.df.shape)

    @property
    def mean(self) -> Any:
        return op("where")(self.df > 1, self.loc, math.nan)

    @property
    def variance(self) -> Any:
        spread = self.scale**2 * self.df / (self.df - 2)
        return op("where")(self.df > 2, spread, op("where")(self.df > 1, math.inf, math.nan))

    def _draw(self, shape: tuple[Any, ...]) -> Any:
        if is_grad_enabled():
            no_path("StudentT", "df", self.df)
        z = draws.normal(shape, dtype=self.df.dtype)
        chi = 2 * draws.gamma(self.df.detach() / 2, shape, dtype=self.df.dtype)
        return self.loc + self.scale * z * (self.df / chi).sqrt()

    def log_prob(self, value: Any) -> Any:
        y = (value - self.loc) / self.scale
        half = op("lgamma")((self.df + 1) / 2) - op("lgamma")(self.df / 2)
        z = half - 0.5 * (self.df * math.pi).log() - self.scale.log()
        return z - (self.df + 1) / 2 * op("log1p")(y * y / self.df)
