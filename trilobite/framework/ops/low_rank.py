"""Singular values of low rank from a few random directions (Halko, Martinsson, Tropp 2009)."""

from __future__ import annotations

from typing import Any

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.base.wrong_use import explain_room
from trilobite.framework.ops import linalg
from trilobite.framework.random.calls import randn
from trilobite.framework.tensor import Tensor


def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """U, S, V of at most q columns with U·diag(S)·Vᵀ near A, or near A - M."""
    x: Any = A if M is None else A - M
    rows, columns = x.shape[-2:]
    rank = min(6 if q is None else q, rows, columns)
    if rows < columns:
        v, s, u = svd_lowrank(x.mT, rank, niter)
        return u, s, v
    basis = _basis(x, rank, 2 if niter is None else niter)
    u, s, vh = linalg.svd(basis.mT @ x, full_matrices=False)
    return basis @ u, s, vh.mT


def pca_lowrank(
    A: Tensor, q: int | None = None, center: bool = True, niter: int = 2
) -> tuple[Tensor, Tensor, Tensor]:
    """svd_lowrank of A less the mean of its rows: V has the principal directions as columns."""
    rows, columns = A.shape[-2:]
    rank = min(6, int(rows), int(columns)) if q is None else q
    if not 0 <= rank <= min(int(rows), int(columns)):
        raise ArgumentError(
            f"pca_lowrank of a matrix of {rows} x {columns} with q={rank}",
            where=user_location(),
            expected=f"0 <= q <= {min(int(rows), int(columns))}",
        )
    return svd_lowrank(A - A.mean(axis=-2, keepdims=True) if center else A, rank, niter)


def _basis(x: Any, rank: int, turns: int) -> Any:
    """Orthogonal columns that span most of what x reaches."""
    drawn = randn(x.shape[-1], rank, dtype=x.dtype)
    found = linalg.qr(x @ drawn)[0]
    for _ in range(turns):
        found = linalg.qr(x.mT @ found)[0]
        found = linalg.qr(x @ found)[0]
    return found


explain_room(globals())
