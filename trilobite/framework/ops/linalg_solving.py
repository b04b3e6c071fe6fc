"""`tb.linalg`, systems of equations: solve, inverse, determinant, pseudo-inverse, least squares, powers,
rank.

solve, inv, det and slogdet are composites over one LU factorisation, with reverse rules that use it again.
A singular matrix is an error where the numbers are at hand; inside `jit` its inverse is infinite or NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from trilobite.base.dtypes import COMPLEX, DType, bool_, int64, is_complex, real_of
from trilobite.base.errors import ArgumentError, DTypeError, ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.ops.dtypes import finfo
from trilobite.framework.ops.linalg_factoring import first_true, half, known, matrices
from trilobite.framework.ops.linear import matmul
from trilobite.framework.ops.meeting import as_value, astype, broadcast_shapes, broadcast_to, common
from trilobite.framework.ops.registry import op
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.primitives.linalg_lu import solve_adjoint, solve_factored
from trilobite.ir.primitives.linalg_matrix import (
    adjoint,
    along_columns,
    conj,
    diagonal,
    eye,
    imaginary,
    mm,
    neg,
)
from trilobite.ir.primitives.reduction import spread
from trilobite.ir.transforms.composite import composite

G = "linalg"


class SlogdetResult(NamedTuple):
    """det(x) = sign * exp(logabsdet)."""

    sign: Any
    logabsdet: Any


class LstsqResult(NamedTuple):
    """The x of least norm among those with the smallest norm of a @ x - b, and what is known beside it."""

    solution: Any
    residuals: Any
    rank: Any
    singular_values: Any


# -- solve and inv -------------------------------------------------------------------------------------------


def _solve_forward(a: Value, b: Value) -> tuple[Value, tuple[Value, ...]]:
    packed, _, order = table["lu"](a)
    _check_regular(packed)
    x = solve_factored(packed, order, b)
    return x, (packed, order, x)


def _solve_backward(residuals: Sequence[Value], cotangents: Sequence[Value]) -> tuple[Value, Value]:
    """b receives a^-H ct, a receives -(a^-H ct) x^H."""
    packed, order, x = residuals
    b = solve_adjoint(packed, order, cotangents[0])
    return neg(mm(b, adjoint(x))), b


@composite("linalg.solve", _solve_forward, _solve_backward)
def _solve(a: Value, b: Value) -> Value:
    return _solve_forward(a, b)[0]


def _inv_forward(a: Value) -> tuple[Value, tuple[Value, ...]]:
    packed, _, order = table["lu"](a)
    _check_regular(packed)
    out = solve_factored(packed, order, eye(a.shape, a.dtype))
    return out, (out,)


def _inv_backward(residuals: Sequence[Value], cotangents: Sequence[Value]) -> tuple[Value]:
    turned = adjoint(residuals[0])
    return (neg(mm(turned, mm(cotangents[0], turned))),)


@composite("linalg.inv", _inv_forward, _inv_backward)
def _inv(a: Value) -> Value:
    return _inv_forward(a)[0]


def _check_regular(packed: Value) -> None:
    numbers = known(packed)
    if numbers is None:
        return
    singular = (np.diagonal(numbers, axis1=-2, axis2=-1) == 0).any(axis=-1)
    if singular.any():
        raise ArgumentError(
            f"a singular matrix has no inverse{first_true(singular)}",
            where=user_location(),
            expected="a square matrix of full rank",
            remedy="tb.linalg.lstsq or tb.linalg.pinv for matrices of lower rank",
        )


@op(G, name="linalg.solve", methods=())
def solve(x1: Any, x2: Any, /) -> Value:
    """x with x1 @ x = x2. x2 is a vector if it has one dimension, else a batch of matrices of columns."""
    a, b = common(x1, x2)
    a, dtype = matrices(a, "solve", square=True)
    b = astype(b, a.dtype)
    vector = b.ndim == 1 or (b.shape == a.shape[:-1] and b.shape[-2] != a.shape[-1])  # PyTorch's batch
    if vector:
        b = table["reshape"](b, shape=(*b.shape, 1))
    if b.ndim == 0 or b.shape[-2] != a.shape[-1]:
        raise ShapeError(
            f"linalg.solve of shapes {tuple(a.shape)} and {tuple(as_value(x2).shape)}",
            where=user_location(),
            expected=f"{a.shape[-1]} rows on the right: ({a.shape[-1]},) or (..., {a.shape[-1]}, k)",
        )
    lead = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (broadcast_to(v, (*lead, *v.shape[-2:])) for v in (a, b))
    out = astype(_solve(a, b), dtype)
    return table["reshape"](out, shape=out.shape[:-1]) if vector else out


@op(G, name="linalg.inv", methods=(), plan=True)
def inv(x: Any, /) -> Value:
    """The inverse of square matrices."""
    wide, dtype = matrices(x, "inv", square=True)
    return astype(_inv(wide), dtype)


@op(G, name="linalg.solve_triangular", methods=())
def solve_triangular(
    x1: Any, x2: Any, /, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Value:
    """x with x1 @ x = x2 (or x @ x1 = x2), where x1 is triangular; its other triangle is not read."""
    a, b = common(x1, x2)
    a, dtype = matrices(a, "solve_triangular", square=True)
    b, _ = matrices(b, "solve_triangular")
    lead = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (broadcast_to(v, (*lead, *v.shape[-2:])) for v in (a, b))
    if (b.shape[-2] if left else b.shape[-1]) != a.shape[-1]:
        raise ShapeError(
            f"linalg.solve_triangular of shapes {tuple(a.shape)} and {tuple(b.shape)}",
            where=user_location(),
            expected=f"{a.shape[-1]} {'rows' if left else 'columns'} on the right",
        )
    flags = {"left": left, "lower": not upper, "transpose": False, "unit": unitriangular}
    return astype(table["triangular_solve"](a, b, **flags), dtype)


# -- determinants --------------------------------------------------------------------------------------------


def _parity(pivots: Value, dtype: DType) -> Value:
    """1 or -1: the sign of the row exchanges."""
    place = table["iota"](shape=pivots.shape, dtype=pivots.dtype, axis=pivots.ndim - 1)
    moved = table["cast"](table["ne"](pivots, place), dtype=int64)
    count = table["reduce_sum"](moved, axes=(pivots.ndim - 1,))
    odd = table["and"](count, table["full"](shape=count.shape, dtype=int64, value=1))
    return astype(
        table["sub"](table["full"](shape=odd.shape, dtype=int64, value=1), table["add"](odd, odd)), dtype
    )


def _plain_det(a: Value) -> tuple[Value, Value, Value]:
    packed, pivots, order = table["lu"](a)
    product = table["reduce_prod"](diagonal(packed), axes=(a.ndim - 2,))
    return table["mul"](product, _parity(pivots, a.dtype)), packed, order


def _det_forward(a: Value) -> tuple[Value, tuple[Value, ...]]:
    out, packed, order = _plain_det(a)
    return out, (a, packed, order, out)


def _det_backward(residuals: Sequence[Value], cotangents: Sequence[Value]) -> tuple[Value]:
    """ct * conj(det a) a^-H; of a singular a the same by its cofactors."""
    a, packed, order, out = residuals
    axes = (a.ndim - 2, a.ndim - 1)
    inverse = solve_adjoint(packed, order, eye(a.shape, a.dtype))
    slope = table["mul"](spread(conj(out), a.shape, axes), inverse)
    numbers = known(out)
    if numbers is None or not numbers.all():
        zero = table["eq"](out, table["full"](shape=out.shape, dtype=out.dtype, value=0.0))
        slope = table["select"](spread(zero, a.shape, axes), _cofactors(a), slope)
    return (table["mul"](spread(cotangents[0], a.shape, axes), slope),)


def _cofactors(a: Value) -> Value:
    """The slope of the determinant whatever the rank: conj(det U det Vh) U adj(S) Vh."""
    u, s, vh = table["svd"](a, full=False)
    last = s.ndim - 1
    if s.shape[last] == 0:
        return a
    before, after = (_product_of_others(s, last, reverse) for reverse in (False, True))
    others = astype(table["mul"](before, after), a.dtype)
    phase = conj(table["mul"](_plain_det(u)[0], _plain_det(vh)[0]))
    scaled = table["mul"](u, along_columns(others, u.shape))
    return table["mul"](spread(phase, a.shape, (a.ndim - 2, a.ndim - 1)), mm(scaled, vh))


def _product_of_others(s: Value, axis: int, reverse: bool) -> Value:
    """At each place the product of all numbers before it (or after)."""
    none = (0,) * s.ndim
    low, high = (*none[:axis], 1), (*none[:axis], -1)
    if reverse:
        low, high = high, low
    moved = table["pad"](s, low=low, high=high, between=none, value=1.0)
    return table["cumulative"](moved, axis=axis, kind="prod", reverse=reverse)


@composite("linalg.det", _det_forward, _det_backward)
def _det(a: Value) -> Value:
    return _plain_det(a)[0]


@op(G, name="linalg.det", methods=(), plan=True)
def det(x: Any, /) -> Value:
    """The determinant of square matrices; its gradient is right for singular ones too."""
    wide, dtype = matrices(x, "det", square=True)
    return astype(_det(wide), dtype)


def _slogdet_forward(a: Value) -> tuple[tuple[Value, Value], tuple[Value, ...]]:
    packed, pivots, order = table["lu"](a)
    d = diagonal(packed)
    last = (d.ndim - 1,)
    sign = table["mul"](table["reduce_prod"](table["sign"](d), axes=last), _parity(pivots, a.dtype))
    size = table["reduce_sum"](table["log"](table["abs"](d)), axes=last)
    return (sign, size), (packed, order, sign)


def _slogdet_backward(residuals: Sequence[Value], cotangents: Sequence[Value]) -> tuple[Value]:
    """d log|det| + i d arg(det) = tr(a^-1 da); of a real matrix only the size has a slope."""
    packed, order, sign = residuals
    turn, size = cotangents
    weight = astype(size, packed.dtype)
    if is_complex(packed.dtype):
        angle = table["imag"](table["mul"](conj(turn), sign))
        weight = table["sub"](weight, imaginary(angle, packed.dtype))
    inverse = solve_adjoint(packed, order, eye(packed.shape, packed.dtype))
    return (table["mul"](spread(weight, packed.shape, (packed.ndim - 2, packed.ndim - 1)), inverse),)


@composite("linalg.slogdet", _slogdet_forward, _slogdet_backward)
def _slogdet(a: Value) -> tuple[Value, Value]:
    return _slogdet_forward(a)[0]


@op(G, name="linalg.slogdet", methods=(), plan=True)
def slogdet(x: Any, /) -> SlogdetResult:
    """Sign (or phase) of the determinant and logarithm of its size; 0 and -inf of a singular matrix."""
    wide, dtype = matrices(x, "slogdet", square=True)
    sign, size = _slogdet(wide)
    return SlogdetResult(astype(sign, dtype), astype(size, real_of(dtype)))


# -- by singular values --------------------------------------------------------------------------------------


def _tolerance(x: Value, rtol: Any, dtype: DType) -> Value:
    """One relative tolerance a matrix; by default max(m, n) rounding errors of the dtype."""
    lead = x.shape[:-2]
    real_dtype = real_of(x.dtype)
    if rtol is None:
        eps = float(finfo(dtype).eps)
        m, n = x.shape[-2:]
        return table["full"](shape=lead, dtype=real_dtype, value=eps * (m if m >= n else n))
    given = as_value(rtol)
    if given.dtype in COMPLEX:
        raise DTypeError("a complex rtol", where=user_location(), expected="a real number or tensor")
    return broadcast_to(astype(given, real_dtype), lead)


@op(G, name="linalg.pinv", methods=())
def pinv(
    x: Any, /, *, rtol: Any = None, atol: Any = None, hermitian: bool = False, rcond: Any = None
) -> Value:
    """The pseudo-inverse. Singular values up to rtol times the largest, or up to atol, count as 0. Of a
    `hermitian` matrix the lower half counts.
    """
    wide, dtype = half(x, "L", "pinv") if hermitian else matrices(x, "pinv")
    return astype(table["pinv"](wide, _bound(wide, rtol if rcond is None else rcond, atol, dtype)), dtype)


def _bound(wide: Value, rtol: Any, atol: Any, dtype: DType) -> Value:
    """The share of the largest singular value up to which they count as 0."""
    if atol is None:
        return _tolerance(wide, rtol, dtype)
    s = table["svdvals"](wide)
    lead, last = s.shape[:-1], s.ndim - 1
    if s.shape[last] == 0:
        return _tolerance(wide, rtol, dtype)
    largest = table["reduce_max"](s, axes=(last,))
    floor = broadcast_to(astype(as_value(atol), s.dtype), lead)
    zero, one = (table["full"](shape=lead, dtype=s.dtype, value=v) for v in (0, 1))
    share = table["div"](floor, table["select"](table["eq"](largest, zero), one, largest))
    given = _tolerance(wide, rtol, dtype)
    if rtol is None:  # an absolute bound that is 0 leaves the usual relative one in force
        given = table["select"](table["gt"](floor, zero), zero, given)
    return table["maximum"](share, given)


@op(G, name="linalg.matrix_rank", methods=())
def matrix_rank(
    x: Any, /, *, rtol: Any = None, tol: Any = None, atol: Any = None, hermitian: bool = False
) -> Value:
    """How many singular values exceed rtol times the largest, and atol (`tol` is an older word for it)."""
    wide, dtype = half(x, "L", "matrix_rank") if hermitian else matrices(x, "matrix_rank")
    atol = atol if tol is None else tol
    return _rank(table["svdvals"](wide), _bound(wide, rtol, atol, dtype))


def _rank(s: Value, rtol: Value) -> Value:
    last = s.ndim - 1
    if s.shape[last] == 0:
        return table["full"](shape=s.shape[:-1], dtype=int64, value=0)
    largest = table["mul"](table["reduce_max"](s, axes=(last,)), rtol)
    above = table["gt"](s, spread(largest, s.shape, (last,)))
    return table["reduce_sum"](table["cast"](above, dtype=int64), axes=(last,))


@op(G, name="linalg.lstsq", methods=())
def lstsq(x1: Any, x2: Any, rcond: Any = None, /, *, rtol: Any = None, driver: Any = None) -> LstsqResult:
    """Least squares: solution, squared residuals of each column, rank and singular values of x1, always by
    singular values whatever PyTorch's `driver` says.
    """
    rtol = rtol if rcond is None else rcond
    a, b = common(x1, x2)
    a, dtype = matrices(a, "lstsq")
    b = astype(b, a.dtype)
    vector = b.ndim == 1
    if vector:
        b = table["reshape"](b, shape=(*b.shape, 1))
    if b.ndim == 0 or b.shape[-2] != a.shape[-2]:
        raise ShapeError(
            f"linalg.lstsq of shapes {tuple(a.shape)} and {tuple(as_value(x2).shape)}",
            where=user_location(),
            expected=f"{a.shape[-2]} rows on the right",
        )
    cut = _tolerance(a, rtol, dtype)
    x = matmul(table["pinv"](a, cut), b)
    rest = table["abs"](table["sub"](matmul(a, x), broadcast_to(b, (*x.shape[:-2], *b.shape[-2:]))))
    residuals = table["reduce_sum"](table["mul"](rest, rest), axes=(rest.ndim - 2,))
    s = table["svdvals"](a)
    if vector:
        x, residuals = (table["reshape"](v, shape=v.shape[:-1]) for v in (x, residuals))
    return LstsqResult(
        astype(x, dtype), astype(residuals, real_of(dtype)), _rank(s, cut), astype(s, real_of(dtype))
    )


# -- powers --------------------------------------------------------------------------------------------------


@op(G, name="linalg.matrix_power", methods=(), plan=True)
def matrix_power(x: Any, n: Any, /) -> Value:
    """x @ x @ ... @ x, n times, by squaring; 0 gives the identity, negative n powers of the inverse."""
    if not hasattr(n, "__index__") or isinstance(n, bool):
        raise ArgumentError(
            f"linalg.matrix_power to the power {n!r}", where=user_location(), expected="an integer"
        )
    base, n = as_value(x), int(n)
    if base.ndim < 2 or base.shape[-1] != base.shape[-2] or n < 0:  # only a real power keeps integers
        base, dtype = matrices(base, "matrix_power", square=True)
        base, n = astype(_inv(base), dtype), -n
    out = None
    while n:
        if n & 1:
            out = base if out is None else matmul(out, base)
        n >>= 1
        base = matmul(base, base) if n else base
    return _unit(base) if out is None else out


def _unit(x: Value) -> Value:
    """The identity for matrices: it depends on x with slope 0, so that a gradient arrives there."""
    never = table["full"](shape=x.shape, dtype=bool_, value=False)
    return table["select"](never, x, eye(x.shape, x.dtype))
