"""Resampling of space: nearest, linear, cubic, area; and channels exchanged for space."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.base.errors import ArgumentError, ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.nn.composites.arithmetic import (
    add,
    along,
    floating,
    maximum,
    minimum,
    mul,
    reshape,
    transpose,
    wide,
)
from trilobite.framework.nn.functional.adaptive import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
)
from trilobite.framework.nn.functional.calling import run
from trilobite.framework.ops.meeting import astype
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table

_LINEAR = {"linear": 1, "bilinear": 2, "trilinear": 3}
_MODES = ("nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic", "area")
_CUBIC = -0.75
Array = np.ndarray[Any, Any]


def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Space (all axes after batch and channels) at another size, given as such or by a factor. `antialias`
    widens the filters of smaller images, so that nothing is passed over.
    """
    _check_mode(input, mode, align_corners)
    plane = _static(input)
    sizes, scales = _target(plane, size, scale_factor, recompute_scale_factor)
    if mode == "area":
        area = (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)[len(plane) - 1]
        return area(input, sizes)
    corners = bool(align_corners)
    if antialias:
        given = None if size is not None or recompute_scale_factor else scale_factor
        return run(_of_picture, _smoothed(input, plane, sizes, given, mode, corners), dtype=input.dtype)
    return run(_resampled, input, plane=plane, sizes=sizes, scales=scales, mode=mode, corners=corners)


def _check_mode(x: Tensor, mode: str, align_corners: bool | None) -> None:
    space = x.ndim - 2
    if mode not in _MODES:
        raise ArgumentError(
            f"interpolate(mode={mode!r})", where=user_location(), expected=f"one of {', '.join(_MODES)}"
        )
    needed = _LINEAR.get(mode, 2 if mode == "bicubic" else None)
    if space not in (1, 2, 3) or (needed is not None and space != needed):
        raise ShapeError(
            f"interpolate(mode={mode!r}) of shape {tuple(x.shape)}",
            where=user_location(),
            expected=f"batch, channels and {needed or '1 to 3'} axes of space",
        )
    if align_corners is not None and (mode in ("nearest", "nearest-exact", "area")):
        raise ArgumentError(
            f"interpolate(mode={mode!r}, align_corners={align_corners})",
            where=user_location(),
            expected="align_corners with linear, bilinear, trilinear or bicubic only",
        )


def _static(x: Tensor) -> tuple[int, ...]:
    plane = tuple(x.shape[2:])
    if not all(isinstance(n, int) for n in plane):
        raise ShapeError(
            f"interpolate of shape {tuple(x.shape)}",
            where=user_location(),
            expected="sizes of space that are numbers",
        )
    return plane  # type: ignore[return-value]


def _target(
    plane: tuple[int, ...], size: Any, factor: Any, recompute: bool | None
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """The new sizes, and how far apart in the old plane new elements stand."""
    if (size is None) == (factor is None):
        raise ArgumentError("interpolate", where=user_location(), expected="one of size and scale_factor")
    given = size if factor is None else factor
    each = tuple(given) if isinstance(given, (tuple, list)) else (given,) * len(plane)
    if len(each) != len(plane):
        raise ArgumentError(
            f"interpolate by {given!r}", where=user_location(), expected=f"one number, or {len(plane)}"
        )
    if factor is None:
        sizes = tuple(int(n) for n in each)
    else:
        sizes = tuple(math.floor(float(n) * float(f)) for n, f in zip(plane, each, strict=True))
    if min(sizes) < 1 or min(plane) < 1:
        raise ShapeError(
            f"interpolate of space {plane} to {sizes}", where=user_location(), expected="sizes of at least 1"
        )
    if factor is None or recompute:
        return sizes, tuple(n / m for n, m in zip(plane, sizes, strict=True))
    return sizes, tuple(1.0 / float(f) for f in each)


def _resampled(
    x: Value, plane: Sequence[int], sizes: Sequence[int], scales: Sequence[float], mode: str, corners: bool
) -> Value:
    if mode.startswith("nearest"):
        for i, (n, m, s) in enumerate(zip(plane, sizes, scales, strict=True)):
            x = _nearest(x, i + 2, n, m, s, 0.5 if mode == "nearest-exact" else 0.0)
        return x
    out = wide(floating(x))
    for i in order_of_axes(plane, sizes):
        n, m = plane[i], sizes[i]
        at = _positions(n, m, scales[i], corners)
        out = _cubic(out, i + 2, at, n) if mode == "bicubic" else _linear(out, i + 2, np.maximum(at, 0.0), n)
    return _of_picture(out, x.dtype)


def _of_picture(out: Value, dtype: dt.DType) -> Value:
    """Bytes are the nearest ones; between other integers lie floats."""
    if dtype == dt.uint8:
        return astype(minimum(maximum(table["round"](out), 0.0), 255.0), dtype)
    return astype(out, dtype) if dt.is_inexact(dtype) else out


def order_of_axes(before: Sequence[int], after: Sequence[int]) -> list[int]:
    """In which order axes are resampled one by one: those that shrink, then those that grow from the last on.
    Along the last axis elements are picked one by one: of a picture that grows it has the fewest at first.
    """
    grown = [i for i, (n, m) in enumerate(zip(before, after, strict=True)) if m > n]
    return [*(i for i in range(len(before)) if i not in grown), *reversed(grown)]


def _positions(n: int, m: int, scale: float, corners: bool) -> Array:
    """Where new elements stand among the old ones."""
    places = np.arange(m, dtype=np.float64)
    if corners:
        return places * ((n - 1) / (m - 1) if m > 1 else 0.0)
    return (places + 0.5) * scale - 0.5


def _nearest(x: Value, axis: int, n: int, m: int, scale: float, shift: float) -> Value:
    # The product is rounded to float32, as PyTorch does: both choose the same neighbour where it is close.
    exact = (np.arange(m, dtype=np.float32) + np.float32(shift)) * np.float32(scale)
    at = np.minimum(np.floor(exact).astype(np.int64), n - 1)
    if m % n == 0 and np.array_equal(at, np.repeat(np.arange(n), m // n)):
        shape = (*x.shape[: axis + 1], m // n, *x.shape[axis + 1 :])
        axes = (*range(axis + 1), *range(axis + 2, len(shape)))
        out = table["broadcast"](x, shape=shape, axes=axes)
        return reshape(out, shape=(*x.shape[:axis], m, *x.shape[axis + 1 :]))
    return table["gather"](x, at, axis=axis)


def _weighted(x: Value, axis: int, at: Array, weight: Array, n: int) -> Value:
    taken = table["gather"](x, np.clip(at, 0, n - 1), axis=axis)
    return mul(taken, along(weight.astype(x.dtype), (axis,), x.ndim))


def _linear(x: Value, axis: int, at: Array, n: int) -> Value:
    if len(at) == n:  # an axis that keeps its size stays as it is, whatever the factor
        return x
    below = np.floor(at).astype(np.int64)
    part = at - below
    return add(_weighted(x, axis, below, 1.0 - part, n), _weighted(x, axis, below + 1, part, n))


def _cubic(x: Value, axis: int, at: Array, n: int) -> Value:
    below = np.floor(at).astype(np.int64)
    part = at - below
    weights = (_far(part + 1.0), _near(part), _near(1.0 - part), _far(2.0 - part))
    terms = [_weighted(x, axis, below + i - 1, w, n) for i, w in enumerate(weights)]
    return add(add(terms[0], terms[1]), add(terms[2], terms[3]))


def _near(d: Array) -> Array:
    """The cubic's weight within a distance of 1."""
    return np.asarray(((_CUBIC + 2.0) * d - (_CUBIC + 3.0)) * d * d + 1.0)


def _far(d: Array) -> Array:
    """The cubic's weight between the distances 1 and 2."""
    return np.asarray(((_CUBIC * d - 5.0 * _CUBIC) * d + 8.0 * _CUBIC) * d - 4.0 * _CUBIC)


def upsample(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """`interpolate` under its old name."""
    return interpolate(input, size, scale_factor, mode, align_corners)


# -- channels for space --------------------------------------------------------------------------------------


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(..., C·r², H, W) to (..., C, H·r, W·r)."""
    r = upscale_factor
    if input.ndim < 3 or r < 1 or input.shape[-3] % (r * r):
        raise ShapeError(
            f"pixel_shuffle by {r} of shape {tuple(input.shape)}",
            where=user_location(),
            expected=f"at least 3 axes, and channels that {r * r} divides",
        )
    return run(_shuffled, input, r=r)


def _shuffled(x: Value, r: int) -> Value:
    *lead, c, h, w = x.shape
    n = len(lead)
    split = reshape(x, shape=(*lead, c // (r * r), r, r, h, w))
    moved = transpose(split, axes=(*range(n + 1), n + 3, n + 1, n + 4, n + 2))
    return reshape(moved, shape=(*lead, c // (r * r), h * r, w * r))


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """(..., C, H·r, W·r) to (..., C·r², H, W)."""
    r = downscale_factor
    if input.ndim < 3 or r < 1 or input.shape[-1] % r or input.shape[-2] % r:
        raise ShapeError(
            f"pixel_unshuffle by {r} of shape {tuple(input.shape)}",
            where=user_location(),
            expected=f"at least 3 axes, and a height and width that {r} divides",
        )
    return run(_unshuffled, input, r=r)


def _unshuffled(x: Value, r: int) -> Value:
    *lead, c, h, w = x.shape
    n = len(lead)
    split = reshape(x, shape=(*lead, c, h // r, r, w // r, r))
    moved = transpose(split, axes=(*range(n + 1), n + 2, n + 4, n + 1, n + 3))
    return reshape(moved, shape=(*lead, c * r * r, h // r, w // r))


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Channels (axis 1) dealt out: the first of each group, then the second of each, and so on."""
    if input.ndim < 3 or groups < 1 or input.shape[1] % groups:
        raise ShapeError(
            f"channel_shuffle of shape {tuple(input.shape)} in {groups} groups",
            where=user_location(),
            expected="at least 3 axes, and groups that divide the channels",
        )
    return run(_dealt, input, groups=groups)


def _dealt(x: Value, groups: int) -> Value:
    n, c, *rest = x.shape
    split = reshape(x, shape=(n, groups, c // groups, *rest))
    return reshape(transpose(split, axes=(0, 2, 1, *range(3, split.ndim))), shape=x.shape)


def _smoothed(
    x: Any, plane: Sequence[int], sizes: Sequence[int], scales: Any, mode: str, corners: bool
) -> Tensor:
    """Axis by axis a product with a matrix of filters."""
    if mode not in ("bilinear", "bicubic"):
        raise ArgumentError(
            f"interpolate(mode={mode!r}, antialias=True)",
            where=user_location(),
            expected="'bilinear' or 'bicubic'",
        )
    x = run(floating, x)
    for a, (n, m) in enumerate(zip(plane, sizes, strict=True)):
        factor = scales[a] if isinstance(scales, (tuple, list)) else scales
        weights = wrap(_filters(n, m, factor, mode == "bicubic", corners).astype(x.dtype))
        axis = x.ndim - len(plane) + a
        x = (x.movedim(axis, -1) @ weights.mT).movedim(-1, axis)
    return x  # type: ignore[no-any-return]


def _filters(n: int, m: int, factor: Any, cubic: bool, corners: bool) -> np.ndarray[Any, Any]:
    """Row i: how much of each of n elements the i-th of m takes."""
    if corners:
        step = (n - 1) / (m - 1) if m > 1 else 0.0
    else:
        step = 1.0 / float(factor) if factor else n / m
    wide = max(step, 1.0)
    centres = step * (np.arange(m) + 0.5)
    t = np.abs((np.arange(n)[None, :] + 0.5 - centres[:, None]) / wide)
    if cubic:
        a = -0.5
        near = ((a + 2) * t - (a + 3)) * t * t + 1
        far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
        rows = np.where(t < 1, near, np.where(t < 2, far, 0.0))
    else:
        rows = np.maximum(1 - t, 0.0)
    return np.asarray(rows / rows.sum(1, keepdims=True))
