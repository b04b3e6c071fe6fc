"""Singular values and vectors, and the pseudo-inverse.

Pairs of singular vectors are known up to a common phase. Derivatives are those of functions that do not
depend on it; where two singular values are equal (or one is zero and its vectors matter), those of the
vectors are infinite or NaN. Vectors beyond the singular values (full, not square) turn only as far as the
others push them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base.blas import one_thread
from trilobite.base.dtypes import is_complex, real_of
from trilobite.base.errors import DTypeError, ShapeError
from trilobite.base.locations import user_location
from trilobite.base.quiet import array_rule
from trilobite.ir.primitive import Attributes, Primitive, Value, table
from trilobite.ir.primitives.common import cast_to
from trilobite.ir.primitives.linalg_matrix import (
    add,
    adjoint,
    check_matrix,
    columns_of,
    cubic,
    diagonal,
    diagonal_matrix,
    divided_differences,
    imaginary,
    lead_batch,
    meaning,
    mm,
    neg,
    only,
    over_columns,
    real,
    scaled,
    smaller,
    sub,
    sum_of,
    times_columns,
    times_rows,
    working,
)
from trilobite.ir.transforms.batch import all_mapped
from trilobite.ir.types import Dim, TensorType

Array = np.ndarray[Any, Any]


# -- svd -----------------------------------------------------------------------------------------------------


def _svd(x: Array, full: bool) -> tuple[Array, Array, Array]:
    m, n = x.shape[-2:]
    if x.size == 0:
        k = min(m, n)
        rows, columns = (m, n) if full else (k, k)
        u = np.broadcast_to(np.eye(m, rows, dtype=x.dtype), (*x.shape[:-2], m, rows))
        v = np.broadcast_to(np.eye(columns, n, dtype=x.dtype), (*x.shape[:-2], columns, n))
        return u.copy(), np.zeros((*x.shape[:-2], k), real_of(x.dtype)), v.copy()
    if not np.isfinite(x).all():  # LAPACK's iterations need not end for an infinity
        raise np.linalg.LinAlgError("an infinity or NaN inside")
    found = np.linalg.svd(x, full_matrices=full)
    return found.U, found.S, found.Vh


def _svd_type(x: TensorType, full: bool) -> tuple[TensorType, TensorType, TensorType]:
    check_matrix("svd", x)
    *lead, m, n = x.shape
    k = smaller(m, n)
    rows, columns = (m, n) if full else (k, k)
    return (
        TensorType((*lead, m, rows), x.dtype),
        TensorType((*lead, k), real_of(x.dtype)),
        TensorType((*lead, columns, n), x.dtype),
    )


class _Frame:
    """The two bases: vectors of the singular values, and the rest (None: there is no rest)."""

    def __init__(self, outs: Sequence[Value]) -> None:
        u, self.s, vh = outs
        v, k = adjoint(vh), self.s.shape[-1]
        self.k, self.dtype = k, u.dtype
        self.u, self.v = columns_of(u, 0, k), columns_of(v, 0, k)
        self.u_rest = None if u.shape[-1] == k else columns_of(u, k, u.shape[-1])
        self.v_rest = None if v.shape[-1] == k else columns_of(v, k, v.shape[-1])

    def gaps(self) -> Value:
        """1 / (s[j]^2 - s[i]^2)."""
        return divided_differences(table["mul"](self.s, self.s), self.dtype)


def _svd_jvp(primals: Sequence[Value], tangents: Sequence[Any], attrs: Attributes) -> tuple[Any, Any]:
    """With P = U^H A' V: s' is P's diagonal; U^H U' = F * (P S + S P^H), V^H V' = F * (S P + P^H S)."""
    outs = svd(primals[0], **attrs)
    t = tangents[0]
    if t is None:
        return outs, (None, None, None)
    f = _Frame(outs)
    p = mm(adjoint(f.u), mm(t, f.v))
    ph, gaps = adjoint(p), f.gaps()
    turn_u = table["mul"](gaps, add(times_columns(p, f.s), times_rows(f.s, ph)))
    turn_v = table["mul"](gaps, add(times_rows(f.s, p), times_columns(ph, f.s)))
    if is_complex(f.dtype):  # the phase between the two vectors of a pair, half to each
        angle = scaled(table["div"](table["imag"](diagonal(p)), f.s), 0.5)
        phase = diagonal_matrix(imaginary(angle, f.dtype))
        turn_u, turn_v = add(turn_u, phase), sub(turn_v, phase)
    du = _moved(f.u, f.u_rest, turn_u, over_columns(mm(t, f.v), f.s))
    dv = _moved(f.v, f.v_rest, turn_v, over_columns(mm(adjoint(t), f.u), f.s))
    return outs, (du, real(diagonal(p)), adjoint(dv))


def _moved(basis: Value, rest: Value | None, turn: Value, pull: Value) -> Value:
    """Tangent of a basis that turns in itself and is pulled out of its span; the rest gives way."""
    d = mm(basis, turn)
    if basis.shape[-1] != basis.shape[-2]:
        d = add(d, sub(pull, mm(basis, mm(adjoint(basis), pull))))
    if rest is None:
        return d
    other = neg(mm(basis, mm(adjoint(pull), rest)))
    return table["concatenate"](d, other, axis=d.ndim - 1)


def _svd_vjp(
    cts: Sequence[Any],
    inputs: Sequence[Value],
    outs: Sequence[Value],
    wanted: Sequence[bool],
    attrs: Attributes,
) -> list[Any]:
    f = _Frame(outs)
    cu, cs, cvh = cts
    cu, cu_rest = _split(cu, f.k)
    cv, cv_rest = _split(None if cvh is None else adjoint(cvh), f.k)
    inner = sum_of(
        [
            None if cs is None else diagonal_matrix(cast_to(cs, f.dtype)),
            _turn_back(f, f.u, cu, on_left=True),
            _turn_back(f, f.v, cv, on_left=False),
        ]
    )
    out_of_v = _pull_back(f.v, f.v_rest, cv, cv_rest, f.s)
    out_of_u = _pull_back(f.u, f.u_rest, cu, cu_rest, f.s)
    return [
        sum_of(
            [
                None if inner is None else mm(f.u, mm(inner, adjoint(f.v))),
                None if out_of_u is None else mm(out_of_u, adjoint(f.v)),
                None if out_of_v is None else mm(f.u, adjoint(out_of_v)),
            ]
        )
    ]


def _split(ct: Any, k: Dim) -> tuple[Any, Any]:
    if ct is None or ct.shape[-1] == k:
        return ct, None
    return columns_of(ct, 0, k), columns_of(ct, k, ct.shape[-1])


def _turn_back(f: _Frame, basis: Value, ct: Any, on_left: bool) -> Value | None:
    """What a cotangent of one basis says about P."""
    if ct is None:
        return None
    spread = mm(adjoint(basis), ct)
    turn = table["mul"](f.gaps(), spread)
    turn = add(turn, adjoint(turn))
    turn = times_columns(turn, f.s) if on_left else times_rows(f.s, turn)
    if not is_complex(f.dtype):
        return turn
    angle = scaled(table["div"](table["imag"](diagonal(spread)), f.s), 0.5 if on_left else -0.5)
    return add(turn, diagonal_matrix(imaginary(angle, f.dtype)))


def _pull_back(basis: Value, rest: Value | None, ct: Any, ct_rest: Any, s: Value) -> Value | None:
    """Cotangent of what pulled the basis out of its span, times 1/s."""
    total = None
    if ct is not None and basis.shape[-1] != basis.shape[-2]:
        total = sub(ct, mm(basis, mm(adjoint(basis), ct)))
    if ct_rest is not None:
        given = neg(mm(rest, mm(adjoint(ct_rest), basis)))
        total = given if total is None else add(total, given)
    return None if total is None else over_columns(total, s)


svd: Primitive = Primitive(
    "svd", "x", type=_svd_type, evaluate=meaning(_svd), whole_jvp=_svd_jvp, whole_vjp=_svd_vjp, multiple=True,
    batch=lead_batch("svd"), cost=cubic(14),
    doc="x = U diag(S) Vh, singular values descending; full: U and Vh square",
)  # fmt: skip


def _svdvals_type(x: TensorType) -> TensorType:
    return _svd_type(x, full=False)[1]


def _values(x: Array) -> tuple[Array, ...]:
    if x.size == 0:
        return (np.zeros((*x.shape[:-2], min(x.shape[-2:])), real_of(x.dtype)),)
    return (np.linalg.svd(x, compute_uv=False),)


def _svdvals_jvp(t: Value, x: Value) -> Value:
    u, _, vh = svd(x, full=False)
    return real(diagonal(mm(adjoint(u), mm(t, adjoint(vh)))))


def _svdvals_vjp(t: Value, x: Value) -> Value:
    u, _, vh = svd(x, full=False)
    return mm(times_columns(u, t), vh)


svdvals: Primitive = Primitive(
    "svdvals", "x", type=_svdvals_type, evaluate=only(meaning(_values)),
    jvp=(_svdvals_jvp,), vjp=(_svdvals_vjp,), batch=lead_batch("svdvals"), cost=cubic(4),
    doc="the singular values, descending",
)  # fmt: skip

# -- pseudo-inverse ------------------------------------------------------------------------------------------


def _pinv(x: Array, rtol: Array) -> Array:
    u, s, vh = _complete_svd(working(x))
    cut = rtol[..., None].astype(s.dtype) * s[..., :1] if s.shape[-1] else s
    kept = ~(s <= cut)  # NaN stays, and shows
    inverse = np.divide(1, s, where=kept, out=np.zeros_like(s))
    out: Array = np.matmul(vh.conj().swapaxes(-1, -2) * inverse[..., None, :], u.conj().swapaxes(-1, -2))
    return out.astype(x.dtype, copy=False)


def _complete_svd(x: Array) -> tuple[Array, ...]:
    return meaning(_svd)(x, full=False)


def _pinv_type(x: TensorType, rtol: TensorType) -> TensorType:
    check_matrix("pinv", x)
    if is_complex(rtol.dtype):
        raise DTypeError(
            f"pinv with a tolerance of {rtol.dtype}", where=user_location(), expected="a real dtype"
        )
    *lead, m, n = x.shape
    if rtol.shape != tuple(lead):
        raise ShapeError(
            f"pinv of {x} with a tolerance of shape {rtol.shape}",
            where=user_location(),
            expected=f"one tolerance a matrix: {tuple(lead)}",
        )
    return TensorType((*lead, n, m), x.dtype)


def _pinv_jvp(t: Value, x: Value, out: Value) -> Value:
    """-B A' B + B B^H A'^H (1 - A B) + (1 - B A) A'^H B^H B, as long as the rank stays."""
    bh, th = adjoint(out), adjoint(t)
    first = mm(out, mm(t, out))
    row, column = mm(out, mm(bh, th)), mm(th, mm(bh, out))
    second = sub(row, mm(mm(row, x), out))
    third = sub(column, mm(out, mm(x, column)))
    return sub(add(second, third), first)


def _pinv_vjp(t: Value, x: Value, out: Value) -> Value:
    bh, th = adjoint(out), adjoint(t)
    first = mm(bh, mm(t, bh))
    left = sub(th, mm(x, mm(out, th)))  # (1 - A B) ct^H
    right = sub(th, mm(mm(th, out), x))  # ct^H (1 - B A)
    second, third = mm(mm(left, out), bh), mm(bh, mm(out, right))
    return sub(add(second, third), first)


def _pinv_batch(size: Dim, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes) -> Value:
    return pinv(*all_mapped(size, values, mapped))


pinv: Primitive = Primitive(
    "pinv", "x rtol", type=_pinv_type, evaluate=one_thread(array_rule(_pinv)),
    jvp=(_pinv_jvp, None), vjp=(_pinv_vjp, None), batch=_pinv_batch, cost=cubic(20),
    doc="the pseudo-inverse; singular values up to rtol times the largest count as zero",
)  # fmt: skip
