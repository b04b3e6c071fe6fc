"""Distributions over vectors, and batches taken as one event."""

from __future__ import annotations

import math
from typing import Any

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.base.wrong_use import explain_room
from trilobite.framework.distributions.base import Distribution, broadcast, no_path, op, positive
from trilobite.framework.modes import is_grad_enabled
from trilobite.framework.ops import linalg
from trilobite.framework.random import draws


class Independent(Distribution):
    """The last axes of a batch as one event: probabilities multiply."""

    def __init__(
        self, base_distribution: Any, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        batch = tuple(base_distribution.batch_shape)
        cut = len(batch) - reinterpreted_batch_ndims
        if cut < 0:
            raise ArgumentError(
                f"Independent: {reinterpreted_batch_ndims} axes of a batch of shape {batch}",
                where=user_location(),
                expected=f"at most {len(batch)}",
            )
        super().__init__(batch[:cut], (*batch[cut:], *base_distribution.event_shape))
        self.has_rsample = base_distribution.has_rsample

    @property
    def mean(self) -> Any:
        return self.base_dist.mean

    @property
    def variance(self) -> Any:
        return self.base_dist.variance

    def _draw(self, shape: tuple[Any, ...]) -> Any:
        return self.base_dist._draw(shape)

    def _summed(self, x: Any) -> Any:
        n = self.reinterpreted_batch_ndims
        return x.sum(axis=tuple(range(-n, 0))) if n else x

    def log_prob(self, value: Any) -> Any:
        return self._summed(self.base_dist.log_prob(value))

    def entropy(self) -> Any:
        return self._summed(self.base_dist.entropy())


def triangular_factor(name: str, covariance: Any, precision: Any, scale_tril: Any) -> Any:
    """The factor of a covariance that is given in one of three forms."""
    if sum(m is not None for m in (covariance, precision, scale_tril)) != 1:
        raise ArgumentError(
            name,
            where=user_location(),
            expected="one of covariance_matrix, precision_matrix and scale_tril",
        )
    if scale_tril is not None:
        return scale_tril
    return op("cholesky")(covariance if precision is None else op("inverse")(precision))


class MultivariateNormal(Distribution):
    """A normal vector, by its covariance, precision or the triangular factor of the covariance."""

    has_rsample = True

    def __init__(
        self,
        loc: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        scale_tril = triangular_factor("MultivariateNormal", covariance_matrix, precision_matrix, scale_tril)
        n = scale_tril.shape[-1]
        batch = op("broadcast_shapes")(tuple(scale_tril.shape[:-2]), tuple(loc.shape[:-1]))
        self.loc = op("broadcast_to")(loc, (*batch, n))
        self.scale_tril = op("broadcast_to")(scale_tril, (*batch, n, n))
        super().__init__(batch, (n,))

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        return (self.scale_tril**2).sum(axis=-1)

    @property
    def covariance_matrix(self) -> Any:
        return self.scale_tril @ self.scale_tril.mT

    @property
    def precision_matrix(self) -> Any:
        return op("inverse")(self.covariance_matrix)

    def _draw(self, shape: tuple[Any, ...]) -> Any:
        z = draws.normal(shape, dtype=self.loc.dtype)
        return self.loc + (self.scale_tril @ z[..., None])[..., 0]

    def _half_log_det(self) -> Any:
        return op("diagonal")(self.scale_tril, 0, -2, -1).log().sum(axis=-1)

    def log_prob(self, value: Any) -> Any:
        gap = (value - self.loc)[..., None]
        lead = op("broadcast_shapes")(tuple(gap.shape[:-2]), tuple(self.scale_tril.shape[:-2]))
        low = op("broadcast_to")(self.scale_tril, (*lead, *self.scale_tril.shape[-2:]))
        z = linalg.solve(low, op("broadcast_to")(gap, (*lead, *gap.shape[-2:])))
        n = self.event_shape[0]
        return -0.5 * (n * math.log(2 * math.pi) + (z[..., 0] ** 2).sum(axis=-1)) - self._half_log_det()

    def entropy(self) -> Any:
        return 0.5 * self.event_shape[0] * (1 + math.log(2 * math.pi)) + self._half_log_det()


class Dirichlet(Distribution):
    """Probabilities of several. Draws pass no gradients: they are made by rejection."""

    has_rsample = True

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        positive("Dirichlet", concentration=concentration)
        (self.concentration,) = broadcast(concentration)
        super().__init__(self.concentration.shape[:-1], self.concentration.shape[-1:])

    @property
    def mean(self) -> Any:
        return self.concentration / self.concentration.sum(axis=-1, keepdims=True)

    @property
    def variance(self) -> Any:
        total = self.concentration.sum(axis=-1, keepdims=True)
        return self.concentration * (total - self.concentration) / (total**2 * (total + 1))

    def _draw(self, shape: tuple[Any, ...]) -> Any:
        if is_grad_enabled():
            no_path("Dirichlet", "concentration", self.concentration)
        x = draws.gamma(self.concentration.detach(), shape, dtype=self.concentration.dtype)
        return x / x.sum(axis=-1, keepdims=True)

    def log_prob(self, value: Any) -> Any:
        a, log_gamma = self.concentration, op("lgamma")
        powers = op("xlogy")(a - 1, value).sum(axis=-1)
        return powers + log_gamma(a.sum(axis=-1)) - log_gamma(a).sum(axis=-1)

    def entropy(self) -> Any:
        a = self.concentration
        k, total, psi, log_gamma = a.shape[-1], a.sum(axis=-1), op("digamma"), op("lgamma")
        log_beta = log_gamma(a).sum(axis=-1) - log_gamma(total)
        return log_beta - (k - total) * psi(total) - ((a - 1) * psi(a)).sum(axis=-1)


explain_room(globals())
