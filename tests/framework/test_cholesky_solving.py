"""Solving by a Cholesky factor: both triangles, batches, ill-conditioned matrices, gradients, jit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb

Array = np.ndarray[Any, Any]


def positive(rng: np.random.Generator, *shape: int, dtype: Any = np.float64) -> Array:
    x = rng.standard_normal(shape)
    if np.issubdtype(dtype, np.complexfloating):
        x = x + 1j * rng.standard_normal(shape)
    return np.asarray(x @ x.conj().swapaxes(-1, -2) + np.eye(shape[-1]), dtype)


def factor(a: Array, upper: bool, rng: np.random.Generator) -> Array:
    """A's factor, and numbers in the triangle that must not be read."""
    low = np.linalg.cholesky(a)
    whole = low + np.triu(rng.standard_normal(a.shape), 1)
    return np.ascontiguousarray(whole.conj().swapaxes(-1, -2)) if upper else whole


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (2, 3, 5, 5)])
@pytest.mark.parametrize("jit", [False, True])
def test_the_other_triangle_is_not_read(shape: tuple[int, ...], dtype: Any, upper: bool, jit: bool) -> None:
    rng = np.random.default_rng(len(shape))
    a = positive(rng, *shape, dtype=dtype)
    f = tb.tensor(factor(a, upper, rng).astype(dtype))
    b = rng.standard_normal((*shape[:-1], 3)).astype(dtype)
    solve = lambda f, b: tb.cholesky_solve(b, f, upper)  # noqa: E731
    inverse = lambda f: tb.cholesky_inverse(f, upper)  # noqa: E731
    solve, inverse = (tb.jit(solve), tb.jit(inverse)) if jit else (solve, inverse)
    close = 2e-3 if dtype == np.float32 else 1e-9
    np.testing.assert_allclose(solve(f, tb.tensor(b)).numpy(), np.linalg.solve(a, b), close, close)
    np.testing.assert_allclose(inverse(f).numpy(), np.linalg.inv(a), close, close)


def test_the_condition_is_not_squared() -> None:
    """The factor is solved with, not multiplied out again: that would lose the small entries."""
    low = np.array([[1.0, 0.0], [1.0, 1e-9]])
    x = np.array([[3.0], [5.0]])
    b = low @ (low.T @ x)
    found = tb.cholesky_solve(tb.tensor(b), tb.tensor(low)).numpy()
    middle = np.linalg.solve(low, b)
    np.testing.assert_allclose(found, np.linalg.solve(low.T, middle), 1e-12)


def test_gradients_by_differences() -> None:
    rng = np.random.default_rng(3)
    low, b = factor(positive(rng, 4, 4), False, rng), rng.standard_normal((4, 2))
    f, y = tb.tensor(low, requires_grad=True), tb.tensor(b, requires_grad=True)
    tb.cholesky_solve(y, f).sin().sum().backward()
    assert np.triu(f.grad.numpy(), 1).any() == 0
    for place in [(0, 0), (2, 1), (3, 3)]:
        step = np.zeros_like(low)
        step[place] = 1e-6
        up, down = (
            np.sin(tb.cholesky_solve(tb.tensor(b), tb.tensor(low + s)).numpy()).sum() for s in (step, -step)
        )
        assert f.grad.numpy()[place] == pytest.approx((up - down) / 2e-6, rel=1e-5, abs=1e-7)
