"""Checks of a function over values: forward against finite differences, reverse against forward, batched
against a loop, recorded against eager; and the same for its own reverse pass, for second order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from trilobite.base.dtypes import is_inexact
from trilobite.ir.evaluate import run
from trilobite.ir.transforms.backward import backward
from trilobite.ir.transforms.batch import Batch, Batched
from trilobite.ir.transforms.bind import context, deeper
from trilobite.ir.transforms.forward import Dual, Forward, materialise
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.transforms.tape import Leaf, Tape, zeros
from trilobite.ir.types import type_of

Array = np.ndarray[Any, Any]
Fn = Callable[..., Any]


def listed(out: Any) -> list[Any]:
    return list(out) if isinstance(out, (tuple, list)) else [out]


def push(fn: Fn, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Results and their tangents."""
    with deeper(context()) as level:
        forward = Forward(level)
        outs = listed(fn(*(forward.dual(p, t) for p, t in zip(primals, tangents, strict=True))))
    pairs = [
        (o.primal, o.tangent) if type(o) is Dual and o.interpreter is forward else (o, None) for o in outs
    ]
    values = [p for p, _ in pairs]
    return values, [materialise(t, p) if is_inexact(p.dtype) else None for p, t in pairs]


def pull(fn: Fn, primals: Sequence[Any]) -> tuple[list[Any], Callable[[Sequence[Any]], list[Any]]]:
    """Results and the map from their cotangents to the operands' (None for operands without one)."""
    with deeper(context()) as level:
        tape = Tape(level)
        leaves = [Leaf() if is_inexact(p.dtype) else None for p in primals]
        outs = listed(
            fn(*(p if n is None else tape.wrap(p, n) for p, n in zip(primals, leaves, strict=True)))
        )

    def back(cotangents: Sequence[Any]) -> list[Any]:
        roots = [(o, ct) for o, ct in zip(outs, cotangents, strict=True) if ct is not None and tape.tracks(o)]
        found = backward(tape, roots, retain=True)
        return [
            None if n is None else found[n] if n in found else zeros(type_of(p))
            for n, p in zip(leaves, primals, strict=True)
        ]

    return [tape.strip(o) for o in outs], back


def batched(fn: Fn, values: Sequence[Any], mapped: Sequence[bool], size: int) -> list[Any]:
    """Results with the batch in front."""
    with deeper(context()) as level:
        batch = Batch(level, size)
        outs = listed(fn(*(Batched(batch, v) if m else v for v, m in zip(values, mapped, strict=True))))
        return [batch.out(o) for o in outs]


def normal(rng: np.random.Generator, like: Any) -> Array:
    """Random numbers of the same type, of order one."""
    out = rng.standard_normal(like.shape)
    if like.dtype.kind == "c":
        out = out + 1j * rng.standard_normal(like.shape)
    return np.asarray(out).astype(like.dtype)


def inner(a: Sequence[Any], b: Sequence[Any]) -> float:
    """The real inner product of two lists of arrays."""
    return sum(
        float(np.real(np.vdot(x.astype(np.complex128), y.astype(np.complex128))))
        for x, y in zip(a, b, strict=True)
        if x is not None and y is not None
    )


def check(
    fn: Fn, operands: Sequence[Array], rng: np.random.Generator, *, order: int = 2, tol: float = 1e-5
) -> None:
    """Derivatives of every order up to `order`. Operands in double precision."""
    tangents = [normal(rng, o) if is_inexact(o.dtype) else None for o in operands]
    outs, slopes = push(fn, operands, tangents)
    for a, b in zip(outs, listed(fn(*operands)), strict=True):
        np.testing.assert_array_equal(a, b)
    _check_differences(fn, operands, tangents, slopes, tol)
    cotangents = [normal(rng, o) if is_inexact(o.dtype) else None for o in outs]
    results, back = pull(fn, operands)
    for a, b in zip(results, outs, strict=True):
        np.testing.assert_array_equal(a, b)
    received = back(cotangents)
    for r, o in zip(received, operands, strict=True):
        assert r is None or (r.shape == o.shape and r.dtype == o.dtype)
    left, right = inner(cotangents, slopes), inner(received, tangents)
    scale = sum(
        float(np.abs(c).sum()) * float(np.abs(s).max(initial=0.0))
        for c, s in zip(cotangents, slopes, strict=True)
        if c is not None
    )
    assert abs(left - right) <= tol * 1e-3 * max(scale, 1.0), f"<u, Jv> = {left}, <J'u, v> = {right}"
    if order > 1:
        _check_again(fn, operands, cotangents, rng, order, tol)


def _check_again(
    fn: Fn,
    operands: Sequence[Array],
    cotangents: Sequence[Any],
    rng: np.random.Generator,
    order: int,
    tol: float,
) -> None:
    real = [c for c in cotangents if c is not None]

    def reverse(*values: Any) -> list[Any]:
        ops, cts = values[: len(operands)], iter(values[len(operands) :])
        received = pull(fn, ops)[1]([None if c is None else next(cts) for c in cotangents])
        return [r for r in received if r is not None]

    check(reverse, [*operands, *real], rng, order=order - 1, tol=tol * 10)


def _check_differences(
    fn: Fn, operands: Sequence[Array], tangents: Sequence[Any], slopes: Sequence[Any], tol: float
) -> None:
    step = 1e-5
    ends = [
        listed(
            fn(
                *(
                    o if t is None else np.asarray(o + s * step * t)
                    for o, t in zip(operands, tangents, strict=True)
                )
            )
        )
        for s in (1, -1)
    ]
    for up, down, slope in zip(*ends, slopes, strict=True):
        if slope is None:
            continue
        difference = (up - down) / (2 * step)
        scale = max(float(np.abs(slope).max(initial=0.0)), 1.0)
        np.testing.assert_allclose(slope, difference, rtol=tol, atol=tol * scale)


def check_batching(
    fn: Fn, operands: Sequence[Array], rng: np.random.Generator, *, size: int = 3, tol: float = 1e-12
) -> None:
    """Every choice of mapped operands gives what a loop gives."""
    many = [
        np.stack([normal(rng, o) if is_inexact(o.dtype) else np.roll(o, i) for i in range(size)])
        for o in operands
    ]
    for mapped in product((True, False), repeat=len(operands)):
        if not any(mapped):
            continue
        outs = batched(
            fn,
            [m if is_mapped else o for m, o, is_mapped in zip(many, operands, mapped, strict=True)],
            mapped,
            size,
        )
        rows = [
            listed(fn(*(m[i] if k else o for m, o, k in zip(many, operands, mapped, strict=True))))
            for i in range(size)
        ]
        for got, want in zip(outs, zip(*rows, strict=True), strict=True):
            assert got.dtype == want[0].dtype
            size_of_result = float(np.abs(got[np.isfinite(got)]).max(initial=1.0))
            np.testing.assert_allclose(got, np.stack(want), rtol=tol, atol=tol * size_of_result)


def check_recording(fn: Fn, operands: Sequence[Array]) -> None:
    """The recorded graph has the types and the bits of the eager run."""
    graph = record_graph(lambda *v: listed(fn(*v)), [type_of(o) for o in operands])
    for got, want, t in zip(run(graph, operands), listed(fn(*operands)), graph.output_types, strict=True):
        assert t == type_of(want) and t == type_of(got)
        np.testing.assert_array_equal(got, want)
