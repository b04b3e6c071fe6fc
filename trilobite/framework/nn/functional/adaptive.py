"""Pooling to a given size: window i of m over n elements runs from floor(i·n/m) to ceil((i+1)·n/m)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.framework.nn.composites.arithmetic import check_real, floating, reshape, wide
from trilobite.framework.nn.functional.calling import run, run_many
from trilobite.framework.nn.functional.padding import checked_rank
from trilobite.framework.nn.functional.pooling import (
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from trilobite.framework.nn.settings import is_whole
from trilobite.framework.ops.meeting import astype
from trilobite.framework.tensor import Tensor
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.types import Affine

Ints = tuple[int, ...]
_AVERAGES = (avg_pool1d, avg_pool2d, avg_pool3d)
_LARGEST = (max_pool1d, max_pool2d, max_pool3d)


def _sizes(what: str, x: Tensor, space: int, output_size: Any) -> tuple[Ints, Ints]:
    """The plane's size and the wanted one; None keeps an axis as it is."""
    checked_rank(what, x, space)
    plane = tuple(x.shape[-space:])
    given = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * space
    wanted = tuple(n if w is None else w for w, n in zip(given, plane, strict=False))
    if len(given) != space or not all(is_whole(w) and w >= 0 for w in wanted):
        raise ArgumentError(
            f"{what} to {output_size!r}", where=user_location(), expected=f"a size, or {space} of them"
        )
    return plane, tuple(int(w) for w in wanted)  # type: ignore[return-value]


def _window(n: int, m: int) -> list[tuple[int, int]]:
    return [(i * n // m, -(-(i + 1) * n // m)) for i in range(m)]


def _even(plane: Ints, wanted: Ints) -> Ints | None:
    """The size of equal windows, if the plane divides into them."""
    if any(w == 0 or n % w for n, w in zip(plane, wanted, strict=True)):
        return None
    return tuple(n // w for n, w in zip(plane, wanted, strict=True))


# -- averages ------------------------------------------------------------------------------------------------


def _adaptive_average(space: int, input: Tensor, output_size: Any) -> Tensor:
    plane, wanted = _sizes(f"adaptive_avg_pool{space}d", input, space, output_size)
    if all(w == 1 for w in wanted) and any(isinstance(n, Affine) for n in plane):
        whole: Tensor = input.mean(axis=tuple(range(input.ndim - space, input.ndim)), keepdims=True)
        return whole
    even = _even(plane, wanted)
    if even is not None and all(even):
        input = run(floating, input)
        return _AVERAGES[space - 1](input, even)
    return run(_averaged, input, plane=plane, wanted=wanted)


def _averaged(x: Value, plane: Ints, wanted: Ints) -> Value:
    """Axis by axis the elements of each window, added up; short windows have zeros behind them. Nothing is
    multiplied by zeros: an infinity stays in the windows that hold it.
    """
    x = floating(x)
    out, first = wide(x), x.ndim - len(plane)
    for axis, (n, m) in enumerate(zip(plane, wanted, strict=True), first):
        windows = _window(n, m)
        longest = max((hi - lo for lo, hi in windows), default=1)
        steps = np.arange(longest)
        low, high = np.array(windows, np.int64).reshape(m, 2).T
        places = np.minimum(low[:, None] + steps, high[:, None] - 1)
        found = table["gather"](out, places, axis=axis)
        inside = _spread(low[:, None] + steps < high[:, None], found.shape, (axis, axis + 1))
        nothing = table["full"](shape=found.shape, dtype=found.dtype, value=0)
        total = table["reduce_sum"](table["select"](inside, found, nothing), axes=(axis + 1,))
        out = table["div"](total, _spread((high - low).astype(out.dtype), total.shape, (axis,)))
    return astype(out, x.dtype)


def _spread(values: Any, shape: Any, axes: Ints) -> Value:
    return table["broadcast"](values, shape=shape, axes=axes)


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Averages of as many windows as wanted."""
    return _adaptive_average(1, input, output_size)


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Averages of as many windows as wanted."""
    return _adaptive_average(2, input, output_size)


def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Averages of as many windows as wanted."""
    return _adaptive_average(3, input, output_size)


# -- largest -------------------------------------------------------------------------------------------------


def _adaptive_largest(space: int, input: Tensor, output_size: Any, indices: bool) -> Any:
    plane, wanted = _sizes(f"adaptive_max_pool{space}d", input, space, output_size)
    even = _even(plane, wanted)
    if even is not None and all(even):
        return _LARGEST[space - 1](input, even, return_indices=indices)
    out = run_many(_largest_and_where, input, plane=plane, wanted=wanted)
    return out if indices else out[0]


def _places(plane: Ints, wanted: Ints) -> np.ndarray[Any, Any]:
    """Flat indices of every window's elements, (windows, elements); short ones repeat their last."""
    flat = np.zeros((1, 1), np.int64)
    for n, m in zip(plane, wanted, strict=True):
        rows = _window(n, m)
        longest = max((hi - lo for lo, hi in rows), default=1)
        axis = np.array([[min(lo + j, hi - 1) for j in range(longest)] for lo, hi in rows], np.int64).reshape(
            m, longest
        )
        spread = flat[:, None, :, None] * n + axis[None, :, None, :]
        flat = spread.reshape(flat.shape[0] * m, flat.shape[1] * longest)
    return flat


def _largest_and_where(x: Value, plane: Ints, wanted: Ints) -> tuple[Value, Value]:
    check_real("adaptive_max_pool", x)
    lead, places = x.shape[: x.ndim - len(plane)], _places(plane, wanted)
    flat = reshape(x, shape=(*lead, math.prod(plane)))
    inside = table["argmax"](table["gather"](flat, places, axis=len(lead)), axis=len(lead) + 1)
    at = table["take_along"](*_lanes(places, inside, lead), axis=len(lead) + 1)
    where = reshape(at, shape=(*lead, *wanted))
    return table["window_gather"](x, where, rank=len(plane)), where


def _lanes(places: np.ndarray[Any, Any], inside: Value, lead: Sequence[Any]) -> tuple[Value, Value]:
    """The table of places beside the choice in it, one lane per window."""
    n = len(lead)
    spread = table["broadcast"](places, shape=(*lead, *places.shape), axes=(n, n + 1))
    return spread, reshape(inside, shape=(*inside.shape, 1))


def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The largest of as many windows as wanted."""
    return _adaptive_largest(1, input, output_size, return_indices)


def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The largest of as many windows as wanted."""
    return _adaptive_largest(2, input, output_size, return_indices)


def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The largest of as many windows as wanted."""
    return _adaptive_largest(3, input, output_size, return_indices)
