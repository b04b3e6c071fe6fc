"""Arithmetic of elements: one, two or many operands. Old versions broadcast by an attribute."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import trilobite as tb
from trilobite.framework.tensor import Tensor
from trilobite.inference.model import Node
from trilobite.inference.operators.registry import operator

_UNARY: dict[str, Callable[..., Tensor]] = {
    "Abs": tb.abs, "Acos": tb.acos, "Acosh": tb.acosh, "Asin": tb.asin, "Asinh": tb.asinh, "Atan": tb.atan,
    "Atanh": tb.atanh, "Ceil": tb.ceil, "Cos": tb.cos, "Cosh": tb.cosh, "Erf": tb.erf, "Exp": tb.exp,
    "Floor": tb.floor, "Log": tb.log, "Neg": tb.negative, "Reciprocal": tb.reciprocal, "Round": tb.round,
    "Sign": tb.sign, "Sin": tb.sin, "Sinh": tb.sinh, "Sqrt": tb.sqrt, "Tan": tb.tan, "Tanh": tb.tanh,
    "Not": tb.logical_not, "BitwiseNot": tb.bitwise_invert, "IsNaN": tb.isnan,
}  # fmt: skip


def _enter_unary(op: str, function: Callable[..., Tensor]) -> None:
    @operator(op)
    def unary(node: Node, x: Tensor) -> Tensor:
        return function(x)


for _op, _function in _UNARY.items():
    _enter_unary(_op, _function)


def divided(x: Tensor, y: Tensor) -> Tensor:
    """Of integers, the quotient rounded towards zero."""
    if x.dtype.kind not in "iu" and "int" not in x.dtype.name:
        return tb.divide(x, y)
    down = tb.floor_divide(x, y)
    inexact = tb.logical_and(down < 0, tb.not_equal(down * y, x))
    return tb.where(inexact, down + 1, down).astype(x.dtype)


def power(x: Tensor, y: Tensor) -> Tensor:
    """In the dtype of the base; a float exponent of an integer counts as a float."""
    if x.dtype == y.dtype:
        return tb.pow(x, y)
    if tb.is_floating_point(y) and not tb.is_floating_point(x):
        return tb.pow(x.astype(y.dtype), y).astype(x.dtype)
    return tb.pow(x, y.astype(x.dtype))


_BINARY: dict[str, Callable[..., Tensor]] = {
    "Add": tb.add, "Sub": tb.subtract, "Mul": tb.multiply, "Div": divided, "Pow": power,
    "And": tb.logical_and, "Or": tb.logical_or, "Xor": tb.logical_xor, "Equal": tb.equal,
    "Less": tb.less, "Greater": tb.greater, "LessOrEqual": tb.less_equal, "GreaterOrEqual": tb.greater_equal,
    "BitwiseAnd": tb.bitwise_and, "BitwiseOr": tb.bitwise_or, "BitwiseXor": tb.bitwise_xor,
}  # fmt: skip


def lined_up(node: Node, x: Tensor, y: Tensor) -> Tensor:
    """y with axes of size 1 behind it, where an old version says at which axis of x it begins."""
    axis = node.attribute("axis")
    if node.version >= 7 or not node.attribute("broadcast", 0) or axis is None:
        return y
    behind = x.ndim - (axis % x.ndim) - y.ndim
    return tb.reshape(y, (*y.shape, *[1] * behind))


def _enter_binary(op: str, function: Callable[..., Tensor]) -> None:
    @operator(op, gives="numbers" if op == "Equal" else "same")
    def binary(node: Node, x: Tensor, y: Tensor) -> Tensor:
        return function(x, lined_up(node, x, y))


for _op, _function in _BINARY.items():
    _enter_binary(_op, _function)


@operator("Mod", since=10)
def mod(node: Node, x: Tensor, y: Tensor) -> Tensor:
    return (tb.fmod if node.attribute("fmod", 0) else tb.remainder)(x, y)


@operator("BitShift", since=11)
def bit_shift(node: Node, x: Tensor, y: Tensor) -> Tensor:
    left = node.attributes["direction"] == "LEFT"
    return (tb.bitwise_left_shift if left else tb.bitwise_right_shift)(x, y)


_FOLDED: dict[str, Callable[..., Tensor]] = {"Sum": tb.add, "Max": tb.maximum, "Min": tb.minimum}


def _enter_folded(op: str, function: Callable[..., Tensor]) -> None:
    @operator(op)
    def many(node: Node, *operands: Tensor) -> Tensor:
        return reduce(function, operands)


for _op, _function in _FOLDED.items():
    _enter_folded(_op, _function)


@operator("Mean")
def mean(node: Node, *operands: Tensor) -> Tensor:
    return reduce(tb.add, operands) / len(operands)


@operator("Clip")
def clip_by_attributes(node: Node, x: Tensor) -> Tensor:
    low, high = node.attribute("min"), node.attribute("max")
    return tb.clip(x, low, high) if low is not None or high is not None else x


@operator("Clip", since=11)
def clip(node: Node, x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    if low is not None:
        x = tb.maximum(x, tb.reshape(low, ()))
    return x if high is None else tb.minimum(x, tb.reshape(high, ()))


@operator("IsInf", since=10)
def is_inf(node: Node, x: Tensor) -> Tensor:
    out, above = tb.isinf(x), x > 0
    if not node.attribute("detect_negative", 1):
        out = tb.logical_and(out, above)
    if not node.attribute("detect_positive", 1):
        out = tb.logical_and(out, tb.logical_not(above))
    return out


@operator("Where", since=9)
def where(node: Node, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return tb.where(condition, x, y)


@operator("Identity")
def identity(node: Node, x: Any) -> Any:
    return x


@operator("CumSum", since=11, known=(1,))
@operator("CumProd", since=26, known=(1,))
def cumulative(node: Node, x: Tensor, axis: Any) -> Tensor:
    """Running sums or products; exclusive ones begin with the neutral element."""
    at = int(axis.reshape(())) % x.ndim
    function, neutral = (tb.cumprod, 1) if node.op == "CumProd" else (tb.cumsum, 0)
    if node.attribute("reverse", 0):
        x = tb.flip(x, axis=at)
    out = function(x, at, dtype=x.dtype)
    if node.attribute("exclusive", 0):
        kept = tuple(slice(None) if a != at else slice(0, x.shape[at] - 1) for a in range(x.ndim))
        first = tb.full(tuple(1 if a == at else d for a, d in enumerate(x.shape)), neutral, dtype=x.dtype)
        out = tb.concat([first, out[kept]], axis=at)
    return tb.flip(out, axis=at) if node.attribute("reverse", 0) else out


@operator("Det", since=11)
def det(node: Node, x: Tensor) -> Tensor:
    return tb.linalg.det(x)


@operator("Einsum", since=12)
def einsum(node: Node, *operands: Tensor) -> Tensor:
    return tb.einsum(node.attributes["equation"], *operands)
