"""QR factorisation. Signs and phases are LAPACK's: the diagonal of R is real, of either sign.

The derivative keeps the frame as still as it can: Q turns by the skew matrix that its columns need, and
where more columns than needed are asked for (complete, of a tall matrix) those turn only as far as the
others push them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from trilobite.base.dtypes import is_complex
from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.ir.primitive import Attributes, Primitive, Value, table
from trilobite.ir.primitives.linalg_matrix import (
    add,
    adjoint,
    check_matrix,
    columns_of,
    conj,
    cubic,
    diagonal,
    diagonal_matrix,
    imaginary,
    lead_batch,
    meaning,
    mm,
    rows_of,
    smaller,
    strict_lower,
    sub,
    sum_of,
    upper,
    with_zero_columns,
)
from trilobite.ir.primitives.linalg_triangular import triangular_solve
from trilobite.ir.types import TensorType

Array = np.ndarray[Any, Any]
Mode = Literal["reduced", "complete"]


def _qr(x: Array, mode: Mode) -> tuple[Array, Array]:
    m, n = x.shape[-2:]
    if x.size == 0:
        width = m if mode == "complete" else min(m, n)
        q = np.broadcast_to(np.eye(m, width, dtype=x.dtype), (*x.shape[:-2], m, width))
        return q.copy(), np.zeros((*x.shape[:-2], width, n), x.dtype)
    found = np.linalg.qr(x, mode)
    return found[0], found[1]


def _qr_type(x: TensorType, mode: Mode) -> tuple[TensorType, TensorType]:
    check_matrix("qr", x)
    if mode not in ("reduced", "complete"):
        raise ArgumentError(f"qr in mode {mode!r}", where=user_location(), expected="'reduced' or 'complete'")
    *lead, m, n = x.shape
    width = m if mode == "complete" else smaller(m, n)
    return TensorType((*lead, m, width), x.dtype), TensorType((*lead, width, n), x.dtype)


def _skew(w: Value) -> Value:
    """The skew-Hermitian matrix with w's lower triangle, and the imaginary part of its diagonal."""
    low = strict_lower(w)
    turn = sub(low, adjoint(low))
    if not is_complex(w.dtype):
        return turn
    return add(turn, diagonal_matrix(imaginary(table["imag"](diagonal(w)), w.dtype)))


def _skew_transpose(w: Value) -> Value:
    turn = strict_lower(sub(w, adjoint(w)))
    if not is_complex(w.dtype):
        return turn
    return add(turn, diagonal_matrix(imaginary(table["imag"](diagonal(w)), w.dtype)))


def _leading(r: Value) -> Value:
    """The square block of R that belongs to the first min(m, n) columns."""
    k = smaller(r.shape[-2], r.shape[-1])
    return columns_of(rows_of(r, 0, k), 0, k)


def _qr_jvp(primals: Sequence[Value], tangents: Sequence[Any], attrs: Attributes) -> tuple[Any, Any]:
    """Q' = Q W + what lies outside Q's columns, R' = Q^H A' - W R, with W = skew(Q^H A' R^-1)."""
    q, r = qr(primals[0], **attrs)
    t = tangents[0]
    if t is None:
        return (q, r), (None, None)
    corner = _leading(r)
    change = triangular_solve(
        corner, columns_of(t, 0, corner.shape[-1]), left=False, lower=False, transpose=False, unit=False
    )
    inside = mm(adjoint(q), change)
    turn = _skew(with_zero_columns(inside, q.shape[-1]))
    dq = mm(q, turn)
    if q.shape[-1] != q.shape[-2]:
        dq = add(dq, sub(change, mm(q, inside)))
    return (q, r), (dq, upper(sub(mm(adjoint(q), t), mm(turn, r))))


def _qr_vjp(
    cts: Sequence[Any],
    inputs: Sequence[Value],
    outs: Sequence[Value],
    wanted: Sequence[bool],
    attrs: Attributes,
) -> list[Any]:
    q, r = outs
    cq, cr = cts
    if cr is not None:
        cr = upper(cr)
    if cq is None and cr is None:
        return [None]
    parts = [None if cq is None else mm(adjoint(q), cq), None if cr is None else neg_product(cr, r)]
    turn = _skew_transpose(sum_of(parts))
    corner = _leading(r)
    inside = columns_of(turn, 0, corner.shape[-1])
    if cq is not None and q.shape[-1] != q.shape[-2]:
        inside = sub(inside, parts[0])
        change = add(cq, mm(q, inside))
    else:
        change = mm(q, inside)
    back = triangular_solve(conj(corner), change, left=False, lower=False, transpose=True, unit=False)
    back = with_zero_columns(back, r.shape[-1])
    return [back if cr is None else add(back, mm(q, cr))]


def neg_product(cr: Value, r: Value) -> Value:
    """-cr r^H."""
    return table["neg"](mm(cr, adjoint(r)))


qr: Primitive = Primitive(
    "qr", "x", type=_qr_type, evaluate=meaning(_qr), whole_jvp=_qr_jvp, whole_vjp=_qr_vjp, multiple=True,
    batch=lead_batch("qr"), cost=cubic(4),
    doc="x = Q R, Q with orthonormal columns, R upper triangular; its derivatives need independent columns",
)  # fmt: skip
