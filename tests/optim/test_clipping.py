"""Gradients brought within bounds, by norm and by value, eager and recorded."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ArgumentError, GradientError
from trilobite.framework import optim

SHAPES = ((3, 4), (), (0, 2), (7,))


def params(seed: int, dtype: Any = np.float32, scale: float = 1.0) -> list[tb.Tensor]:
    rng = np.random.default_rng(seed)
    out = []
    for shape in SHAPES:
        p = tb.tensor(np.zeros(shape, dtype), requires_grad=True)
        p.grad = tb.tensor(np.asarray(rng.normal(size=shape) * scale).astype(dtype))
        out.append(p)
    return [*out, tb.tensor([1.0], requires_grad=True)]


def flat(tensors: list[tb.Tensor]) -> np.ndarray:
    return np.concatenate(
        [
            np.asarray(p.grad.numpy(), np.complex128 if p.dtype.kind == "c" else np.float64).ravel()
            for p in tensors
            if p.grad is not None
        ]
    )


def norm(x: np.ndarray, order: float) -> float:
    a = np.abs(x)
    return float(a.max()) if math.isinf(order) else float((a**order).sum() ** (1 / order))


@pytest.mark.parametrize("order", [2.0, 1.0, math.inf, 3.0, 0.5])
@pytest.mark.parametrize("wrap", [lambda f: f, partial(tb.jit, target="reference")], ids=["eager", "jit"])
@pytest.mark.parametrize("bound", [0.7, 1e6])
def test_the_norm_comes_down_to_the_bound(order: float, wrap: Any, bound: float) -> None:
    tensors = params(1)
    before = flat(tensors)
    total = wrap(lambda: optim.clip_grad_norm_(tensors, bound, order))()
    want = norm(before, order)
    assert total.item() == pytest.approx(want, rel=1e-6)
    np.testing.assert_allclose(flat(tensors), before * min(1.0, bound / (want + 1e-6)), rtol=1e-6)
    assert tensors[-1].grad is None
    assert optim.grad_norm(tensors, order).item() == pytest.approx(min(want, bound), rel=1e-4)


@pytest.mark.parametrize("dtype", [tb.bfloat16, tb.float16, tb.float64, tb.complex64], ids=str)
def test_all_dtypes(dtype: Any) -> None:
    tensors = params(2, dtype)
    before = flat(tensors)
    total = optim.clip_grad_norm_(tensors, 0.5)
    tolerance = {tb.bfloat16: 8e-3, tb.float16: 1e-3}.get(dtype, 1e-6)
    np.testing.assert_allclose(flat(tensors), before * (0.5 / norm(before, 2.0)), rtol=tolerance, atol=1e-7)
    assert total.item() == pytest.approx(norm(before, 2.0), rel=1e-6)
    assert total.dtype == (tb.float64 if dtype == tb.float64 else tb.float32)
    assert all(p.grad.dtype == dtype for p in tensors[:-1])


def test_no_gradients_have_no_norm() -> None:
    assert optim.clip_grad_norm_([tb.tensor([1.0], requires_grad=True)], 1.0).item() == 0.0
    assert optim.grad_norm([]).item() == 0.0


def test_zero_gradients_stay_zero() -> None:
    tensors = params(1, scale=0.0)
    optim.clip_grad_norm_(tensors, 1.0)
    assert not flat(tensors).any()


def test_what_is_not_finite_is_passed_on_or_an_error() -> None:
    tensors = params(1)
    tensors[0].grad[0, 0] = math.inf
    with pytest.raises(GradientError, match=r"norm of the gradients is inf[\s\S]*detect_anomaly"):
        optim.clip_grad_norm_(tensors, 1.0, error_if_nonfinite=True)
    before = flat(tensors)
    assert math.isinf(optim.clip_grad_norm_(tensors, 1.0).item())
    assert np.isinf(before).sum() == 1 and np.isnan(flat(tensors)).sum() == 1


def test_values_are_brought_between_the_bounds() -> None:
    for wrap in (lambda f: f, partial(tb.jit, target="reference")):
        tensors = params(3, scale=4.0)
        before = flat(tensors)
        wrap(lambda tensors=tensors: optim.clip_grad_value_(tensors, 1.5))()
        np.testing.assert_array_equal(flat(tensors), np.clip(before, -1.5, 1.5).astype(np.float32))
    z = tb.tensor([1 + 1j], requires_grad=True)
    z.grad = tb.tensor([5 - 0.25j])
    optim.clip_grad_value_(z, 0.5)
    assert z.grad.tolist() == [0.5 - 0.25j]


def test_bounds_make_sense() -> None:
    with pytest.raises(ArgumentError, match="norm_type is -1"):
        optim.clip_grad_norm_(params(1), 1.0, -1)
    with pytest.raises(ArgumentError, match="max_norm is 'x'"):
        optim.clip_grad_norm_(params(1), "x")
