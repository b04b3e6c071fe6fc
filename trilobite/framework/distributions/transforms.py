"""Invertible functions of random values, with the logarithm of how much they stretch volume.

Enters: values. Leaves: transformed values, and log |dy/dx|. `event_dim` says how many of the last axes one
value has: the stretch is summed over them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.base.wrong_use import explain_room, explains
from trilobite.framework.distributions import constraints
from trilobite.framework.distributions.base import _sum_rightmost as sum_rightmost
from trilobite.framework.distributions.base import op
from trilobite.framework.nn.functional import softplus
from trilobite.framework.ops.shaping import handle


class Transform:
    """The base: `transform(x)`, `transform.inv(y)`, `log_abs_det_jacobian(x, y)`. With `cache_size=1` the
    last pair is kept, so that the inverse of a result is the very value that it came from.
    """

    guarded_whole = True  # a recording depends on every attribute
    bijective = True
    domain: Any = constraints.real
    codomain: Any = constraints.real
    sign: Any = 1
    event_dim = 0

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ArgumentError(
                f"a transform with cache_size={cache_size}", where=user_location(), expected="0 or 1"
            )
        self._pair = _Pair() if cache_size else None

    def __call__(self, x: Any) -> Any:
        pair = self._pair
        if pair is not None and pair.x is x:
            return pair.y
        y = self._call(handle(x))
        if pair is not None:
            pair.x, pair.y = x, y
        return y

    def _back(self, y: Any) -> Any:
        pair = self._pair
        if pair is not None and pair.y is y:
            return pair.x
        x = self._inverse(handle(y))
        if pair is not None:
            pair.x, pair.y = x, y
        return x

    @property
    def inv(self) -> Transform:
        return _InverseTransform(self)

    def _call(self, x: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no forward direction")

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no inverse")

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no log_abs_det_jacobian")

    def forward_shape(self, shape: Any) -> Any:
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        return shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _Pair:
    """The last value and its result; no setting, so a recording does not depend on it."""

    __slots__ = ("x", "y")

    def __init__(self) -> None:
        self.x = self.y = None


class _InverseTransform(Transform):
    """Another transform, read backwards."""

    def __init__(self, of: Transform) -> None:
        super().__init__()
        self._of = of
        self.event_dim, self.sign, self.bijective = of.event_dim, of.sign, of.bijective
        self.domain, self.codomain = of.codomain, of.domain

    def __call__(self, x: Any) -> Any:
        return self._of._back(x)

    def _back(self, y: Any) -> Any:
        return self._of(y)

    @property
    def inv(self) -> Transform:
        return self._of

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -self._of.log_abs_det_jacobian(y, x)

    def __repr__(self) -> str:
        return f"{self._of!r}.inv"


class ComposeTransform(Transform):
    """Several, the first one first."""

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = list(parts)
        self.event_dim = max((p.event_dim for p in self.parts), default=0)
        self.bijective = all(p.bijective for p in self.parts)
        if self.parts:
            self.domain, self.codomain = self.parts[0].domain, self.parts[-1].codomain

    @property
    def sign(self) -> Any:
        return math.prod(p.sign for p in self.parts)

    def _call(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y: Any) -> Any:
        for part in reversed(self.parts):
            y = part._back(y)
        return y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        total = op("zeros_like")(sum_rightmost(handle(x), self.event_dim))
        for part in self.parts:
            y = part(x)
            total = total + sum_rightmost(part.log_abs_det_jacobian(x, y), self.event_dim - part.event_dim)
            x = y
        return total


class AffineTransform(Transform):
    """loc + scale * x."""

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self.event_dim = loc, scale, event_dim

    @property
    def sign(self) -> Any:
        return (
            op("sign")(handle(self.scale)) if hasattr(self.scale, "dtype") else math.copysign(1, self.scale)
        )

    def _call(self, x: Any) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        stretch = op("log")(op("abs")(handle(self.scale).to(handle(x).dtype)))
        return sum_rightmost(op("broadcast_to")(stretch, handle(x).shape), self.event_dim)


class ExpTransform(Transform):
    """e to the x."""

    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return x.exp()

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x


class PowerTransform(Transform):
    """x to a power, of positive values."""

    domain = codomain = constraints.positive

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = exponent

    @property
    def sign(self) -> Any:
        exponent = self.exponent
        return op("sign")(exponent) if hasattr(exponent, "dtype") else math.copysign(1, exponent)

    def _call(self, x: Any) -> Any:
        return x**self.exponent

    def _inverse(self, y: Any) -> Any:
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return op("log")(op("abs")(self.exponent * y / x))


class SigmoidTransform(Transform):
    """1 / (1 + e to the -x)."""

    codomain = constraints.unit_interval

    def _call(self, x: Any) -> Any:
        return op("sigmoid")(x)

    def _inverse(self, y: Any) -> Any:
        return op("log")(y) - op("log1p")(-y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -_softplus(-x) - _softplus(x)


class TanhTransform(Transform):
    """tanh x; the stretch is computed from x, which loses nothing where y is near 1."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Any) -> Any:
        return x.tanh()

    def _inverse(self, y: Any) -> Any:
        return op("atanh")(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return 2.0 * (math.log(2.0) - x - _softplus(-2.0 * x))


class SoftplusTransform(Transform):
    """log(1 + e to the x)."""

    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return _softplus(x)

    def _inverse(self, y: Any) -> Any:
        return op("log")(-op("expm1")(-y)) + y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -_softplus(-x)


def _softplus(x: Any) -> Any:
    return op("logaddexp")(x, op("zeros_like")(x))


class StickBreakingTransform(Transform):
    """Numbers as shares of a stick of length 1, each of what those before have left: one share more than
    there are numbers.
    """

    domain, codomain, event_dim = constraints.real_vector, constraints.simplex, 1

    def _offset(self, n: int, dtype: Any) -> Any:
        return op("log")(op("arange")(n, 0, -1, dtype=dtype))

    def _call(self, x: Any) -> Any:
        share = op("sigmoid")(x - self._offset(x.shape[-1], x.dtype))
        left = op("cumprod")(1 - share, axis=-1)
        one = op("ones_like")(share[..., :1])
        join = op("concat")
        return join([share, one], axis=-1) * join([one, left], axis=-1)

    def _inverse(self, y: Any) -> Any:
        head = y[..., :-1]
        tiny = op("finfo")(y.dtype).smallest_normal
        left = op("clip")(1 - op("cumsum")(head, axis=-1), tiny, None)
        return head.log() - left.log() + self._offset(head.shape[-1], y.dtype)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        shifted = x - self._offset(x.shape[-1], x.dtype)
        return (y[..., :-1].log() - softplus(shifted)).sum(axis=-1)

    def forward_shape(self, shape: Any) -> Any:
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: Any) -> Any:
        return (*shape[:-1], shape[-1] - 1)


class SoftmaxTransform(Transform):
    """Numbers as probabilities, up to a common factor; not one to one."""

    domain, codomain, event_dim, bijective = constraints.real_vector, constraints.simplex, 1, False

    def _call(self, x: Any) -> Any:
        return op("softmax")(x, axis=-1)

    def _inverse(self, y: Any) -> Any:
        return y.log()


class AbsTransform(Transform):
    """The size of a number; its inverse is the positive one."""

    codomain, bijective = constraints.nonnegative, False

    def _call(self, x: Any) -> Any:
        return x.abs()

    def _inverse(self, y: Any) -> Any:
        return y


identity_transform = ComposeTransform([])


class LowerCholeskyTransform(Transform):
    """Any matrix as a triangular one with a positive diagonal."""

    event_dim = 2

    def __call__(self, x: Any) -> Any:
        on = op("diagonal")(x, 0, -2, -1).exp()
        return op("tril")(x, k=-1) + op("eye")(x.shape[-1], dtype=x.dtype) * on[..., None]

    def _back(self, y: Any) -> Any:
        on = op("diagonal")(y, 0, -2, -1).log()
        return op("tril")(y, k=-1) + op("eye")(y.shape[-1], dtype=y.dtype) * on[..., None]


class Ways:
    """From a set of values to a transform of real numbers into it; `register` adds one of the user's own."""

    def __init__(self, simplex: type[Transform]) -> None:
        self._known: dict[Any, Any] = {
            id(constraints.simplex): lambda c: simplex(),
            id(constraints.lower_cholesky): lambda c: LowerCholeskyTransform(),
        }

    def register(self, constraint: Any, factory: Any = None) -> Any:
        """`register(constraint, factory)`, or as a decorator; a class stands for its objects."""
        if factory is None:
            return lambda f: self.register(constraint, f)
        self._known[constraint if isinstance(constraint, type) else id(constraint)] = factory
        return factory

    @explains
    def __call__(self, constraint: Any) -> Any:
        found = self._known.get(id(constraint), self._known.get(type(constraint)))
        if found is not None:
            return found(constraint)
        if constraint.bounds is None:
            raise NotImplementedError(f"there is no transform into {constraint}")
        low, high = constraint.bounds
        if low is None and high is None:
            return identity_transform
        if low is None or high is None:
            one_sided = AffineTransform(high if low is None else low, -1.0 if low is None else 1.0)
            plain = high is None and isinstance(low, (int, float)) and low == 0
            return ExpTransform() if plain else ComposeTransform([ExpTransform(), one_sided])
        if isinstance(low, (int, float)) and (low, high) == (0, 1):
            return SigmoidTransform()
        return ComposeTransform([SigmoidTransform(), AffineTransform(low, high - low)])


transform_to, biject_to = Ways(SoftmaxTransform), Ways(StickBreakingTransform)


explain_room(globals())
