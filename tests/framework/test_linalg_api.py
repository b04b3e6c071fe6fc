"""`tb.linalg`: the standard's signatures, NumPy's numbers, gradients in both modes, errors as text."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ArgumentError, DTypeError, ShapeError

Array = np.ndarray[Any, Any]
L = tb.linalg
STANDARD = (
    "cholesky cross det diagonal eig eigh eigvals eigvalsh inv matmul matrix_norm matrix_power matrix_rank "
    "matrix_transpose outer pinv qr slogdet solve svd svdvals tensordot trace vecdot vector_norm"
).split()
DTYPES = ["float32", "float64", "complex64", "complex128"]
EPS = {"float32": 1e-4, "float64": 1e-11, "complex64": 1e-4, "complex128": 1e-11}


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(9)


def matrix(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any = "float64") -> Array:
    out = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        out = out + 1j * rng.standard_normal(shape)
    return out.astype(dtype)


def positive(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any = "float64") -> Array:
    a = matrix(rng, shape, dtype)
    return (a @ a.swapaxes(-1, -2).conj() + np.eye(shape[-1])).astype(dtype)


def same(got: Any, want: Any, tol: float) -> None:
    want = np.asarray(want)
    assert tuple(got.shape) == want.shape and got.dtype == want.dtype, (got.dtype, want.dtype)
    scale = max(1.0, float(np.abs(want[np.isfinite(want)]).max(initial=0.0)))
    np.testing.assert_allclose(got.numpy(), want, rtol=0, atol=tol * scale)


# -- the standard --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STANDARD)
def test_signatures_are_the_standards(name: str) -> None:
    strict = pytest.importorskip("array_api_strict").linalg
    ours, theirs = (list(inspect.signature(getattr(m, name)).parameters.values()) for m in (L, strict))
    known = {(p.name, p.kind, p.default) for p in theirs}
    assert known <= {(p.name, p.kind, p.default) for p in ours}
    for p in ours:  # PyTorch's settings beside the standard's, by word
        assert (p.name, p.kind, p.default) in known or (p.kind is p.KEYWORD_ONLY and p.default is not p.empty)


def test_the_namespace_lists_its_functions() -> None:
    assert set(STANDARD) <= set(dir(L)) and L.matmul is tb.matmul
    with pytest.raises(AttributeError, match=r"trilobite\.linalg has no 'choleski'; it has cholesky, "):
        L.choleski


# -- numbers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 3, 3), (1, 1), (0, 0), (0, 3, 3)])
def test_square_matrices_as_numpy(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> None:
    a, p = matrix(rng, shape, dtype), positive(rng, shape, dtype)
    x, tol = tb.tensor(a), EPS[dtype]
    same(L.det(x), np.linalg.det(a), tol)
    same(L.inv(x), np.linalg.inv(a), tol * 100)
    sign, size = L.slogdet(x)
    want = np.linalg.slogdet(a)
    same(sign, want.sign, tol)
    same(size, want.logabsdet, tol)
    same(L.cholesky(tb.tensor(p)), np.linalg.cholesky(p), tol)
    same(L.cholesky(tb.tensor(p), upper=True), np.linalg.cholesky(p, upper=True), tol)
    same(L.eigvalsh(tb.tensor(p)), np.linalg.eigvalsh(p), tol)
    w, v = L.eigh(tb.tensor(p))
    same(v @ tb.tensor(w.numpy()[..., None] * v.numpy().swapaxes(-1, -2).conj()), p, tol)
    for n in (-2, 0, 1, 3, 5):
        same(L.matrix_power(x, n), np.linalg.matrix_power(a, n), tol * 1e4)
    b = matrix(rng, (*shape[:-1], 2), dtype)
    same(L.solve(x, tb.tensor(b)), np.linalg.solve(a, b), tol * 100)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (2, 3, 5), (0, 3), (3, 0)])
def test_any_matrices_as_numpy(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> None:
    a = matrix(rng, shape, dtype)
    x, tol = tb.tensor(a), EPS[dtype]
    k = min(shape[-2:])
    for mode in ("reduced", "complete"):
        q, r = L.qr(x, mode=mode)
        same(q @ r, a, tol)
        assert q.shape[-1] == (shape[-2] if mode == "complete" else k)
    for full in (True, False):
        u, s, vh = L.svd(x, full_matrices=full)
        same(u[..., :k] @ (s[..., None] * vh[..., :k, :]), a, tol)
        assert u.shape[-1] == (shape[-2] if full else k) and s.dtype == x.real.dtype
    assert L.svd(x).U.shape[-1] == shape[-2]
    if a.size:
        same(L.svdvals(x), np.linalg.svdvals(a), tol)
        same(L.pinv(x), np.linalg.pinv(a), tol * 100)
        np.testing.assert_array_equal(L.matrix_rank(x).numpy(), np.linalg.matrix_rank(a))
    p, low, up = L.lu(x)
    same(p @ low @ up, a, tol)
    assert L.lu_factor(x).pivots.dtype == tb.int64


@pytest.mark.parametrize("dtype", DTYPES)
def test_general_eigenvalues(rng: np.random.Generator, dtype: str) -> None:
    a = matrix(rng, (2, 4, 4), dtype)
    w, v = L.eig(tb.tensor(a))
    assert w.dtype == v.dtype == (tb.complex64 if dtype in ("float32", "complex64") else tb.complex128)
    np.testing.assert_allclose(a @ v.numpy(), v.numpy() * w.numpy()[..., None, :], atol=EPS[dtype] * 10)
    np.testing.assert_allclose(
        np.sort_complex(L.eigvals(tb.tensor(a)).numpy()), np.sort_complex(w.numpy()), atol=EPS[dtype] * 10
    )


def test_right_hand_sides(rng: np.random.Generator) -> None:
    a = matrix(rng, (2, 1, 4, 4))
    for shape in ((4,), (4, 3), (5, 4, 3), (2, 5, 4, 1)):
        b = matrix(rng, shape)
        want = (
            np.linalg.solve(a, np.broadcast_to(b[:, None], (4, 1)))[..., 0]
            if len(shape) == 1
            else np.linalg.solve(a, b)
        )
        same(L.solve(tb.tensor(a), tb.tensor(b)), want, 1e-11)
    low = np.tril(a)
    same(L.solve_triangular(tb.tensor(a), tb.tensor(b), upper=False), np.linalg.solve(low, b), 1e-9)
    c = matrix(rng, (3, 4))
    up = np.triu(a, 1) + np.eye(4)
    got = L.solve_triangular(tb.tensor(a), tb.tensor(c), upper=True, left=False, unitriangular=True)
    same(got, c @ np.linalg.inv(up), 1e-9)


@pytest.mark.parametrize("shape", [(6, 3), (3, 6), (2, 4, 4)])
def test_least_squares(rng: np.random.Generator, shape: tuple[int, ...]) -> None:
    a, b = matrix(rng, shape), matrix(rng, (*shape[:-1], 2))
    found = L.lstsq(tb.tensor(a), tb.tensor(b))
    same(found.solution, np.linalg.pinv(a) @ b, 1e-11)
    rest = a @ np.linalg.pinv(a) @ b - b
    same(found.residuals, (rest**2).sum(-2), 1e-11)
    same(found.singular_values, np.linalg.svdvals(a), 1e-11)
    np.testing.assert_array_equal(found.rank.numpy(), np.linalg.matrix_rank(a))
    vector = L.lstsq(tb.tensor(a[..., :, :]), tb.tensor(b.reshape(-1, shape[-2], 2)[0, :, 0]))
    assert vector.solution.shape[-1] == shape[-1]


def test_tolerances() -> None:
    a = np.diag([1.0, 1e-3, 1e-9, 0.0])
    assert L.matrix_rank(tb.tensor(a)).item() == 3
    assert L.matrix_rank(tb.tensor(a), rtol=1e-6).item() == 2
    batch = np.stack([a, a])
    np.testing.assert_array_equal(
        L.matrix_rank(tb.tensor(batch), rtol=tb.tensor([1e-6, 1e-1])).numpy(), [2, 1]
    )
    got = L.pinv(tb.tensor(batch), rtol=tb.tensor([1e-6, 1e-1])).numpy()
    np.testing.assert_allclose(got, [np.diag([1, 1e3, 0, 0]), np.diag([1, 0, 0, 0])])
    assert L.matrix_rank(tb.tensor(a.astype(np.float32))).item() == 2


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("keepdims", [False, True])
def test_norms_as_numpy(rng: np.random.Generator, dtype: str, keepdims: bool) -> None:
    a, tol = matrix(rng, (2, 4, 3), dtype), EPS[dtype]
    x = tb.tensor(a)
    for order in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf, None):
        want = np.linalg.matrix_norm(a, ord=order or "fro", keepdims=keepdims)
        same(L.matrix_norm(x, ord=order, keepdims=keepdims), want, tol)
    for order in (0, 1, 2, 3, 0.5, -1, -2.5, math.inf, -math.inf):
        for axis in (None, 1, (0, 2), -1):
            want = np.linalg.vector_norm(a, axis=axis, ord=order, keepdims=keepdims)
            same(L.vector_norm(x, axis=axis, ord=order, keepdims=keepdims), want, tol * 10)
    for order, axis in ((None, None), (None, 1), (2, 1), (1, (0, 2)), ("nuc", (2, 1)), (None, (0, 1))):
        want = np.linalg.norm(a, order, axis, keepdims)
        same(L.norm(x, order, axis, keepdims=keepdims), want, tol)
    same(L.norm(x[0], 1), np.linalg.norm(a[0], 1), tol)


def test_condition_numbers(rng: np.random.Generator) -> None:
    a = matrix(rng, (2, 4, 4))
    for p in (None, 2, -2, 1, math.inf, "fro"):
        same(L.cond(tb.tensor(a), p=p), np.linalg.cond(a, p), 1e-11)
    same(L.cond(tb.tensor(a[:, :3])), np.linalg.cond(a[:, :3]), 1e-11)


@pytest.mark.parametrize("dtype", ["int64", "uint8", "float32", "complex128"])
def test_products_and_diagonals(rng: np.random.Generator, dtype: str) -> None:
    a, b = (rng.integers(0, 9, s).astype(dtype) for s in ((4, 1, 3), (5, 3)))
    np.testing.assert_array_equal(L.cross(tb.tensor(a), tb.tensor(b)).numpy(), np.cross(a, b))
    c = rng.integers(0, 9, (3, 4)).astype(dtype)
    np.testing.assert_array_equal(
        L.cross(tb.tensor(c), tb.tensor(c[::-1]), axis=0).numpy(), np.cross(c, c[::-1], axis=0)
    )
    m = rng.integers(0, 9, (2, 4, 3)).astype(dtype)
    for offset in range(-5, 5):
        np.testing.assert_array_equal(
            L.diagonal(tb.tensor(m), offset=offset).numpy(), np.linalg.diagonal(m, offset=offset)
        )
        got, want = L.trace(tb.tensor(m), offset=offset), np.linalg.trace(m, offset=offset)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got.numpy(), want)
    assert L.trace(tb.tensor(m), dtype=tb.complex128).dtype == tb.complex128
    assert L.diagonal(tb.zeros((0, 3))).shape == (0,) and L.trace(tb.zeros((2, 0))).item() == 0


def test_several_factors(rng: np.random.Generator) -> None:
    parts = [matrix(rng, s) for s in ((10, 2), (2, 30), (30, 3), (3, 5))]
    same(L.multi_dot([tb.tensor(p) for p in parts]), np.linalg.multi_dot(parts), 1e-12)
    ends = [parts[0][0], *parts[1:3], parts[3][:, 0]]
    same(L.multi_dot([tb.tensor(p) for p in ends]), np.linalg.multi_dot(ends), 1e-12)


def test_integers_become_floats_and_small_floats_keep_their_dtype(rng: np.random.Generator) -> None:
    whole = tb.tensor([[2, 1], [1, 3]])
    assert L.det(whole).dtype == tb.float32 and abs(L.det(whole).item() - 5) < 1e-5
    assert L.matrix_power(whole, 3).dtype == tb.int64
    np.testing.assert_array_equal(
        L.matrix_power(whole, 3).numpy(), np.linalg.matrix_power([[2, 1], [1, 3]], 3)
    )
    for dtype in (tb.float16, tb.bfloat16):
        a = tb.tensor(positive(rng, (4, 4))).astype(dtype)
        wide = a.astype(tb.float64).numpy()
        out = L.det(a)
        assert out.dtype == dtype
        np.testing.assert_allclose(out.astype(tb.float64).numpy(), np.linalg.det(wide), rtol=2.0**-7)
        assert (
            L.inv(a).dtype == L.cholesky(a).dtype == L.svd(a).S.dtype == L.eigh(a).eigenvectors.dtype == dtype
        )
        assert L.eig(a).eigenvalues.dtype == tb.complex64


# -- errors --------------------------------------------------------------------------------------------------


def test_a_singular_matrix_is_an_error_where_its_numbers_are_known() -> None:
    a = tb.tensor([[[2.0, 1.0], [1.0, 3.0]], [[1.0, 2.0], [2.0, 4.0]]])
    for act in (
        lambda: L.inv(a),
        lambda: L.solve(a, tb.ones((2,))),
        lambda: tb.grad(lambda x: L.inv(x).sum())(a),
    ):
        with pytest.raises(ArgumentError) as e:
            act()
        text = str(e.value)
        assert "a singular matrix has no inverse (matrix 1 of the batch)" in text
        assert "remedy: tb.linalg.lstsq or tb.linalg.pinv" in text and "test_linalg_api.py" in text
    assert not np.isfinite(tb.jit(L.inv)(a).numpy()[1]).any()
    np.testing.assert_allclose(tb.jit(L.inv)(a).numpy()[0], np.linalg.inv([[2.0, 1], [1, 3]]), rtol=1e-6)
    assert L.det(a).tolist()[1] == 0 and L.slogdet(a).logabsdet.tolist()[1] == -math.inf
    assert L.slogdet(a).sign.tolist() == [1, 0]


def test_a_matrix_that_is_not_positive_definite() -> None:
    a = tb.tensor([[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(ArgumentError) as e:
        L.cholesky(a)
    assert "linalg.cholesky of a matrix that is not positive definite\n" in str(e.value)
    assert "expected: a Hermitian matrix with positive eigenvalues" in str(e.value)
    assert np.isnan(tb.jit(L.cholesky)(a).numpy()).any()
    assert np.isnan(L.cholesky(tb.tensor([[math.nan]])).numpy()).all()


@pytest.mark.parametrize(
    ("act", "error", "text"),
    [
        (lambda: L.det(tb.ones((2, 3))), ShapeError, "linalg.det of a tensor of shape (2, 3)"),
        (lambda: L.svd(tb.ones((3,))), ShapeError, "expected: matrices: (..., m, n)"),
        (lambda: L.qr(tb.ones((2, 2)), mode="full"), ArgumentError, "expected: 'reduced' or 'complete'"),
        (lambda: L.matrix_norm(tb.ones((2, 2)), ord=3), ArgumentError, "linalg.matrix_norm with ord=3"),
        (lambda: L.vector_norm(tb.ones((2,)), ord="fro"), ArgumentError, "remedy: tb.linalg.matrix_norm"),
        (lambda: L.vector_norm(tb.ones((0,)), ord=math.inf), ShapeError, "of no elements"),
        (lambda: L.matrix_power(tb.ones((2, 2)), 1.5), ArgumentError, "to the power 1.5"),
        (lambda: L.matrix_power(tb.ones((2, 3)), 2), ShapeError, "a square matrix, or a batch of them"),
        (
            lambda: L.solve(tb.ones((2, 2)), tb.ones((3,))),
            ShapeError,
            "2 rows on the right: (2,) or (..., 2, k)",
        ),
        (lambda: L.lstsq(tb.ones((2, 2)), tb.ones((3, 1))), ShapeError, "2 rows on the right"),
        (
            lambda: L.solve_triangular(tb.ones((2, 2)), tb.ones((3, 1)), upper=True),
            ShapeError,
            "2 rows on the right",
        ),
        (lambda: L.pinv(tb.ones((2, 2)), rtol=1j), DTypeError, "a complex rtol"),
        (lambda: L.cross(tb.ones((2, 2)), tb.ones((2, 2))), ShapeError, "three elements there in both"),
        (lambda: L.cross(tb.ones((2, 3)), tb.ones((3,)), axis=0), ShapeError, "counted from the end"),
        (lambda: L.diagonal(tb.ones((3,))), ShapeError, "linalg.diagonal of a tensor of shape (3,)"),
        (lambda: L.multi_dot([tb.ones((2, 2))]), ArgumentError, "expected: at least two"),
    ],
)
def test_refusals(act: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as e:
        act()
    assert text in str(e.value)
