"""Distributions over numbers that can be counted: draws pass no gradients."""

from __future__ import annotations

import math
from typing import Any

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.framework.distributions.base import Distribution, broadcast, check, op
from trilobite.framework.nn.functional import binary_cross_entropy_with_logits, one_hot, softplus
from trilobite.framework.random import draws
from trilobite.framework.random.calls import poisson


def _one_of(owner: str, probs: Any, logits: Any) -> None:
    if (probs is None) == (logits is None):
        raise ArgumentError(f"{owner}(probs, logits)", where=user_location(), expected="one of the two")


class _Trials(Distribution):
    """One probability per element, given as such or as its logit."""

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        _one_of(type(self).__name__, probs, logits)
        if probs is not None:
            check(type(self).__name__, "probs", probs, lambda v: (v >= 0) & (v <= 1), "in [0, 1]")
        (value,) = broadcast(logits if probs is None else probs)
        self._given = ("logits", value) if probs is None else ("probs", value)
        super().__init__(value.shape)

    @property
    def probs(self) -> Any:
        name, value = self._given
        return value if name == "probs" else op("sigmoid")(value)

    @property
    def logits(self) -> Any:
        name, value = self._given
        if name == "logits":
            return value
        eps = op("finfo")(value.dtype).eps
        p = op("clip")(value, eps, 1 - eps)
        return p.log() - op("log1p")(-p)


class Bernoulli(_Trials):
    """1 with a probability, else 0."""

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    def _draw(self, shape: tuple[Any, ...]) -> Any:
        return draws.bernoulli(self.probs, shape).to(self.probs.dtype)

    def log_prob(self, value: Any) -> Any:
        logits, value = op("broadcast_arrays")(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value.to(logits.dtype), reduction="none")

    def entropy(self) -> Any:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")


class Geometric(_Trials):
    """How often trials fail before one succeeds."""

    @property
    def mean(self) -> Any:
        return 1 / self.probs - 1

    @property
    def variance(self) -> Any:
        return (1 / self.probs - 1) / self.probs

    def _draw(self, shape: tuple[Any, ...]) -> Any:
        u = 1 - draws.uniform(shape, dtype=self.probs.dtype)
        return (u.log() / op("log1p")(-self.probs)).floor()

    def log_prob(self, value: Any) -> Any:
        return op("xlogy")(value, 1 - self.probs) + self.probs.log()

    def entropy(self) -> Any:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs


class Binomial(_Trials):
    """How many of a number of trials succeed."""

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        check("Binomial", "total_count", total_count, lambda v: v >= 0, ">= 0")
        super().__init__(probs, logits)
        name, value = self._given
        self.total_count, value = broadcast(total_count, value)
        self._given = (name, value)
        Distribution.__init__(self, value.shape)

    @property
    def mean(self) -> Any:
        return self.total_count * self.probs

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def _draw(self, shape: tuple[Any, ...]) -> Any:
        most = int(self.total_count.detach().max().item()) if self.total_count.numel() else 0
        tries = draws.bernoulli(self.probs[..., None].detach(), (*shape, most))
        counted = op("arange")(most) < self.total_count[..., None]
        return (tries & counted).sum(axis=-1).to(self.probs.dtype)

    def log_prob(self, value: Any) -> Any:
        n, log_gamma = self.total_count, op("lgamma")
        ways = log_gamma(n + 1) - log_gamma(value + 1) - log_gamma(n - value + 1)
        return ways + value * self.logits - n * softplus(self.logits)


class Poisson(Distribution):
    """How many events there are at a rate."""

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        check("Poisson", "rate", rate, lambda v: v >= 0, ">= 0")
        (self.rate,) = broadcast(rate)
        super().__init__(self.rate.shape)

    @property
    def mean(self) -> Any:
        return self.rate

    variance = mean

    def _draw(self, shape: tuple[Any, ...]) -> Any:
        return poisson(op("broadcast_to")(self.rate, shape))

    def log_prob(self, value: Any) -> Any:
        return op("xlogy")(value, self.rate) - self.rate - op("lgamma")(value + 1)


class Categorical(Distribution):
    """One of several, by probabilities or logits along the last axis."""

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        _one_of(type(self).__name__, probs, logits)
        if probs is not None:
            (p,) = broadcast(probs)
            check("Categorical", "probs", p, lambda v: v >= 0, ">= 0")
            self.probs = p / p.sum(axis=-1, keepdims=True)
            eps = op("finfo")(p.dtype).eps
            self.logits = op("clip")(self.probs, eps, 1 - eps).log()
        else:
            (x,) = broadcast(logits)
            self.logits = x - op("logsumexp")(x, axis=-1, keepdims=True)
            self.probs = op("softmax")(x, -1)
        super().__init__(self.logits.shape[:-1])

    @property
    def param_shape(self) -> Any:
        return self.logits.shape

    @property
    def _num_events(self) -> int:
        return int(self.logits.shape[-1])

    @property
    def mode(self) -> Any:
        return self.probs.argmax(axis=-1)

    @property
    def mean(self) -> Any:
        return op("full")(self.batch_shape, math.nan)

    variance = mean

    def _draw(self, shape: tuple[Any, ...]) -> Any:
        lead = shape[: len(shape) - len(self.batch_shape)]
        return draws.categorical(self.logits, lead or None)

    def log_prob(self, value: Any) -> Any:
        at = value.long()[..., None]
        lead = op("broadcast_shapes")(tuple(at.shape[:-1]), tuple(self.logits.shape[:-1]))
        logits = op("broadcast_to")(self.logits, (*lead, self.logits.shape[-1]))
        return op("take_along_axis")(logits, op("broadcast_to")(at, (*lead, 1)), axis=-1)[..., 0]

    def entropy(self) -> Any:
        low = op("finfo")(self.logits.dtype).min
        return -(op("clip")(self.logits, low) * self.probs).sum(axis=-1)

    def enumerate_support(self, expand: bool = True) -> Any:
        values = op("arange")(self._num_events).reshape(-1, *[1] * len(self.batch_shape))
        return op("broadcast_to")(values, (self._num_events, *self.batch_shape)) if expand else values


class OneHotCategorical(Categorical):
    """One of several, as a vector with a 1."""

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(probs, logits)
        Distribution.__init__(self, self.logits.shape[:-1], self.logits.shape[-1:])

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    def _draw(self, shape: tuple[Any, ...]) -> Any:
        lead = shape[: len(shape) - len(self.logits.shape)]
        drawn = draws.categorical(self.logits, lead or None)
        return one_hot(drawn, self._num_events).to(self.probs.dtype)

    def log_prob(self, value: Any) -> Any:
        return super().log_prob(value.argmax(axis=-1))


class Multinomial(Distribution):
    """How often each of several comes in a number of draws."""

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.total_count, self._each = total_count, Categorical(probs, logits)
        super().__init__(self._each.batch_shape, self._each.logits.shape[-1:])

    @property
    def probs(self) -> Any:
        return self._each.probs

    @property
    def logits(self) -> Any:
        return self._each.logits

    @property
    def mean(self) -> Any:
        return self.probs * self.total_count

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def _draw(self, shape: tuple[Any, ...]) -> Any:
        lead = shape[: len(shape) - len(self.logits.shape)]
        drawn = draws.categorical(self.logits, (self.total_count, *lead))
        return one_hot(drawn, self._each._num_events).sum(axis=0).to(self.probs.dtype)

    def log_prob(self, value: Any) -> Any:
        log_gamma = op("lgamma")
        ways = log_gamma(value.sum(axis=-1) + 1) - log_gamma(value + 1).sum(axis=-1)
        still = (value == 0) & (self.logits == -math.inf)
        return ways + (op("where")(still, 0.0, self.logits) * value).sum(axis=-1)
