"""Complex numbers have no order and no real variance: layers that need one refuse them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import DTypeError

F = tb.nn.functional
R = np.random.default_rng(3)
X = (R.standard_normal((2, 4, 6)) + 1j * R.standard_normal((2, 4, 6))).astype(np.complex64)
Y = (R.standard_normal((2, 4, 6)) + 1j * R.standard_normal((2, 4, 6))).astype(np.complex64)


def named(name: str, count: int) -> Callable[[tb.Tensor, tb.Tensor], tb.Tensor]:
    return lambda x, y: getattr(F, name)(*(x, y)[:count])


ONE = """relu relu6 leaky_relu elu selu celu gelu softplus mish hardtanh hardswish hardsigmoid softshrink
logsigmoid instance_norm"""
TWO = """mse_loss smooth_l1_loss huber_loss soft_margin_loss poisson_nll_loss kl_div cosine_similarity
binary_cross_entropy_with_logits hinge_embedding_loss"""
REFUSED: dict[str, Callable[[tb.Tensor, tb.Tensor], tb.Tensor]] = {
    **{name: named(name, 1) for name in ONE.split()},
    **{name: named(name, 2) for name in TWO.split()},
    "threshold": lambda x, y: F.threshold(x, 0.1, 1.0),
    "prelu": lambda x, y: F.prelu(x, tb.tensor([0.1])),
    "softmax": lambda x, y: F.softmax(x, dim=-1),
    "layer_norm": lambda x, y: F.layer_norm(x, (6,)),
    "group_norm": lambda x, y: F.group_norm(x, 2),
    "batch_norm": lambda x, y: F.batch_norm(x, None, None, training=True),
    "local_response_norm": lambda x, y: F.local_response_norm(x, 3),
    "max_pool1d": lambda x, y: F.max_pool1d(x, 2),
    "adaptive_max_pool1d": lambda x, y: F.adaptive_max_pool1d(x, 2),
    "attention": lambda x, y: F.scaled_dot_product_attention(x, y, y),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_an_order_refuses_complex_numbers(name: str) -> None:
    for run in (REFUSED[name], tb.jit(REFUSED[name])):
        with pytest.raises(DTypeError, match="complex64"):
            run(tb.tensor(X), tb.tensor(Y))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_moduli_are_real(reduction: str) -> None:
    gap = np.abs(X - Y)
    wanted = {"none": gap, "mean": gap.mean(), "sum": gap.sum()}[reduction]
    found = F.l1_loss(tb.tensor(X), tb.tensor(Y), reduction)
    assert found.dtype == tb.float32
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5)


def test_distances_are_real() -> None:
    found = F.pairwise_distance(tb.tensor(X), tb.tensor(Y), eps=0.0)
    assert found.dtype == tb.float32
    np.testing.assert_allclose(found.numpy(), np.linalg.norm(X - Y, axis=-1), rtol=1e-5)


def test_what_has_no_order_takes_them() -> None:
    x = tb.tensor(X)
    np.testing.assert_allclose(F.silu(x).numpy(), X / (1 + np.exp(-X)), rtol=1e-4)
    np.testing.assert_allclose(F.tanhshrink(x).numpy(), X - np.tanh(X), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(F.avg_pool1d(x, 2).numpy(), (X[..., ::2] + X[..., 1::2]) / 2, rtol=1e-5)
