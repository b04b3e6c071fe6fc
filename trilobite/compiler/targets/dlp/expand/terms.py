"""Words for rules: primitives as short functions, with Python numbers as operands where they meet a value."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from trilobite.base.dtypes import DType
from trilobite.ir.primitive import Value, table
from trilobite.ir.primitives.common import cast_to

Operand = Any  # a value, or a Python number that takes its neighbour's shape and dtype
cast = cast_to


def full(shape: Sequence[Any], dtype: DType, value: Any) -> Value:
    return table["full"](shape=tuple(shape), dtype=dtype, value=value)


def like(x: Value, value: Any) -> Value:
    return full(x.shape, x.dtype, value)


def _pair(name: str, x: Operand, y: Operand) -> Value:
    if not hasattr(x, "dtype"):
        x = like(y, x)
    if not hasattr(y, "dtype"):
        y = like(x, y)
    return table[name](x, y)


def add(x: Operand, y: Operand) -> Value:
    return _pair("add", x, y)


def sub(x: Operand, y: Operand) -> Value:
    return _pair("sub", x, y)


def mul(x: Operand, y: Operand) -> Value:
    return _pair("mul", x, y)


def div(x: Operand, y: Operand) -> Value:
    return _pair("div", x, y)


def maximum(x: Operand, y: Operand) -> Value:
    return _pair("maximum", x, y)


def minimum(x: Operand, y: Operand) -> Value:
    return _pair("minimum", x, y)


def compare(name: str, x: Operand, y: Operand) -> Value:
    return _pair(name, x, y)


def bitwise(name: str, x: Operand, y: Operand) -> Value:
    return _pair(name, x, y)


def one(name: str, x: Value) -> Value:
    return table[name](x)


def select(p: Value, x: Operand, y: Operand) -> Value:
    if not hasattr(x, "dtype"):
        x = like(y, x)
    if not hasattr(y, "dtype"):
        y = like(x, y)
    return table["select"](p, x, y)


def bitcast(x: Value, dtype: DType) -> Value:
    return table["bitcast"](x, dtype=dtype)


def reshape(x: Value, *shape: Any) -> Value:
    return x if tuple(x.shape) == shape else table["reshape"](x, shape=shape)


def transpose(x: Value, axes: Sequence[int]) -> Value:
    return x if tuple(axes) == tuple(range(x.ndim)) else table["transpose"](x, axes=tuple(axes))


def broadcast(x: Value, shape: Sequence[Any], axes: Sequence[int]) -> Value:
    return table["broadcast"](x, shape=tuple(shape), axes=tuple(axes))


def iota(shape: Sequence[Any], dtype: DType, axis: int) -> Value:
    return table["iota"](shape=tuple(shape), dtype=dtype, axis=axis)


def constant(array: Any) -> Value:
    from trilobite.ir.graph import Dense

    return table["constant"](value=Dense(np.asarray(array)))


def part(x: Value, axis: int, start: int, stop: int, step: int = 1) -> Value:
    """A slice along one axis."""
    begin = tuple(start if i == axis else 0 for i in range(x.ndim))
    end = tuple(stop if i == axis else n for i, n in enumerate(x.shape))
    if begin == (0,) * x.ndim and end == tuple(x.shape) and step == 1:
        return x
    return table["slice"](
        x, start=begin, stop=end, step=tuple(step if i == axis else 1 for i in range(x.ndim))
    )


def join(values: Sequence[Value], axis: int) -> Value:
    return values[0] if len(values) == 1 else table["concatenate"](*values, axis=axis)


def padded(x: Value, axis: int, low: int, high: int, value: Any, between: int = 0) -> Value:
    def at(n: int) -> tuple[int, ...]:
        return tuple(n if i == axis else 0 for i in range(x.ndim))

    return table["pad"](x, low=at(low), high=at(high), between=at(between), value=value)


def reverse(x: Value, axis: int) -> Value:
    return table["reverse"](x, axes=(axis,))


def reduce(name: str, x: Value, axes: Sequence[int]) -> Value:
    return table[f"reduce_{name}"](x, axes=tuple(axes))


def spread(x: Value, shape: Sequence[Any], axes: Sequence[int]) -> Value:
    """A reduced value repeated along the axes that were reduced."""
    return broadcast(x, shape, [i for i in range(len(shape)) if i not in axes])


def size(shape: Sequence[Any]) -> int:
    return prod(shape)


def product(x: Value, y: Value, dtype: DType | None = None) -> Value:
    """Of matrices: the last axis of x with the one before the last of y, leading axes batched."""
    lead = tuple(range(x.ndim - 2))
    return table["dot"](
        x, y, contract=((x.ndim - 1,), (y.ndim - 2,)), batch=(lead, lead), dtype=dtype or x.dtype
    )
