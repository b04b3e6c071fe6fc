"""Distributions over matrices and over probabilities: Wishart, and normal numbers as a simplex."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.base.wrong_use import explain_room
from trilobite.framework.distributions.base import Distribution, broadcast, op, positive
from trilobite.framework.distributions.continuous import Beta, Chi2, Normal
from trilobite.framework.distributions.multivariate import Independent, triangular_factor
from trilobite.framework.distributions.transformed import TransformedDistribution
from trilobite.framework.distributions.transforms import StickBreakingTransform
from trilobite.framework.ops import linalg, special
from trilobite.framework.random import draws


class LogisticNormal(TransformedDistribution):
    """Normal numbers broken from a stick: one more probability than there are numbers."""

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        positive("LogisticNormal", scale=scale)
        loc, scale = broadcast(loc, scale)
        self.loc, self.scale = loc, scale
        super().__init__(Independent(Normal(loc, scale), 1), StickBreakingTransform())


class Wishart(Distribution):
    """Sums of squares of normal vectors: positive definite matrices, by Bartlett's factors."""

    def __init__(
        self, df: Any, covariance_matrix: Any = None, precision_matrix: Any = None, scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        scale_tril = triangular_factor("Wishart", covariance_matrix, precision_matrix, scale_tril)
        n = scale_tril.shape[-1]
        degrees = op("asarray")(df, dtype=scale_tril.dtype)
        batch = op("broadcast_shapes")(tuple(scale_tril.shape[:-2]), tuple(degrees.shape))
        self.df = op("broadcast_to")(degrees, batch)
        self.scale_tril = op("broadcast_to")(scale_tril, (*batch, n, n))
        positive("Wishart", df=self.df - (n - 1))
        super().__init__(batch, (n, n))

    @property
    def covariance_matrix(self) -> Any:
        return self.scale_tril @ self.scale_tril.mT

    @property
    def precision_matrix(self) -> Any:
        return op("inverse")(self.covariance_matrix)

    @property
    def mean(self) -> Any:
        return self.df[..., None, None] * self.covariance_matrix

    @property
    def variance(self) -> Any:
        v = self.covariance_matrix
        on = op("diagonal")(v, 0, -2, -1)
        return self.df[..., None, None] * (v**2 + on[..., :, None] * on[..., None, :])

    def _draw(self, shape: tuple[Any, ...]) -> Any:
        n = self.event_shape[-1]
        low = op("tril")(draws.normal(shape, dtype=self.df.dtype), k=-1)
        degrees = self.df[..., None] - op("arange")(n, dtype=self.df.dtype)
        roots = Chi2(op("broadcast_to")(degrees, shape[:-1]))._draw(tuple(shape[:-1])).sqrt()
        factor = self.scale_tril @ (low + op("eye")(n, dtype=low.dtype) * roots[..., None, :])
        return factor @ factor.mT

    def log_prob(self, value: Any) -> Any:
        n, df = self.event_shape[-1], self.df
        half = op("diagonal")(self.scale_tril, 0, -2, -1).log().sum(axis=-1)
        spread = linalg.solve(self.covariance_matrix + 0 * value, value + 0 * self.covariance_matrix)
        trace = op("diagonal")(spread, 0, -2, -1).sum(axis=-1)
        score = (df - n - 1) / 2 * linalg.slogdet(value).logabsdet - trace / 2
        return score - df * n / 2 * math.log(2.0) - df * half - special.mvlgamma(df / 2, n)


class LKJCholesky(Distribution):
    """Triangular factors of correlation matrices (Lewandowski, Kurowicka, Joe 2009): their density is a power
    of the determinant. Drawn row by row, each a direction in a ball of a radius with a beta law.
    """

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ArgumentError(f"LKJCholesky of dim {dim}", where=user_location(), expected="at least 2")
        positive("LKJCholesky", concentration=concentration)
        (self.concentration,) = broadcast(concentration)
        self.dim = dim
        super().__init__(tuple(self.concentration.shape), (dim, dim))

    def _draw(self, shape: tuple[Any, ...]) -> Any:
        n, dtype = self.dim, self.concentration.dtype
        row = op("arange")(n - 1, dtype=dtype)  # of those below the first, which is (1, 0, ..., 0)
        spread = self.concentration[..., None] + (n - 2 - row) / 2
        radius = Beta(0.5 + row / 2 + 0 * spread, spread)
        length = radius._draw((*shape[:-2], n - 1)).sqrt()[..., None]
        way = op("tril")(draws.normal((*shape[:-2], n, n), dtype=dtype), k=-1)[..., 1:, :]
        rows = length * way / (way * way).sum(axis=-1, keepdims=True).sqrt()
        below = op("concat")([op("zeros_like")(rows[..., :1, :]), rows], axis=-2)
        rest = (1 - (below * below).sum(axis=-1)).clamp(float(np.finfo(dtype).tiny)).sqrt()
        return below + op("eye")(n, dtype=dtype) * rest[..., None]

    def log_prob(self, value: Any) -> Any:
        n, power = self.dim, self.concentration
        on = op("diagonal")(value, 0, -2, -1)[..., 1:]
        order = 2 * (power[..., None] - 1) + n - op("arange")(2, n + 1, dtype=value.dtype)
        alpha = power + (n - 1) / 2
        whole = (n - 1) / 2 * math.log(math.pi) + special.mvlgamma(alpha - 0.5, n - 1)
        return (order * on.log()).sum(axis=-1) - whole + op("lgamma")(alpha) * (n - 1)


__all__ = ["LKJCholesky", "LogisticNormal", "Wishart"]


explain_room(globals())
