"""Solving by the factors of `lu_factor`, products of reflections, powers as columns, equations between
tensors: beside NumPy, in batches, with gradients, inside jit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ArgumentError, ShapeError

Array = np.ndarray[Any, Any]
L = tb.linalg


def draw(rng: np.random.Generator, *shape: int, dtype: Any = np.float64) -> Array:
    x = rng.standard_normal(shape)
    imaginary = 1j * rng.standard_normal(shape) if np.issubdtype(dtype, np.complexfloating) else 0
    return np.asarray(x + imaginary, dtype)


def difference(f: Callable[..., Any], arrays: list[Array]) -> list[Array]:
    """Slopes of the sum of squares of what f gives, by central differences."""
    value, out = lambda: float((f(*map(tb.tensor, arrays)) ** 2).sum().item()), []
    for x in arrays:
        slope = np.zeros_like(x)
        for i in np.ndindex(x.shape):
            kept = x[i]
            ends = []
            for step in (1e-6, -1e-6):
                x[i] = kept + step
                ends.append(value())
            x[i], slope[i] = kept, (ends[0] - ends[1]) / 2e-6
        out.append(slope)
    return out


def check_slopes(f: Callable[..., Any], *arrays: Array) -> None:
    leaves = [tb.tensor(x, requires_grad=True) for x in arrays]
    (f(*leaves) ** 2).sum().backward()
    for leaf, want in zip(leaves, difference(f, [x.copy() for x in arrays]), strict=True):
        np.testing.assert_allclose(leaf.grad.numpy(), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize(("lead", "other"), [((), ()), ((3,), (3,)), ((2, 1), (4,))])
def test_solving_by_factors(
    lead: tuple[int, ...], other: tuple[int, ...], dtype: Any, left: bool, adjoint: bool
) -> None:
    rng = np.random.default_rng(len(lead))
    a = draw(rng, *lead, 5, 5, dtype=dtype)
    b = draw(rng, *other, *((5, 2) if left else (2, 5)), dtype=dtype)
    used = a.conj().swapaxes(-1, -2) if adjoint else a
    solve = lambda lu, at, b: L.lu_solve(lu, at, b, left=left, adjoint=adjoint)  # noqa: E731
    factors = L.lu_factor(tb.tensor(a))
    for f in (solve, tb.jit(solve)):
        x = f(*factors, tb.tensor(b)).numpy()
        assert x.dtype == dtype and x.shape == (*np.broadcast_shapes(lead, other), *b.shape[-2:])
        found = used @ x if left else x @ used
        np.testing.assert_allclose(
            found, np.broadcast_to(b, found.shape), atol=2e-4 if dtype is np.float32 else 1e-11
        )


def test_slopes_of_solving_pass_through_the_factors() -> None:
    rng = np.random.default_rng(4)
    check_slopes(lambda a, b: L.lu_solve(*L.lu_factor(a), b), draw(rng, 3, 3), draw(rng, 3, 2))


def reflections(a: Array, tau: Array) -> Array:
    m, n = a.shape
    q = np.eye(m, dtype=a.dtype)
    for i, t in enumerate(tau):
        v = np.concatenate([np.zeros(i), [1], a[i + 1 :, i]])
        q = q @ (np.eye(m) - t * np.outer(v, v.conj()))
    return q[:, :n]


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (4, 4, 4), (6, 4, 3), (5, 3, 0), (3, 0, 0)])
def test_products_of_reflections(m: int, n: int, k: int, dtype: Any) -> None:
    rng = np.random.default_rng(m)
    a, tau = draw(rng, 2, m, n, dtype=dtype), draw(rng, 2, k, dtype=dtype)
    want = np.stack([reflections(*row) for row in zip(a, tau, strict=True)])
    for f in (L.householder_product, tb.jit(L.householder_product)):
        found = f(tb.tensor(a), tb.tensor(tau)).numpy()
        assert found.dtype == dtype
        np.testing.assert_allclose(found, want, atol=1e-11)


def test_slopes_of_reflections() -> None:
    rng = np.random.default_rng(5)
    check_slopes(L.householder_product, draw(rng, 4, 3), draw(rng, 2))


@pytest.mark.parametrize("count", [None, 1, 2, 6])
@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.complex128])
def test_powers_as_columns(count: int | None, dtype: Any) -> None:
    x = np.array([[0, 1, -2], [3, 0.5, 2]]).astype(dtype)
    found = L.vander(tb.tensor(x), N=count).numpy()
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, x[..., None] ** np.arange(count or 3))


def test_slopes_of_powers_at_zero() -> None:
    check_slopes(lambda x: L.vander(x, N=4), np.array([0.0, 1.5, -2.0]))


@pytest.mark.parametrize(
    ("shape", "ind"), [((4, 6, 8, 3), 2), ((6, 2, 3), 1), ((2, 3, 6), 2), ((24, 8, 3), 1)]
)
def test_inverses_of_tensors(shape: tuple[int, ...], ind: int) -> None:
    a = draw(np.random.default_rng(0), *shape)
    np.testing.assert_allclose(L.tensorinv(tb.tensor(a), ind).numpy(), np.linalg.tensorinv(a, ind), atol=1e-9)


@pytest.mark.parametrize(
    ("a", "b", "dims"),
    [((2, 3, 6), (2, 3), None), ((6, 4, 2, 3, 4), (6, 4), None), ((6, 4, 4, 3, 2), (4, 3, 2), (0, 2))],
)
def test_equations_between_tensors(a: Any, b: Any, dims: Any) -> None:
    rng = np.random.default_rng(1)
    left, right = draw(rng, *a), draw(rng, *b)
    found = L.tensorsolve(tb.tensor(left), tb.tensor(right), dims=dims).numpy()
    want = np.linalg.tensorsolve(left, right, dims)
    assert found.shape == want.shape
    np.testing.assert_allclose(found, want, atol=1e-9)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: L.vander(tb.ones(3), N=0), r"linalg.vander of shape \(3,\) with N=0"),
        (lambda: L.vander(tb.ones(3), N=2.0), "with N=2.0"),
        (lambda: L.vander(tb.ones(())), r"of shape \(\)"),
        (lambda: L.tensorinv(tb.ones(2, 3, 5)), "the first 2 axes and the others"),
        (lambda: L.tensorinv(tb.ones(2, 2), 0), "the first 0 axes and the others"),
        (lambda: L.tensorinv(tb.ones(2, 2), 3), "the first 3 axes and the others"),
        (lambda: L.tensorsolve(tb.ones(2, 3, 5), tb.ones(2, 3)), "the first 2 axes and the others"),
        (lambda: L.tensorsolve(tb.ones(2, 3, 6), tb.ones(3, 3)), "the first 2 axes and the others"),
        (lambda: L.householder_product(tb.ones(2, 3), tb.ones(2)), "at least as many rows as columns"),
        (lambda: L.householder_product(tb.ones(3, 2), tb.ones(3)), "at least as many rows as columns"),
        (lambda: L.householder_product(tb.ones(2, 3, 2), tb.ones(3, 2)), "at least as many rows"),
        (lambda: L.householder_product(tb.ones(3), tb.ones(3)), "at least as many rows"),
        (lambda: L.lu_solve(tb.eye(3), tb.arange(3), tb.ones(2, 1)), "as many equations on the right"),
        (lambda: L.lu_solve(tb.eye(3), tb.arange(3), tb.ones(1, 2), left=False), "as many equations"),
        (lambda: L.lu_solve(tb.eye(3), tb.arange(3), tb.ones(3)), r"shapes \(3, 3\) and \(3,\)"),
    ],
)
def test_what_does_not_fit_is_named(call: Callable[[], Any], text: str) -> None:
    with pytest.raises((ArgumentError, ShapeError), match=text):
        call()
