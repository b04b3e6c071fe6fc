"""`nn.utils.weight_norm` and `spectral_norm` beside the same by NumPy, step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb

nn = tb.nn
RNG = np.random.default_rng(12)


def length(x: Any, eps: float) -> Any:
    return x / max(float(np.sqrt((x * x).sum())), eps)


def layer(kind: str) -> tuple[Any, Any]:
    """A layer of doubles, and what it takes."""
    if kind == "linear":
        return nn.Linear(5, 3).to(tb.float64), tb.tensor(RNG.standard_normal((2, 5)))
    made = nn.Conv2d(2, 4, 3) if kind == "conv" else nn.ConvTranspose2d(2, 4, 3)
    return made.to(tb.float64), tb.tensor(RNG.standard_normal((1, 2, 5, 5)))


@pytest.mark.parametrize("kind", ["linear", "conv", "transposed"])
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("dim", [None, 0, 1])
def test_a_spectral_norm_follows_the_power_iteration(kind: str, times: int, dim: int | None) -> None:
    net, x = layer(kind)
    before = net.weight.detach().numpy().copy()
    normed = nn.utils.spectral_norm(net, n_power_iterations=times, dim=dim)
    axis = dim if dim is not None else int(kind == "transposed")
    m = np.moveaxis(before, axis, 0).reshape(before.shape[axis], -1)
    u, v = normed.weight_u.numpy().copy(), normed.weight_v.numpy().copy()
    assert u.shape == (m.shape[0],) and v.shape == (m.shape[1],)
    np.testing.assert_allclose([np.linalg.norm(u), np.linalg.norm(v)], 1.0)
    for _ in range(2):
        normed(x)
        for _ in range(times):
            v = length(m.T @ u, 1e-12)
            u = length(m @ v, 1e-12)
        np.testing.assert_allclose(normed.weight_u.numpy(), u, rtol=1e-9)
        np.testing.assert_allclose(normed.weight.detach().numpy(), before / (u @ m @ v), rtol=1e-9)
    normed.eval()
    normed(x)
    np.testing.assert_allclose(normed.weight_v.numpy(), v, rtol=1e-9)  # it follows in training alone
    assert {n for n, _ in normed.named_parameters()} == {"bias", "weight_orig"}
    plain = nn.utils.remove_spectral_norm(normed)
    assert {n for n, _ in plain.named_parameters()} == {"bias", "weight"}
    np.testing.assert_allclose(plain.weight.detach().numpy(), before / (u @ m @ v), rtol=1e-9)


def test_a_spectral_norm_of_another_weight_and_another_least_length() -> None:
    net = nn.Bilinear(3, 3, 2)
    net.own = nn.Parameter(tb.tensor(np.full((2, 3), 1e-9)))
    made = nn.utils.spectral_norm(net, name="own", eps=1.0)
    assert "own_orig" in dict(made.named_parameters()) and "weight" in dict(made.named_parameters())
    made(tb.ones((1, 3)), tb.ones((1, 3)))
    assert float(tb.linalg.norm(made.own_v)) < 1e-6  # what is shorter than eps is divided by eps


@pytest.mark.parametrize("kind", ["linear", "conv"])
@pytest.mark.parametrize("dim", [None, 0, 1])
def test_a_weight_norm_keeps_lengths_and_directions_apart(kind: str, dim: int | None) -> None:
    net, x = layer(kind)
    before = net.weight.detach().numpy().copy()
    want = net(x).detach().numpy()
    normed = nn.utils.weight_norm(net, dim=dim)
    others = None if dim is None else tuple(a for a in range(before.ndim) if a != dim)
    sizes = np.sqrt((before**2).sum(axis=others, keepdims=dim is not None))
    np.testing.assert_allclose(normed.weight_g.detach().numpy(), sizes, rtol=1e-12)
    np.testing.assert_allclose(normed(x).detach().numpy(), want, rtol=1e-9, atol=1e-12)
    with tb.no_grad():
        normed.weight_g.mul_(2.0)
        normed.weight_v.mul_(5.0)  # a direction has no length
    normed(x)
    np.testing.assert_allclose(normed.weight.detach().numpy(), 2 * before, rtol=1e-9)
    plain = nn.utils.remove_weight_norm(normed)
    assert {n for n, _ in plain.named_parameters()} == {"bias", "weight"}
    np.testing.assert_allclose(plain.weight.detach().numpy(), 2 * before, rtol=1e-9)
