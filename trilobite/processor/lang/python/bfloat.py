"""Scalars of bf16 in interpreted kernels: as NumPy's scalars, but a literal takes the type of what it meets.

NumPy's own float formats do that; bf16 is no format of NumPy's, and with a float its scalars become f32.
Enters and leaves: values of ml_dtypes, held in `value`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np


class BFloat:
    """One bf16 number; every operation rounds, as the processor's does."""

    __slots__ = ("value",)
    __array_ufunc__ = None  # NumPy's scalars leave a common operation to this class

    def __init__(self, value: Any) -> None:
        self.value = ml_dtypes.bfloat16(value)

    def __repr__(self) -> str:
        return f"bf16({self.value})"

    def __float__(self) -> float:
        return float(self.value)

    def __int__(self) -> int:
        return int(float(self.value))

    def __bool__(self) -> bool:
        return float(self.value) != 0

    def __neg__(self) -> BFloat:
        return BFloat(-self.value)

    def __pos__(self) -> BFloat:
        return self

    def __abs__(self) -> BFloat:
        return BFloat(abs(self.value))

    def __pow__(self, exponent: int) -> Any:
        """A chain of products, from the left, as compiled kernels do it."""
        result: Any = self
        for _ in range(exponent - 1):
            result = self._apply(operator.mul, result, turned=True)
        return result

    __hash__ = object.__hash__

    def _apply(self, function: Callable[[Any, Any], Any], other: Any, turned: bool = False) -> Any:
        if isinstance(other, (BFloat, bool, int, float)) and not isinstance(other, np.generic):
            other = BFloat(other.value if isinstance(other, BFloat) else other).value
        elif not isinstance(other, np.generic):
            return NotImplemented
        found = function(other, self.value) if turned else function(self.value, other)
        return BFloat(found) if isinstance(found, ml_dtypes.bfloat16) else found


def _ahead(function: Callable[[Any, Any], Any]) -> Callable[[BFloat, Any], Any]:
    return lambda self, other: self._apply(function, other)


def _turned(function: Callable[[Any, Any], Any]) -> Callable[[BFloat, Any], Any]:
    return lambda self, other: self._apply(function, other, turned=True)


for _name in ("add", "sub", "mul", "truediv"):
    setattr(BFloat, f"__{_name}__", _ahead(getattr(operator, _name)))
    setattr(BFloat, f"__r{_name}__", _turned(getattr(operator, _name)))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(BFloat, f"__{_name}__", _ahead(getattr(operator, _name)))
