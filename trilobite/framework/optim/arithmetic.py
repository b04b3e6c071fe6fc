"""Arithmetic of the updates, over values: an array of a parameter's shape with numbers that have no
dimensions.

The IR broadcasts explicitly; plain arrays need not, for NumPy spreads a number by itself and gives the
same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trilobite.base.dtypes import DType, accumulator, is_complex, real_of
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.primitives.common import cast_to
from trilobite.ir.transforms import bind as entry

add, sub, mul, div = table["add"], table["sub"], table["mul"], table["div"]
neg, sqrt, maximum, pow, select = table["neg"], table["sqrt"], table["maximum"], table["pow"], table["select"]
cast = cast_to
ZERO, ONE = np.asarray(0.0), np.asarray(1.0)
"""Numbers without dimensions, in float64: what hyperparameters are before they meet a parameter."""


def spread(number: Value, like: Value) -> Value:
    """A 0-d number over the shape of `like`."""
    plain = type(number) is np.ndarray and type(like) is np.ndarray
    if plain and entry.threads.context.recorder is None:
        return number
    return table["broadcast"](number, shape=like.shape, axes=())


def scale(x: Value, number: Value) -> Value:
    """x · number"""
    return mul(x, spread(number, x))


def towards(x: Value, target: Value, weight: Value) -> Value:
    """x + (target − x) · weight: a moving average takes a step."""
    return add(x, scale(sub(target, x), weight))


def square(x: Value) -> Value:
    return mul(x, x)


def complement(x: Value) -> Value:
    """1 − x, of a number."""
    return sub(ONE, x)


def as_real(x: Value) -> Value:
    """A complex value as real numbers, its parts side by side in a new last axis; a real one as it is."""
    if not is_complex(x.dtype):
        return x
    parts = [table["reshape"](table[part](x), shape=(*x.shape, 1)) for part in ("real", "imag")]
    return table["concatenate"](*parts, axis=x.ndim)


def from_real(x: Value, dtype: DType) -> Value:
    """What `as_real` was given."""
    if not is_complex(dtype):
        return cast(x, dtype)
    at = (0,) * (x.ndim - 1)
    parts = []
    for i in (0, 1):
        part = table["slice"](x, start=(*at, i), stop=(*x.shape[:-1], i + 1), step=(1,) * x.ndim)
        parts.append(table["reshape"](part, shape=x.shape[:-1]))
    return table["complex"](*parts)


def real_shape(shape: tuple[Any, ...], dtype: DType) -> tuple[Any, ...]:
    return (*shape, 2) if is_complex(dtype) else shape


def opened(p: Value, g: Value, maximize: bool, decay: Value | None = None) -> tuple[Value, Value]:
    """Parameter and gradient as real numbers in the precision of the arithmetic: the direction of
    descent, with the gradient of decay/2 · p² if there is a decay.
    """
    dtype = accumulator(real_of(p.dtype))
    x, g = cast(as_real(p), dtype), cast(as_real(g), dtype)
    if maximize:
        g = neg(g)
    return x, g if decay is None else add(g, scale(x, decay))


def closed(x: Value, p: Value) -> Value:
    """The new parameter in the old one's dtype: rounded once."""
    return from_real(x, p.dtype)
