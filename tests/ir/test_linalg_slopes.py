"""Derivatives of factorisations, first and second order, in both modes.

Vectors with a free phase are seen through functions that do not depend on it: products, spans, sizes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from derivative_checks import check
from test_linalg import DTYPES, matrix, p, positive

from trilobite.ir.primitives.linalg_lu import solve
from trilobite.ir.primitives.linalg_matrix import adjoint, columns_of, mm, rows_of, times_columns


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 3), (1, 1), (0, 0)])
def test_slope_of_cholesky(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> None:
    check(p["cholesky"], [positive(rng, shape, dtype)], rng)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 3, 3), (0, 0), (0, 2), (2, 0)])
def test_slope_of_lu(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> None:
    check(lambda a: p["lu"](a)[0], [matrix(rng, shape, dtype)], rng)


@pytest.mark.parametrize("mode", ["reduced", "complete"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 5), (3, 0)])
def test_slope_of_qr(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any, mode: str) -> None:
    check(lambda a: p["qr"](a, mode=mode), [matrix(rng, shape, dtype)], rng)


@pytest.mark.parametrize("dtype", DTYPES)
def test_slope_of_qr_of_tall_matrices(rng: np.random.Generator, dtype: Any) -> None:
    a = matrix(rng, (2, 5, 3), dtype)
    check(lambda x: p["qr"](x, mode="reduced"), [a], rng)

    def frame(x: Any) -> Any:
        """Complete: what lies beyond the columns is known as a whole only."""
        q, r = p["qr"](x, mode="complete")
        rest = columns_of(q, 3, 5)
        return columns_of(q, 0, 3), r, mm(rest, adjoint(rest))

    check(frame, [a], rng)


def projector(v: Any, count: int) -> Any:
    part = columns_of(v, 0, count)
    return mm(part, adjoint(part))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 3), (1, 1), (0, 0)])
def test_slope_of_eigh(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> None:
    def invariants(x: Any) -> Any:
        w, v = p["eigh"](x)
        return w, mm(times_columns(v, p["sin"](w)), adjoint(v)), projector(v, shape[-1] // 2)

    a = matrix(rng, shape, dtype)
    check(invariants, [a], rng, tol=1e-4)
    check(p["eigvalsh"], [a], rng)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 3, 2), (0, 0), (0, 2)])
def test_slope_of_svd(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any, full: bool) -> None:
    k = min(shape[-2:])

    def invariants(x: Any) -> Any:
        u, s, vh = p["svd"](x, full=full)
        joined = mm(times_columns(columns_of(u, 0, k), p["sin"](s)), rows_of(vh, 0, k))
        spans = [projector(u, k // 2), projector(adjoint(vh), k // 2)]
        if full:
            rest_u, rest_v = columns_of(u, k, shape[-2]), adjoint(rows_of(vh, k, shape[-1]))
            spans += [mm(rest_u, adjoint(rest_u)), mm(rest_v, adjoint(rest_v))]
        return joined, s, *spans

    a = matrix(rng, shape, dtype)
    check(invariants, [a], rng, tol=1e-4)
    if not full:
        check(p["svdvals"], [a], rng, tol=1e-4)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 3), (1, 1), (0, 0)])
def test_slope_of_eig(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> None:
    def invariants(x: Any) -> Any:
        w, v = p["eig"](x)
        size = p["real"](p["mul"](v, p["conj"](v)))
        return w, size, solve(adjoint(v), adjoint(times_columns(v, p["sin"](w))))

    a = matrix(rng, shape, dtype)
    check(invariants, [a], rng, tol=1e-4)
    check(p["eigvals"], [a], rng, tol=1e-4)


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_slope_of_triangular_solve(
    rng: np.random.Generator, left: bool, lower: bool, transpose: bool, unit: bool
) -> None:
    for dtype in DTYPES:
        a, b = (
            matrix(rng, (2, 3, 3), dtype) + 3 * np.eye(3),
            matrix(rng, (2, 3, 2) if left else (2, 2, 3), dtype),
        )
        flags = {"left": left, "lower": lower, "transpose": transpose, "unit": unit}
        check(lambda x, y, f=flags: p["triangular_solve"](x, y, **f), [a, b], rng, order=3)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 3, 2), (0, 2)])
def test_slope_of_pinv(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> None:
    rtol = np.full(shape[:-2], 1e-12)
    check(lambda a: p["pinv"](a, rtol), [matrix(rng, shape, dtype)], rng, tol=1e-4)


def test_slope_of_pinv_at_the_identity_is_finite(rng: np.random.Generator) -> None:
    check(lambda a: p["pinv"](a, np.asarray(1e-12)), [np.eye(3)], rng)


def test_slope_of_a_general_system(rng: np.random.Generator) -> None:
    for dtype in DTYPES:
        check(solve, [matrix(rng, (2, 4, 4), dtype), matrix(rng, (2, 4, 2), dtype)], rng, tol=1e-4)
