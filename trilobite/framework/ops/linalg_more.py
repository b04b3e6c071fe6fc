"""`tb.linalg`, functions of matrices: exponential, log of the determinant, solving by known factors, products
of reflections, powers of vectors, equations between tensors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base.dtypes import accumulator, default_float, is_inexact
from trilobite.base.errors import ArgumentError, ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.ops.linalg_solving import slogdet, solve, solve_triangular
from trilobite.framework.ops.registry import lift, operators, tensor_op
from trilobite.framework.ops.shaping import handle
from trilobite.framework.tensor import Tensor
from trilobite.ir.transforms.cells import bottom

G = "linalg"
_PADE = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0,
    10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip
"""Coefficients of the diagonal Padé approximant of e^x of degree 13."""


_MOST = 16
"""Squarings at most: the exponential of a larger matrix has overflowed, or vanished."""


@tensor_op(G, name="linalg.matrix_exp", methods=())
def matrix_exp(x: Any, /) -> Tensor:
    """e to the power of a square matrix: a Padé approximant of the scaled matrix, squared again and again."""
    a = handle(x)
    dtype = a.dtype if is_inexact(a.dtype) else default_float
    a = a.to(accumulator(dtype))
    squarings = _squarings(a.detach())
    a = a / operators["exp2"].public(squarings)
    one = operators["eye"].public(a.shape[-1], dtype=a.dtype)
    a2 = a @ a
    a4, b = a2 @ a2, _PADE
    a6 = a2 @ a4
    odd = a @ (a6 @ (b[13] * a6 + b[11] * a4 + b[9] * a2) + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * one)
    even = a6 @ (b[12] * a6 + b[10] * a4 + b[8] * a2) + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * one
    out = lift(solve)(even - odd, even + odd)
    for i in range(_known(squarings)):
        out = operators["where"].public(squarings > i, out @ out, out)
    return out.to(dtype)  # type: ignore[no-any-return]


def _squarings(a: Tensor) -> Any:
    """How often to halve each matrix so that the approximant is exact to the last place."""
    size = a.abs().sum(axis=-2, keepdims=True).amax(axis=-1, keepdims=True)
    wanted = operators["log2"].public(operators["clip"].public(size / 2.0, 1.0)).ceil()
    return operators["clip"].public(operators["nan_to_num"].public(wanted), 0.0, float(_MOST))


def _known(squarings: Tensor) -> int:
    """The most that any matrix needs; where only a run knows them, the most there are."""
    value = bottom(squarings._read())
    return int(value.max(initial=0)) if isinstance(value, np.ndarray) else _MOST


@tensor_op(G, name="linalg.logdet", methods=())
def logdet(x: Any, /) -> Tensor:
    """The logarithm of the determinant; NaN where it is negative."""
    sign, size = lift(slogdet)(x)
    where = operators["where"].public
    return where(sign < 0, math.nan, size)  # type: ignore[no-any-return]


@tensor_op(G, name="linalg.cholesky_solve", methods=())
def cholesky_solve(b: Any, factor: Any, upper: bool = False) -> Tensor:
    """The solution of A·x = b, where A is known by its Cholesky factor; its other triangle is not read."""
    given = handle(factor)
    turned = given.mT.conj()
    low, high = (turned, given) if upper else (given, turned)
    triangular = lift(solve_triangular)
    return triangular(high, triangular(low, b, upper=False), upper=True)  # type: ignore[no-any-return]


@tensor_op(G, name="linalg.cholesky_inverse", methods=())
def cholesky_inverse(factor: Any, upper: bool = False) -> Tensor:
    """The inverse of a matrix that is known by its Cholesky factor; its other triangle is not read."""
    low = handle(factor)
    return cholesky_solve(operators["eye"].public(low.shape[-1], dtype=low.dtype), low, upper)


@tensor_op(G, name="linalg.lu_solve", methods=())
def lu_solve(LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """The solution of A·X = B (with `adjoint` Aᴴ·X = B, unless `left` X·A = B), where A is known by what
    `lu_factor` gives.
    """
    factors, b = handle(LU), handle(B)
    if not left:  # X·A = B says Aᴴ·Xᴴ = Bᴴ
        return lu_solve(factors, pivots, b.mH, adjoint=not adjoint).mH  # type: ignore[no-any-return]
    if factors.ndim < 2 or b.ndim < 2 or b.shape[-2] != factors.shape[-1]:
        raise ShapeError(
            f"linalg.lu_solve of shapes {tuple(factors.shape)} and {tuple(b.shape)}",
            where=user_location(),
            expected="a square matrix, and as many equations on the right",
        )
    triangular, order = lift(solve_triangular), _order(handle(pivots))
    if adjoint:
        y = triangular(factors.mH, b, upper=False)
        return _rows(triangular(factors.mH, y, upper=True, unitriangular=True), order.argsort(-1))  # type: ignore[no-any-return]
    y = triangular(factors, _rows(b, order), upper=False, unitriangular=True)
    return triangular(factors, y, upper=True)  # type: ignore[no-any-return]


def _order(pivots: Any) -> Any:
    """Where each row comes from when at step i rows i and pivots[i] are exchanged."""
    from trilobite.framework.control import scan

    where, place = operators["where"].public, operators["arange"].public(pivots.shape[-1])

    def exchange(order: Any, step: Any) -> tuple[Any, None]:
        here, there = (place == at[..., None] for at in step)
        ours, theirs = (where(mask, order, 0).sum(-1)[..., None] for mask in (here, there))
        return where(here, theirs, where(there, ours, order)), None

    at = pivots.movedim(-1, 0)
    start = operators["broadcast_to"].public(place, pivots.shape)
    steps = operators["broadcast_to"].public(place.reshape(-1, *(1,) * (at.ndim - 1)), at.shape)
    return scan(exchange, start, (steps, at.to(place.dtype)))[0]


def _rows(x: Any, order: Any) -> Any:
    """The rows of matrices in the order given, for each matrix its own."""
    lead = np.broadcast_shapes(tuple(x.shape[:-2]), tuple(order.shape[:-1]))
    spread = operators["broadcast_to"].public
    x, order = spread(x, (*lead, *x.shape[-2:])), spread(order, (*lead, order.shape[-1]))
    return x.gather(-2, spread(order[..., None], x.shape))


@tensor_op(G, name="linalg.householder_product", methods=())
def householder_product(A: Any, tau: Any) -> Tensor:
    """The first columns of H₁·H₂···Hₖ, where Hᵢ = 1 - tauᵢ·v·vᴴ and v is column i of A from its diagonal on,
    where it counts as 1.
    """
    a, tau = handle(A), handle(tau)
    rows, columns = a.shape[-2:] if a.ndim > 1 else (0, 1)
    if columns > rows or tau.shape[:-1] != a.shape[:-2] or tau.shape[-1] > columns:
        raise ShapeError(
            f"linalg.householder_product of shapes {tuple(a.shape)} and {tuple(tau.shape)}",
            where=user_location(),
            expected="at least as many rows as columns, and at most one number for each column",
        )
    from trilobite.framework.control import scan

    one = operators["eye"].public(rows, columns, dtype=a.dtype)
    vectors = a.tril(-1) + one

    def reflected(q: Any, step: Any) -> tuple[Any, None]:
        v, t = step[0][..., None], step[1][..., None, None]
        return q - t * (v @ (v.mH @ q)), None

    steps = (vectors.movedim(-1, 0)[: tau.shape[-1]], tau.movedim(-1, 0))
    start = operators["broadcast_to"].public(one, a.shape)
    return scan(reflected, start, steps, reverse=True)[0]  # type: ignore[no-any-return]


@tensor_op(G, name="linalg.vander", methods=())
def vander(x: Any, *, N: int | None = None) -> Tensor:
    """Powers 0, 1, ... N - 1 of numbers, along a new last axis."""
    given = handle(x)
    if given.ndim == 0 or (N is not None and not (type(N) is int and N >= 1)):
        raise ArgumentError(
            f"linalg.vander of shape {tuple(given.shape)} with N={N}",
            where=user_location(),
            expected="a vector, and N >= 1",
        )
    powers = [given[..., None]] * ((given.shape[-1] if N is None else N) - 1)
    ones = operators["ones_like"].public(given[..., None])
    return operators["concat"].public([ones, *powers], axis=-1).cumprod(-1)  # type: ignore[no-any-return]


@tensor_op(G, name="linalg.tensorinv", methods=())
def tensorinv(A: Any, ind: int = 2) -> Tensor:
    """The X with tensordot(X, tensordot(A, y)) = y, where the first `ind` axes of A are those of results."""
    a = handle(A)
    if not 0 < ind <= a.ndim or math.prod(a.shape[:ind]) != math.prod(a.shape[ind:]):
        raise _unequal("tensorinv", a.shape, f"the first {ind} axes and the others")
    n = math.prod(a.shape[:ind])
    inverse = operators["linalg.inv"].public(a.reshape(n, n))
    return inverse.reshape(*a.shape[ind:], *a.shape[:ind])  # type: ignore[no-any-return]


@tensor_op(G, name="linalg.tensorsolve", methods=())
def tensorsolve(A: Any, B: Any, dims: Sequence[int] | None = None) -> Tensor:
    """The X with tensordot(A, X, X.ndim) = B; `dims` of A are moved behind its others first."""
    a, b = handle(A), handle(B)
    if dims is not None:
        a = a.movedim(tuple(dims), tuple(range(a.ndim - len(dims), a.ndim)))
    shape: Any = tuple(a.shape[b.ndim :])
    if math.prod(shape) != math.prod(b.shape) or math.prod(a.shape) != math.prod(shape) ** 2:
        raise _unequal("tensorsolve", a.shape, f"the first {b.ndim} axes and the others")
    n = math.prod(shape)
    return lift(solve)(a.reshape(n, n), b.reshape(n)).reshape(shape)  # type: ignore[no-any-return]


def _unequal(what: str, shape: Any, parts: str) -> ShapeError:
    return ShapeError(
        f"linalg.{what} of a tensor of shape {tuple(shape)}",
        where=user_location(),
        expected=f"as many elements by {parts}, so that it is a square matrix",
    )
