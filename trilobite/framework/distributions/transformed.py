"""A distribution whose draws go through invertible functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.base.wrong_use import explain_room
from trilobite.framework.distributions.base import Distribution, op
from trilobite.framework.distributions.base import _sum_rightmost as sum_rightmost
from trilobite.framework.distributions.transforms import ComposeTransform, Transform
from trilobite.framework.modes import no_grad


class TransformedDistribution(Distribution):
    """Draws of `base_distribution` after `transforms`, the first one first."""

    def __init__(
        self,
        base_distribution: Any,
        transforms: Transform | Sequence[Transform],
        validate_args: bool | None = None,
    ) -> None:
        self.base_dist = base_distribution
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        if not all(isinstance(t, Transform) for t in self.transforms):
            raise ArgumentError(
                f"TransformedDistribution by {self.transforms!r}",
                where=user_location(),
                expected="transforms of tb.distributions.transforms",
            )
        shape = (*base_distribution.batch_shape, *base_distribution.event_shape)
        own = ComposeTransform(self.transforms).event_dim
        if own > len(shape):
            raise ArgumentError(
                f"TransformedDistribution of draws of shape {shape} by transforms of {own} axes",
                where=user_location(),
                expected=f"draws with at least {own} axes",
            )
        for transform in self.transforms:
            shape = tuple(transform.forward_shape(shape))
        cut = len(shape) - max(own, len(base_distribution.event_shape))
        super().__init__(shape[:cut], shape[cut:])
        self.has_rsample = base_distribution.has_rsample

    def _through(self, x: Any) -> Any:
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draws without a gradient."""
        with no_grad():
            return self._through(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draws that depend on the parameters, also on those of the transforms."""
        return self._through(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        """By the change of variables, from the last transform back to the first."""
        axes, stretch, y = len(self.event_shape), 0.0, value
        for transform in reversed(self.transforms):
            x = transform._back(y)
            own = transform.log_abs_det_jacobian(x, y)
            stretch = stretch + sum_rightmost(own, axes - transform.event_dim)
            y = x
        base = self.base_dist.log_prob(y)
        return sum_rightmost(base, axes - len(self.base_dist.event_shape)) - stretch

    def _monotone(self, value: Any) -> Any:
        """A probability of values below as one of the base's: transforms that fall exchange the sides."""
        sign = ComposeTransform(self.transforms).sign
        if hasattr(sign, "dtype"):
            return op("where")(sign > 0, value, 1 - value)
        return value if sign > 0 else 1 - value

    def cdf(self, value: Any) -> Any:
        for transform in reversed(self.transforms):
            value = transform._back(value)
        return self._monotone(self.base_dist.cdf(value))

    def icdf(self, value: Any) -> Any:
        return self._through(self.base_dist.icdf(self._monotone(value)))


explain_room(globals())
