"""Graphs with quotients and products of symbolic sizes on the CPU, beside the same function run at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from trilobite.nn import functional as F

import trilobite as tb

rng = np.random.default_rng(7)
W = tb.tensor(rng.standard_normal((4, 6)).astype(np.float32))
FILTER = tb.tensor(rng.standard_normal((4, 4, 3)).astype(np.float32))


def rows(x: Any) -> Any:
    return tb.reshape(x, (-1, 4))


def halved(x: Any) -> Any:
    return F.conv1d(tb.permute_dims(x, (0, 2, 1)), FILTER, stride=2, padding=1)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "product": lambda x: tb.matmul(rows(x), W),
    "product with itself": lambda x: tb.matmul(rows(x), tb.matrix_transpose(rows(x))),
    "softmax": lambda x: tb.softmax(rows(x), 0),
    "running sum": lambda x: tb.cumulative_sum(rows(x), axis=0),
    "join": lambda x: tb.concat([rows(x), rows(x) * 2], axis=0),
    "sort": lambda x: tb.sort(rows(x), axis=0),
    "there and back": lambda x: tb.reshape(tb.flip(tb.reshape(x, (-1,)), axis=0), x.shape),
    "convolution": lambda x: halved(x),
    "convolution and pool": lambda x: F.max_pool1d(tb.tanh(halved(x)), 3, 2, 1),
    "gradient": lambda x: tb.grad(lambda y: tb.sum(halved(y) ** 2))(x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_recording_serves_all_sizes(name: str) -> None:
    f = FUNCTIONS[name]
    sizes = (tb.dim("n", min=2, max=50), tb.dim("m", min=3, max=60), 4)
    compiled = tb.jit(f, target="cpu", shapes=[sizes])
    for n, m in ((2, 3), (5, 8), (17, 11)):
        x = tb.tensor(rng.standard_normal((n, m, 4)).astype(np.float32))
        np.testing.assert_allclose(compiled(x).numpy(), f(x).numpy(), rtol=1e-4, atol=1e-4)
    assert sum(map(len, compiled.entries.values())) == 1
