"""Images at other sizes and places: Resize, GridSample, regions, deformed convolutions, columns to images."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import trilobite as tb
from trilobite.base.dtypes import is_inexact
from trilobite.base.errors import ArgumentError
from trilobite.framework.nn.functional.resampling import order_of_axes
from trilobite.framework.tensor import Tensor
from trilobite.inference.model import Node
from trilobite.inference.operators.registry import operator
from trilobite.inference.operators.shaping import fixed, ints
from trilobite.ir.types import Affine

Array = np.ndarray[Any, Any]

# -- Resize --------------------------------------------------------------------------------------------------


def _coordinates(mode: str, size: int, out: int, scale: float, roi: tuple[float, float]) -> Array:
    """Where each element of the result lies among those of the operand."""
    x = np.arange(out, dtype=np.float64)
    if mode == "half_pixel":
        return (x + 0.5) / scale - 0.5
    if mode == "pytorch_half_pixel":
        return (x + 0.5) / scale - 0.5 if out > 1 else np.zeros(out)
    if mode == "half_pixel_symmetric":
        adjusted = out / (scale * size)
        return size / 2 * (1 - adjusted) + (x + 0.5) / scale - 0.5
    if mode == "align_corners":
        return x * (size - 1) / (size * scale - 1) if size * scale > 1 else np.zeros(out)
    if mode == "asymmetric":
        return x / scale
    if mode == "tf_half_pixel_for_nn":
        return (x + 0.5) / scale
    if mode == "tf_crop_and_resize":
        if out > 1:
            return roi[0] * (size - 1) + x * (roi[1] - roi[0]) * (size - 1) / (out - 1)
        return np.full(out, 0.5 * (roi[0] + roi[1]) * (size - 1))
    raise ArgumentError(f"Resize with the coordinates {mode!r}", expected="a mode that ONNX defines")


_ROUND: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _cubic(d: Array, a: float) -> Array:
    d = np.abs(d)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def taps(node: Node, x: Array, size: int, scale: float) -> tuple[Array, Array]:
    """Per element of the result the places that it is made of, and their weights."""
    mode = node.attribute("mode", "nearest")
    if mode == "nearest":
        how = _ROUND[node.attribute("nearest_mode", "round_prefer_floor")]
        at = how(np.round(x, 9)).astype(np.int64)[:, None]
        return np.clip(at, 0, size - 1), np.ones((len(x), 1))
    stretch = max(1.0, 1 / scale) if node.attribute("antialias", 0) else 1.0
    reach = (1.0 if mode == "linear" else 2.0) * stretch
    first = np.floor(x - reach).astype(np.int64) + 1
    places = first[:, None] + np.arange(int(np.ceil(2 * reach)) + (stretch > 1))[None, :]
    distance = (places - x[:, None]) / stretch
    if mode == "linear":
        weights = np.maximum(1 - np.abs(distance), 0)
    else:
        weights = _cubic(distance, node.attribute("cubic_coeff_a", -0.75))
    if node.attribute("exclude_outside", 0) or stretch > 1:
        inside = (places >= 0) & (places < size)
        weights = np.where(inside, weights, 0) if node.attribute("exclude_outside", 0) else weights
        weights = weights / weights.sum(axis=1, keepdims=True)
    return np.clip(places, 0, size - 1), weights


def resampled(x: Tensor, axis: int, places: Array, weights: Array) -> Tensor:
    """A weighted sum of elements along an axis."""
    if weights.shape[1] == 1:
        return _picked(x, axis, places[:, 0])
    along = [-1 if a == axis else 1 for a in range(x.ndim)]
    out = None
    for t in range(weights.shape[1]):
        if not weights[:, t].any():
            continue
        w = tb.reshape(tb.asarray(weights[:, t].astype(x.dtype)), along)
        part = _picked(x, axis, places[:, t]) * w
        out = part if out is None else out + part
    assert out is not None
    return out


def _picked(x: Tensor, axis: int, places: Array) -> Tensor:
    """Elements along an axis: repeated, sliced, or gathered, whichever they are."""
    n = fixed(x.shape)[axis]
    count = len(places)
    if count % n == 0 and np.array_equal(places, np.repeat(np.arange(n), count // n)):
        return tb.repeat(x, count // n, axis=axis) if count != n else x
    return tb.index_select(x, axis, tb.asarray(places))


_EVEN = ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "asymmetric", "tf_half_pixel_for_nn")
"""Coordinates that go on by one where the place goes on by the scale, if that is a whole number."""
_SAMPLE = 5  # elements on which it is seen whether a resize repeats each; then it does so with any number


def _repeated(node: Node, x: Tensor, axes: Sequence[int], scales: Sequence[float]) -> Tensor | None:
    """The result where a run decides sizes and each element is repeated; None where it is not so."""
    whole = all(s >= 1 and s == int(s) for s in scales)
    if not whole or node.attribute("mode", "nearest") != "nearest" or _transformation(node) not in _EVEN:
        return None
    for a, s in zip(axes, scales, strict=True):
        at = _coordinates(_transformation(node), _SAMPLE, _SAMPLE * int(s), s, (0.0, 1.0))
        if not np.array_equal(taps(node, at, _SAMPLE, s)[0][:, 0], np.repeat(np.arange(_SAMPLE), int(s))):
            return None
        x = tb.repeat(x, int(s), axis=a) if s > 1 else x
    return x


def _transformation(node: Node) -> str:
    usual = "half_pixel" if node.version > 10 else "asymmetric"
    return str(node.attribute("coordinate_transformation_mode", usual))


def _resized(
    node: Node, x: Tensor, axes: Sequence[int], scales: Sequence[float], sizes: Sequence[int], roi: Any
) -> Tensor:
    how = _transformation(node)
    dtype = x.dtype
    wide = x if is_inexact(dtype) and dtype.itemsize >= 4 else x.astype(tb.float32)
    if node.attribute("mode", "nearest") == "nearest":
        wide = x
    outside = []
    for i in order_of_axes([fixed(x.shape)[a] for a in axes], sizes):
        a = axes[i]
        size = fixed(x.shape)[a]
        if sizes[i] == size and scales[i] == 1 and how != "tf_crop_and_resize":
            continue
        part = (0.0, 1.0) if roi is None else (float(roi[i]), float(roi[i + len(axes)]))
        at = _coordinates(how, size, sizes[i], scales[i], part)
        wide = resampled(wide, a, *taps(node, at, size, scales[i]))
        if how == "tf_crop_and_resize":
            outside.append((a, (at < 0) | (at > size - 1)))
    for a, beyond in outside:
        mask = tb.reshape(tb.asarray(beyond), [-1 if b == a else 1 for b in range(x.ndim)])
        wide = tb.where(mask, node.attribute("extrapolation_value", 0.0), wide)
    if not is_inexact(dtype) and wide.dtype != dtype:
        wide = tb.round(wide)
    return wide.astype(dtype)


@operator("Resize", since=10, known=(1,))
def resize_10(node: Node, x: Tensor, scales: Array) -> Tensor:
    return _by_scales(node, x, scales)


def _by_scales(node: Node, x: Tensor, scales: Array) -> Tensor:
    factors = [float(s) for s in scales.reshape(-1)]
    found = _repeated(node, x, range(x.ndim), factors) if _varies(x) else None
    if found is not None:
        return found
    sizes = [int(np.floor(n * s)) for n, s in zip(fixed(x.shape), factors, strict=True)]
    return _resized(node, x, range(x.ndim), factors, sizes, None)


@operator("Upsample", since=7)
def upsample_by_attribute(node: Node, x: Tensor) -> Tensor:
    return _by_scales(_as_resize(node), x, np.asarray(node.attributes["scales"]))


@operator("Upsample", since=1)
def upsample_1(node: Node, x: Tensor) -> Tensor:
    scales = (1.0, 1.0, node.attributes["height_scale"], node.attributes["width_scale"])
    return _by_scales(_as_resize(node), x, np.asarray(scales))


@operator("Upsample", since=9, known=(1,))
def upsample(node: Node, x: Tensor, scales: Array) -> Tensor:
    return _by_scales(_as_resize(node), x, scales)


def _as_resize(node: Node) -> Node:
    mode = {"bilinear": "linear"}.get(node.attribute("mode", "nearest"), node.attribute("mode", "nearest"))
    attributes = {"mode": mode, "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return Node("Resize", node.inputs, node.outputs, attributes, "", 10)


@operator("Resize", since=11, known=(1, 2, 3))
def resize(
    node: Node, x: Tensor, roi: Array | None = None, scales: Array | None = None, sizes: Array | None = None
) -> Tensor:
    axes = [a % x.ndim for a in node.attribute("axes") or range(x.ndim)]
    roi = roi if roi is not None and roi.size else None
    if _varies(x):
        ratios = _ratios(x, axes, scales, sizes)
        found = None if ratios is None else _repeated(node, x, axes, ratios)
        if found is not None:
            return found
    here = [fixed(x.shape)[a] for a in axes]
    if scales is not None and scales.size:
        factors = [float(s) for s in scales.reshape(-1)]
        wanted = _grown(node, here, factors, roi)
    else:
        assert sizes is not None
        wanted, factors = _fitted(node, here, list(ints(sizes)))
    return _resized(node, x, axes, factors, wanted, roi)


def _varies(x: Tensor) -> bool:
    return any(isinstance(d, Affine) for d in x.shape)


def _ratios(x: Tensor, axes: Sequence[int], scales: Array | None, sizes: Array | None) -> list[float] | None:
    """By how much each axis grows, if that is known before a run."""
    if scales is not None and scales.size:
        return [float(s) for s in scales.reshape(-1)]
    assert sizes is not None
    found = [w // x.shape[a] for a, w in zip(axes, sizes.tolist(), strict=True)]
    exact = all(r * x.shape[a] == w for r, a, w in zip(found, axes, sizes.tolist(), strict=True))
    return [float(r) for r in found] if exact and not any(isinstance(r, Affine) for r in found) else None


def _grown(node: Node, here: Sequence[int], factors: Sequence[float], roi: Array | None) -> list[int]:
    shares = [1.0] * len(here)
    if roi is not None and node.attribute("coordinate_transformation_mode") == "tf_crop_and_resize":
        shares = [float(roi[i + len(here)] - roi[i]) for i in range(len(here))]
    return [int(np.floor(n * r * s)) for n, r, s in zip(here, shares, factors, strict=True)]


def _fitted(node: Node, here: Sequence[int], wanted: list[int]) -> tuple[list[int], list[float]]:
    """Sizes as given, or one factor for all so that the result does not exceed, or fall below, them."""
    factors = [w / n for w, n in zip(wanted, here, strict=True)]
    policy = node.attribute("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return wanted, factors
    one = min(factors) if policy == "not_larger" else max(factors)
    return [int(np.floor(one * n + 0.5)) for n in here], [one] * len(here)


# -- sampling at places --------------------------------------------------------------------------------------


def sampled(x: Tensor, places: Sequence[Tensor]) -> Tensor:
    """Elements x[n, c, i, j, ...] for integer coordinates (n, points) per axis; 0 outside: (n, c, points)."""
    space = fixed(x.shape[2:])
    flat, inside = None, None
    for p, n in zip(places, space, strict=True):
        within = tb.logical_and(p >= 0, p < n)
        inside = within if inside is None else tb.logical_and(inside, within)
        held = tb.clip(p, 0, n - 1)
        flat = held if flat is None else flat * n + held
    assert flat is not None and inside is not None
    rows = tb.reshape(x, (*x.shape[:2], int(np.prod(space))))
    index = tb.broadcast_to(tb.expand_dims(flat, axis=1), (x.shape[0], x.shape[1], flat.shape[-1]))
    return tb.where(tb.expand_dims(inside, axis=1), tb.gather(rows, 2, index), 0.0).astype(x.dtype)


def linearly(x: Tensor, where: Sequence[Tensor]) -> Tensor:
    """Between the corners around real coordinates (n, points) per axis; 0 outside."""
    low = [tb.floor(p) for p in where]
    share = [p - f for p, f in zip(where, low, strict=True)]
    out = None
    for corner in itertools.product((0, 1), repeat=len(where)):
        at = [(f + c).astype(tb.int64) for f, c in zip(low, corner, strict=True)]
        weight = None
        for s, c in zip(share, corner, strict=True):
            w = s if c else 1 - s
            weight = w if weight is None else weight * w
        assert weight is not None
        part = sampled(x, at) * tb.expand_dims(weight, axis=1).astype(x.dtype)
        out = part if out is None else out + part
    assert out is not None
    return out


def _reflected(p: Tensor, low: float, high: float) -> Tensor:
    """Folded back at both ends as often as needed."""
    span = high - low
    if span <= 0:
        return tb.zeros_like(p)
    turned = tb.remainder(p - low, 2 * span)
    return tb.where(turned > span, 2 * span - turned, turned) + low


@operator("GridSample", since=16)
def grid_sample(node: Node, x: Tensor, grid: Tensor) -> Tensor:
    mode, padding = node.attribute("mode", "linear"), node.attribute("padding_mode", "zeros")
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    corners, space = node.attribute("align_corners", 0), fixed(x.shape[2:])
    count = int(np.prod(fixed(grid.shape[1:-1])))
    flat = tb.reshape(grid, (grid.shape[0], count, len(space)))
    where = []
    for i, n in enumerate(space):
        g = flat[..., len(space) - 1 - i]
        where.append((g + 1) / 2 * (n - 1) if corners else ((g + 1) * n - 1) / 2)
    values = x if is_inexact(x.dtype) else x.astype(tb.float32)
    out = _at(values, where, mode, padding, bool(corners), space)
    if not is_inexact(x.dtype):
        out = tb.trunc(out)
    return tb.reshape(out, (x.shape[0], x.shape[1], *grid.shape[1:-1])).astype(x.dtype)


def _held(p: Tensor, n: int, padding: str, corners: bool) -> Tensor:
    if padding == "border":
        return tb.clip(p, 0, n - 1)
    if padding == "reflection":
        low, high = (0.0, n - 1.0) if corners else (-0.5, n - 0.5)
        return tb.clip(_reflected(p, low, high), 0, n - 1) if mode_is_real(p) else p
    return p


def mode_is_real(p: Tensor) -> bool:
    return is_inexact(p.dtype)


def _at(
    x: Tensor, where: Sequence[Tensor], mode: str, padding: str, corners: bool, space: Sequence[int]
) -> Tensor:
    if mode == "nearest":
        near = [_held(tb.round(p), n, padding, corners) for p, n in zip(where, space, strict=True)]
        return sampled(x, [tb.round(p).astype(tb.int64) for p in near])
    if mode == "linear":
        return linearly(x, [_held(p, n, padding, corners) for p, n in zip(where, space, strict=True)])
    out = None
    low = [tb.floor(p) for p in where]
    for step in itertools.product(range(-1, 3), repeat=len(where)):
        weight, at = None, []
        for p, f, d, n in zip(where, low, step, space, strict=True):
            w = _cubic_weight(p - f - d)
            weight = w if weight is None else weight * w
            at.append(_held(f + d, n, padding, corners).astype(tb.int64))
        assert weight is not None
        part = sampled(x, at) * tb.expand_dims(weight, axis=1).astype(x.dtype)
        out = part if out is None else out + part
    assert out is not None
    return out


def _cubic_weight(d: Tensor) -> Tensor:
    a, t = -0.75, tb.abs(d)
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    return tb.where(t <= 1, near, tb.where(t < 2, far, 0.0))


@operator("AffineGrid", since=20, known=(1,))
def affine_grid(node: Node, theta: Tensor, size: Array) -> Tensor:
    """Places in the operand for every place of a result of this size, from -1 to 1."""
    space = ints(size)[2:]
    lines = []
    for n in space:
        at = np.linspace(-1, 1, n) if node.attribute("align_corners", 0) else (np.arange(n) * 2 + 1) / n - 1
        lines.append(np.zeros(1) if n == 1 and node.attribute("align_corners", 0) else at)
    mesh = np.meshgrid(*lines, indexing="ij")[::-1]
    points = np.stack([*mesh, np.ones(space)], axis=-1).reshape(-1, len(space) + 1)
    out = tb.matmul(tb.asarray(points.astype(theta.dtype)), tb.matrix_transpose(theta))
    return tb.reshape(out, (theta.shape[0], *space, len(space)))
