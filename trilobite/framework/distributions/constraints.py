"""`tb.distributions.constraints`: sets that parameters and draws lie in, and whether values do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


class Constraint:
    """A set of values: `check(x)` says of each whether it is inside."""

    is_discrete = False

    def __init__(self, name: str, inside: Callable[[Any], Any], event_dim: int = 0) -> None:
        self._name, self._inside, self.event_dim = name, inside, event_dim

    def check(self, value: Any) -> Any:
        return self._inside(value)

    def __repr__(self) -> str:
        return self._name


def greater_than(lower_bound: Any) -> Constraint:
    return Constraint(f"GreaterThan(lower_bound={lower_bound})", lambda x: x > lower_bound)


def greater_than_eq(lower_bound: Any) -> Constraint:
    return Constraint(f"GreaterThanEq(lower_bound={lower_bound})", lambda x: x >= lower_bound)


def less_than(upper_bound: Any) -> Constraint:
    return Constraint(f"LessThan(upper_bound={upper_bound})", lambda x: x < upper_bound)


def interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    name = f"Interval(lower_bound={lower_bound}, upper_bound={upper_bound})"
    return Constraint(name, lambda x: (x >= lower_bound) & (x <= upper_bound))


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
real = Constraint("Real()", lambda x: x == x)
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
