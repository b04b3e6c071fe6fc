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


MOST_RUNS = 8  # of a padded axis that is joined from pieces


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
            x = _taken(x, a, _sources(fixed(x.shape)[a], low[a], high[a], mode))
    return x


def _taken(x: Tensor, axis: int, places: Array) -> Tensor:
    """Elements of an axis by place: few runs up or down are cut out and joined, others are gathered."""
    n = fixed(x.shape)[axis]
    start = next(
        (i for i in range(len(places) - n + 1) if places[i] == 0 and _is_whole(places[i : i + n])), None
    )
    runs = _runs(places)
    if start is not None:  # the axis itself stays in one piece
        runs = [*_runs(places[:start]), (0, n - 1), *_runs(places[start + n :])]
    if len(runs) > MOST_RUNS:
        return tb.index_select(x, axis, tb.asarray(places))
    pieces = []
    for first, last in runs:
        if (first, last) == (0, n - 1):
            pieces.append(x)
            continue
        window = (*(slice(None),) * axis, slice(min(first, last), max(first, last) + 1))
        pieces.append(x[window] if first <= last else tb.flip(x[window], axis=axis))
    return tb.concat(pieces, axis=axis)


def _is_whole(places: Array) -> bool:
    return bool(np.array_equal(places, np.arange(len(places))))


def _runs(places: Array) -> list[tuple[int, int]]:
    """Neighbours that go up, or down, by one: the first and last place of each run."""
    runs: list[list[int]] = []
    for place in places.tolist():
        if runs:
            first, last = runs[-1]
            step = 1 if last > first else -1 if last < first else place - last
            if place - last == step and abs(step) == 1:
                runs[-1][1] = place
                continue
        runs.append([place, place])
    return [(first, last) for first, last in runs]


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
