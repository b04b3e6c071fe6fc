"""Slopes where functions have corners or poles, and edge cases of operations, as the field chooses them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from trilobite.nn import functional as F

import trilobite as tb

inf = math.inf


def slope(fn: Callable[..., Any], *operands: Any) -> list[list[Any]]:
    xs = [tb.tensor(np.asarray(x, np.float64), requires_grad=True) for x in operands]
    fn(*xs).sum().backward()
    return [x.grad.tolist() for x in xs]


def test_fmod_has_slope_1_and_minus_the_quotient_also_at_multiples():
    x, y = [4.0, -4.0, 6.0, 5.5, -7.0, 1e300], [2.0, 2.0, -3.0, 2.0, -2.0, inf]
    assert slope(tb.fmod, x, y) == [[1.0] * 6, [-2.0, 2.0, 2.0, -2.0, -3.0, 0.0]]
    _, out = tb.jvp(tb.fmod, (tb.tensor(4.0), tb.tensor(2.0)), (tb.tensor(1.0), tb.tensor(1.0)))
    assert out.item() == -1.0
    tiny = tb.fmod(tb.tensor(-1e-20, requires_grad=True), tb.tensor(1.0))
    assert tiny.item() == tb.tensor(-1e-20).item()  # x - y·n would have lost it


@pytest.mark.parametrize("p", [0, 0.5, 1, 1.5, 2, 3, inf, -inf, -1, -2])
def test_norms_of_zeros_have_slope_0(p: float):
    zeros = np.zeros((2, 3))
    for fn in (
        lambda x: tb.norm(x, p, 1),
        lambda x: tb.linalg.vector_norm(x, axis=1, ord=p),
        lambda x: F.pairwise_distance(x, tb.zeros((2, 3), dtype=tb.float64), p=p, eps=0.0),
        lambda x: tb.cdist(x, x, p=p),
    ):
        assert slope(fn, zeros) == [[[0.0] * 3] * 2]
    assert np.isfinite(slope(lambda x: F.normalize(x, p=p), zeros)).all()
    if p != 0:
        assert slope(lambda x: F.lp_pool1d(x[None], p, 2), zeros) == [[[0.0] * 3] * 2]


def test_deviation_of_equal_values_and_cosine_of_zeros():
    assert slope(lambda x: tb.std(x, axis=1), np.full((2, 3), 1.5)) == [[[0.0] * 3] * 2]
    assert slope(lambda x: F.cosine_similarity(x, x), np.zeros((2, 3))) == [[[0.0] * 3] * 2]


def test_every_p_is_the_norm_it_says():
    x, zero = np.array([[3.0, -4.0, 0.0], [1.0, 2.0, -2.0]]), np.zeros((2, 3))
    for p, want in (
        (0, [2, 3]),
        (inf, [4, 2]),
        (-inf, [0, 1]),
        (1, [7, 5]),
        (3, [91 ** (1 / 3), 17 ** (1 / 3)]),
    ):
        got = F.pairwise_distance(tb.tensor(x), tb.tensor(zero), p=p, eps=0.0)
        assert np.allclose(got.numpy(), want)
        unit = F.normalize(tb.tensor(x), p=p, eps=1e-12).numpy()
        assert np.allclose(unit[1], x[1] / want[1])
        loss = F.triplet_margin_loss(
            tb.tensor(x), tb.tensor(zero), tb.tensor(zero), p=p, eps=0.0, margin=0.25
        )
        assert loss.item() == 0.25
        table = tb.tensor(x.copy())
        rows = F.embedding(tb.tensor([1]), table, max_norm=0.5, norm_type=p)
        assert np.allclose(rows.numpy(), x[1:] * 0.5 / (want[1] + 1e-7))
    pooled = F.lp_pool1d(tb.tensor(x[None]), inf, 3)
    assert pooled.tolist() == [[[4.0], [2.0]]]
    assert F.lp_pool1d(tb.tensor(x[None]), -inf, 3).tolist() == [[[0.0], [1.0]]]
    with pytest.raises(tb.errors.ArgumentError, match="norm_type=0"):
        F.lp_pool1d(tb.tensor(x[None]), 0, 3)


def test_powers_0_pass_gradients_of_zeros():
    assert slope(lambda x: tb.norm(x, 0), [1.0, 0.0]) == [[0.0, 0.0]]
    assert slope(lambda x: tb.linalg.matrix_power(x, 0), [[1.0, 2.0], [inf, 4.0]]) == [[[0.0, 0.0]] * 2]
    assert tb.linalg.matrix_power(tb.tensor([[1, 2], [3, 4]]), 0).tolist() == [[1, 0], [0, 1]]


def test_diff_of_order_0_is_the_tensor_itself():
    x = tb.tensor([1.0, 4.0])
    assert tb.diff(x, n=0, prepend=tb.tensor([9.0]), append=tb.tensor([9.0])).tolist() == [1.0, 4.0]


def test_circular_padding_crops_before_it_wraps():
    x = tb.tensor([[[1.0, 2.0, 3.0, 4.0]]])
    assert F.pad(x, (-1, 2), mode="circular").tolist() == [[[2.0, 3.0, 4.0, 2.0, 3.0]]]
    assert F.pad(x, (2, -1), mode="circular").tolist() == [[[2.0, 3.0, 1.0, 2.0, 3.0]]]
    with pytest.raises(tb.errors.ShapeError, match="at most 2"):
        F.pad(x, (3, -2), mode="circular")


def test_topk_of_a_number():
    values, indices = tb.topk(tb.tensor(3.0), 1)
    assert (values.item(), indices.item(), values.shape) == (3.0, 0, ())
    with pytest.raises(tb.errors.ArgumentError, match="of a number"):
        tb.topk(tb.tensor(3.0), 2)


def test_complex_expm1_of_minus_0_is_plus_0():
    for imaginary in (0.0, -0.0):
        out = tb.expm1(tb.tensor(complex(-0.0, imaginary))).item()
        assert math.copysign(1, out.real) == 1
        assert math.copysign(1, out.imag) == math.copysign(1, imaginary)


@pytest.mark.parametrize("how", ["linear", "lower", "higher", "nearest", "midpoint"])
def test_quantiles_several_at_once(how: str):
    x = np.random.default_rng(0).normal(size=(4, 5))
    q = [0.0, 0.1, 0.55, 1.0]
    for axis in (None, 0, 1):
        got = tb.quantile(tb.tensor(x), tb.tensor(q, dtype=tb.float64), axis, interpolation=how)
        assert np.allclose(got.numpy(), np.quantile(x, q, axis=axis, method=how))
    kept = tb.quantile(tb.tensor(x), q, 1, keepdims=True)
    assert kept.shape == (4, 4, 1)
    with pytest.raises(tb.errors.ArgumentError, match="0 <= q <= 1"):
        tb.quantile(tb.tensor(x), [0.5, 1.5])
    with pytest.raises(tb.errors.ArgumentError, match="interpolation='cubic'"):
        tb.quantile(tb.tensor(x), 0.5, interpolation="cubic")
