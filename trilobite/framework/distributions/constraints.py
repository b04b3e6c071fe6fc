"""`tb.distributions.constraints`: sets that parameters and draws lie in, and whether values do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


class Constraint:
    """A set of values: `check(x)` says of each whether it is inside. `bounds` are those of an open interval
    of real numbers, from which `transforms.transform_to` finds a way into the set.
    """

    is_discrete = False
    event_dim = 0
    bounds: tuple[Any, Any] | None = None

    def __init__(
        self, name: str = "", inside: Callable[[Any], Any] | None = None, event_dim: int = 0
    ) -> None:
        self._name, self._inside, self.event_dim = name or f"{type(self).__name__}()", inside, event_dim

    def check(self, value: Any) -> Any:
        if self._inside is None:
            raise NotImplementedError(f"{self._name} has no check")
        return self._inside(value)

    def within(self, lower: Any, upper: Any) -> Constraint:
        self.bounds = (lower, upper)
        return self

    def __repr__(self) -> str:
        return self._name


def greater_than(lower_bound: Any) -> Constraint:
    name = f"GreaterThan(lower_bound={lower_bound})"
    return Constraint(name, lambda x: x > lower_bound).within(lower_bound, None)


def greater_than_eq(lower_bound: Any) -> Constraint:
    name = f"GreaterThanEq(lower_bound={lower_bound})"
    return Constraint(name, lambda x: x >= lower_bound).within(lower_bound, None)


def less_than(upper_bound: Any) -> Constraint:
    name = f"LessThan(upper_bound={upper_bound})"
    return Constraint(name, lambda x: x < upper_bound).within(None, upper_bound)


def interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    name = f"Interval(lower_bound={lower_bound}, upper_bound={upper_bound})"
    return Constraint(name, lambda x: (x >= lower_bound) & (x <= upper_bound)).within(
        lower_bound, upper_bound
    )


def half_open_interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    name = f"HalfOpenInterval(lower_bound={lower_bound}, upper_bound={upper_bound})"
    return Constraint(name, lambda x: (x >= lower_bound) & (x < upper_bound)).within(lower_bound, upper_bound)


def integer_interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    name = f"IntegerInterval(lower_bound={lower_bound}, upper_bound={upper_bound})"
    return Constraint(name, lambda x: (x % 1 == 0) & (x >= lower_bound) & (x <= upper_bound))


def _symmetric(x: Any) -> Any:
    return (x - x.mT).abs().amax(dim=(-2, -1)) <= 1e-6


def _positive_definite(x: Any) -> Any:
    from trilobite.framework.ops.creation import tensor

    low = np.linalg.eigvalsh(np.asarray(x.detach().numpy())).min(axis=-1)
    return _symmetric(x) & tensor(low > 0)


boolean = Constraint("Boolean()", lambda x: (x == 0) | (x == 1))
nonnegative_integer = Constraint("IntegerGreaterThan(lower_bound=0)", lambda x: (x % 1 == 0) & (x >= 0))
positive_integer = Constraint("IntegerGreaterThan(lower_bound=1)", lambda x: (x % 1 == 0) & (x >= 1))
real = Constraint("Real()", lambda x: x == x).within(None, None)
real_vector = Constraint("RealVector()", lambda x: (x == x).all(dim=-1), 1)
positive, nonnegative = greater_than(0.0), greater_than_eq(0.0)
unit_interval = interval(0.0, 1.0)
simplex = Constraint("Simplex()", lambda x: (x >= 0).all(dim=-1) & ((x.sum(-1) - 1).abs() < 1e-6), 1)
symmetric = Constraint("Symmetric()", _symmetric, 2)
positive_definite = Constraint("PositiveDefinite()", _positive_definite, 2)
lower_triangular = Constraint("LowerTriangular()", lambda x: (x.tril() == x).all(dim=-1).all(dim=-1), 2)
lower_cholesky = Constraint(
    "LowerCholesky()", lambda x: lower_triangular.check(x) & (x.diagonal(dim1=-2, dim2=-1) > 0).all(dim=-1), 2
)
dependent = Constraint("Dependent()", lambda x: x == x)
square = Constraint("Square()", lambda x: (x == x).all(dim=-1).all(dim=-1), 2)
one_hot = Constraint("OneHot()", lambda x: ((x == 0) | (x == 1)).all(dim=-1) & (x.sum(-1) == 1), 1)
positive_semidefinite = Constraint("PositiveSemidefinite()", _symmetric, 2)


def _correlations(x: Any) -> Any:
    rows = ((x * x).sum(-1) - 1).abs() <= 10 * x.shape[-1] * float(np.finfo(x.dtype).eps)
    return lower_cholesky.check(x) & rows.all(dim=-1)


corr_cholesky = Constraint("CorrCholesky()", _correlations, 2)


def independent(base_constraint: Constraint, reinterpreted_batch_ndims: int) -> Constraint:
    """Axes that lie in a set together."""

    def inside(x: Any) -> Any:
        found = base_constraint.check(x)
        for _ in range(reinterpreted_batch_ndims):
            found = found.all(dim=-1)
        return found

    dims = base_constraint.event_dim + reinterpreted_batch_ndims
    made = Constraint(f"IndependentConstraint({base_constraint}, {reinterpreted_batch_ndims})", inside, dims)
    made.bounds = base_constraint.bounds
    return made


class dependent_property(property, Constraint):
    """A property that is a set which depends on parameters: `@dependent_property(event_dim=1)`."""

    def __init__(self, fn: Any = None, *, is_discrete: bool = False, event_dim: int = 0) -> None:
        super().__init__(fn)
        self._name, self._inside = "Dependent()", None
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, fn: Any) -> dependent_property:
        return dependent_property(fn, is_discrete=self.is_discrete, event_dim=self.event_dim)


def is_dependent(constraint: Any) -> bool:
    """Does the set depend on parameters?"""
    return constraint is dependent or isinstance(constraint, dependent_property)
