"""Factorisations: what they promise, their derivatives, their edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from derivative_checks import check_batching, check_recording, listed, normal

from trilobite.base.dtypes import BY_NAME, complex_of, real_of
from trilobite.base.errors import ArgumentError, DTypeError, ShapeError
from trilobite.ir.primitives import linalg_lu, linalg_triangular, table
from trilobite.ir.primitives.linalg_lu import solve, solve_adjoint, solve_factored
from trilobite.ir.primitives.linalg_matrix import adjoint, mm
from trilobite.ir.types import TensorType, dim

Array = np.ndarray[Any, Any]
p = table
REAL, COMPLEX = np.dtype("float64"), np.dtype("complex128")
DTYPES = [REAL, COMPLEX]
SHAPES = [(5, 5), (7, 4), (4, 7), (2, 3, 4, 3), (1, 1), (0, 0), (3, 0), (0, 3), (0, 4, 4)]
SQUARE = [(5, 5), (2, 3, 4, 4), (1, 1), (0, 0), (0, 4, 4)]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def matrix(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Array:
    return normal(rng, np.empty(shape, dtype))


def positive(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Array:
    a = matrix(rng, shape, dtype)
    return a @ a.swapaxes(-1, -2).conj() + np.eye(shape[-1]).astype(dtype)


def h(a: Array) -> Array:
    return a.swapaxes(-1, -2).conj()


def close(a: Array, b: Array, tol: float = 1e-12) -> None:
    assert a.shape == b.shape
    np.testing.assert_allclose(a, b, rtol=0, atol=tol * max(1.0, float(np.abs(b).max(initial=0.0))))


def unitary(q: Array, tol: float = 1e-12) -> None:
    close(
        h(q) @ q,
        np.broadcast_to(np.eye(q.shape[-1]), (*q.shape[:-2], q.shape[-1], q.shape[-1])).astype(q.dtype),
        tol,
    )


# -- what they promise ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SQUARE)
def test_cholesky(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> None:
    a = positive(rng, shape, dtype)
    low = p["cholesky"](a)
    close(low @ h(low), a)
    np.testing.assert_array_equal(np.triu(low, 1), 0)
    assert (np.diagonal(low, axis1=-2, axis2=-1).real > 0).all()


def test_cholesky_reads_the_hermitian_part(rng: np.random.Generator) -> None:
    a = positive(rng, (4, 4), REAL)
    skew = np.triu(matrix(rng, (4, 4), REAL), 1)
    close(p["cholesky"](a + skew - skew.T), p["cholesky"](a), 1e-14)


@pytest.mark.parametrize("panel", [2, 32])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [*SHAPES, (70, 65)])
def test_lu(
    rng: np.random.Generator, shape: Any, dtype: Any, panel: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linalg_lu, "PANEL", panel)
    a = matrix(rng, shape, dtype) * 10.0 ** rng.integers(-3, 4, (*shape[:-1], 1))
    packed, pivots, order = p["lu"](a)
    k = min(shape[-2:])
    low = np.tril(packed, -1)[..., :k] + np.eye(shape[-2], k)
    close(low @ np.triu(packed)[..., :k, :], np.take_along_axis(a, order[..., None], -2))
    assert (np.abs(low) <= 1 + 1e-15).all(), "the pivot is the largest of its column"
    assert pivots.shape == (*shape[:-2], k) and pivots.dtype == order.dtype == np.int64
    for at in np.ndindex(*shape[:-2]):
        rows = list(range(shape[-2]))
        for i, j in enumerate(pivots[at]):
            assert i <= j
            rows[i], rows[j] = rows[j], rows[i]
        assert rows == order[at].tolist()


def test_lu_of_singular_matrices_is_finite() -> None:
    a = np.array([[[0.0, 0.0], [0.0, 0.0]], [[1.0, 2.0], [2.0, 4.0]]])
    packed, _, order = p["lu"](a)
    np.testing.assert_array_equal(packed, [[[0, 0], [0, 0]], [[2, 4], [0.5, 0]]])
    np.testing.assert_array_equal(order, [[0, 1], [1, 0]])


@pytest.mark.parametrize("mode", ["reduced", "complete"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_qr(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any, mode: str) -> None:
    a = matrix(rng, shape, dtype)
    q, r = p["qr"](a, mode=mode)
    width = shape[-2] if mode == "complete" else min(shape[-2:])
    assert q.shape == (*shape[:-1], width) and r.shape == (*shape[:-2], width, shape[-1])
    close(q @ r, a)
    unitary(q)
    np.testing.assert_array_equal(np.tril(r, -1), 0)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_svd(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any, full: bool) -> None:
    a = matrix(rng, shape, dtype)
    u, s, vh = p["svd"](a, full=full)
    k = min(shape[-2:])
    close((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], a)
    unitary(u)
    unitary(h(vh))
    assert u.shape[-1] == (shape[-2] if full else k) and vh.shape[-2] == (shape[-1] if full else k)
    assert (np.diff(s) <= 0).all() and (s >= 0).all() and s.dtype == real_of(np.dtype(dtype))
    close(p["svdvals"](a), s)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SQUARE)
def test_eigh(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> None:
    a = matrix(rng, shape, dtype)
    symmetric = (a + h(a)) / 2
    w, v = p["eigh"](a)
    close(symmetric @ v, v * w[..., None, :])
    unitary(v)
    assert (np.diff(w) >= 0).all() and w.dtype == real_of(np.dtype(dtype))
    close(p["eigvalsh"](a), w)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SQUARE)
def test_eig(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> None:
    a = matrix(rng, shape, dtype)
    w, v = p["eig"](a)
    assert w.dtype == v.dtype == COMPLEX
    close(a.astype(COMPLEX) @ v, v * w[..., None, :])
    np.testing.assert_allclose(np.linalg.norm(v, axis=-2), np.ones(w.shape), rtol=1e-13)
    close(np.sort_complex(p["eigvals"](a)), np.sort_complex(w))


@pytest.mark.parametrize("block", [2, 32])
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_triangular_solve(
    rng: np.random.Generator,
    left: bool,
    lower: bool,
    transpose: bool,
    unit: bool,
    block: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(linalg_triangular, "BLOCK", block)
    for lead, n, k, dtype in (
        ((), 5, 3, REAL),
        ((2, 3), 4, 1, COMPLEX),
        ((2,), 0, 2, REAL),
        ((), 3, 0, REAL),
        ((0,), 3, 2, REAL),
    ):
        a = matrix(rng, (*lead, n, n), dtype) + 4 * np.eye(n)
        b = matrix(rng, (*lead, n, k) if left else (*lead, k, n), dtype)
        seen = (np.tril if lower else np.triu)(a, (-1 if lower else 1) if unit else 0) + (
            np.eye(n) if unit else 0
        )
        seen = seen.swapaxes(-1, -2) if transpose else seen
        junk = np.where(np.tri(n) if lower else np.tri(n).T, a, np.nan)  # the other triangle is not read
        x = p["triangular_solve"](junk, b, left=left, lower=lower, transpose=transpose, unit=unit)
        close(seen @ x if left else x @ seen, b)
        assert x.dtype == b.dtype


def test_a_zero_on_the_diagonal_divides_as_ieee_says() -> None:
    a, b = np.array([[0.0, 0.0], [1.0, 2.0]]), np.array([[1.0, 0.0], [1.0, 1.0]])
    x = p["triangular_solve"](a, b, left=True, lower=True, transpose=False, unit=False)
    np.testing.assert_array_equal(x, [[np.inf, np.nan], [-np.inf, np.nan]])


@pytest.mark.parametrize("dtype", DTYPES)
def test_general_systems(rng: np.random.Generator, dtype: Any) -> None:
    a, b = matrix(rng, (3, 6, 6), dtype), matrix(rng, (3, 6, 2), dtype)
    close(a @ solve(a, b), b, 1e-11)
    packed, _, order = p["lu"](a)
    close(a @ solve_factored(packed, order, b), b, 1e-11)
    close(h(a) @ solve_adjoint(packed, order, b), b, 1e-11)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_pinv(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> None:
    a = matrix(rng, shape, dtype)
    b = p["pinv"](a, np.full(shape[:-2], 1e-12))
    assert b.shape == (*shape[:-2], shape[-1], shape[-2])
    close(a @ b @ a, a)
    close(b @ a @ b, b)
    close(h(a @ b), a @ b)
    close(h(b @ a), b @ a)


def test_pinv_drops_small_singular_values(rng: np.random.Generator) -> None:
    u, v = (np.linalg.qr(matrix(rng, (4, 4), REAL))[0] for _ in range(2))
    a = (u * [3.0, 2.0, 0.3, 0.1]) @ v
    close(p["pinv"](a, np.asarray(0.05)), (v.T * [1 / 3, 0.5, 1 / 0.3, 0]) @ u.T)
    np.testing.assert_array_equal(p["pinv"](np.zeros((2, 3)), np.asarray(1e-3)), np.zeros((3, 2)))


# -- precision and dtypes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "complex64", "float16", "bfloat16"])
def test_lower_precisions(rng: np.random.Generator, dtype: str) -> None:
    d = BY_NAME[dtype]
    eps = {"float32": 1e-5, "complex64": 1e-5, "float16": 1e-2, "bfloat16": 1e-1}[dtype]
    a = positive(rng, (2, 4, 4), COMPLEX if "complex" in dtype else REAL).astype(d)
    wide = a.astype(COMPLEX if "complex" in dtype else REAL)
    low = p["cholesky"](a)
    assert low.dtype == d
    close(low.astype(wide.dtype) @ h(low.astype(wide.dtype)), wide, eps)
    q, r = p["qr"](a, mode="reduced")
    u, s, vh = p["svd"](a, full=False)
    w, v = p["eigh"](a)
    packed, pivots, _ = p["lu"](a)
    assert {q.dtype, r.dtype, u.dtype, vh.dtype, v.dtype, packed.dtype} == {d}
    assert s.dtype == w.dtype == real_of(d) and pivots.dtype == np.int64
    close(q.astype(wide.dtype) @ r.astype(wide.dtype), wide, eps)
    values, vectors = p["eig"](a)
    assert values.dtype == vectors.dtype == complex_of(d) and p["eigvals"](a).dtype == complex_of(d)
    x = p["triangular_solve"](low, a, left=True, lower=True, transpose=False, unit=False)
    assert x.dtype == d
    close(low.astype(wide.dtype) @ x.astype(wide.dtype), wide, eps)


@pytest.mark.parametrize("name", ["cholesky", "eigh", "eigvalsh", "eig", "eigvals", "svdvals"])
def test_a_matrix_that_fails_gives_nan_and_spares_the_others(rng: np.random.Generator, name: str) -> None:
    a = positive(rng, (3, 4, 4), REAL)
    bad = a.copy()
    bad[1] = -bad[1] if name == "cholesky" else np.nan
    outs, want = listed(p[name](bad)), listed(p[name](a))
    for o, w in zip(outs, want, strict=True):
        np.testing.assert_array_equal(o[[0, 2]], w[[0, 2]])
        assert np.isnan(o[1]).any()


# -- batching, recording, refusing ---------------------------------------------------------------------------

CALLS: dict[str, Any] = {
    "cholesky": lambda a: p["cholesky"](mm(a, adjoint(a))),
    "lu": p["lu"],
    "qr": lambda a: p["qr"](a, mode="reduced"),
    "complete qr": lambda a: p["qr"](a, mode="complete"),
    "svd": lambda a: p["svd"](a, full=False),
    "full svd": lambda a: p["svd"](a, full=True),
    "svdvals": p["svdvals"],
    "eigh": p["eigh"],
    "eigvalsh": p["eigvalsh"],
    "eig": p["eig"],
    "eigvals": p["eigvals"],
    "solve": lambda a: solve(a, a),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_batching_and_recording(rng: np.random.Generator, name: str, dtype: Any) -> None:
    a = matrix(rng, (2, 3, 3), dtype)
    check_batching(CALLS[name], [a], rng, tol=1e-9)
    check_recording(CALLS[name], [a])


def test_batching_with_two_operands(rng: np.random.Generator) -> None:
    a, b = matrix(rng, (2, 3, 3), REAL), matrix(rng, (2, 3, 2), REAL)
    flags = {"left": True, "lower": False, "transpose": True, "unit": True}
    check_batching(lambda x, y: p["triangular_solve"](x, y, **flags), [a, b], rng, tol=1e-9)
    check_recording(lambda x, y: p["triangular_solve"](x, y, **flags), [a, b])
    check_batching(lambda x, y: p["pinv"](x, p["abs"](y)), [b, np.full(2, 1e-9)], rng, tol=1e-9)


def test_a_symbolic_batch() -> None:
    n = dim("n")
    x = TensorType((n, 4, 3), REAL)
    assert [t.shape for t in p["svd"].type(x, full=True)] == [(n, 4, 4), (n, 3), (n, 3, 3)]
    assert [t.shape for t in p["lu"].type(x)] == [(n, 4, 3), (n, 3), (n, 4)]


F64 = np.dtype("float64")


@pytest.mark.parametrize(
    ("act", "error", "text"),
    [
        (
            lambda: p["cholesky"].type(TensorType((3, 4), F64)),
            ShapeError,
            "expected: a square matrix, or a batch of them: (..., n, n)",
        ),
        (lambda: p["eigh"].type(TensorType((3,), F64)), ShapeError, "eigh of a tensor of shape (3,)"),
        (
            lambda: p["svd"].type(TensorType((3,), F64), full=False),
            ShapeError,
            "expected: matrices: (..., m, n)",
        ),
        (
            lambda: p["lu"].type(TensorType((3, 3), np.dtype("int64"))),
            DTypeError,
            "remedy: cast it to a float dtype",
        ),
        (
            lambda: p["qr"].type(TensorType((3, 3), F64), mode="r"),
            ArgumentError,
            "expected: 'reduced' or 'complete'",
        ),
        (
            lambda: p["pinv"].type(TensorType((2, 3, 3), F64), TensorType((3,), F64)),
            ShapeError,
            "one tolerance a matrix: (2,)",
        ),
        (
            lambda: p["triangular_solve"].type(
                TensorType((3, 3), F64), TensorType((2, 3), F64), True, True, False, False
            ),
            ShapeError,
            "a b with 3 rows",
        ),
        (
            lambda: p["triangular_solve"].type(
                TensorType((3, 3), F64), TensorType((3, 2), np.dtype("float32")), True, True, False, False
            ),
            DTypeError,
            "equal dtypes",
        ),
    ],
)
def test_refusals(act: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as e:
        act()
    assert text in str(e.value)
