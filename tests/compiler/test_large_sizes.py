"""Large joins, column sums and padding, at the sizes where kernels are cut and far beyond them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb

RNG = np.random.default_rng(17)
UNIT = 16384  # element operations from which work is divided
STRIP = 2048  # columns that one strip of sums holds


def around(size: int) -> list[int]:
    return [size - 1, size, size + 1]


def values(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("size", [*around(UNIT), *around(2 * UNIT), 100_003])
def test_joined_values_lie_where_they_belong(size: int) -> None:
    parts = [values(size // 3), values(size - size // 3), values(5)]
    found = tb.jit(lambda a, b, c: tb.concat([a, b, c]))(*map(tb.tensor, parts))
    np.testing.assert_array_equal(found.numpy(), np.concatenate(parts))


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("width", [*around(64), 331])
def test_joins_along_every_axis_with_work_around_them(axis: int, width: int) -> None:
    shape = [7, 40, width]
    parts = []
    for extent in (3, 11, 26):
        part = list(shape)
        part[axis] = extent
        parts.append(values(*part))

    def f(a: Any, b: Any, c: Any) -> Any:
        return tb.concat([a * 2, b, tb.exp(-tb.abs(c))], axis=axis) + 1

    a, b, c = parts
    wanted = np.concatenate([a * 2, b, np.exp(-np.abs(c))], axis=axis) + 1
    np.testing.assert_allclose(tb.jit(f)(*map(tb.tensor, parts)).numpy(), wanted, rtol=2e-6)


@pytest.mark.parametrize("width", [*around(STRIP), 4099, 100_003])
@pytest.mark.parametrize("rows", [3, 17, 33])
def test_columns_of_joined_and_padded_values_are_summed_to_the_last(rows: int, width: int) -> None:
    a, b = values(rows, width), values(5, width)
    joined = tb.jit(lambda a, b: tb.sum(tb.concat([a, b], axis=0), axis=0))(tb.tensor(a), tb.tensor(b))
    np.testing.assert_allclose(joined.numpy(), np.concatenate([a, b]).sum(0), rtol=1e-4, atol=1e-4)

    def padded(a: Any) -> Any:
        return tb.sum(tb.nn.functional.pad(a, (1, 2), value=0.5) * 2, axis=0)

    wanted = (np.pad(a, ((0, 0), (1, 2)), constant_values=0.5) * 2).sum(0)
    np.testing.assert_allclose(tb.jit(padded)(tb.tensor(a)).numpy(), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("size", [*around(UNIT), 40_001])
def test_gradients_of_joins_and_sums_agree_with_eager_ones(size: int) -> None:
    a, b = (tb.tensor(values(size), requires_grad=True) for _ in range(2))

    def loss(a: Any, b: Any) -> Any:
        joined = tb.concat([tb.sin(a), b * b])
        return tb.sum(joined * tb.arange(2 * size, dtype=tb.float32) / size)

    both = tb.grad(loss, argnums=(0, 1))
    eager, compiled = both(a, b), tb.jit(both)(a, b)
    for x, y in zip(eager, compiled, strict=True):
        np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=1e-5, atol=1e-5)
