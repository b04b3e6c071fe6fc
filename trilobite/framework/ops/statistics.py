"""Statistics and order that PyTorch names: moments in pairs, covariances, ranks, modes, histograms."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.base.errors import ArgumentError, ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.ops.axes import axis_in
from trilobite.framework.ops.pairs import Pair
from trilobite.framework.ops.registry import operators, tensor_op
from trilobite.framework.ops.shaping import handle
from trilobite.framework.ops.two_meanings import along, lower_median
from trilobite.framework.tensor import Tensor, wrap

G = "statistics"


def _op(name: str) -> Any:
    return operators[name].public


class Extremes(NamedTuple):
    """The smallest and the largest."""

    min: Any
    max: Any


def _moments(name: str, x: Any, dim: Any, unbiased: bool, correction: Any, keepdim: bool) -> tuple[Any, Any]:
    if isinstance(dim, bool):  # std_mean(x, unbiased)
        dim, unbiased = None, dim
    less = (1 if unbiased else 0) if correction is None else correction
    x = handle(x)
    spread = _op(name)(x, axis=dim, correction=less, keepdims=keepdim)
    return spread, _op("mean")(x, axis=dim, keepdims=keepdim)


@tensor_op(G, methods=())
def std_mean(
    x: Any, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: Any = None
) -> Any:
    """The standard deviation and the mean, together."""
    return _moments("std", x, dim, unbiased, correction, keepdim)


@tensor_op(G, methods=())
def var_mean(
    x: Any, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: Any = None
) -> Any:
    """The variance and the mean, together."""
    return _moments("var", x, dim, unbiased, correction, keepdim)


@tensor_op(G)
def aminmax(x: Any, *, dim: int | None = None, keepdim: bool = False) -> Extremes:
    """The smallest and the largest element, together."""
    x = handle(x)
    ends = (_op(n)(x, axis=dim, keepdims=keepdim) for n in ("amin", "amax"))
    return Extremes(*ends)


@tensor_op(G)
def nanmean(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The mean of what is not NaN."""
    x = handle(x)
    count = (~_op("isnan")(x)).sum(axis=dim, keepdims=keepdim)
    total = _op("nansum")(x, axis=dim, keepdims=keepdim, dtype=dtype)
    return total / count.to(total.dtype)  # type: ignore[no-any-return]


@tensor_op(G)
def nanmedian(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The middle of what is not NaN, the lower of two."""
    if dim is None:
        return lower_median(handle(x).reshape(-1), 0, False, skip_nan=True).values
    return lower_median(x, dim, keepdim, skip_nan=True)


@tensor_op(G)
def kthvalue(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Pair:
    """The k-th smallest element along an axis (from 1 on), and its place."""
    x = handle(x)
    a = axis_in(dim, max(x.ndim, 1), "kthvalue")
    n = x.shape[a] if x.ndim else 1
    if not 1 <= k <= n:
        raise ArgumentError(f"kthvalue with k={k} of {n}", where=user_location(), expected=f"1 <= k <= {n}")
    if x.ndim == 0:
        return Pair(x.clone(), wrap(np.asarray(0)))
    order = _op("argsort")(x, axis=a)
    return along(x, order[(slice(None),) * a + (slice(k - 1, k),)].clone(), a, keepdim)


@tensor_op(G)
def mode(x: Any, dim: int = -1, keepdim: bool = False) -> Pair:
    """The commonest element along an axis (the smallest of several), and the place of its last occurrence."""
    x = handle(x)
    if x.ndim == 0:
        return Pair(x.clone(), wrap(np.asarray(0)))
    a = axis_in(dim, x.ndim, "mode")
    line = x.detach().movedim(a, -1)
    same = line[..., :, None] == line[..., None, :]
    often = same.sum(axis=-1)
    best = often == often.amax(-1, keepdims=True)
    where = _op("where")
    least = where(best, line, _op("amax")(line, -1, keepdims=True)).amin(-1, keepdims=True)
    here = _op("arange")(line.shape[-1])
    at = where(line == least, here, -1).amax(-1, keepdims=True)
    return along(x, at.movedim(-1, a).clone(), a, keepdim)


@tensor_op(G)
def msort(x: Any) -> Tensor:
    """Sorted along the first axis."""
    return _op("sort")(x, axis=0)  # type: ignore[no-any-return]


# -- several variables -----------------------------------------------------------------------------------


@tensor_op(G)
def cov(x: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Tensor:
    """The covariances of the rows, each a variable with its observations; perhaps weighted."""
    x = handle(x)
    if x.ndim > 2:
        raise ShapeError(
            f"cov of a tensor with {x.ndim} dimensions", where=user_location(), expected="at most two"
        )
    rows = x.reshape(1, -1) if x.ndim < 2 else x
    rows = rows.to(dt.default_float) if rows.dtype not in dt.INEXACT else rows
    weights = None
    for w in (fweights, aweights):
        if w is not None:
            w = handle(w).to(dt.real_of(rows.dtype))
            weights = w if weights is None else weights * w
    if weights is None:
        centred = rows - rows.mean(axis=1, keepdims=True)
        out = centred @ _conjugate(centred) / max(rows.shape[1] - correction, 0)
    else:
        total = weights.sum()
        centred = rows - (rows * weights).sum(axis=1, keepdims=True) / total
        less = total - correction if aweights is None else total - correction * (
            (weights * handle(aweights).to(weights.dtype)).sum() / total
        )  # fmt: skip
        out = (centred * weights) @ _conjugate(centred) / less
    return out[0, 0] if out.shape == (1, 1) else out  # type: ignore[no-any-return]


def _conjugate(x: Tensor) -> Tensor:
    return x.mT.conj() if x.dtype in dt.COMPLEX else x.mT  # type: ignore[no-any-return]


@tensor_op(G)
def corrcoef(x: Any) -> Tensor:
    """The correlations of the rows: covariances over the product of both deviations."""
    c = cov(x)
    if c.ndim == 0:
        return c / c  # type: ignore[no-any-return]
    deviation = _op("diagonal")(c).real.sqrt() if c.dtype in dt.COMPLEX else _op("diagonal")(c).sqrt()
    return c / deviation[:, None] / deviation[None, :]  # type: ignore[no-any-return]


# -- histograms ------------------------------------------------------------------------------------------


@tensor_op(G)
def histc(x: Any, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements fall into each of `bins` equal intervals; by default from the least to the most."""
    flat = handle(x).detach().reshape(-1)
    given = min != max or not flat.shape[0]
    low, high = (float(min), float(max)) if given else _ends(flat)
    if isinstance(low, float) and not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise ArgumentError(
            f"histc between {low} and {high}", where=user_location(), expected="finite ends, min < max"
        )
    same = low == high
    apart = same.to(flat.dtype) if isinstance(same, Tensor) else float(same)
    low, high = low - apart, high + apart
    place = _op("clip")(((flat - low) / (high - low) * bins).floor().long(), 0, bins - 1)
    inside = (flat >= low) & (flat <= high)
    return _op("zeros")(bins, dtype=flat.dtype).index_add(0, place, inside.to(flat.dtype))  # type: ignore[no-any-return]


def _ends(x: Tensor) -> tuple[Any, Any]:
    """The least and the largest element, as Python numbers where they are known."""
    low, high = x.min(), x.max()
    return (float(low), float(high)) if isinstance(low._read(), np.ndarray) else (low, high)


@tensor_op(G, methods=("histogram",))
def histogram(
    x: Any, bins: Any = 100, *, range: Any = None, weight: Any = None, density: bool = False
) -> Any:
    """Counts and edges. Eager only."""
    x = handle(x).detach()
    edges = bins.numpy() if isinstance(bins, Tensor) else bins
    weights = None if weight is None else handle(weight).detach().numpy().reshape(-1)
    counts, at = np.histogram(x.numpy().reshape(-1), edges, range, density, weights)
    dtype = x.dtype if dt.is_inexact(x.dtype) else dt.default_float  # edges between integers are none
    return wrap(counts.astype(dtype)), wrap(at.astype(dtype))


@tensor_op(G)
def renorm(x: Any, p: float, dim: int, maxnorm: float) -> Tensor:
    """Slices along an axis whose p-norm is above a bound shortened to it."""
    x = handle(x)
    a = axis_in(dim, x.ndim, "renorm")
    others = tuple(i for i in range(x.ndim) if i != a)
    size = _op("norm")(x, p, others, keepdims=True)
    return x * _op("where")(size > maxnorm, maxnorm / (size + 1e-7), 1.0)  # type: ignore[no-any-return]
