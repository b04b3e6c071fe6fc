"""Gradients through `tb.linalg`: against differences, in both modes, twice, under jit and vmap, at
singular matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb

Array = np.ndarray[Any, Any]
L = tb.linalg


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(9)


def matrix(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any = "float64") -> Array:
    out = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        out = out + 1j * rng.standard_normal(shape)
    return out.astype(dtype)


SMOOTH: dict[str, Callable[..., Any]] = {
    "solve": lambda a: L.solve(a, a[..., :2] ** 2).sum(),
    "solve for a vector": lambda a: L.solve(a, a[0, 0]).sum(),
    "inv": lambda a: (L.inv(a) ** 2).sum(),
    "det": lambda a: (L.det(a) ** 2).sum(),
    "slogdet": lambda a: (L.slogdet(a)[1] ** 2).sum(),
    "cholesky": lambda a: (L.cholesky(a @ a.mT + tb.eye(3), upper=True) ** 3).sum(),
    "pinv": lambda a: (L.pinv(a[..., :2]) ** 2).sum(),
    "lstsq": lambda a: (L.lstsq(a[..., :2], a[..., 2:]).solution ** 2).sum(),
    "matrix_power": lambda a: (L.matrix_power(a, 3) + L.matrix_power(a, -2)).sum(),
    "nuclear norm": lambda a: (L.matrix_norm(a, ord="nuc") ** 2).sum(),
    "spectral norm": lambda a: (L.matrix_norm(a, ord=2) ** 2).sum(),
    "vector_norm": lambda a: (L.vector_norm(a, axis=1, ord=3) ** 2).sum(),
    "cross": lambda a: (L.cross(a, a.mT) ** 2).sum(),
    "trace": lambda a: (L.trace(a, offset=1) ** 3).sum(),
    "qr": lambda a: (L.qr(a).R ** 2 * tb.arange(3.0)).sum(),
    "svdvals": lambda a: (L.svdvals(a) ** 3).sum(),
    "eigvalsh": lambda a: (L.eigvalsh(a) ** 3).sum(),
    "eigvals": lambda a: (tb.abs(L.eigvals(a)) ** 3).sum(),
    "lu": lambda a: (L.lu(a).U ** 2).sum(),
    "solve_triangular": lambda a: (L.solve_triangular(a + 3 * tb.eye(3), a, upper=True) ** 2).sum(),
    "cond": lambda a: L.cond(a).sum(),
}  # fmt: skip


def differences(f: Callable[[Any], Any], a: Array, step: float = 1e-6) -> Array:
    out = np.zeros_like(a)
    for at in np.ndindex(*a.shape):
        up, down = a.copy(), a.copy()
        up[at] += step
        down[at] -= step
        out[at] = (f(tb.tensor(up)).item() - f(tb.tensor(down)).item()) / (2 * step)
    return out


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients(rng: np.random.Generator, name: str) -> None:
    f = SMOOTH[name]
    a = matrix(rng, (2, 3, 3)) + 2 * np.eye(3)
    with tb.enable_grad():
        g = tb.grad(f)(tb.tensor(a)).numpy()
    want = differences(f, a)
    np.testing.assert_allclose(g, want, rtol=1e-5, atol=1e-5 * np.abs(want).max())
    direction = matrix(rng, a.shape)
    _, slope = tb.jvp(f, (tb.tensor(a),), (tb.tensor(direction),))
    np.testing.assert_allclose(slope.item(), (g * direction).sum(), rtol=1e-9, atol=1e-9 * np.abs(g).max())
    # Second order: the slope of <grad, direction>, forward over reverse and reverse over reverse.
    h = lambda x: (tb.grad(f)(x) * tb.tensor(direction)).sum()  # noqa: E731
    again = tb.grad(h)(tb.tensor(a)).numpy()
    np.testing.assert_allclose(again, differences(h, a), rtol=1e-4, atol=1e-4 * np.abs(again).max())
    _, forward = tb.jvp(h, (tb.tensor(a),), (tb.tensor(direction),))
    np.testing.assert_allclose(
        forward.item(), (again * direction).sum(), rtol=1e-7, atol=1e-7 * np.abs(again).max()
    )


@pytest.mark.parametrize("name", SMOOTH)
def test_jit_and_vmap(rng: np.random.Generator, name: str) -> None:
    f = SMOOTH[name]
    a = tb.tensor(matrix(rng, (4, 2, 3, 3)) + 2 * np.eye(3))
    eager = [f(a[i]) for i in range(4)]
    np.testing.assert_array_equal(tb.jit(f, target="reference")(a[0]).numpy(), eager[0].numpy())
    jitted = tb.jit(tb.grad(f), target="reference")
    np.testing.assert_array_equal(jitted(a[0]).numpy(), tb.grad(f)(a[0]).numpy())
    np.testing.assert_allclose(tb.vmap(f)(a).numpy(), [e.item() for e in eager], rtol=1e-9)
    per_row = np.stack([tb.grad(f)(a[i]).numpy() for i in range(4)])
    np.testing.assert_allclose(tb.vmap(tb.grad(f))(a).numpy(), per_row, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", ["solve", "inv", "det", "slogdet"])
def test_complex_gradients(rng: np.random.Generator, name: str) -> None:
    """By PyTorch's convention: the direction of steepest ascent of a real function."""
    parts: dict[str, Callable[..., Any]] = {
        "solve": lambda a: tb.real(L.solve(a, a * a)).sum(),
        "inv": lambda a: tb.imag(L.inv(a)).sum(),
        "det": lambda a: tb.real(L.det(a) * (1 + 2j)).sum(),
        "slogdet": lambda a: tb.real(L.slogdet(a)[0] * (1 - 3j)).sum() + L.slogdet(a)[1].sum(),
    }
    f = parts[name]
    a = matrix(rng, (3, 3), "complex128")
    g = tb.grad(f)(tb.tensor(a)).numpy()
    turn = lambda u: f(tb.tensor(a) + tb.tensor(u * a.dtype.type(1)))  # noqa: E731
    step = 1e-6
    for at in np.ndindex(3, 3):
        for unit in (1, 1j):
            e = np.zeros((3, 3), complex)
            e[at] = unit * step
            slope = (turn(e).item() - turn(-e).item()) / (2 * step)
            assert abs(slope - (np.conj(g[at]) * unit).real) < 1e-5 * max(1, np.abs(g).max())


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_the_gradient_of_a_singular_determinant(rng: np.random.Generator, rank: int, dtype: str) -> None:
    a = matrix(rng, (3, rank), dtype) @ matrix(rng, (rank, 3), dtype)
    a = a if rank < 2 else np.array([[1, 2, 3], [2, 4, 6], [1, 0, 1]], dtype)  # an exact zero in LU
    cofactors = np.array(
        [
            [np.linalg.det(np.delete(np.delete(a, i, 0), j, 1)) * (-1) ** (i + j) for j in range(3)]
            for i in range(3)
        ]
    )
    batch = tb.tensor(np.stack([a, np.eye(3).astype(dtype)]))
    for g in (tb.grad(lambda x: tb.real(L.det(x)).sum() if dtype != "float64" else L.det(x).sum()),):
        for found in (g(batch), tb.jit(g)(batch)):
            np.testing.assert_allclose(found.numpy(), [cofactors.conj(), np.eye(3)], atol=1e-12)
