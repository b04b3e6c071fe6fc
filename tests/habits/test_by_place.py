"""Arguments that the standard has by word alone, by their place as PyTorch's users write them; and slopes at
corners that `test_peer_sweep.py` compares with PyTorch's, for those who have it not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from trilobite.nn import functional as F

import trilobite as tb

X = tb.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize("name", "sum mean prod amax amin argmax argmin all any nansum logsumexp".split())
def test_keepdim_comes_second(name: str) -> None:
    assert tb.allclose(getattr(X, name)(1, True).double(), getattr(X, name)(axis=1, keepdims=True).double())
    assert getattr(tb, name)(X, 1, True).shape == (3, 1)


def test_others_come_in_pytorchs_order() -> None:
    assert X.topk(2, 1, False).indices.tolist() == [[0, 1]] * 3
    assert X.softmax(1, tb.float64).dtype is tb.float64 and tb.fft.fft(X, 6, 0).shape == (6, 4)
    assert X.quantile(0.5, 1, True).shape == (3, 1) and X.norm(2, 1, True).shape == (3, 1)
    assert tb.linalg.matrix_norm(X, 1, (0, 1), True).shape == (1, 1)
    assert tb.allclose(X, X * 1.01, 0.1, 0.0) and not tb.allclose(X, X * 1.01, 0.001, 0.0)
    assert X.take(tb.tensor([[0, 5], [11, 1]])).tolist() == [[0.0, 5.0], [11.0, 1.0]]
    with pytest.raises(TypeError):
        X.sum(1, True, None, 3)
    with pytest.raises(TypeError):
        tb.asarray(X, tb.float32)


def second(f: Callable[[Any], Any], at: float) -> float:
    x = tb.tensor([at], dtype=tb.float64, requires_grad=True)
    (g,) = tb.autograd.grad(f(x).sum(), [x], create_graph=True)
    (h,) = tb.autograd.grad(g.sum(), [x])
    return float(h)


def test_curvature_at_zero() -> None:
    zero = tb.zeros(1, dtype=tb.float64)
    assert second(F.logsigmoid, 0.0) == pytest.approx(-0.25)
    assert second(lambda x: tb.logaddexp(x, zero), 0.0) == pytest.approx(0.25)
    assert second(lambda x: F.smooth_l1_loss(x, zero), 0.0) == 1.0
    assert second(lambda x: F.huber_loss(x, zero), 0.0) == 1.0
    assert second(lambda x: tb.cat([x, zero + 2]).norm(), 0.0) == pytest.approx(0.5)
    assert second(tb.special.i0, 0.0) == pytest.approx(0.5)


def test_slopes_at_corners() -> None:
    x = tb.tensor([-3.0, 3.0, 0.0], dtype=tb.float64, requires_grad=True)
    F.hardswish(x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [0.0, 1.0, 0.5]
    y = tb.zeros(1, dtype=tb.float64, requires_grad=True)
    tb.special.i1(y).sum().backward()
    assert y.grad is not None and y.grad.tolist() == [0.5]


def test_a_factor_that_does_not_exist_is_told() -> None:
    both = tb.stack([tb.eye(2), -tb.eye(2)])
    factor, info = tb.linalg.cholesky_ex(both)
    assert info.tolist() == [0, 1] and tb.isnan(factor[1]).all() and factor[0].equal(tb.eye(2))
    with pytest.raises(ValueError, match="positive definite"):
        tb.linalg.cholesky_ex(both, check_errors=True)
