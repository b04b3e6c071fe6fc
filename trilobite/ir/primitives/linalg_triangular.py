"""Triangular systems and the Cholesky factor.

NumPy has no triangular solver, so its meaning is written here: forward substitution in blocks of rows,
every other case turned into that one. Only the named triangle is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base.blas import one_thread
from trilobite.base.errors import DTypeError, ShapeError
from trilobite.base.locations import user_location
from trilobite.base.quiet import quiet
from trilobite.ir.primitive import Attributes, Primitive, Value
from trilobite.ir.primitives.common import count
from trilobite.ir.primitives.linalg_matrix import (
    adjoint,
    check_matrix,
    conj,
    cubic,
    hermitian,
    lead_batch,
    lower,
    meaning,
    mm,
    neg,
    only,
    scaled,
    sub,
    transposed,
    where_index,
    working,
)
from trilobite.ir.transforms.batch import all_mapped
from trilobite.ir.types import Dim, TensorType

Array = np.ndarray[Any, Any]
BLOCK = 32  # rows solved one by one before a matrix product takes them to the rest


# -- triangular_solve ----------------------------------------------------------------------------------------


def substitute(a: Array, b: Array, unit: bool) -> Array:
    """x with tril(a) x = b, row after row; overwrites and returns b."""
    n = a.shape[-1]
    for start in range(0, n, BLOCK):
        stop = min(start + BLOCK, n)
        if start:
            b[..., start:stop, :] -= np.matmul(a[..., start:stop, :start], b[..., :start, :])
        for i in range(start, stop):
            row = b[..., i, :]
            if i > start:
                row -= np.matmul(a[..., i : i + 1, start:i], b[..., start:i, :])[..., 0, :]
            if not unit:
                row /= a[..., i, i, None]
    return b


def _triangular_solve(a: Array, b: Array, left: bool, lower: bool, transpose: bool, unit: bool) -> Array:
    dtype = b.dtype
    a, b = working(a), working(b)
    if not left:  # x op(a) = b means op(a)' x' = b'
        b, transpose = b.swapaxes(-1, -2), not transpose
    if transpose:
        a, lower = a.swapaxes(-1, -2), not lower
    if not lower:
        a, b = a[..., ::-1, ::-1], b[..., ::-1, :]
    x = substitute(np.ascontiguousarray(a), b.copy(order="C"), unit)
    if not lower:
        x = x[..., ::-1, :]
    if not left:
        x = x.swapaxes(-1, -2)
    return np.ascontiguousarray(x, dtype)


def _solve_type(
    a: TensorType, b: TensorType, left: bool, lower: bool, transpose: bool, unit: bool
) -> TensorType:
    check_matrix("triangular_solve", a, square=True)
    check_matrix("triangular_solve", b)
    if a.dtype != b.dtype:
        raise DTypeError(f"triangular_solve of {a} and {b}", where=user_location(), expected="equal dtypes")
    side = b.shape[-2] if left else b.shape[-1]
    if a.shape[:-2] != b.shape[:-2] or side != a.shape[-1]:
        raise ShapeError(
            f"triangular_solve of {a} and {b}",
            where=user_location(),
            expected=f"equal leading axes, and a b with {a.shape[-1]} {'rows' if left else 'columns'}",
        )
    return b


def _solve_b(t: Value, a: Value, *, left: bool, lower: bool, transpose: bool, unit: bool) -> Value:
    """op(a) x = b is linear in b; back, the adjoint of op(a) is solved."""
    return triangular_solve(conj(a), t, left=left, lower=lower, transpose=not transpose, unit=unit)


def _triangle(x: Value, lower: bool, unit: bool) -> Value:
    relation = ("lt" if lower else "gt") if unit else ("le" if lower else "ge")
    return where_index(relation, x.shape, x)


def _solve_a_jvp(
    t: Value, a: Value, out: Value, *, left: bool, lower: bool, transpose: bool, unit: bool
) -> Value:
    """d(op(a)) x + op(a) dx = 0."""
    t = _triangle(t, lower, unit)
    t = transposed(t) if transpose else t
    residual = mm(t, out) if left else mm(out, t)
    return neg(triangular_solve(a, residual, left=left, lower=lower, transpose=transpose, unit=unit))


def _solve_a_vjp(
    t: Value, a: Value, out: Value, *, left: bool, lower: bool, transpose: bool, unit: bool
) -> Value:
    b = _solve_b(t, a, left=left, lower=lower, transpose=transpose, unit=unit)
    slope = mm(b, adjoint(out)) if left else mm(adjoint(out), b)
    return neg(_triangle(transposed(slope) if transpose else slope, lower, unit))


def _solve_batch(size: Dim, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes) -> Value:
    return triangular_solve(*all_mapped(size, values, mapped), **attrs)


def _solve_cost(inputs: Sequence[TensorType], outputs: Sequence[TensorType], attrs: Any) -> float:
    return count(outputs[0].size) * count(inputs[0].shape[-1])


triangular_solve: Primitive = Primitive(
    "triangular_solve", "a b", type=_solve_type, evaluate=one_thread(quiet(_triangular_solve)),
    jvp=(
        _solve_a_jvp,
        lambda t, a, *, left, lower, transpose, unit:
            triangular_solve(a, t, left=left, lower=lower, transpose=transpose, unit=unit),
    ),
    vjp=(_solve_a_vjp, _solve_b), batch=_solve_batch, cost=_solve_cost,
    doc="x with op(a) x = b, or x op(a) = b; op transposes or not; a zero diagonal divides as IEEE says",
)  # fmt: skip

# -- cholesky ------------------------------------------------------------------------------------------------


def _cholesky(x: Array) -> tuple[Array, ...]:
    return (np.linalg.cholesky((x + x.swapaxes(-1, -2).conj()) / 2),)


def _half_lower(a: Value) -> Value:
    """The lower triangle with half the diagonal: L^-1 L' of a Cholesky factor from L^-1 A' L^-H."""
    return sub(lower(a), scaled(where_index("eq", a.shape, a), 0.5))


def _cholesky_type(x: TensorType) -> TensorType:
    check_matrix("cholesky", x, square=True)
    return x


def _left(a: Value, b: Value, transpose: bool = False) -> Value:
    return triangular_solve(a, b, left=True, lower=True, transpose=transpose, unit=False)


def _cholesky_jvp(t: Value, out: Value) -> Value:
    """L' = L half(L^-1 H' L^-H)."""
    inner = _left(out, adjoint(_left(out, hermitian(t))))
    return mm(out, _half_lower(inner))


def _cholesky_vjp(t: Value, out: Value) -> Value:
    """The transpose: L^-H half(L^H ct) L^-1, made Hermitian."""
    inner = _half_lower(mm(adjoint(out), t))
    left = _left(conj(out), inner, transpose=True)
    return hermitian(adjoint(_left(conj(out), adjoint(left), transpose=True)))


cholesky: Primitive = Primitive(
    "cholesky", "x", type=_cholesky_type, evaluate=only(meaning(_cholesky)),
    jvp=(_cholesky_jvp,), vjp=(_cholesky_vjp,), batch=lead_batch("cholesky"), cost=cubic(1 / 3),
    doc="lower L with L L^H the Hermitian part of x; NaN where that is not positive definite",
)  # fmt: skip
