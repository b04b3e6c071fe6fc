"""Dropout of tensors. Keys come from the global generator: a seed makes a run repeatable, under jit too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from trilobite.base.errors import ArgumentError, ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.nn.composites import dropout as c
from trilobite.framework.nn.functional.calling import run
from trilobite.framework.ops.inplace import assign
from trilobite.framework.ops.registry import copy_value
from trilobite.framework.random import next_key
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.transforms.composite import Composite
from trilobite.ir.types import Shape


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero each element with probability p and scale the others up by 1/(1-p)."""
    return _drop(c.dropout, input, p, training, inplace, input.shape)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout that keeps selu's mean and variance."""
    return _drop(c.alpha_dropout, input, p, training, inplace, input.shape)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """alpha_dropout of whole channels."""
    if not training:
        return input
    return _drop(c.alpha_dropout, input, p, training, inplace, _channels(input, input.ndim - 2))


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Dropout of whole channels of (N, C, L) or (C, L)."""
    return _drop(c.dropout, input, p, training, inplace, _channels(input, 1))


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Dropout of whole channels of (N, C, H, W) or (C, H, W)."""
    return _drop(c.dropout, input, p, training, inplace, _channels(input, 2))


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Dropout of whole channels of (N, C, D, H, W) or (C, D, H, W)."""
    return _drop(c.dropout, input, p, training, inplace, _channels(input, 3))


class Part(NamedTuple):
    """A tensor is a part of a larger one along an axis: `begin` of `whole`."""

    axis: int
    begin: int
    whole: int


parts: ContextVar[tuple[Part, ...]] = ContextVar("parts", default=())
"""What tensors are parts of, where processes share a batch: set by `tb.cluster.one_randomness`."""


@contextmanager
def batch_second() -> Iterator[None]:
    """Inside, the batch is axis 1: recurrent layers have time in front."""
    token = parts.set(tuple(p._replace(axis=1) if p.axis == 0 else p for p in parts.get()))
    try:
        yield
    finally:
        parts.reset(token)


def _within(shape: Shape) -> tuple[Shape, Shape]:
    """The shape of the whole mask, and where this one begins in it."""
    whole, begin = list(shape), [0] * len(shape)
    for part in parts.get():
        axis = part.axis % len(shape) if -len(shape) <= part.axis < len(shape) else None
        if axis is None:
            raise ShapeError(
                f"dropout of {list(shape)} as a part along axis {part.axis}",
                where=user_location(),
                expected="tensors that have this axis, as one_randomness says",
            )
        whole[axis], begin[axis] = part.whole, part.begin
    return tuple(whole), tuple(begin)


def _channels(x: Tensor, space: int) -> Shape:
    if x.ndim not in (space + 1, space + 2) or space < 0:
        raise ShapeError(
            f"dropout of channels of shape {tuple(x.shape)}",
            where=user_location(),
            expected=f"{space + 1} or {space + 2} axes: perhaps a batch, channels, and {space} of space",
        )
    return (*x.shape[: x.ndim - space], *[1] * space)


def _drop(fn: Composite, x: Tensor, p: float, training: bool, inplace: bool, shape: Shape) -> Tensor:
    if not 0.0 <= p <= 1.0:
        raise ArgumentError(
            f"dropout with p = {p}", where=user_location(), expected="a probability between 0 and 1"
        )
    if not training or p == 0.0:
        return x
    key = wrap(next_key())
    within = {"within": _within(shape)} if parts.get() else {}
    if not inplace:
        return run(fn, x, key, p=float(p), shape=shape, **within)
    # What others keep of x for their gradients (an activation before this one, say) is not what changes.
    source = wrap(copy_value(x._read()))
    return assign(x, run(fn, source, key, p=float(p), shape=shape, **within), "dropout in place")
