"""Symbolic sizes as numbers: in arithmetic, in means over several of them, in the place of a median."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ShapeError

N, M = tb.dim("n", max=64), tb.dim("m", max=64)
SHAPES = [(5, 7), (6, 8), (1, 9), (4, 1)]
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "sum with a size": lambda x: x + x.shape[0],
    "size less tensor": lambda x: x.shape[0] * 2 - x,
    "over a size": lambda x: x.sum() / x.shape[1],
    "compared": lambda x: x > x.shape[1] - 6,
    "of integers": lambda x: x.astype(tb.int32) * x.shape[0],
    "maximum": lambda x: tb.maximum(x, x.shape[0] - 5),
    "where": lambda x: tb.where(x > 0, x, x.shape[0]),
    "mean of all": lambda x: x.mean(),
    "mean of rows": lambda x: x.mean(axis=1),
    "variance of all": lambda x: x.var(correction=0.5),
    "median": lambda x: tb.median(x, axis=0),
    "quantile": lambda x: tb.quantile(x, 0.3, axis=1, keepdims=True),
    "gradient": lambda x: tb.grad(lambda y: (y * y).mean() * y.shape[0])(x),
}


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_recording_serves_all_sizes(name: str, target: str) -> None:
    fn = FUNCTIONS[name]
    f = tb.jit(fn, shapes=[(N, M)], target=target)
    for seed, shape in enumerate(SHAPES):
        x = tb.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32) * 3)
        got, want = f(x), fn(x)
        assert got.dtype == want.dtype and got.shape == want.shape
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=2e-6, atol=1e-6)
    assert len(f.entries) == 1


def test_a_median_beside_infinities() -> None:
    f = tb.jit(lambda x: tb.median(x, axis=0), shapes=[(N,)])
    for data in ([np.inf, np.inf, 1.0], [-np.inf, 2.0, np.inf], [np.nan, 1.0], [3.0, np.inf]):
        x = tb.tensor(np.array(data, np.float32))
        np.testing.assert_array_equal(f(x).numpy(), tb.median(x, axis=0).numpy())


def test_a_size_outside_a_recording_is_no_number() -> None:
    with pytest.raises(ShapeError, match="the symbolic size n was used where a number is needed"):
        tb.ones((3,)) + N
