"""LU factorisation with row exchanges, and general systems through it.

NumPy does not give its LU away, so the meaning is written here: the right-looking algorithm in panels of
columns, all matrices of a batch at once. The largest element of a column by absolute value becomes the
pivot, the first of equals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base.dtypes import int64
from trilobite.ir.primitive import Attributes, Primitive, Value, table
from trilobite.ir.primitives.linalg_matrix import (
    add,
    adjoint,
    check_matrix,
    conj,
    cubic,
    eye,
    lead_batch,
    meaning,
    mm,
    padded,
    smaller,
    strict_lower,
    upper,
    zeros,
)
from trilobite.ir.primitives.linalg_triangular import substitute, triangular_solve
from trilobite.ir.types import TensorType

Array = np.ndarray[Any, Any]
PANEL = 32  # columns eliminated one by one before a matrix product updates the rest


def _lu(x: Array) -> tuple[Array, Array, Array]:
    m, n = x.shape[-2:]
    k = min(m, n)
    a = x.reshape(math.prod(x.shape[:-2]), m, n).copy()
    pivots = np.empty((a.shape[0], k), int64)
    order = np.broadcast_to(np.arange(m, dtype=int64), (a.shape[0], m)).copy()
    for start in range(0, k, PANEL):
        stop = min(start + PANEL, k)
        panel = (
            a[:, start:, start:stop].swapaxes(1, 2).copy()
        )  # columns as rows: what is scanned lies together
        for j in range(stop - start):
            chosen = np.abs(panel[:, j, j:]).argmax(axis=1) + j
            pivots[:, start + j] = chosen + start
            _exchange(panel.swapaxes(1, 2), j, chosen)
            _exchange(a, start + j, chosen + start)
            _exchange(order, start + j, chosen + start)
            _eliminate(panel, j)
        a[:, start:, start:stop] = panel.swapaxes(1, 2)
        if stop < n:
            block = substitute(a[:, start:stop, start:stop], a[:, start:stop, stop:].copy(), unit=True)
            a[:, start:stop, stop:] = block
            a[:, stop:, stop:] -= np.matmul(a[:, stop:, start:stop], block)
    lead = x.shape[:-2]
    return a.reshape(x.shape), pivots.reshape(*lead, k), order.reshape(*lead, m)


def _exchange(held: Array, j: int, chosen: Array) -> None:
    """Exchange entry j of axis 1 with the chosen one, matrix by matrix."""
    matrices = np.arange(held.shape[0])
    first = held[:, j].copy()
    held[:, j] = held[matrices, chosen]
    held[matrices, chosen] = first


def _eliminate(panel: Array, j: int) -> None:
    """Multipliers after the pivot of column j, and what they take from later columns. Zeros have none."""
    pivot = panel[:, j, j, None]
    np.divide(panel[:, j, j + 1 :], pivot, out=panel[:, j, j + 1 :], where=pivot != 0)
    panel[:, j + 1 :, j + 1 :] -= panel[:, j + 1 :, j, None] * panel[:, None, j, j + 1 :]


def _lu_type(x: TensorType) -> tuple[TensorType, TensorType, TensorType]:
    check_matrix("lu", x)
    *lead, m, n = x.shape
    return x, TensorType((*lead, smaller(m, n)), int64), TensorType((*lead, m), int64)


# -- derivatives ---------------------------------------------------------------------------------------------


def _factors(packed: Value) -> tuple[Value, Value]:
    """L (m x m) and U (n x n), completed by the identity where the matrix is not square."""
    *lead, m, n = packed.shape
    k = smaller(m, n)
    low = strict_lower(packed)
    low = (
        padded(low, 0, m - n)
        if k == n
        else table["slice"](low, start=(0,) * low.ndim, stop=(*lead, m, m), step=(1,) * low.ndim)
    )
    up = upper(packed)
    if k == m:
        up = add(padded(up, n - m, 0), _tail_of_identity((*lead, n, n), m, packed))
    else:
        up = table["slice"](up, start=(0,) * up.ndim, stop=(*lead, n, n), step=(1,) * up.ndim)
    return add(low, eye(low.shape, low.dtype)), up


def _tail_of_identity(shape: tuple[Any, ...], first: Any, like: Value) -> Value:
    """The identity from row `first` on."""
    size = shape[-1] - first
    none = (0,) * len(shape)
    if size == 0:
        return zeros(shape, like.dtype)
    corner = eye((*shape[:-2], size, size), like.dtype)
    return table["pad"](corner, low=(*none[:-2], first, first), high=none, between=none, value=0.0)


def permuted(a: Value, order: Value) -> Value:
    """Row i of the result is row order[i] of a."""
    index = table["broadcast"](order, shape=(*order.shape, a.shape[-1]), axes=tuple(range(order.ndim)))
    return table["take_along"](a, index, axis=a.ndim - 2)


def unpermuted(a: Value, order: Value) -> Value:
    """Row order[i] of the result is row i of a."""
    index = table["broadcast"](order, shape=a.shape, axes=tuple(range(order.ndim)))
    return table["scatter_along"](zeros(a.shape, a.dtype), index, a, axis=a.ndim - 2, kind="set")


def _solve(a: Value, b: Value, *, left: bool, lower: bool, transpose: bool = False) -> Value:
    return triangular_solve(a, b, left=left, lower=lower, transpose=transpose, unit=lower)


def _lu_jvp(primals: Sequence[Value], tangents: Sequence[Any], attrs: Attributes) -> tuple[Any, Any]:
    """With F = L^-1 P dA U^-1: dL = L strict_lower(F), dU = upper(F) U."""
    outs = lu(primals[0])
    if tangents[0] is None:
        return outs, (None, None, None)
    low, up = _factors(outs[0])
    change = _solve(low, permuted(tangents[0], outs[2]), left=True, lower=True)
    change = _solve(up, change, left=False, lower=False)
    return outs, (add(mm(low, strict_lower(change)), mm(upper(change), up)), None, None)


def _lu_vjp(
    cts: Sequence[Any],
    inputs: Sequence[Value],
    outs: Sequence[Value],
    wanted: Sequence[bool],
    attrs: Attributes,
) -> list[Any]:
    if cts[0] is None:
        return [None]
    low, up = _factors(outs[0])
    change = add(strict_lower(mm(adjoint(low), cts[0])), upper(mm(cts[0], adjoint(up))))
    change = _solve(conj(low), change, left=True, lower=True, transpose=True)
    change = _solve(conj(up), change, left=False, lower=False, transpose=True)
    return [unpermuted(change, outs[2])]


lu: Primitive = Primitive(
    "lu", "x", type=_lu_type, evaluate=meaning(_lu), whole_jvp=_lu_jvp, whole_vjp=_lu_vjp, multiple=True,
    batch=lead_batch("lu"), cost=cubic(2 / 3),
    doc="L (unit diagonal, below) and U in one matrix, LAPACK's row exchanges, and order with x[order] = L U",
)  # fmt: skip


def solve(a: Value, b: Value) -> Value:
    """x with a x = b, for square matrices and matrices of right-hand sides."""
    packed, _, order = lu(a)
    return solve_factored(packed, order, b)


def solve_factored(packed: Value, order: Value, b: Value) -> Value:
    y = _solve(packed, permuted(b, order), left=True, lower=True)
    return _solve(packed, y, left=True, lower=False)


def solve_adjoint(packed: Value, order: Value, b: Value) -> Value:
    """x with a^H x = b, from the factors of a."""
    y = _solve(conj(packed), b, left=True, lower=False, transpose=True)
    y = _solve(conj(packed), y, left=True, lower=True, transpose=True)
    return unpermuted(y, order)
