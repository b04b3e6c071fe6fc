"""Linear algebra as loops over columns: Cholesky, triangular systems, LU, QR, Hermitian eigenvalues.

Every rule works on a batch of matrices x[batch, m, n]. A step of a loop is a few products and masks over
whole matrices: what the machine is good at. Eigenvalues come from rotations of disjoint pairs (Jacobi), all
pairs of a round at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from trilobite.base.dtypes import accumulator, int32, int64, is_complex
from trilobite.compiler.targets.dlp.expand import terms as t
from trilobite.compiler.targets.dlp.expand.terms import add, div, mul, select, sub
from trilobite.compiler.targets.dlp.shapes import extents
from trilobite.ir.graph import Equation
from trilobite.ir.primitive import table
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import TensorType, type_of

Body = Callable[..., Any] | None
SWEEPS = 12  # rounds through all pairs; Jacobi's method converges quadratically behind the first few


def loop(step: Callable[..., list[Any]], fixed: Sequence[Any], state: Sequence[Any], count: int) -> list[Any]:
    """The state after `count` steps; a step sees what is fixed, the state and its own number (int32)."""
    if count == 0:
        return list(state)
    numbers = t.iota((count,), int32, 0)
    types = [type_of(v) for v in (*fixed, *state)] + [TensorType((), int32)]
    body = record_graph(step, types, "step")
    return list(
        table["scan"](
            *fixed,
            *state,
            numbers,
            body=body,
            consts=len(fixed),
            carries=len(state),
            length=count,
            reverse=False,
        )
    )[: len(state)]


def real(x: Any) -> Any:
    return table["real"](x) if is_complex(x.dtype) else x


def conj(x: Any) -> Any:
    return table["conj"](x) if is_complex(x.dtype) else x


def _turn(x: Any) -> Any:
    return t.transpose(x, (0, 2, 1))


def adjoint(x: Any) -> Any:
    return conj(_turn(x))


def as_batch(x: Any) -> Any:
    return t.reshape(x, prod(x.shape[:-2]), *x.shape[-2:])


def _number(i: Any, shape: Sequence[int]) -> Any:
    return t.broadcast(i, shape, ())


def _is(shape: Sequence[int], axis: int, relation: str, i: Any) -> Any:
    """Where the index along an axis stands in a relation to a number."""
    return t.compare(relation, t.iota(shape, int32, axis), _number(i, shape))


def _column(x: Any, j: Any, axis: int) -> Any:
    """x with all but one place along an axis dropped."""
    zero = t.full((), int32, 0)
    starts = [j if a == axis else zero for a in range(x.ndim)]
    return table["dynamic_slice"](
        x, *starts, sizes=tuple(1 if a == axis else n for a, n in enumerate(x.shape))
    )


def _wide(x: Any, shape: Sequence[int]) -> Any:
    """Axes of one element repeated."""
    return t.broadcast(x, shape, range(len(shape)))


def _outer(a: Any, b: Any) -> Any:
    """a[batch, m, 1] b[batch, 1, n]"""
    shape = (a.shape[0], a.shape[1], b.shape[2])
    return mul(_wide(a, shape), _wide(b, shape))


# -- triangles -----------------------------------------------------------------------------------------------


def _cholesky(e: Equation) -> Body:
    shape, dtype = extents(e.inputs[0]), e.inputs[0].type.dtype
    if 0 in shape:
        return lambda x: x

    def body(x: Any) -> Any:
        a = as_batch(t.cast(x, accumulator(dtype)))
        a = mul(add(a, adjoint(a)), 0.5)
        n = a.shape[-1]

        def step(rest: Any, found: Any, j: Any) -> list[Any]:
            line = _column(rest, j, 2)
            root = t.one("sqrt", real(_column(line, j, 1)))
            lower = _is(line.shape, 1, "ge", j)
            scaled = div(line, t.cast(_wide(root, line.shape), line.dtype))
            line = select(lower, scaled, 0.0)
            rest = sub(rest, _outer(line, adjoint(line)))
            return [rest, select(_is(found.shape, 2, "eq", j), _wide(line, found.shape), found)]

        _, lower = loop(step, [], [a, t.like(a, 0.0)], n)
        broken = t.compare("ne", real(lower), real(lower))
        lost = t.reduce("max", t.cast(broken, int32), (1, 2))
        lost = t.compare("gt", t.broadcast(lost, lower.shape, (0,)), 0)
        corner = t.compare("le", t.iota(lower.shape, int32, 2), t.iota(lower.shape, int32, 1))
        lower = select(table["and"](lost, corner), float("nan"), lower)
        return t.cast(t.reshape(lower, *shape), dtype)

    return body


def _triangular_solve(e: Equation) -> Body:
    names = ("left", "lower", "transpose", "unit")
    left, lower, turned, unit = (e.attributes[k] for k in names)
    shape, dtype = extents(e.inputs[1]), e.inputs[1].type.dtype
    if 0 in shape or 0 in extents(e.inputs[0]):
        return lambda a, b: b

    def body(a: Any, b: Any) -> Any:
        wide = accumulator(dtype)
        a, b = as_batch(t.cast(a, wide)), as_batch(t.cast(b, wide))
        down, turn = lower, turned
        if not left:
            b, turn = _turn(b), not turn
        if turn:
            a, down = _turn(a), not down
        if not down:
            a, b = t.reverse(t.reverse(a, 1), 2), t.reverse(b, 1)
        x = _substituted(a, b, unit)
        if not down:
            x = t.reverse(x, 1)
        return t.cast(t.reshape(x if left else _turn(x), *shape), dtype)

    return body


def _substituted(a: Any, b: Any, unit: bool) -> Any:
    n = a.shape[-1]

    def step(a_: Any, b_: Any, x: Any, i: Any) -> list[Any]:
        row = _column(a_, i, 1)
        known = select(_is(row.shape, 2, "lt", i), row, 0.0)
        line = sub(_column(b_, i, 1), t.product(known, x))
        if not unit:
            line = div(line, _wide(_column(row, i, 2), line.shape))
        return [select(_is(x.shape, 1, "eq", i), _wide(line, x.shape), x)]

    return loop(step, [a, b], [t.like(b, 0.0)], n)[0]


# -- LU and QR -----------------------------------------------------------------------------------------------


def _lu(e: Equation) -> Body:
    shape = extents(e.inputs[0])
    m, n = shape[-2:]
    k = min(m, n)

    def body(x: Any) -> list[Any]:
        a = as_batch(x)
        batch = a.shape[0]
        order = t.iota((batch, m), int32, 1)
        pivots = t.full((batch, k), int32, 0)

        def step(a_: Any, order_: Any, pivots_: Any, j: Any) -> list[Any]:
            line = _column(a_, j, 2)
            sizes = t.reshape(t.one("abs", line), batch, m)
            sizes = select(_is(sizes.shape, 1, "ge", j), sizes, -1.0)
            best = t.cast(table["argmax"](sizes, axis=1), int32)
            places = t.iota((batch, m), int32, 1)
            wide_best = t.broadcast(best, (batch, m), (0,))
            here, there = (
                t.compare("eq", places, _number(j, places.shape)),
                t.compare("eq", places, wide_best),
            )
            swapped = select(here, wide_best, select(there, _number(j, places.shape), places))
            order_ = table["take_along"](order_, swapped, axis=1)
            rows = t.broadcast(swapped, a_.shape, (0, 1))
            a_ = table["take_along"](a_, rows, axis=1)
            line, row = _column(a_, j, 2), _column(a_, j, 1)
            pivot = _wide(_column(row, j, 2), line.shape)
            below = _is(line.shape, 1, "gt", j)
            usable = t.compare("ne", pivot, 0.0)
            factors = select(table["and"](below, usable), div(line, select(usable, pivot, 1.0)), 0.0)
            right = select(_is(row.shape, 2, "gt", j), row, 0.0)
            a_ = sub(a_, _outer(factors, right))
            kept = select(below, select(usable, factors, line), line)
            a_ = select(_is(a_.shape, 2, "eq", j), _wide(kept, a_.shape), a_)
            pivots_ = select(_is(pivots_.shape, 1, "eq", j), t.broadcast(best, pivots_.shape, (0,)), pivots_)
            return [a_, order_, pivots_]

        a, order, pivots = loop(step, [], [a, order, pivots], k)
        lead = shape[:-2]
        return [
            t.reshape(a, *shape),
            t.reshape(t.cast(pivots, int64), *lead, k),
            t.reshape(t.cast(order, int64), *lead, m),
        ]

    if 0 in shape:
        return lambda x: [x, *(t.full(extents(v), int64, 0) for v in e.outputs[1:])] if m == 0 else None
    return body


def _qr(e: Equation) -> Body:
    shape = extents(e.inputs[0])
    m, n = shape[-2:]
    width = m if e.attributes["mode"] == "complete" else min(m, n)
    if 0 in shape:
        return lambda x: [
            identity(extents(e.outputs[0]), x.dtype),
            t.full(extents(e.outputs[1]), x.dtype, 0.0),
        ]

    def body(x: Any) -> list[Any]:
        a = as_batch(x)
        q = identity((a.shape[0], m, m), x.dtype)
        a, q = loop(_reflect, [], [a, q], min(m - 1, n) if not is_complex(x.dtype) else min(m, n))
        upper = t.compare("le", t.iota(a.shape, int32, 1), t.iota(a.shape, int32, 2))
        r = t.part(select(upper, a, 0.0), 1, 0, width)
        q = t.part(q, 2, 0, width)
        return [t.reshape(q, *shape[:-2], m, width), t.reshape(r, *shape[:-2], width, n)]

    return body


def identity(shape: Sequence[int], dtype: Any) -> Any:
    last = len(shape) - 1
    same = t.compare("eq", t.iota(shape, int32, last - 1), t.iota(shape, int32, last))
    return t.cast(same, dtype)


def _reflect(a: Any, q: Any, j: Any) -> list[Any]:
    """One of Householder's reflections, with LAPACK's signs."""
    line = _column(a, j, 2)
    alpha = _column(line, j, 1)
    tail = select(_is(line.shape, 1, "gt", j), line, 0.0)
    squares = t.reduce("sum", real(mul(tail, conj(tail))), (1, 2))
    rest = t.reshape(squares, *alpha.shape)
    head = real(mul(alpha, conj(alpha)))
    idle = t.compare("eq", rest, 0.0)
    if is_complex(a.dtype):
        idle = table["and"](idle, t.compare("eq", table["imag"](alpha), 0.0))
    beta = t.one("neg", table["copysign"](t.one("sqrt", add(head, rest)), real(alpha)))
    beta = t.cast(select(idle, 1.0, beta), a.dtype)
    tau = select(idle, 0.0, div(sub(beta, alpha), beta))
    scale = select(idle, 1.0, sub(alpha, beta))
    v = div(tail, _wide(scale, tail.shape))
    v = select(_is(v.shape, 1, "eq", j), 1.0, v)
    back = conj(tau)
    product = t.product(adjoint(v), a)
    a = sub(a, mul(_wide(back, a.shape), _outer(v, product)))
    along = t.product(q, v)
    q = sub(q, mul(_wide(tau, q.shape), _outer(along, adjoint(v))))
    return [a, q]


# -- eigenvalues ---------------------------------------------------------------------------------------------


def next_round(n: int) -> np.ndarray[Any, Any]:
    """The next round of a tournament: the first stays, the others go round. Pairs are (0, 1), (2, 3), ..."""
    top, bottom = list(range(0, n, 2)), list(range(1, n, 2))
    top, bottom = [top[0], bottom[0], *top[1:-1]], [*bottom[1:], top[-1]]
    if n == 2:
        return np.arange(2, dtype=np.int32)
    return np.array([i for pair in zip(top, bottom, strict=True) for i in pair], np.int32)


def _eigh(e: Equation) -> Body:
    shape, dtype = extents(e.inputs[0]), e.inputs[0].type.dtype
    n = shape[-1]
    if 0 in shape:
        return lambda x: [t.full(extents(v), v.type.dtype, 0) for v in e.outputs]

    def body(x: Any) -> list[Any]:
        a = as_batch(x)
        a = mul(add(a, adjoint(a)), 0.5)
        size = n + n % 2
        if size != n:
            a = t.padded(t.padded(a, 1, 0, 1, 0), 2, 0, 1, 0)
        v = identity(a.shape, a.dtype)
        if n > 1:
            a, v = loop(_round, [], [a, v], SWEEPS * max(size - 1, 1))
        values = diagonal(a)
        if size != n:  # the row that was added has an eigenvector of its own
            own = t.reshape(t.part(v, 1, n, size), v.shape[0], size)
            mine = t.compare("gt", t.one("abs", own), 0.5)
            values = select(mine, float("inf"), values)
        index = t.iota(values.shape, int32, 1)
        values, places = table["sort"](values, index, axis=1, keys=1)
        v = table["take_along"](v, t.broadcast(places, v.shape, (0, 2)), axis=2)
        values = t.reshape(t.part(values, 1, 0, n), *shape[:-1])
        vectors = t.reshape(t.part(t.part(v, 1, 0, n), 2, 0, n), *shape)
        return [values, t.cast(vectors, dtype)]

    return body


def diagonal(a: Any) -> Any:
    """The diagonal, as real numbers."""
    same = t.compare("eq", t.iota(a.shape, int32, 1), t.iota(a.shape, int32, 2))
    return t.reduce("sum", select(same, real(a), 0.0), (2,))


def _round(a: Any, v: Any, j: Any) -> list[Any]:
    """All pairs of neighbours are rotated, then the tournament goes on."""
    n = a.shape[-1]
    turn = _of_neighbours(a)
    a = t.product(adjoint(turn), t.product(a, turn))
    v = t.product(v, turn)
    order = t.constant(next_round(n))
    a = table["gather"](table["gather"](a, order, axis=1), order, axis=2)
    return [a, table["gather"](v, order, axis=2)]


def _of_neighbours(a: Any) -> Any:
    """The block-diagonal unitary matrix that clears a[2i, 2i + 1] for all i."""
    batch, n, _ = a.shape
    on = t.reshape(diagonal(a), batch, n // 2, 2)
    p, q = (t.reshape(t.part(on, 2, i, i + 1), batch, n // 2) for i in (0, 1))
    beside = t.compare("eq", t.iota(a.shape, int32, 2), add(t.iota(a.shape, int32, 1), 1))
    edge = t.reduce("sum", select(beside, a, 0.0), (2,))
    return rotation(p, q, t.reshape(t.part(t.reshape(edge, batch, n // 2, 2), 2, 0, 1), batch, n // 2))


def rotation(p: Any, q: Any, edge: Any) -> Any:
    """The block-diagonal unitary matrix that makes [[p, edge], [conj(edge), q]] diagonal, block by block."""
    size = t.one("abs", edge)
    clear = t.compare("eq", size, 0.0)
    safe = select(clear, 1.0, size)
    phase = div(edge, t.cast(safe, edge.dtype))
    tau = div(sub(q, p), mul(safe, 2.0))
    tangent = div(
        table["copysign"](t.like(tau, 1.0), tau),
        add(t.one("abs", tau), t.one("sqrt", add(mul(tau, tau), 1.0))),
    )
    tangent = select(clear, 0.0, tangent)
    c = div(1.0, t.one("sqrt", add(mul(tangent, tangent), 1.0)))
    s = mul(t.cast(mul(tangent, c), edge.dtype), phase)
    return _blocks(t.cast(c, edge.dtype), s, t.one("neg", conj(s)))


def _blocks(c: Any, s: Any, minus: Any) -> Any:
    """[[c, s], [minus, c]] along the diagonal."""
    batch, half = c.shape
    parts = [t.reshape(v, batch, half, 1) for v in (c, s, minus, c)]
    square = t.reshape(t.join(parts, 2), batch, half, 2, 1, 2)
    shape = (batch, half, 2, half, 2)
    full = t.broadcast(square, shape, range(5))
    same = t.compare("eq", t.iota(shape, int32, 1), t.iota(shape, int32, 3))
    return t.reshape(select(same, full, 0.0), batch, 2 * half, 2 * half)


def _eigvalsh(e: Equation) -> Body:
    return lambda x: table["eigh"](x)[0]


RULES = {
    "cholesky": _cholesky,
    "triangular_solve": _triangular_solve,
    "lu": _lu,
    "qr": _qr,
    "eigh": _eigh,
    "eigvalsh": _eigvalsh,
}
