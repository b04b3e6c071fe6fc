"""`tb.linalg`, factorisations: Cholesky, LU, QR, eigenvalues, singular values.

Matrices are the last two axes; axes before are a batch. Integers become the default float, small floats
are computed in float32. What has no factorisation is an error where the numbers are at hand; inside `jit`,
where no error can be raised, it is NaN.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from trilobite.base.dtypes import DType, complex_of, int32, real_of
from trilobite.base.errors import ArgumentError, ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.ops.meeting import astype
from trilobite.framework.ops.pairs import Pair
from trilobite.framework.ops.reducing import widened
from trilobite.framework.ops.registry import op
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.primitives.linalg_matrix import (
    adjoint,
    columns_of,
    eye,
    lower,
    rows_of,
    strict_lower,
    upper,
)
from trilobite.ir.transforms.cells import bottom

G = "linalg"


class EighResult(NamedTuple):
    """Eigenvalues and eigenvectors of Hermitian matrices."""

    eigenvalues: Any
    eigenvectors: Any


class EigResult(NamedTuple):
    """Eigenvalues and eigenvectors of general matrices, complex."""

    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    """x = Q @ R."""

    Q: Any
    R: Any


class SVDResult(NamedTuple):
    """x = U @ diag(S) @ Vh."""

    U: Any
    S: Any
    Vh: Any


class LUResult(NamedTuple):
    """x = P @ L @ U."""

    P: Any
    L: Any
    U: Any


class LUFactors(NamedTuple):
    """L and U in one matrix, and the row exchanged with row i at step i."""

    LU: Any
    pivots: Any


def matrices(x: Any, what: str, square: bool = False) -> tuple[Value, DType]:
    """The operand in the dtype it is computed in, and the dtype of results."""
    wide, dtype = widened(x, f"linalg.{what}")
    if wide.ndim < 2 or (square and wide.shape[-1] != wide.shape[-2]):
        raise ShapeError(
            f"linalg.{what} of a tensor of shape {tuple(wide.shape)}",
            where=user_location(),
            expected="a square matrix, or a batch of them: (..., n, n)"
            if square
            else "matrices: (..., m, n)",
        )
    return wide, dtype


def known(value: Value) -> np.ndarray[Any, Any] | None:
    """The numbers of a value, unless it is part of a recording."""
    found = bottom(value)
    return found if isinstance(found, np.ndarray) else None


def first_true(mask: np.ndarray[Any, Any]) -> str:
    """Which matrix of a batch: for messages."""
    at = tuple(int(i) for i in np.argwhere(mask)[0])
    return f" (matrix {', '.join(map(str, at))} of the batch)" if at else ""


# -- Hermitian -----------------------------------------------------------------------------------------------


@op(G, name="linalg.cholesky", methods=())
def cholesky(x: Any, /, *, upper: bool = False) -> Value:
    """The lower L with x = L @ L^H, or the upper U with x = U^H @ U, of a Hermitian positive-definite x.

    Only the Hermitian part of x counts.
    """
    wide, dtype = matrices(x, "cholesky", square=True)
    low = table["cholesky"](wide)
    _check_definite(wide, low)
    return astype(adjoint(low) if upper else low, dtype)


@op(G, name="linalg.cholesky_ex", methods=())
def cholesky_ex(x: Any, /, *, upper: bool = False, check_errors: bool = False) -> Pair:
    """cholesky, and for each matrix 0, or 1 where it is not positive definite and the factor is NaN."""
    wide, dtype = matrices(x, "cholesky_ex", square=True)
    low = table["cholesky"](wide)
    if check_errors:
        _check_definite(wide, low)
    size = table["abs"](low)
    failed = table["reduce_or"](table["is_nan"](size), axes=(low.ndim - 2, low.ndim - 1))
    return Pair(astype(adjoint(low) if upper else low, dtype), table["cast"](failed, dtype=int32))


def _check_definite(x: Value, low: Value) -> None:
    numbers, found = known(x), known(low)
    if numbers is None or found is None:
        return
    failed = np.isnan(found).any(axis=(-2, -1)) & np.isfinite(numbers).all(axis=(-2, -1))
    if failed.any():
        raise ArgumentError(
            f"linalg.cholesky of a matrix that is not positive definite{first_true(failed)}",
            where=user_location(),
            expected="a Hermitian matrix with positive eigenvalues",
            remedy="add a small multiple of the identity, or use tb.linalg.eigh",
        )


def half(x: Any, UPLO: str | None, what: str) -> tuple[Value, DType]:
    """Hermitian matrices; with a `UPLO` of PyTorch's, those of which x has the lower or the upper half.
    Slopes are those of the Hermitian part either way.
    """
    wide, dtype = matrices(x, what, square=True)
    if UPLO is None:
        return wide, dtype
    if UPLO not in ("L", "U"):
        raise ArgumentError(f"linalg.{what}(UPLO={UPLO!r})", where=user_location(), expected="'L' or 'U'")
    low = lower(wide if UPLO == "L" else adjoint(wide))
    meant = table["add"](low, adjoint(strict_lower(low)))
    return table["add"](wide, table["stop_gradient"](table["sub"](meant, wide))), dtype


@op(G, name="linalg.eigh", methods=())
def eigh(x: Any, /, *, UPLO: str | None = None) -> EighResult:
    """Eigenvalues in ascending order and eigenvectors, as columns, of Hermitian matrices.

    Gradients are those of functions that do not depend on the vectors' phases; equal eigenvalues give NaN.
    """
    wide, dtype = half(x, UPLO, "eigh")
    w, v = table["eigh"](wide)
    return EighResult(astype(w, real_of(dtype)), astype(v, dtype))


@op(G, name="linalg.eigvalsh", methods=())
def eigvalsh(x: Any, /, *, UPLO: str | None = None) -> Value:
    """Eigenvalues in ascending order of Hermitian matrices."""
    wide, dtype = half(x, UPLO, "eigvalsh")
    return astype(table["eigvalsh"](wide), real_of(dtype))


# -- general -------------------------------------------------------------------------------------------------


@op(G, name="linalg.eig", methods=())
def eig(x: Any, /) -> EigResult:
    """Eigenvalues and eigenvectors (columns of length 1) of square matrices: complex, in no promised order.

    Gradients are those of functions that do not depend on the vectors' phases; equal eigenvalues give NaN.
    """
    wide, dtype = matrices(x, "eig", square=True)
    w, v = table["eig"](wide)
    return EigResult(astype(w, complex_of(dtype)), astype(v, complex_of(dtype)))


@op(G, name="linalg.eigvals", methods=())
def eigvals(x: Any, /) -> Value:
    """Eigenvalues of square matrices: complex, in no promised order."""
    wide, dtype = matrices(x, "eigvals", square=True)
    return astype(table["eigvals"](wide), complex_of(dtype))


@op(G, name="linalg.qr", methods=())
def qr(x: Any, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QRResult:
    """Q with orthonormal columns and upper triangular R with x = Q @ R; complete: Q is square."""
    wide, dtype = matrices(x, "qr")
    if mode not in ("reduced", "complete"):
        raise ArgumentError(
            f"linalg.qr with mode={mode!r}", where=user_location(), expected="'reduced' or 'complete'"
        )
    q, r = table["qr"](wide, mode=mode)
    return QRResult(astype(q, dtype), astype(r, dtype))


@op(G, name="linalg.svd", methods=())
def svd(x: Any, /, *, full_matrices: bool = True) -> SVDResult:
    """U, S (descending) and Vh with x = U @ diag(S) @ Vh; full: U and Vh are square.

    Gradients are those of functions that do not depend on the vectors' phases; equal values give NaN.
    """
    wide, dtype = matrices(x, "svd")
    u, s, vh = table["svd"](wide, full=bool(full_matrices))
    return SVDResult(astype(u, dtype), astype(s, real_of(dtype)), astype(vh, dtype))


@op(G, name="linalg.svdvals", methods=())
def svdvals(x: Any, /) -> Value:
    """The singular values, in descending order."""
    wide, dtype = matrices(x, "svdvals")
    return astype(table["svdvals"](wide), real_of(dtype))


# -- LU ------------------------------------------------------------------------------------------------------


def _must_pivot(pivot: bool) -> None:
    if not pivot:
        raise ArgumentError(
            "a factorisation with pivot=False", where=user_location(), expected="rows that are exchanged",
            remedy="leave the setting out: without exchanges small pivots lose all digits",
        )  # fmt: skip


@op(G, name="linalg.lu_factor", methods=())
def lu_factor(x: Any, /, *, pivot: bool = True) -> LUFactors:
    """L (below the diagonal, ones on it) and U in one matrix, and the row exchanged with row i at step i."""
    _must_pivot(pivot)
    wide, dtype = matrices(x, "lu_factor")
    packed, pivots, _ = table["lu"](wide)
    return LUFactors(astype(packed, dtype), pivots)


@op(G, name="linalg.lu", methods=())
def lu(x: Any, /, *, pivot: bool = True) -> LUResult:
    """P (a permutation), L (unit lower) and U (upper) with x = P @ L @ U."""
    _must_pivot(pivot)
    wide, dtype = matrices(x, "lu")
    packed, _, order = table["lu"](wide)
    m, n = wide.shape[-2:]
    k = m if m <= n else n
    low = columns_of(strict_lower(packed), 0, k)
    low = table["add"](low, eye(low.shape, low.dtype))
    return LUResult(
        astype(_permutation(order, wide), dtype),
        astype(low, dtype),
        astype(rows_of(upper(packed), 0, k), dtype),
    )


def _permutation(order: Value, like: Value) -> Value:
    """The matrix with a one at (order[j], j)."""
    m = like.shape[-2]
    shape = (*order.shape, m)
    column = table["broadcast"](order, shape=shape, axes=(*range(order.ndim - 1), order.ndim))
    row = table["iota"](shape=shape, dtype=order.dtype, axis=order.ndim - 1)
    return table["cast"](table["eq"](row, column), dtype=like.dtype)
