"""Every activation beside its formula in NumPy, on both sides of each bend, with its slope."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.framework.nn import functional as F

ALPHA, SCALE = 1.6732632423543772, 1.0507009873554805
erf = np.vectorize(math.erf)


def softplus(x: Any) -> Any:
    return np.logaddexp(0.0, x)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


ROWS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "relu": (F.relu, lambda x: np.maximum(x, 0)),
    "relu6": (F.relu6, lambda x: np.clip(x, 0, 6)),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.3), lambda x: np.where(x > 0, x, 0.3 * x)),
    "elu": (lambda x: F.elu(x, 1.7), lambda x: np.where(x > 0, x, 1.7 * np.expm1(np.minimum(x, 0)))),
    "selu": (F.selu, lambda x: SCALE * np.where(x > 0, x, ALPHA * np.expm1(np.minimum(x, 0)))),
    "celu": (lambda x: F.celu(x, 1.7), lambda x: np.where(x > 0, x, 1.7 * np.expm1(np.minimum(x, 0) / 1.7))),
    "gelu": (F.gelu, lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2)))),
    "gelu tanh": (
        lambda x: F.gelu(x, approximate="tanh"),
        lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
    "silu": (F.silu, lambda x: x * sigmoid(x)),
    "mish": (F.mish, lambda x: x * np.tanh(softplus(x))),
    "softplus": (lambda x: F.softplus(x, beta=2.0), lambda x: softplus(2 * x) / 2),
    "softsign": (F.softsign, lambda x: x / (1 + np.abs(x))),
    "tanhshrink": (F.tanhshrink, lambda x: x - np.tanh(x)),
    "hardtanh": (lambda x: F.hardtanh(x, -0.6, 1.2), lambda x: np.clip(x, -0.6, 1.2)),
    "hardsigmoid": (F.hardsigmoid, lambda x: np.clip(x + 3, 0, 6) / 6),
    "hardswish": (F.hardswish, lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "logsigmoid": (F.logsigmoid, lambda x: -softplus(-x)),
    "hardshrink": (lambda x: F.hardshrink(x, 0.7), lambda x: np.where(np.abs(x) > 0.7, x, 0)),
    "softshrink": (lambda x: F.softshrink(x, 0.7), lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.7, 0)),
    "sigmoid": (F.sigmoid, sigmoid),
    "tanh": (F.tanh, np.tanh),
}
BENDS = np.asarray([0, 0.6, 0.7, 1, 1.2, 3, 6])
POINTS = np.concatenate(
    [s * (BENDS + d) for s in (-1, 1) for d in (-0.013, 0.011)] + [np.linspace(-9, 9, 37)]
)
POINTS = POINTS[np.abs(np.abs(POINTS)[:, None] - BENDS).min(1) > 1e-3]


@pytest.mark.parametrize("how", ["eager", "compiled"])
@pytest.mark.parametrize("name", list(ROWS))
def test_values_and_slopes_are_those_of_the_formula(name: str, how: str) -> None:
    function, formula = ROWS[name]
    run = function if how == "eager" else tb.jit(function)
    np.testing.assert_allclose(run(tb.tensor(POINTS)).numpy(), formula(POINTS), rtol=1e-9, atol=1e-12)
    x = tb.tensor(POINTS, requires_grad=True)
    run(x).sum().backward()
    assert x.grad is not None
    slopes = (formula(POINTS + 1e-5) - formula(POINTS - 1e-5)) / 2e-5
    np.testing.assert_allclose(x.grad.numpy(), slopes, rtol=1e-5, atol=1e-6)
    single = run(tb.tensor(POINTS.astype(np.float32))).numpy()
    np.testing.assert_allclose(single, formula(POINTS), rtol=2e-5, atol=2e-6)
