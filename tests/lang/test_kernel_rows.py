"""Streams and rows of examples/kernels: all ways of running them agree, and NumPy agrees."""

from __future__ import annotations

import numpy as np
import pytest
from harness import MACHINES, example, run

elementwise, rows = example("elementwise"), example("rows")
rng = np.random.default_rng(5)


def wide(*shape: int) -> np.ndarray:
    """Signed values over several powers of ten."""
    return (rng.normal(size=shape) * 10.0 ** rng.uniform(-2, 1, size=shape)).astype(np.float32)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("n, p", [(1, 2), (999, 3), (64, 0)])
def test_power_difference(machine: str, n: int, p: int) -> None:
    x, y = wide(n), wide(n)
    out = run(elementwise.power_difference.meta(tile=100), [x, y, x * 0, n, p], machine)[2]
    want = np.ones(n, np.float32)
    for _ in range(p):
        want = want * (x - y)
    assert (out == want).all()


@pytest.mark.parametrize("machine", MACHINES)
def test_sigmoid(machine: str) -> None:
    x, dy = wide(301), wide(301)
    y = run(elementwise.sigmoid.meta(tile=64), [x, x * 0, 301], machine)[1]
    assert np.allclose(y, 1 / (1 + np.exp(-x.astype(float))), rtol=2e-7, atol=0)
    dx = run(elementwise.sigmoid_backward.meta(tile=64), [y, dy, x * 0, 301], machine)[2]
    assert (dx == (np.float32(1) - y) * y * dy).all()


def reference_softmax(a: np.ndarray) -> np.ndarray:
    e = np.exp(a.astype(float) - a.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("r, n", [(13, 37), (2, 301), (1, 1), (3, 128)])
def test_softmax(machine: str, r: int, n: int) -> None:
    a = wide(r, n)
    out = run(rows.softmax.meta(tile=128), [a, a * 0, r, n], machine)[1]
    assert np.allclose(out, reference_softmax(a), rtol=3e-6, atol=1e-12)


@pytest.mark.parametrize("machine", MACHINES)
def test_layer_norm(machine: str) -> None:
    a, gamma, beta = wide(13, 37), wide(37), wide(37)
    out = run(rows.layer_norm.meta(tile=128), [a, gamma, beta, a * 0, 13, 37, 1e-5], machine)[3]
    b = a.astype(float)
    want = (b - b.mean(1, keepdims=True)) / np.sqrt(b.var(1, keepdims=True) + 1e-5) * gamma + beta
    assert np.allclose(out, want, rtol=1e-5, atol=1e-5)
