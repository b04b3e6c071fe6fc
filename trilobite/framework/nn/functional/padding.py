"""Padding of tensors: a number, reflections, the edge, or the other end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base.errors import ArgumentError, ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.nn.composites.arithmetic import join, window
from trilobite.framework.nn.functional.calling import run
from trilobite.framework.ops.axes import whole
from trilobite.framework.tensor import Tensor
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table

MODES = ("constant", "reflect", "replicate", "circular")


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Elements added on both sides of the last axes: (left, right) of the last, then of the one before, and
    so on.

    Negative numbers crop.
    """
    sides = tuple(whole(n, f"pad by {n!r}") for n in pad)
    if mode not in MODES:
        raise ArgumentError(
            f"pad(mode={mode!r})", where=user_location(), expected=f"one of {', '.join(MODES)}"
        )
    if len(sides) % 2 or len(sides) > 2 * input.ndim:
        raise ArgumentError(
            f"pad by {sides} of shape {tuple(input.shape)}",
            where=user_location(),
            expected="two numbers per axis, from the last axis on",
        )
    if mode != "constant" and value not in (None, 0):
        raise ArgumentError(
            f"pad(mode={mode!r}, value={value})",
            where=user_location(),
            expected="a value with 'constant' only",
        )
    return run(padded, input, sides=sides, mode=mode, value=0.0 if value is None else value)


def padded(x: Value, sides: Sequence[int], mode: str, value: float = 0.0) -> Value:
    """`pad` over values."""
    nd = x.ndim
    if mode == "constant":
        low, high = [0] * nd, [0] * nd
        for i in range(len(sides) // 2):
            low[nd - 1 - i], high[nd - 1 - i] = sides[2 * i], sides[2 * i + 1]
        _check_cropped(x, low, high)
        return table["pad"](x, low=tuple(low), high=tuple(high), between=(0,) * nd, value=value)
    for i in range(len(sides) // 2):
        x = _padded_axis(x, nd - 1 - i, sides[2 * i], sides[2 * i + 1], mode)
    return x


def _check_cropped(x: Value, low: Sequence[int], high: Sequence[int]) -> None:
    for a, (d, lo, hi) in enumerate(zip(x.shape, low, high, strict=True)):
        if isinstance(d, int) and d + lo + hi < 0:
            raise ShapeError(
                f"pad of axis {a} of shape {tuple(x.shape)} by {lo} and {hi}",
                where=user_location(),
                expected="at least 0 elements to remain",
            )


def _padded_axis(x: Value, axis: int, low: int, high: int, mode: str) -> Value:
    if low == 0 and high == 0:
        return x
    if mode == "circular" and min(low, high) < 0:  # what is cropped is no part of the circle
        x = window(x, axis, max(-low, 0), x.shape[axis] - max(-high, 0))
        low, high = max(low, 0), max(high, 0)
    n = x.shape[axis]
    room = {"reflect": n - 1, "circular": n, "replicate": max(low, high, 0) if n else 0}[mode]
    if max(low, high) > room:
        raise ShapeError(
            f"pad(mode={mode!r}) of axis {axis} with {n} elements by {low} and {high}",
            where=user_location(),
            expected=f"at most {room} on a side",
        )
    middle = window(x, axis, max(-low, 0), n - max(-high, 0))
    pieces = [middle]
    if low > 0:
        pieces.insert(0, _side(x, axis, low, mode, before=True))
    if high > 0:
        pieces.append(_side(x, axis, high, mode, before=False))
    return join(pieces, axis)


def _side(x: Value, axis: int, count: int, mode: str, before: bool) -> Value:
    """What stands before the first, or behind the last element."""
    n = x.shape[axis]
    if mode == "circular":
        return window(x, axis, n - count, n) if before else window(x, axis, 0, count)
    if mode == "reflect":
        part = window(x, axis, 1, count + 1) if before else window(x, axis, n - 1 - count, n - 1)
        return table["reverse"](part, axes=(axis,))
    edge = window(x, axis, 0, 1) if before else window(x, axis, n - 1, n)
    shape = tuple(count if i == axis else d for i, d in enumerate(x.shape))
    return table["broadcast"](edge, shape=shape, axes=tuple(range(x.ndim)))


def sides_of(padding: Sequence[int]) -> tuple[int, ...]:
    """Equal padding per axis of space, as the sides that `pad` takes."""
    return tuple(int(np.int64(n)) for p in reversed(padding) for n in (p, p))


def checked_rank(layer: str, x: Any, space: int) -> None:
    if x.ndim not in (space + 1, space + 2):
        raise ShapeError(
            f"{layer} of shape {tuple(x.shape)}",
            where=user_location(),
            expected=f"{space + 1} or {space + 2} axes: perhaps a batch, channels, and {space} of space",
            remedy="add the missing axes: x[None], or use the layer for another number of axes",
        )
