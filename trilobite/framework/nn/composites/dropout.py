"""Dropout over values: bits of a key decide what stays, the same ones wherever key and shape are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trilobite.base.dtypes import bool_
from trilobite.framework.nn.composites.arithmetic import add, lt, mul, where
from trilobite.framework.random.keys import bits_value
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms.composite import composite
from trilobite.ir.types import Shape


def kept(key: Value, shape: Shape, p: float, within: tuple[Shape, Shape] | None = None) -> Value:
    """True with probability 1 - p, to within 2^-32. `within` is the shape of a larger mask and where this one
    begins in it: processes that share a batch drop what one process would.
    """
    words = bits_value(key, shape if within is None else within[0])
    if within is not None:
        lead = words.ndim - len(shape)  # keys of a batch
        start = (*[0] * lead, *within[1])
        stop = (*words.shape[:lead], *(b + d for b, d in zip(within[1], shape, strict=True)))
        words = table["slice"](words, start=start, stop=stop, step=(1,) * words.ndim)
    limit = round((1.0 - p) * 2**32)
    if limit > 0xFFFFFFFF:
        return table["full"](shape=words.shape, dtype=bool_, value=True)
    return lt(words, table["full"](shape=words.shape, dtype=words.dtype, value=limit))


def _dropout_forward(
    x: Value, key: Value, *, p: float, shape: Shape, within: Any = None
) -> tuple[Value, Sequence[Value]]:
    more = {} if within is None else {"within": within}
    return dropout(x, key, p=p, shape=shape, **more), (key,)


def _dropout_backward(
    residuals: Sequence[Value], cotangents: Sequence[Value], *, p: float, shape: Shape, within: Any = None
) -> list[Any]:
    """The cotangents that the mask lets pass: only the key is kept, so x may change afterwards."""
    (key,), (ct,) = residuals, cotangents
    if p >= 1.0:
        return [mul(ct, 0.0), None]
    return [where(kept(key, shape, p, within), mul(ct, 1.0 / (1.0 - p)), 0.0), None]


@composite("dropout", _dropout_forward, _dropout_backward)
def dropout(x: Value, key: Value, p: float, shape: Shape, within: Any = None) -> Value:
    """x/(1-p) where the mask (of `shape`, which broadcasts) says so, else 0."""
    if p >= 1.0:
        return mul(x, 0.0)
    return where(kept(key, shape, p, within), mul(x, 1.0 / (1.0 - p)), 0.0)


@composite("alpha_dropout")
def alpha_dropout(x: Value, key: Value, p: float, shape: Shape, within: Any = None) -> Value:
    """Dropout to selu's negative limit, then scaled and shifted so that mean and variance stay."""
    limit = -1.7580993408473766  # what selu tends to
    if p >= 1.0:
        return mul(x, 0.0)
    a = ((1.0 - p) * (1.0 + p * limit**2)) ** -0.5
    b = -a * limit * p
    return add(mul(where(kept(key, shape, p, within), x, limit), a), b)
