"""Pooling over windows whose steps vary at random (Graham 2014): sizes shrink by any ratio."""

from __future__ import annotations

from typing import Any

from trilobite.base import dtypes as dt
from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.framework.nn.functional.padding import checked_rank
from trilobite.framework.nn.settings import repeated
from trilobite.framework.ops.conversion import asarray
from trilobite.framework.ops.registry import operators
from trilobite.framework.random.calls import rand
from trilobite.framework.tensor import Tensor


def fractional_max_pool2d(
    input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
    return_indices: bool = False, _random_samples: Any = None,
) -> Any:  # fmt: skip
    """The largest of windows of one size whose places are drawn, as many as wanted."""
    return _pooled(2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


def fractional_max_pool3d(
    input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
    return_indices: bool = False, _random_samples: Any = None,
) -> Any:  # fmt: skip
    """The largest of windows of one size whose places are drawn, as many as wanted."""
    return _pooled(3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


def _pooled(
    space: int, x: Tensor, kernel: Any, size: Any, ratio: Any, return_indices: bool, samples: Any
) -> Any:
    what = f"fractional_max_pool{space}d"
    checked_rank(what, x, space)
    window = repeated("kernel_size", kernel, space)
    inner: Any = tuple(x.shape[-space:])
    if (size is None) == (ratio is None):
        raise ArgumentError(what, where=user_location(), expected="output_size or output_ratio, one of them")
    outer = _sizes(inner, size, ratio, space)
    if any(o < 1 or o + k - 1 > i for o, k, i in zip(outer, window, inner, strict=True)):
        raise ArgumentError(
            f"{what} of {inner} to {outer} by windows of {window}",
            where=user_location(),
            expected="1 <= size of the result <= size - window + 1 along each axis",
        )
    lead = tuple(x.shape[:-space]) if x.ndim == space + 2 else (1, *x.shape[:-space])
    drawn = rand(*lead, space, dtype=x.dtype) if samples is None else asarray(samples)
    places = _places(drawn.detach().reshape(*lead, space), inner, outer, window)
    seen = operators["take_along_axis"].public(x.reshape(*lead, -1), places.reshape(*lead, -1), axis=-1)
    seen = seen.reshape(places.shape)
    best = seen.argmax(axis=-1, keepdims=True)
    shape = (*x.shape[:-space], *outer)
    values = operators["take_along_axis"].public(seen, best, axis=-1).reshape(shape)
    if not return_indices:
        return values
    at = operators["take_along_axis"].public(places, best, axis=-1)
    return values, at.reshape(shape)


def _sizes(inner: tuple[int, ...], size: Any, ratio: Any, space: int) -> tuple[int, ...]:
    if size is not None:
        return repeated("output_size", size, space)
    ratios = ratio if isinstance(ratio, (tuple, list)) else (ratio,) * space
    return tuple(int(n * r) for n, r in zip(inner, ratios, strict=True))


def _places(
    numbers: Tensor, inner: tuple[int, ...], outer: tuple[int, ...], window: tuple[int, ...]
) -> Tensor:
    """Where the elements of each window stand in a line: (batch, channels, windows, elements). As in PyTorch
    the numbers of a plane are those of its last axis first, of a volume those of its first one.
    """
    lead = numbers.shape[:-1]
    flat: Tensor = operators["zeros"].public((*lead, 1, 1), dtype=dt.int64)
    for axis, (n, out, k) in enumerate(zip(inner, outer, window, strict=True)):
        starts = _starts(numbers[..., 1 - axis if len(inner) == 2 else axis], n, out, k)
        here = starts[..., :, None] + operators["arange"].public(k)  # (batch, channels, out, k)
        both = flat[..., :, None, :, None] * n + here[..., None, :, None, :]
        flat = both.reshape(*lead, both.shape[-4] * out, both.shape[-2] * k)
    return flat


def _starts(u: Tensor, n: int, out: int, k: int) -> Tensor:
    """Where windows begin along an axis: the last at the end, the others by drawn steps."""
    last: Tensor = operators["full"].public((*u.shape, 1), n - k, dtype=dt.int64)
    if out == 1:
        return last
    step, drawn = (n - k) / (out - 1), u[..., None]
    whole = ((operators["arange"].public(out - 1).to(u.dtype) + drawn) * step).floor() - (
        drawn * step
    ).floor()
    return operators["concat"].public([whole.to(dt.int64), last], axis=-1)  # type: ignore[no-any-return]
