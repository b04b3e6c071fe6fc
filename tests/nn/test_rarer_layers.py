"""Layers with a result of several parts, or with places that are drawn, beside plain formulas."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite import nn

F = nn.functional
rng = np.random.default_rng(5)


@pytest.mark.parametrize("bias", [False, True])
def test_adaptive_log_softmax_is_a_tree_of_softmaxes(bias: bool) -> None:
    layer = nn.AdaptiveLogSoftmaxWithLoss(8, 11, [3, 6], div_value=2.0, head_bias=bias).double()
    x, target = rng.standard_normal((5, 8)), np.array([0, 4, 10, 2, 6])

    def logs(z: np.ndarray) -> np.ndarray:
        return z - np.log(np.exp(z).sum(1, keepdims=True))

    w = {name: p.detach().numpy() for name, p in layer.named_parameters()}
    head = logs(x @ w["head.weight"].T + (w["head.bias"] if bias else 0.0))
    tails = [logs(x @ w[f"tail.{i}.0.weight"].T @ w[f"tail.{i}.1.weight"].T) for i in range(2)]
    want = np.concatenate([head[:, :3], tails[0] + head[:, 3:4], tails[1] + head[:, 4:5]], 1)
    np.testing.assert_allclose(np.exp(want).sum(1), 1.0)
    given = tb.tensor(x)
    np.testing.assert_allclose(layer.log_prob(given).detach().numpy(), want, rtol=1e-12)
    output, loss = layer(given, tb.tensor(target))
    np.testing.assert_allclose(output.detach().numpy(), want[np.arange(5), target], rtol=1e-12)
    np.testing.assert_allclose(loss.item(), -want[np.arange(5), target].mean(), rtol=1e-12)
    np.testing.assert_array_equal(layer.predict(given).numpy(), want.argmax(1))


@pytest.mark.parametrize("space", [2, 3])
@pytest.mark.parametrize("given", ["output_size", "output_ratio"])
def test_fractional_pooling_takes_the_largest_of_windows_that_cover_the_ends(space: int, given: str) -> None:
    sizes, k = (9, 7, 6)[:space], 2
    outer = (4, 3, 3)[:space]
    how = {
        given: outer
        if given == "output_size"
        else tuple((o + 0.5) / n for o, n in zip(outer, sizes, strict=True))
    }
    layer = getattr(nn, f"FractionalMaxPool{space}d")(k, return_indices=True, **how)
    x = rng.standard_normal((2, 3, *sizes))
    values, at = (t.numpy() for t in layer(tb.tensor(x)))
    assert values.shape == at.shape == (2, 3, *outer)
    for plane in itertools.product(range(2), range(3)):
        flat, found = x[plane].reshape(-1), np.unravel_index(at[plane], sizes)
        np.testing.assert_array_equal(flat[at[plane]], values[plane])
        for axis, (n, o) in enumerate(zip(sizes, outer, strict=True)):
            last = np.take(found[axis], o - 1, axis=axis)
            assert (last >= n - k).all(), "the last window ends where the axis does"
            assert (np.take(found[axis], 0, axis=axis) < k).all(), "the first begins where it begins"


def test_fractional_pooling_by_given_numbers_by_hand() -> None:
    """Windows begin at floor((i + u) s) - floor(u s), s = (n - k) / (out - 1); the last one at the end."""
    x = tb.tensor(np.arange(7.0).reshape(1, 1, 1, 7))
    samples = tb.tensor(np.array([[[0.6, 0.0]]]))  # a plane's last axis takes the first number
    got = nn.functional.fractional_max_pool2d(x, (1, 2), (1, 3), _random_samples=samples)
    starts = [0, int(np.floor(1.6 * 2.5) - np.floor(0.6 * 2.5)), 5]
    assert got.reshape(-1).tolist() == [s + 1.0 for s in starts]


def _with_specials(shape: tuple[int, ...]) -> Any:
    x = np.random.default_rng(2).standard_normal(shape)
    x.reshape(-1)[[3, 17]] = np.nan, np.inf
    return x


@pytest.mark.parametrize("jitted", [False, True])
def test_an_infinity_stays_in_the_blocks_that_hold_it(jitted: bool) -> None:
    x = _with_specials((2, 3, 6, 7))
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (2, 2)))
    f = lambda x: F.unfold(x, (3, 2), dilation=(1, 2), padding=(1, 2), stride=(2, 1))  # noqa: E731
    blocks = [padded[:, :, i : i + 5 : 2, 2 * j : 2 * j + 9] for i in range(3) for j in range(2)]
    expected = np.stack(blocks, axis=2).reshape(2, 18, 27)
    found = (tb.jit(f) if jitted else f)(tb.tensor(x)).numpy()
    np.testing.assert_array_equal(found, expected)
    g = lambda y: F.fold(y, (6, 7), (3, 2), dilation=(1, 2), padding=(1, 2), stride=(2, 1))  # noqa: E731
    back = np.zeros_like(padded)
    for n, (i, j) in enumerate((i, j) for i in range(3) for j in range(2)):
        back[:, :, i : i + 5 : 2, 2 * j : 2 * j + 9] += expected.reshape(2, 3, 6, 3, 9)[:, :, n]
    found = (tb.jit(g) if jitted else g)(tb.tensor(expected)).numpy()
    np.testing.assert_allclose(found, back[:, :, 1:-1, 2:-2], rtol=1e-12)


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("sizes", [((7, 9), (3, 4)), ((5, 6), (7, 2)), ((5,), (3,))])
def test_an_infinity_stays_in_the_windows_that_hold_it(sizes: tuple[Any, Any], jitted: bool) -> None:
    plane, wanted = sizes
    x = _with_specials((2, 3, *plane))
    pool = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d)[len(plane) - 1]
    f = lambda x: pool(x, wanted)  # noqa: E731
    found = (tb.jit(f) if jitted else f)(tb.tensor(x)).numpy()
    for at in np.ndindex(*wanted):
        ends = [(i * n // m, -(-(i + 1) * n // m)) for i, n, m in zip(at, plane, wanted, strict=True)]
        window = x[(..., *(slice(a, b) for a, b in ends))]
        expected = window.mean(axis=tuple(range(2, x.ndim)))
        np.testing.assert_allclose(found[(..., *at)], expected, rtol=1e-12)
