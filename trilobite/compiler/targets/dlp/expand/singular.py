"""Singular values and vectors, and the pseudo-inverse: rotations of pairs of columns (Jacobi, one-sided).

A tall matrix times rotations, all disjoint pairs of a round at once, until its columns are orthogonal: their
lengths are the singular values, the rotations the right vectors. The left ones are Householder's, of the
columns in their order, so that they are orthogonal where lengths are zero too. A wide matrix is turned first.
"""

from __future__ import annotations

from typing import Any

from trilobite.base.dtypes import accumulator, int32
from trilobite.compiler.targets.dlp.expand import terms as t
from trilobite.compiler.targets.dlp.expand.matrices import (
    SWEEPS,
    Body,
    adjoint,
    as_batch,
    conj,
    diagonal,
    identity,
    loop,
    next_round,
    real,
    rotation,
)
from trilobite.compiler.targets.dlp.expand.terms import div, mul, select
from trilobite.compiler.targets.dlp.shapes import extents
from trilobite.ir.graph import Equation
from trilobite.ir.primitive import table


def _svd(e: Equation) -> Body:
    shape, full = extents(e.inputs[0]), e.attributes["full"]
    m, n = shape[-2:]
    outs = [extents(v) for v in e.outputs]
    if 0 in shape:
        dtypes = [v.type.dtype for v in e.outputs]
        return lambda x: [
            identity(outs[0], dtypes[0]),
            t.full(outs[1], dtypes[1], 0.0),
            identity(outs[2], dtypes[2]),
        ]

    def body(x: Any) -> list[Any]:
        a = as_batch(x)
        left, values, right = _tall(a if m >= n else adjoint(a), full)
        if m < n:
            left, right = right, left
        return [t.reshape(v, *s) for v, s in zip((left, values, adjoint(right)), outs, strict=True)]

    return body


def _tall(a: Any, full: bool) -> tuple[Any, Any, Any]:
    """Left vectors, values and right vectors, as columns."""
    batch, _, n = a.shape
    largest = t.reduce("max", t.one("abs", a), (1, 2))
    scale = select(t.compare("eq", largest, 0.0), 1.0, largest)  # squares of lengths stay within the format
    a = div(a, t.cast(t.broadcast(scale, a.shape, (0,)), a.dtype))
    size = n + n % 2
    w = t.padded(a, 2, 0, size - n, 0) if size != n else a
    v = identity((batch, size, size), a.dtype)
    if n > 1:
        w, v = loop(_round, [], [w, v], SWEEPS * (size - 1))
    lengths = t.one("sqrt", _squares(w))
    if size != n:  # the column that was added comes last
        own = t.reshape(t.part(v, 1, n, size), batch, size)
        lengths = select(t.compare("gt", t.one("abs", own), 0.5), -1.0, lengths)
    falling, places = table["sort"](t.one("neg", lengths), t.iota(lengths.shape, int32, 1), axis=1, keys=1)
    values = mul(t.one("neg", t.part(falling, 1, 0, n)), t.broadcast(scale, (batch, n), (0,)))
    w, v = (
        t.part(table["take_along"](y, t.broadcast(places, y.shape, (0, 2)), axis=2), 2, 0, n) for y in (w, v)
    )
    return _orthogonal(w, full), values, t.part(v, 1, 0, n)


def _round(w: Any, v: Any, j: Any) -> list[Any]:
    """All pairs of neighbouring columns are made orthogonal, then the tournament goes on."""
    batch, m, n = w.shape
    pairs = t.reshape(w, batch, m, n // 2, 2)
    first, second = (t.reshape(t.part(pairs, 3, i, i + 1), batch, m, n // 2) for i in (0, 1))
    edge = t.reduce("sum", mul(conj(first), second), (1,))
    turn = rotation(_squares(first), _squares(second), edge)
    order = t.constant(next_round(n))
    return [table["gather"](t.product(y, turn), order, axis=2) for y in (w, v)]


def _squares(w: Any) -> Any:
    return t.reduce("sum", real(mul(w, conj(w))), (1,))


def _orthogonal(w: Any, full: bool) -> Any:
    """Orthonormal columns in the directions of w's, whatever their lengths; `full`: as many as rows."""
    batch, m, n = w.shape
    q, r = table["qr"](w, mode="complete" if full and m > n else "reduced")
    on = diagonal(t.part(r, 1, 0, n))
    sign = select(t.compare("lt", on, 0.0), t.like(on, -1.0), 1.0)
    if q.shape[2] > n:
        sign = t.join([sign, t.full((batch, q.shape[2] - n), sign.dtype, 1.0)], 1)
    return mul(q, t.cast(t.broadcast(sign, q.shape, (0, 2)), q.dtype))


def _svdvals(e: Equation) -> Body:
    return lambda x: table["svd"](x, full=False)[1]


def _pinv(e: Equation) -> Body:
    shape, dtype = extents(e.inputs[0]), e.inputs[0].type.dtype
    if 0 in shape:
        return lambda x, rtol: t.full(extents(e.outputs[0]), dtype, 0.0)

    def body(x: Any, rtol: Any) -> Any:
        u, s, vh = table["svd"](as_batch(t.cast(x, accumulator(dtype))), full=False)
        cut = mul(t.reshape(t.cast(rtol, s.dtype), s.shape[0], 1), t.part(s, 1, 0, 1))
        dropped = t.compare("le", s, t.broadcast(cut, s.shape, (0, 1)))
        inverse = select(dropped, 0.0, div(1.0, select(dropped, 1.0, s)))
        right = mul(adjoint(vh), t.cast(t.broadcast(inverse, adjoint(vh).shape, (0, 2)), vh.dtype))
        return t.cast(t.reshape(t.product(right, adjoint(u)), *extents(e.outputs[0])), dtype)

    return body


RULES = {"svd": _svd, "svdvals": _svdvals, "pinv": _pinv}
