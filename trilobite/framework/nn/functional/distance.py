"""Similarity and distance along an axis."""

from __future__ import annotations

from trilobite.base import dtypes as dt
from trilobite.framework.nn.composites.arithmetic import check_real, div, floating, maximum, mul, total, wide
from trilobite.framework.nn.functional.calling import run
from trilobite.framework.nn.functional.margin import distance
from trilobite.framework.ops.axes import axis_in
from trilobite.framework.ops.meeting import astype, together
from trilobite.framework.ops.reducing import root
from trilobite.framework.tensor import Tensor
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along an axis; lengths are at least eps."""
    return run(_cosine, x1, x2, dim=dim, eps=eps)


def _cosine(x1: Value, x2: Value, dim: int, eps: float) -> Value:
    check_real("cosine_similarity", x1, x2)
    x1, x2 = map(floating, together(x1, x2))
    if not x1.ndim:
        first, second = (table["reshape"](v, shape=(1,)) for v in (x1, x2))
        return table["reshape"](_cosine(first, second, dim, eps), shape=())
    axis = (axis_in(dim, x1.ndim, "cosine_similarity"),)
    a, b = wide(x1), wide(x2)
    lengths = [maximum(root(total(mul(v, v), axis)), eps) for v in (a, b)]
    return astype(div(total(mul(a, b), axis), mul(*lengths)), x1.dtype)


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last axis."""
    return run(_distance, x1, x2, p=float(p), eps=eps, keepdim=keepdim)


def _distance(x1: Value, x2: Value, p: float, eps: float, keepdim: bool) -> Value:
    x1, x2 = map(floating, together(x1, x2))
    if x1.ndim == 0:  # a line of one element
        x1, x2 = (table["reshape"](v, shape=(1,)) for v in (x1, x2))
    return astype(distance(x1, x2, p, eps, keepdim), dt.real_of(x1.dtype))
