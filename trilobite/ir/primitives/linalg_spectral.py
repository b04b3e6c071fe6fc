"""Eigenvalues and eigenvectors, of Hermitian and of general matrices.

Eigenvectors are known up to a phase, those of equal eigenvalues up to a rotation. Derivatives are those of
functions that do not depend on this choice; where two eigenvalues are equal, those of the vectors are
infinite or NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base.dtypes import accumulator, complex_of, real_of
from trilobite.ir.primitive import Attributes, Primitive, Value, table
from trilobite.ir.primitives.common import cast_to
from trilobite.ir.primitives.linalg_lu import solve
from trilobite.ir.primitives.linalg_matrix import (
    add,
    adjoint,
    check_matrix,
    conj,
    cubic,
    diagonal,
    diagonal_matrix,
    divided_differences,
    hermitian,
    lead_batch,
    meaning,
    mm,
    only,
    real,
    sub,
    sum_of,
    times_columns,
)
from trilobite.ir.types import TensorType

Array = np.ndarray[Any, Any]


def _symmetric(x: Array) -> Array:
    return (x + x.swapaxes(-1, -2).conj()) / 2


# -- Hermitian -----------------------------------------------------------------------------------------------


def _eigh(x: Array) -> tuple[Array, Array]:
    found = np.linalg.eigh(_symmetric(x))
    return found.eigenvalues, found.eigenvectors


def _eigh_type(x: TensorType) -> tuple[TensorType, TensorType]:
    check_matrix("eigh", x, square=True)
    return TensorType(x.shape[:-1], real_of(x.dtype)), x


def _eigh_jvp(primals: Sequence[Value], tangents: Sequence[Any], attrs: Attributes) -> tuple[Any, Any]:
    """With P = V^H A' V: w' is P's diagonal, V' = V (F * P), F[i, j] = 1 / (w[j] - w[i])."""
    w, v = eigh(primals[0])
    if tangents[0] is None:
        return (w, v), (None, None)
    change = mm(adjoint(v), mm(hermitian(tangents[0]), v))
    turn = table["mul"](divided_differences(w, v.dtype), change)
    return (w, v), (real(diagonal(change)), mm(v, turn))


def _eigh_vjp(
    cts: Sequence[Any],
    inputs: Sequence[Value],
    outs: Sequence[Value],
    wanted: Sequence[bool],
    attrs: Attributes,
) -> list[Any]:
    w, v = outs
    cw, cv = cts
    inner = sum_of(
        [
            None if cw is None else diagonal_matrix(cast_to(cw, v.dtype)),
            None if cv is None else table["mul"](divided_differences(w, v.dtype), mm(adjoint(v), cv)),
        ]
    )
    return [None if inner is None else hermitian(mm(v, mm(inner, adjoint(v))))]


eigh: Primitive = Primitive(
    "eigh", "x", type=_eigh_type, evaluate=meaning(_eigh),
    whole_jvp=_eigh_jvp, whole_vjp=_eigh_vjp, multiple=True, batch=lead_batch("eigh"), cost=cubic(9),
    doc="eigenvalues, ascending, and eigenvectors (columns) of the Hermitian part of x",
)  # fmt: skip


def _eigvalsh_jvp(t: Value, x: Value) -> Value:
    v = eigh(x)[1]
    return real(diagonal(mm(adjoint(v), mm(hermitian(t), v))))


def _eigvalsh_vjp(t: Value, x: Value) -> Value:
    v = eigh(x)[1]
    return hermitian(mm(times_columns(v, t), adjoint(v)))


def _eigvalsh_type(x: TensorType) -> TensorType:
    check_matrix("eigvalsh", x, square=True)
    return TensorType(x.shape[:-1], real_of(x.dtype))


eigvalsh: Primitive = Primitive(
    "eigvalsh", "x", type=_eigvalsh_type,
    evaluate=only(meaning(lambda x: (np.linalg.eigvalsh(_symmetric(x)),))),
    jvp=(_eigvalsh_jvp,), vjp=(_eigvalsh_vjp,), batch=lead_batch("eigvalsh"), cost=cubic(4 / 3),
    doc="eigenvalues, ascending, of the Hermitian part of x",
)  # fmt: skip

# -- general -------------------------------------------------------------------------------------------------


def _complex(x: Array) -> Array:
    return x.astype(complex_of(x.dtype), copy=False)


def _eig(x: Array) -> tuple[Array, Array]:
    found = np.linalg.eig(x)
    return _complex(found.eigenvalues), _complex(found.eigenvectors)


def _eig_type(x: TensorType) -> tuple[TensorType, TensorType]:
    check_matrix("eig", x, square=True)
    dtype = complex_of(accumulator(x.dtype))
    return TensorType(x.shape[:-1], dtype), TensorType(x.shape, dtype)


def _eig_jvp(primals: Sequence[Value], tangents: Sequence[Any], attrs: Attributes) -> tuple[Any, Any]:
    """With P = V^-1 A' V: w' is P's diagonal, V' = V (F * P) less what would lengthen a column."""
    w, v = eig(primals[0])
    if tangents[0] is None:
        return (w, v), (None, None)
    change = solve(v, mm(cast_to(tangents[0], v.dtype), v))
    turn = table["mul"](divided_differences(w, v.dtype), change)
    moved = mm(v, turn)
    longer = real(diagonal(mm(adjoint(v), moved)))
    return (w, v), (diagonal(change), sub(moved, times_columns(v, longer)))


def _eig_vjp(
    cts: Sequence[Any],
    inputs: Sequence[Value],
    outs: Sequence[Value],
    wanted: Sequence[bool],
    attrs: Attributes,
) -> list[Any]:
    w, v = outs
    cw, cv = cts
    inner = None if cw is None else diagonal_matrix(cw)
    if cv is not None:
        spread = mm(adjoint(v), cv)
        spread = sub(spread, times_columns(mm(adjoint(v), v), real(diagonal(spread))))
        turn = table["mul"](conj(divided_differences(w, v.dtype)), spread)
        inner = turn if inner is None else add(inner, turn)
    if inner is None:
        return [None]
    back = solve(adjoint(v), mm(inner, adjoint(v)))
    return [cast_to(back, inputs[0].dtype)]


eig: Primitive = Primitive(
    "eig", "x", type=_eig_type, evaluate=meaning(_eig), whole_jvp=_eig_jvp, whole_vjp=_eig_vjp, multiple=True,
    batch=lead_batch("eig"), cost=cubic(25),
    doc="eigenvalues and eigenvectors (columns of length 1) of general matrices, complex; in LAPACK's order",
)  # fmt: skip


def _eigvals_jvp(t: Value, x: Value) -> Value:
    v = eig(x)[1]
    return diagonal(solve(v, mm(cast_to(t, v.dtype), v)))


def _eigvals_vjp(t: Value, x: Value) -> Value:
    v = eig(x)[1]
    return cast_to(solve(adjoint(v), mm(diagonal_matrix(t), adjoint(v))), x.dtype)


def _eigvals_type(x: TensorType) -> TensorType:
    check_matrix("eigvals", x, square=True)
    return TensorType(x.shape[:-1], complex_of(accumulator(x.dtype)))


eigvals: Primitive = Primitive(
    "eigvals", "x", type=_eigvals_type, evaluate=only(meaning(lambda x: (_complex(np.linalg.eigvals(x)),))),
    jvp=(_eigvals_jvp,), vjp=(_eigvals_vjp,), batch=lead_batch("eigvals"), cost=cubic(10),
    doc="eigenvalues of general matrices, complex, in LAPACK's order",
)  # fmt: skip
