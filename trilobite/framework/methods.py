"""The operator table becomes methods of Tensor: each row under the names it gives, binary ones also reflected and in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trilobite.framework.ops.registry import operators
from trilobite.framework.tensor import Tensor

_REFLECTED = {
    "add": "__radd__", "subtract": "__rsub__", "multiply": "__rmul__", "divide": "__rtruediv__", "pow": "__rpow__",
    "matmul": "__rmatmul__", "floor_divide": "__rfloordiv__", "remainder": "__rmod__", "bitwise_and": "__rand__",
    "bitwise_or": "__ror__", "bitwise_xor": "__rxor__", "bitwise_left_shift": "__rlshift__", "bitwise_right_shift": "__rrshift__",
}  # fmt: skip
_OPERANDS = (Tensor, bool, int, float, complex, np.ndarray, np.generic)


def _operator(public: Callable[..., Any]) -> Callable[..., Any]:
    def dunder(self: Tensor, other: Any) -> Any:
        return public(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    return dunder


def _reflected(public: Callable[..., Any]) -> Callable[..., Any]:
    def dunder(self: Tensor, other: Any) -> Any:
        return public(other, self) if isinstance(other, _OPERANDS) else NotImplemented

    return dunder


def _in_place(name: str, public: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        from trilobite.framework.ops.inplace import assign

        return assign(self, public(self, *args, **kwargs), name)

    return method


def attach() -> None:
    """Give Tensor its methods."""
    for row in operators.values():
        binary = any(m.startswith("__") for m in row.methods) and row.name in _REFLECTED or row.methods[-1:] in (("__eq__",), ("__ne__",), ("__lt__",), ("__le__",), ("__gt__",), ("__ge__",))
        for method in row.methods:
            setattr(Tensor, method, _operator(row.public) if binary and method.startswith("__") else row.public)
            if not method.startswith("__") and row.group in ("elementwise", "linear algebra"):
                setattr(Tensor, f"{method}_", _in_place(f"{method}_", row.public))
        if row.name in _REFLECTED:
            reflected = _REFLECTED[row.name]
            setattr(Tensor, reflected, _reflected(row.public))
            setattr(Tensor, "__i" + reflected[3:], _in_place(f"{row.name} in place", row.public))
