"""`tb.linalg`, norms and products: vector and matrix norms, condition, cross product, diagonals and
traces."""

from __future__ import annotations

import math
from typing import Any

from trilobite.base.dtypes import real_of
from trilobite.base.errors import ArgumentError, ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.ops.axes import axis_in
from trilobite.framework.ops.linalg_factoring import matrices
from trilobite.framework.ops.linalg_solving import inv
from trilobite.framework.ops.linear import diagonal, matmul
from trilobite.framework.ops.meeting import (
    NUMERIC,
    accepted,
    as_value,
    astype,
    broadcast_shapes,
    broadcast_to,
    common,
)
from trilobite.framework.ops.reducing import accumulated, axes_of, kept, norm, not_empty
from trilobite.framework.ops.registry import op
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table

G = "linalg"

# -- norms ---------------------------------------------------------------------------------------------------


@op(G, name="linalg.vector_norm", methods=(), plan=True)
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Value:
    """The norm over axes: (sum |x|^ord)^(1/ord); inf is the largest size, 0 counts what is not 0."""
    x = as_value(x)
    if isinstance(ord, str):
        raise ArgumentError(
            f"linalg.vector_norm with ord={ord!r}",
            where=user_location(),
            expected="a number",
            remedy="tb.linalg.matrix_norm",
        )
    if math.isinf(ord):
        not_empty(x, axes_of(axis, x.ndim, "linalg.vector_norm"), "linalg.vector_norm")
    return norm(x, float(ord), axis, keepdims=keepdims)


@op(G, name="linalg.matrix_norm", methods=(), plan=True)
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro", axis: Any = (-2, -1)) -> Value:
    """The norm of matrices: 'fro', 'nuc', or 1, -1, 2, -2, inf, -inf. They lie in the last two axes, or in
    those that PyTorch's `dim` names.
    """
    if tuple(axis) != (-2, -1):
        return linalg_norm(x, ord, axis, keepdims=keepdims)
    wide, dtype = matrices(x, "matrix_norm")
    axes = (wide.ndim - 2, wide.ndim - 1)
    if ord is None or ord == "fro":
        out = norm(wide, 2.0, axes)
    elif ord == "nuc" or ord in (2, -2):
        out = _by_singular_values(wide, ord)
    elif ord in (1, -1, math.inf, -math.inf):
        out = _by_sums(wide, ord)
    else:
        raise ArgumentError(
            f"linalg.matrix_norm with ord={ord!r}",
            where=user_location(),
            expected="'fro', 'nuc', 1, -1, 2, -2, inf or -inf",
        )
    return kept(wide, astype(out, real_of(dtype)), axes, keepdims)


def _by_singular_values(x: Value, ord: Any) -> Value:
    s = table["svdvals"](x)
    last = (s.ndim - 1,)
    if ord == "nuc":
        return table["reduce_sum"](s, axes=last)
    not_empty(s, last, "linalg.matrix_norm")
    return table["reduce_max" if ord == 2 else "reduce_min"](s, axes=last)


def _by_sums(x: Value, ord: float) -> Value:
    """1: the largest column sum of sizes, inf: the largest row sum; negative: the smallest."""
    summed = x.ndim - 2 if abs(ord) == 1 else x.ndim - 1
    sums = table["reduce_sum"](table["abs"](x), axes=(summed,))
    not_empty(sums, (sums.ndim - 1,), "linalg.matrix_norm")
    return table["reduce_max" if ord > 0 else "reduce_min"](sums, axes=(sums.ndim - 1,))


@op(G, name="linalg.norm", methods=(), plan=True)
def linalg_norm(x: Any, /, ord: Any = None, axis: Any = None, *, keepdims: bool = False) -> Value:
    """vector_norm, or matrix_norm where two axes are named or ord is one that only matrices have."""
    x = as_value(x)
    pair = isinstance(axis, (tuple, list)) and len(axis) == 2
    if ord is None and not pair:
        return vector_norm(x, axis=axis, keepdims=keepdims)
    if not pair and not (axis is None and x.ndim == 2) and not isinstance(ord, str):
        return vector_norm(x, axis=axis, keepdims=keepdims, ord=ord)
    first, second = axis if pair else (-2, -1)
    first, second = axis_in(first, x.ndim, "linalg.norm"), axis_in(second, x.ndim, "linalg.norm")
    order = (*(i for i in range(x.ndim) if i not in (first, second)), first, second)
    out = matrix_norm(table["transpose"](x, axes=order), ord=ord)
    return kept(x, out, (first, second), keepdims)


@op(G, name="linalg.cond", methods=())
def cond(x: Any, /, *, p: Any = None) -> Value:
    """The condition number: norm(x) * norm(inv(x)), for p None or 2 the ratio of singular values."""
    wide, dtype = matrices(x, "cond", square=p not in (None, 2, -2))
    if p not in (None, 2, -2):
        return table["mul"](matrix_norm(x, ord=p), matrix_norm(inv(x), ord=p))
    s = table["svdvals"](wide)
    last = s.ndim - 1
    not_empty(s, (last,), "linalg.cond")
    ends = table["reduce_max"](s, axes=(last,)), table["reduce_min"](s, axes=(last,))
    return astype(table["div"](*(ends if p != -2 else ends[::-1])), real_of(dtype))


# -- products ------------------------------------------------------------------------------------------------


@op(G, name="linalg.cross", methods=(), plan=True)
def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Value:
    """The cross product of vectors of three elements along an axis; the other axes broadcast."""
    x, y = common(x1, x2)
    accepted("linalg.cross", NUMERIC, x.dtype)
    if not -min(x.ndim, y.ndim) <= axis < (min(x.ndim, y.ndim) if x.ndim == y.ndim else 0):
        raise ShapeError(
            f"linalg.cross of shapes {tuple(x.shape)} and {tuple(y.shape)} along axis {axis}",
            where=user_location(),
            expected="an axis of both, counted from the end where they differ in dimensions",
        )
    if x.shape[axis] != 3 or y.shape[axis] != 3:
        raise ShapeError(
            f"linalg.cross of shapes {tuple(x.shape)} and {tuple(y.shape)} along axis {axis}",
            where=user_location(),
            expected="three elements there in both",
        )
    x, y = (broadcast_to(v, broadcast_shapes(x.shape, y.shape)) for v in (x, y))
    a = axis % x.ndim
    (x0, x1, x2), (y0, y1, y2) = ([_part(v, a, i) for i in range(3)] for v in (x, y))
    pairs = ((x1, y2, x2, y1), (x2, y0, x0, y2), (x0, y1, x1, y0))
    return table["concatenate"](
        *(table["sub"](table["mul"](p, q), table["mul"](r, s)) for p, q, r, s in pairs), axis=a
    )


def _part(x: Value, axis: int, i: int) -> Value:
    start = tuple(i if a == axis else 0 for a in range(x.ndim))
    stop = tuple(i + 1 if a == axis else d for a, d in enumerate(x.shape))
    return table["slice"](x, start=start, stop=stop, step=(1,) * x.ndim)


@op(G, name="linalg.multi_dot", methods=(), plan=True)
def multi_dot(arrays: Any, /) -> Value:
    """The product of several matrices, in the order of fewest multiplications; the ends may be vectors."""
    values = [as_value(a) for a in arrays]
    if len(values) < 2:
        raise ArgumentError(
            "linalg.multi_dot of fewer than two", where=user_location(), expected="at least two"
        )
    sizes = [v.shape[0] if v.ndim == 2 else 1 for v in values[:1]]
    sizes += [v.shape[0] for v in values[1:]] + [values[-1].shape[1] if values[-1].ndim == 2 else 1]
    return _multiplied(values, _cheapest(sizes), 0, len(values) - 1)


def _cheapest(sizes: list[Any]) -> dict[tuple[int, int], int]:
    """Where to split each range of factors."""
    n = len(sizes) - 1
    cost: dict[tuple[int, int], int] = {(i, i): 0 for i in range(n)}
    split: dict[tuple[int, int], int] = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i, j], split[i, j] = min(
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            )
    return split


def _multiplied(values: list[Value], split: dict[tuple[int, int], int], i: int, j: int) -> Value:
    if i == j:
        return values[i]
    k = split[i, j]
    return matmul(_multiplied(values, split, i, k), _multiplied(values, split, k + 1, j))


# -- diagonals -----------------------------------------------------------------------------------------------


@op(G, name="linalg.trace", methods=(), plan=True)
def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Value:
    """The sum along the diagonal of the last two axes; integers add up in int64 (uint64)."""
    line = accumulated(diagonal(as_value(x), offset, -2, -1), dtype)
    return table["reduce_sum"](line, axes=(line.ndim - 1,))
