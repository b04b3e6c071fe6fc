"""Products that add up: matmul, tensordot, vecdot and the products of vectors. `tb.linalg` has the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base.dtypes import int64
from trilobite.base.errors import ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.ops.axes import axes_in, axis_in
from trilobite.framework.ops.meeting import (
    NUMERIC,
    accepted,
    as_value,
    broadcast_shapes,
    broadcast_to,
    common,
)
from trilobite.framework.ops.registry import alias, bare, op
from trilobite.framework.views import diagonal_steps
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.primitives.dot import small_product
from trilobite.ir.transforms import bind as entry

G = "linear algebra"
_dot = table["dot"]


def _operands(x1: Any, x2: Any, what: str) -> tuple[Value, Value]:
    x, y = common(x1, x2)
    accepted(what, NUMERIC, x.dtype)
    return x, y


def _small(x: Any, y: Any) -> Value | None:
    """The product of two small matrices that are just arrays."""
    ctx = entry.threads.context
    if ctx.recorder is not None or ctx.watch is not None or ctx.autocast is not None:
        return None
    y = bare(y)
    return small_product(x, y) if type(y) is np.ndarray else None


@op(G, methods=("matmul", "__matmul__", "mm", "bmm", "mv"), short=_small, plan=True)
def matmul(x1: Any, x2: Any, /) -> Value:
    """Matrix product; vectors stand for a row or a column, leading axes broadcast."""
    x, y = _operands(x1, x2, "matmul")
    if x.ndim == 0 or y.ndim == 0:
        raise ShapeError(
            "matmul of a tensor without dimensions",
            where=user_location(),
            expected="at least one dimension each",
            remedy="multiply with *",
        )
    if x.shape[-1] != y.shape[max(y.ndim - 2, 0)]:
        raise ShapeError(
            f"matmul of shapes {tuple(x.shape)} and {tuple(y.shape)}", where=user_location(),
            expected=f"the last axis of the first ({x.shape[-1]}) equal to the second to last of the second "
            f"({y.shape[max(y.ndim - 2, 0)]})",
            remedy="transpose one of them: x @ y.mT",
        )  # fmt: skip
    if y.ndim <= 2:
        return _dot(x, y, contract=((x.ndim - 1,), (max(y.ndim - 2, 0),)), batch=((), ()), dtype=x.dtype)
    if x.ndim == 1:
        out = _batched(table["reshape"](x, shape=(1, *x.shape)), y)
        return table["reshape"](out, shape=(*out.shape[:-2], out.shape[-1]))
    return _batched(x, y)


def _batched(x: Value, y: Value) -> Value:
    lead = broadcast_shapes(x.shape[:-2], y.shape[:-2])
    x, y = broadcast_to(x, (*lead, *x.shape[-2:])), broadcast_to(y, (*lead, *y.shape[-2:]))
    n = len(lead)
    axes = tuple(range(n))
    return _dot(x, y, contract=((n + 1,), (n,)), batch=(axes, axes), dtype=x.dtype)


@op(G, plan=True)
def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Value:
    """The sum of products over pairs of axes: the last n of x1 with the first n of x2, or those listed."""
    x, y = _operands(x1, x2, "tensordot")
    if isinstance(axes, (tuple, list)):
        left, right = (
            axes_in(tuple(a) if isinstance(a, Sequence) else (a,), v.ndim, "tensordot")
            for a, v in zip(axes, (x, y), strict=True)
        )
    else:
        n = axes.__index__()
        if not 0 <= n <= min(x.ndim, y.ndim):
            raise ShapeError(
                f"tensordot over {n} axes of shapes {tuple(x.shape)} and {tuple(y.shape)}",
                where=user_location(),
                expected="not more axes than both have",
            )
        left, right = tuple(range(x.ndim - n, x.ndim)), tuple(range(n))
    if [x.shape[a] for a in left] != [y.shape[a] for a in right]:
        raise ShapeError(
            f"tensordot of shapes {tuple(x.shape)} and {tuple(y.shape)} over axes {left} and {right}",
            where=user_location(),
            expected="axes of equal sizes",
        )
    return _dot(x, y, contract=(left, right), batch=((), ()), dtype=x.dtype)


@op(G, plan=True)
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Value:
    """The sum along an axis of conj(x1) * x2; the other axes broadcast."""
    x, y = _operands(x1, x2, "vecdot")
    axis_in(axis, min(x.ndim, y.ndim), "vecdot")
    axis = axis - x.ndim if axis >= 0 and x.ndim == y.ndim else axis
    if x.shape[axis] != y.shape[axis]:
        raise ShapeError(
            f"vecdot of shapes {tuple(x.shape)} and {tuple(y.shape)} along axis {axis}",
            where=user_location(),
            expected="equal sizes there",
        )
    x, y = (broadcast_to(v, broadcast_shapes(x.shape, y.shape)) for v in (x, y))
    x = table["conj"](x) if x.dtype.kind == "c" else x
    a = axis % x.ndim
    others = tuple(i for i in range(x.ndim) if i != a)
    return _dot(x, y, contract=((a,), (a,)), batch=(others, others), dtype=x.dtype)


@op(G, plan=True)
def dot(x1: Any, x2: Any, /) -> Value:
    """The product of two vectors: the sum of their products, without conjugation."""
    x, y = _operands(x1, x2, "dot")
    if x.ndim != 1 or y.ndim != 1:
        raise ShapeError(
            f"dot of shapes {tuple(x.shape)} and {tuple(y.shape)}",
            where=user_location(),
            expected="two vectors",
            remedy="tb.matmul for matrices, tb.vecdot along an axis",
        )
    return matmul(x, y)


@op(G, plan=True)
def inner(x1: Any, x2: Any, /) -> Value:
    """The sum of products over the last axes of both; a number multiplies."""
    x, y = _operands(x1, x2, "inner")
    if not x.ndim or not y.ndim:
        shape = x.shape or y.shape
        return table["mul"](broadcast_to(x, shape), broadcast_to(y, shape))
    return tensordot(x1, x2, axes=((-1,), (-1,)))


@op(G, plan=True)
def outer(x1: Any, x2: Any, /) -> Value:
    """Every element of one vector times every element of the other."""
    x, y = _operands(x1, x2, "outer")
    if x.ndim != 1 or y.ndim != 1:
        raise ShapeError(
            f"outer of shapes {tuple(x.shape)} and {tuple(y.shape)}",
            where=user_location(),
            expected="two vectors",
            remedy="flatten them first",
        )
    return table["mul"](
        *(table["broadcast"](v, shape=(x.shape[0], y.shape[0]), axes=(i,)) for i, v in enumerate((x, y)))
    )


@op(G, plan=True)
def kron(x1: Any, x2: Any, /) -> Value:
    """The Kronecker product: every element of the first times the whole of the second, in blocks."""
    x, y = _operands(x1, x2, "kron")
    n = max(x.ndim, y.ndim)
    a, b = ((1,) * (n - v.ndim) + tuple(v.shape) for v in (x, y))
    both = tuple(d for pair in zip(a, b, strict=True) for d in pair)
    left = table["broadcast"](table["reshape"](x, shape=a), shape=both, axes=tuple(range(0, 2 * n, 2)))
    right = table["broadcast"](table["reshape"](y, shape=b), shape=both, axes=tuple(range(1, 2 * n, 2)))
    return table["reshape"](table["mul"](left, right), shape=tuple(p * q for p, q in zip(a, b, strict=True)))


@op(G, methods=(), plan=True)
def cdist(x1: Any, x2: Any, /, p: float = 2.0, compute_mode: Any = None) -> Value:
    """The distance (the p-norm of the difference) between every row of x1 and every row of x2, always from
    the differences: no mode trades digits for time.
    """
    from trilobite.framework.ops.reducing import norm

    x, y = common(x1, x2)
    if x.ndim < 2 or y.ndim < 2 or x.shape[-1] != y.shape[-1]:
        raise ShapeError(
            f"cdist of shapes {tuple(x.shape)} and {tuple(y.shape)}",
            where=user_location(),
            expected="(..., n, d) and (..., m, d)",
        )
    lead = broadcast_shapes(x.shape[:-2], y.shape[:-2])
    shape = (*lead, x.shape[-2], y.shape[-2], x.shape[-1])
    rows = table["reshape"](x, shape=(*x.shape[:-1], 1, x.shape[-1]))
    columns = table["reshape"](y, shape=(*y.shape[:-2], 1, *y.shape[-2:]))
    return norm(table["sub"](broadcast_to(rows, shape), broadcast_to(columns, shape)), p, -1)


# -- diagonals ---------------------------------------------------------------------------------------------


def diagonal(x: Value, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Value:
    """The diagonal of the plane of two axes, as a new last axis; a positive offset is above it."""
    a, b = axes_in((axis1, axis2), x.ndim, "diagonal")
    for primitive, attributes in diagonal_steps(x.shape, offset, a, b):
        x = primitive(x, **attributes)
    return x


@op(G, plan=True)
def diag(x: Any, /, offset: int = 0) -> Value:
    """The diagonal of a matrix, or a matrix with this diagonal and zeros elsewhere."""
    x = as_value(x)
    if x.ndim == 2:
        return diagonal(x, offset)
    if x.ndim != 1:
        raise ShapeError(
            f"diag of a tensor with {x.ndim} dimensions",
            where=user_location(),
            expected="a vector or a matrix",
            remedy="tb.diagonal(x, axis1=..., axis2=...)",
        )
    n = x.shape[0] + abs(offset)
    line = table["pad"](x, low=(max(offset, 0),), high=(max(-offset, 0),), between=(0,), value=0)
    wide = table["broadcast"](line, shape=(n, n), axes=(1,))
    on = table["sub"](
        table["iota"](shape=(n, n), dtype=int64, axis=1), table["iota"](shape=(n, n), dtype=int64, axis=0)
    )
    here = table["eq"](on, table["full"](shape=(n, n), dtype=int64, value=offset))
    return table["select"](here, wide, table["full"](shape=(n, n), dtype=x.dtype, value=0))


@op(G, plan=True)
def trace(x: Any, /, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Value:
    """The sum of the diagonal of the plane of two axes."""
    from trilobite.framework.ops.reducing import sum

    return sum(diagonal(x, offset, axis1, axis2), -1)


for _short in ("mm", "bmm", "mv"):
    alias(_short, "matmul")
