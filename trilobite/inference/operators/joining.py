"""Joining, splitting and padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import trilobite as tb
from trilobite.base.errors import ArgumentError
from trilobite.framework.tensor import Tensor
from trilobite.inference.model import Node
from trilobite.inference.operators.primitives import primitive
from trilobite.inference.operators.registry import operator
from trilobite.inference.operators.shaping import fixed, ints

Array = np.ndarray[Any, Any]


@operator("Concat")
def concat(node: Node, *operands: Tensor) -> Tensor:
    return tb.concat(list(operands), axis=node.attribute("axis", 1))


def _parts(x: Tensor, axis: int, sizes: Sequence[int]) -> tuple[Tensor, ...]:
    out, start = [], 0
    for n in sizes:
        key = tuple(slice(start, start + n) if a == axis else slice(None) for a in range(x.ndim))
        out.append(x[key])
        start += n
    return tuple(out)


def equal_sizes(extent: int, count: int) -> list[int]:
    """As even as whole numbers allow: all alike but the last, which may be smaller."""
    each = -(-extent // count)
    return [max(0, min(each, extent - i * each)) for i in range(count)]


@operator("Split")
def split_by_attribute(node: Node, x: Tensor, sizes: Any = None) -> tuple[Tensor, ...]:
    axis = node.attribute("axis", 0) % x.ndim
    given = node.attribute("split") or equal_sizes(x.shape[axis], len(node.outputs))
    return _parts(x, axis, given)


@operator("Split", since=13, known=(1,))
def split(node: Node, x: Tensor, sizes: Array | None = None) -> tuple[Tensor, ...]:
    axis = node.attribute("axis", 0) % x.ndim
    count = node.attribute("num_outputs", len(node.outputs))
    return _parts(x, axis, equal_sizes(x.shape[axis], count) if sizes is None else ints(sizes))


@operator("Pad")
def pad_by_attribute(node: Node, x: Tensor) -> Tensor:
    sides = node.attribute("pads") or node.attribute("paddings")
    return _padded(x, sides, range(x.ndim), node.attribute("mode", "constant"), node.attribute("value", 0.0))


@operator("Pad", since=11, known=(1, 2, 3))
def pad(node: Node, x: Tensor, sides: Array, value: Array | None = None, axes: Array | None = None) -> Tensor:
    number = 0 if value is None or value.size == 0 else value.reshape(()).astype(x.dtype)
    which = range(x.ndim) if axes is None else [a % x.ndim for a in ints(axes)]
    return _padded(x, ints(sides), which, node.attribute("mode", "constant"), number)


def _padded(x: Tensor, sides: Sequence[int], axes: Sequence[int], mode: str, value: Any) -> Tensor:
    low, high = [0] * x.ndim, [0] * x.ndim
    for i, a in enumerate(axes):
        low[a], high[a] = sides[i], sides[i + len(axes)]
    if mode == "constant":
        number = np.asarray(value).astype(np.float64 if np.asarray(value).dtype.kind == "V" else None).item()
        return primitive("pad", x, low=tuple(low), high=tuple(high), between=(0,) * x.ndim, value=number)
    for a in range(x.ndim):
        if low[a] or high[a]:
            x = tb.index_select(x, a, tb.asarray(_sources(fixed(x.shape)[a], low[a], high[a], mode)))
    return x


def _sources(n: int, low: int, high: int, mode: str) -> Array:
    """Which element stands at each place of the padded axis."""
    place = np.arange(-low, n + high)
    if mode == "edge":
        return np.clip(place, 0, n - 1)
    if mode == "wrap":
        return place % n
    if mode == "reflect":
        period = max(2 * (n - 1), 1)
        place = np.abs(place) % period
        return np.where(place < n, place, period - place)
    raise ArgumentError(f"Pad with mode {mode!r}", expected="constant, reflect, edge or wrap")
