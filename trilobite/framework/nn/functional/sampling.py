"""Images read at computed places (grid_sample, affine_grid), and draws that gradients pass."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from trilobite.base.errors import ArgumentError, ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.ops.registry import operators
from trilobite.framework.random.draws import gumbel
from trilobite.framework.tensor import Tensor

_MODES = ("bilinear", "nearest", "bicubic")
_EDGES = ("zeros", "border", "reflection")
_CUBIC = -0.75


def _op(name: str) -> Any:
    return operators[name].public


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """The input (N, C, ...) read where the grid (N, ..., axes of space) says: -1 and 1 are its ends, the last
    axis comes first. Outside there are zeros, the border, or reflections.
    """
    _check(input, grid, mode, padding_mode)
    space = input.ndim - 2
    sizes = [int(d) for d in input.shape[2:]]
    aligned = bool(align_corners)
    at = [
        _op("nan_to_num")(_unnormal(grid[..., space - 1 - i], n, aligned), nan=-1.0)
        for i, n in enumerate(sizes)
    ]
    if mode == "bicubic":
        return _cubic(input, at, sizes, padding_mode, aligned)
    at = [_inside(x, n, padding_mode, aligned) for x, n in zip(at, sizes, strict=True)]
    if mode == "nearest":
        return _read(input, [x.round() for x in at], sizes)
    low = [x.floor().detach() for x in at]
    total: Any = None
    for corner in itertools.product((0, 1), repeat=space):
        places = [x + c for x, c in zip(low, corner, strict=True)]
        weight: Any = 1.0
        for x, first, c in zip(at, low, corner, strict=True):
            weight = weight * ((x - first) if c else (1.0 - (x - first)))
        part = _read(input, places, sizes) * weight[:, None]
        total = part if total is None else total + part
    return total  # type: ignore[no-any-return]


def _check(input: Tensor, grid: Tensor, mode: str, padding_mode: str) -> None:
    if mode not in _MODES or padding_mode not in _EDGES or (mode == "bicubic" and input.ndim != 4):
        raise ArgumentError(
            f"grid_sample(mode={mode!r}, padding_mode={padding_mode!r}) of {input.ndim} axes",
            where=user_location(),
            expected=f"one of {', '.join(_MODES)} (bicubic for images) and of {', '.join(_EDGES)}",
        )
    space = input.ndim - 2
    fits = grid.ndim == input.ndim and grid.shape[-1] == space and grid.shape[0] == input.shape[0]
    if space not in (2, 3) or not fits:
        raise ShapeError(
            f"grid_sample of shape {tuple(input.shape)} with a grid of shape {tuple(grid.shape)}",
            where=user_location(),
            expected="(N, C, H, W) with (N, h, w, 2), or (N, C, D, H, W) with (N, d, h, w, 3)",
        )


def _unnormal(x: Any, n: int, aligned: bool) -> Any:
    """From -1 ... 1 to places 0 ... n - 1; -1 is the first element's centre, or its edge."""
    return (x + 1) / 2 * (n - 1) if aligned else ((x + 1) * n - 1) / 2


def _inside(x: Any, n: int, edge: str, aligned: bool) -> Any:
    if edge == "zeros":
        return x
    if edge == "reflection":
        low, high = (0.0, n - 1.0) if aligned else (-0.5, n - 0.5)
        x = _reflected(x, low, high - low)
    inside = (x > 0.0) & (x < n - 1.0)  # on the border the slope is 0, as beyond it
    return _op("where")(inside, x, _op("clip")(x.detach(), 0.0, n - 1.0))


def _reflected(x: Any, low: float, span: float) -> Any:
    if span <= 0:
        return x * 0.0
    x = (x - low).abs()
    turns = (x / span).floor().detach()
    rest = x - turns * span
    return _op("where")(turns % 2 == 0, rest, span - rest) + low


def _read(input: Tensor, places: Sequence[Any], sizes: Sequence[int]) -> Tensor:
    """Elements at whole places; zeros outside."""
    flat: Any = 0
    valid: Any = None
    for x, n in zip(places, sizes, strict=True):
        here = (x >= 0) & (x <= n - 1)
        valid = here if valid is None else valid & here
        flat = flat * n + _op("clip")(x, 0.0, n - 1.0).long()
    batch, channels = input.shape[:2]
    lines = input.reshape(batch, channels, -1)
    taken = _op("take_along_axis")(lines, flat.reshape(batch, 1, -1), axis=-1)
    out = taken.reshape(batch, channels, *flat.shape[1:])
    return _op("where")(valid[:, None], out, 0.0)  # type: ignore[no-any-return]


def _cubic(input: Tensor, at: Sequence[Any], sizes: Sequence[int], edge: str, aligned: bool) -> Tensor:
    low = [x.floor().detach() for x in at]
    weights = [_cubic_weights(x - first) for x, first in zip(at, low, strict=True)]
    total: Any = None
    for i, j in itertools.product(range(4), repeat=2):
        places = [
            _inside(first + (k - 1), n, edge, aligned) for first, k, n in zip(low, (i, j), sizes, strict=True)
        ]
        part = _read(input, places, sizes) * (weights[0][i] * weights[1][j])[:, None]
        total = part if total is None else total + part
    return total  # type: ignore[no-any-return]


def _cubic_weights(t: Any) -> list[Any]:
    """Weights of the four neighbours of a place that is t behind the second."""
    a = _CUBIC

    def near(x: Any) -> Any:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Any) -> Any:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def affine_grid(theta: Tensor, size: Any, align_corners: bool | None = None) -> Tensor:
    """The grid that an affine map (N, 2, 3) or (N, 3, 4) makes of a plane or volume of this size."""
    space = len(size) - 2
    if space not in (2, 3) or theta.ndim != 3 or tuple(theta.shape[1:]) != (space, space + 1):
        raise ShapeError(
            f"affine_grid of shape {tuple(theta.shape)} for size {tuple(size)}",
            where=user_location(),
            expected="(N, 2, 3) for (N, C, H, W), or (N, 3, 4) for (N, C, D, H, W)",
        )
    lines = []
    for n in size[2:]:
        ends = (-1.0, 1.0) if n > 1 else (0.0, 0.0)
        line = _op("linspace")(*ends, int(n), dtype=theta.dtype)
        lines.append(line if align_corners or n <= 1 else line * ((n - 1) / n))
    grids = _op("meshgrid")(*lines, indexing="ij")
    points = _op("stack")([*reversed(grids), _op("ones_like")(grids[0])], axis=-1)
    flat = points.reshape(1, -1, space + 1) @ theta.mT
    return flat.reshape(theta.shape[0], *size[2:], space)  # type: ignore[no-any-return]


def gumbel_softmax(
    logits: Tensor, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """A draw from a categorical distribution, softened so that gradients pass; `hard` draws one-hot vectors
    with the soft one's gradient.
    """
    noise = gumbel(tuple(logits.shape), dtype=logits.dtype)
    soft = _op("softmax")((logits + noise) / tau, dim)
    if not hard:
        return soft  # type: ignore[no-any-return]
    at = soft.argmax(axis=dim, keepdims=True)
    sharp = _op("scatter")(_op("zeros_like")(soft), dim, at, 1.0)
    return sharp - soft.detach() + soft  # type: ignore[no-any-return]


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The distances between all pairs of rows, in order."""
    i, j = _op("triu_indices")(input.shape[0], input.shape[0], 1)
    return _op("norm")(input[i] - input[j], p, -1)  # type: ignore[no-any-return]


def multilabel_margin_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """Σ max(0, 1 - (x[y] - x[i])) / classes over true labels y (up to the first -1) and others i."""
    x, y = (v.reshape(1, -1) if v.ndim < 2 else v for v in (input, target))
    live = (y < 0).long().cumsum(1) == 0
    at = _op("where")(live, y, 0)
    true = (_op("one_hot")(at, x.shape[1]) * live[..., None]).sum(axis=1) > 0
    gaps = (1 - _op("take_along_axis")(x, at, axis=1))[:, :, None] + x[:, None, :]
    counted = live[:, :, None] & ~true[:, None, :]
    rows = _op("where")(counted, _op("relu")(gaps), 0.0).sum(axis=(1, 2)) / x.shape[1]
    rows = rows.reshape(()) if input.ndim < 2 else rows
    return rows if reduction == "none" else rows.sum() if reduction == "sum" else rows.mean()  # type: ignore[no-any-return]
