"""Matrix algebra over values, in which the rules of the factorisations are written, and what their
meanings share.

A matrix is the last two axes of a value; all axes before are a batch. Nothing here is a primitive: each
function binds the ones it is made of, so that it serves arrays, tangents, tapes and recordings alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trilobite.base.blas import one_thread
from trilobite.base.dtypes import INEXACT, SMALL_FLOATS, DType, accumulator, int64, is_complex, is_float
from trilobite.base.errors import DTypeError, ShapeError
from trilobite.base.locations import user_location
from trilobite.base.quiet import quiet
from trilobite.ir.primitive import Attributes, Value, table
from trilobite.ir.primitives.common import cast_to, count, names
from trilobite.ir.types import Dim, Shape, TensorType

Array = np.ndarray[Any, Any]


# -- types and meanings --------------------------------------------------------------------------------------


def check_matrix(name: str, x: TensorType, square: bool = False) -> None:
    """At least two axes, of a float or complex dtype; the last two equal where a square is needed."""
    if x.dtype not in INEXACT:
        raise DTypeError(
            f"{name} of {x.dtype}",
            where=user_location(),
            expected=names(INEXACT),
            remedy="cast it to a float dtype",
        )
    if len(x.shape) < 2 or (square and x.shape[-1] != x.shape[-2]):
        raise ShapeError(
            f"{name} of a tensor of shape {tuple(x.shape)}",
            where=user_location(),
            expected="a square matrix, or a batch of them: (..., n, n)"
            if square
            else "matrices: (..., m, n)",
        )


def working(x: Array) -> Array:
    """Contiguous, and in single precision where the dtype is smaller: LAPACK knows four dtypes."""
    return np.ascontiguousarray(x, accumulator(x.dtype)).reshape(x.shape)


def meaning(fn: Callable[..., tuple[Array, ...]]) -> Callable[..., tuple[Array, ...]]:
    """A factorisation as the meaning of a primitive.

    Small floats are computed in float32. A matrix whose factorisation fails (not positive definite, no
    convergence, NaN inside) gives NaN, and leaves the others of its batch as they are.
    """

    def run(x: Array, **attrs: Any) -> tuple[Array, ...]:
        wide = working(x)
        try:
            outs = fn(wide, **attrs)
        except np.linalg.LinAlgError:
            outs = _one_by_one(fn, wide, attrs)
        if x.dtype not in SMALL_FLOATS:
            return outs
        return tuple(o.astype(x.dtype) if is_float(o.dtype) else o for o in outs)

    return one_thread(quiet(run))


def _one_by_one(fn: Callable[..., tuple[Array, ...]], x: Array, attrs: Attributes) -> tuple[Array, ...]:
    sound = fn(np.broadcast_to(np.eye(*x.shape[-2:], dtype=x.dtype), x.shape), **attrs)
    outs = tuple(np.full(o.shape, np.nan, o.dtype) for o in sound)
    for at in np.ndindex(*x.shape[:-2]):
        try:
            found = fn(x[at], **attrs)
        except np.linalg.LinAlgError:
            continue
        for out, part in zip(outs, found, strict=True):
            out[at] = part
    return outs


def only(fn: Callable[..., tuple[Array, ...]]) -> Callable[..., Array]:
    """The meaning of a primitive with one result."""

    def run(x: Array, **attrs: Any) -> Array:
        return fn(x, **attrs)[0]

    return run


def lead_batch(name: str) -> Callable[..., Any]:
    """Batching of a factorisation: the batch is one more leading axis."""

    def rule(size: Dim, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes) -> Any:
        return table[name](values[0], **attrs)

    return rule


def cubic(factor: float) -> Callable[..., float]:
    """Cost `factor * m * n * min(m, n)` a matrix."""

    def rule(inputs: Sequence[TensorType], outputs: Sequence[TensorType], attrs: Any) -> float:
        *lead, m, n = (count(d) for d in inputs[0].shape)
        return factor * float(np.prod(lead)) * m * n * min(m, n)

    return rule


def smaller(m: Dim, n: Dim) -> Dim:
    return m if m == n or m < n else n


# -- algebra -------------------------------------------------------------------------------------------------


def mm(a: Value, b: Value) -> Value:
    """The matrix product."""
    n = a.ndim - 2
    axes = tuple(range(n))
    return table["dot"](a, b, contract=((n + 1,), (n,)), batch=(axes, axes), dtype=a.dtype)


def transposed(a: Value) -> Value:
    n = a.ndim
    return table["transpose"](a, axes=(*range(n - 2), n - 1, n - 2))


def conj(a: Value) -> Value:
    return table["conj"](a) if is_complex(a.dtype) else a


def adjoint(a: Value) -> Value:
    return conj(transposed(a))


def add(a: Value, b: Value) -> Value:
    return table["add"](a, b)


def sub(a: Value, b: Value) -> Value:
    return table["sub"](a, b)


def neg(a: Value) -> Value:
    return table["neg"](a)


def scaled(a: Value, factor: float) -> Value:
    return table["mul"](a, table["full"](shape=a.shape, dtype=a.dtype, value=factor))


def hermitian(a: Value) -> Value:
    """(a + a^H) / 2."""
    return scaled(add(a, adjoint(a)), 0.5)


def zeros(shape: Shape, dtype: DType) -> Value:
    return table["full"](shape=shape, dtype=dtype, value=0.0)


def eye(shape: Shape, dtype: DType) -> Value:
    """Ones on the diagonal of every matrix."""
    return where_index("eq", shape, table["full"](shape=shape, dtype=dtype, value=1.0))


def where_index(relation: str, shape: Shape, a: Value, shift: int = 0) -> Value:
    """a where `column relation row + shift`, zero elsewhere."""
    plane = shape[-2:]
    column, row = (table["iota"](shape=plane, dtype=int64, axis=i) for i in (1, 0))
    if shift:
        row = table["add"](row, table["full"](shape=plane, dtype=int64, value=shift))
    mask = table[relation](column, row)
    if len(shape) > 2:
        mask = table["broadcast"](mask, shape=shape, axes=(len(shape) - 2, len(shape) - 1))
    return table["select"](mask, a, zeros(shape, a.dtype))


def lower(a: Value) -> Value:
    return where_index("le", a.shape, a)


def strict_lower(a: Value) -> Value:
    return where_index("lt", a.shape, a)


def upper(a: Value) -> Value:
    return where_index("ge", a.shape, a)


def diagonal(a: Value) -> Value:
    """The diagonal of square matrices, as vectors."""
    return table["reduce_sum"](where_index("eq", a.shape, a), axes=(a.ndim - 1,))


def diagonal_matrix(v: Value) -> Value:
    shape = (*v.shape, v.shape[-1])
    return where_index("eq", shape, along_columns(v, shape))


def along_columns(v: Value, shape: Shape) -> Value:
    """v[..., j] at every row of column j."""
    n = len(shape)
    return table["broadcast"](v, shape=shape, axes=(*range(n - 2), n - 1))


def along_rows(v: Value, shape: Shape) -> Value:
    """v[..., i] at every column of row i."""
    return table["broadcast"](v, shape=shape, axes=tuple(range(len(shape) - 1)))


def times_columns(a: Value, v: Value) -> Value:
    """a @ diag(v), for a real or equal dtype of v."""
    return table["mul"](a, along_columns(cast_to(v, a.dtype), a.shape))


def over_columns(a: Value, v: Value) -> Value:
    """a @ diag(1/v)."""
    return table["div"](a, along_columns(cast_to(v, a.dtype), a.shape))


def times_rows(v: Value, a: Value) -> Value:
    """diag(v) @ a."""
    return table["mul"](along_rows(cast_to(v, a.dtype), a.shape), a)


def real(a: Value) -> Value:
    return table["real"](a) if is_complex(a.dtype) else a


def imaginary(v: Value, dtype: DType) -> Value:
    """i*v for a real v, in a complex dtype."""
    return table["complex"](zeros(v.shape, v.dtype), v) if is_complex(dtype) else zeros(v.shape, dtype)


def columns_of(a: Value, start: Dim, stop: Dim) -> Value:
    """Some columns of every matrix."""
    begin = (0,) * (a.ndim - 1)
    return table["slice"](a, start=(*begin, start), stop=(*a.shape[:-1], stop), step=(1,) * a.ndim)


def rows_of(a: Value, start: Dim, stop: Dim) -> Value:
    begin = (0,) * (a.ndim - 2)
    low, high = (*begin, start, 0), (*a.shape[:-2], stop, a.shape[-1])
    return table["slice"](a, start=low, stop=high, step=(1,) * a.ndim)


def with_zero_columns(a: Value, columns: Dim) -> Value:
    """a with columns of zeros after its own, up to this number."""
    return padded(a, 0, columns - a.shape[-1])


def padded(a: Value, rows: Dim, columns: Dim) -> Value:
    """a with zeros below and to the right."""
    if rows == 0 and columns == 0:
        return a
    none = (0,) * a.ndim
    return table["pad"](a, low=none, high=(*none[:-2], rows, columns), between=none, value=0.0)


def divided_differences(v: Value, dtype: DType) -> Value:
    """F[i, j] = 1 / (v[j] - v[i]), and 0 on the diagonal: how fast vectors turn towards each other.

    Equal values give infinity: their vectors have no derivative, and nothing pretends otherwise.
    """
    shape = (*v.shape, v.shape[-1])
    gaps = sub(along_columns(v, shape), along_rows(v, shape))
    ones = table["full"](shape=shape, dtype=v.dtype, value=1.0)
    gaps = add(gaps, eye(shape, v.dtype))  # any number but 0 on the diagonal, which is cleared below
    return cast_to(where_index("ne", shape, table["div"](ones, gaps)), dtype)


def sum_of(terms: Sequence[Value | None]) -> Value | None:
    total = None
    for t in terms:
        if t is not None:
            total = t if total is None else add(total, t)
    return total
