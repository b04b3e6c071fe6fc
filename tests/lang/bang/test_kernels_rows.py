"""The kernels of rows.mlu, activations.mlu and power_difference.mlu against NumPy, at both levels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from bang_harness import KERNELS, LEVELS, needs_clang, run

pytestmark = [needs_clang, pytest.mark.parametrize("level", LEVELS)]
ROWS = KERNELS / "rows.mlu"


def numbers(rng: np.random.Generator, *shape: int) -> Any:
    """Signed, over several orders of magnitude."""
    return (rng.standard_normal(shape) * np.exp(rng.uniform(-2, 1.5, shape))).astype(np.float32)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x.astype(np.float64)))


def gelu(x: Any) -> Any:
    from math import erf

    wide = x.astype(np.float64)
    return wide * 0.5 * (1 + np.vectorize(erf)(wide / np.sqrt(2)))


UNARY: dict[str, Callable[[Any], Any]] = {
    "sigmoid_forward": sigmoid,
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "gelu": gelu,
    "tanh_forward": np.tanh,
    "swish": lambda x: x * sigmoid(x),
    "hard_swish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "softplus": lambda x: np.logaddexp(0, x.astype(np.float64)),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0).astype(np.float64))),
}


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("n", [1, 1000, 2501])
def test_activation(name: str, n: int, level: int, rng: np.random.Generator) -> None:
    x = numbers(rng, n)
    out = run(KERNELS / "activations.mlu", name, [x, np.zeros_like(x), n], (4, 1, 1), "union1", level=level)[
        1
    ]
    np.testing.assert_allclose(out, UNARY[name](x), rtol=2e-5, atol=3e-6)


def test_sigmoid_backward(level: int, rng: np.random.Generator) -> None:
    y, g = sigmoid(numbers(rng, 1501)).astype(np.float32), numbers(rng, 1501)
    out = run(
        KERNELS / "activations.mlu",
        "sigmoid_backward",
        [y, g, np.zeros_like(y), 1501],
        (3, 1, 1),
        level=level,
    )[2]
    np.testing.assert_allclose(out, g * y * (1 - y), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", ["float", "half"])
def test_power_difference(kind: str, level: int, rng: np.random.Generator) -> None:
    dtype = np.float32 if kind == "float" else np.float16
    x, y = numbers(rng, 999).astype(dtype), numbers(rng, 999).astype(dtype)
    source = KERNELS / "power_difference.mlu"
    out = run(
        source,
        f"power_difference<{kind}>",
        [x, y, np.zeros_like(x), 999, 3],
        (4, 1, 1),
        "union1",
        level=level,
    )[2]
    difference = x - y
    want = difference * difference * difference
    np.testing.assert_array_equal(out, want)


def test_softmax(level: int, rng: np.random.Generator) -> None:
    x = numbers(rng, 7, 301)
    out = run(ROWS, "softmax", [x, np.zeros_like(x), 7, 301], (4, 1, 1), "union1", level=level)[1]
    e = np.exp(x - x.max(1, keepdims=True, initial=-np.inf).astype(np.float64))
    np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), rtol=1e-5)


def test_layer_norm(level: int, rng: np.random.Generator) -> None:
    x, gamma, beta = numbers(rng, 6, 257), numbers(rng, 257), numbers(rng, 257)
    out = run(ROWS, "layer_norm", [x, gamma, beta, np.zeros_like(x), 6, 257, 1e-5], (2, 1, 1), level=level)[3]
    wide = x.astype(np.float64)
    want = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5) * gamma + beta
    np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-5)


def test_rms_norm(level: int, rng: np.random.Generator) -> None:
    x, gamma = numbers(rng, 5, 130), numbers(rng, 130)
    out = run(ROWS, "rms_norm", [x, gamma, np.zeros_like(x), 5, 130, 1e-6], level=level)[2]
    wide = x.astype(np.float64)
    want = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-6) * gamma
    np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(1, 1), (65, 130), (64, 64)])
def test_transpose(shape: tuple[int, int], level: int, rng: np.random.Generator) -> None:
    x = numbers(rng, *shape)
    out = run(ROWS, "transpose", [x, np.zeros(shape[::-1], np.float32), *shape], (2, 1, 1), level=level)[1]
    np.testing.assert_array_equal(out, x.T)


def test_sums_and_extremes(level: int, rng: np.random.Generator) -> None:
    x = numbers(rng, 9, 77)
    sums = run(ROWS, "row_sum", [x, np.zeros(9, np.float32), 9, 77], (4, 1, 1), "union1", level=level)[1]
    np.testing.assert_allclose(sums, x.astype(np.float64).sum(1), rtol=1e-5, atol=1e-4)
    values, places = run(
        ROWS, "row_argmax", [x, np.zeros(9, np.float32), np.zeros(9, np.int32), 9, 77], level=level
    )[1:]
    np.testing.assert_array_equal(values, x.max(1))
    np.testing.assert_array_equal(places, x.argmax(1))
    least = run(ROWS, "row_min", [x, np.zeros(9, np.float32), 9, 77], level=level)[1]
    np.testing.assert_array_equal(least, x.min(1))


def test_total_is_atomic(level: int, rng: np.random.Generator) -> None:
    x = rng.integers(-50, 50, 5000).astype(np.float32)
    out = run(ROWS, "total", [x, np.zeros(1, np.float32), 5000], (8, 1, 1), "union2", level=level)[1]
    assert out[0] == x.sum()


def test_top_k(level: int, rng: np.random.Generator) -> None:
    x = rng.permutation(5 * 61).reshape(5, 61).astype(np.float32) - 100
    args = [x, np.zeros((5, 4), np.float32), np.zeros((5, 4), np.int32), 5, 61, 4]
    values, places = run(ROWS, "top_k", args, (2, 1, 1), level=level)[1:]
    order = np.argsort(-x, axis=1)[:, :4]
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, 1))


def test_cumulative_sum(level: int, rng: np.random.Generator) -> None:
    x = rng.integers(-9, 9, (3, 50)).astype(np.float32)
    out = run(ROWS, "cumulative_sum", [x, np.zeros_like(x), 3, 50], level=level)[1]
    np.testing.assert_array_equal(out, np.cumsum(x, axis=1))


def test_add_bias(level: int, rng: np.random.Generator) -> None:
    x, bias = numbers(rng, 10, 33), numbers(rng, 33)
    out = run(ROWS, "add_bias", [x, bias, np.zeros_like(x), 10, 33], (2, 1, 1), level=level)[2]
    np.testing.assert_array_equal(out, x + bias)
