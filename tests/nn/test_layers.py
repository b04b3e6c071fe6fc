"""Every layer, eager and recorded: the same bits, forward and backward, in both modes."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from layer_cases import ALL, PLAIN, Case
from layer_checks import build, call, differentiable, inputs

import trilobite as tb
from trilobite.base import pytree
from trilobite.framework import nn, random

every = pytest.mark.parametrize("case", ALL, ids=lambda c: c.id)
plain = pytest.mark.parametrize("case", PLAIN, ids=lambda c: c.id)


def leaves(out: Any) -> list[np.ndarray]:
    found = pytree.leaves(out, lambda x: isinstance(x, tb.Tensor))
    return [np.array(x.detach().numpy()) for x in found if isinstance(x, tb.Tensor)]


def same_bits(a: list[np.ndarray], b: list[np.ndarray]) -> None:
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape
        assert x.tobytes() == y.tobytes()


def loss_of(layer: nn.Module, case: Case, args: list[Any]) -> Any:
    """One number that every float result takes part in."""
    total: Any = 0.0
    for i, out in enumerate(pytree.leaves(call(layer, case, args), lambda x: isinstance(x, tb.Tensor))):
        if isinstance(out, tb.Tensor) and out.dtype.kind == "f":
            weight = np.random.default_rng(i).standard_normal(out.shape).astype(out.dtype)
            total = total + (out * tb.tensor(weight)).sum()
    return total


@every
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_eager_and_recorded_give_the_same_bits(case: Case, training: bool) -> None:
    layer = build(case, "float32").train(training)
    twin = copy.deepcopy(layer)
    args = inputs(case, "float32")
    compiled = tb.jit(lambda *a: call(twin, case, list(a)), target="reference")
    for _ in range(2):  # the second run meets the state that the first has left
        same_bits(leaves(call(layer, case, args)), leaves(compiled(*args)))
    same_bits(leaves(layer.state_dict()), leaves(twin.state_dict()))


@every
def test_gradients_inside_jit_have_the_bits_of_eager_ones(case: Case) -> None:
    layer = build(case, "float32")
    twin = copy.deepcopy(layer)
    args, moving = inputs(case, "float32"), differentiable(case)

    def step(module: nn.Module, given: list[Any]) -> Any:
        given = list(given)
        for i in moving:
            given[i] = given[i].detach().clone().requires_grad_()
        loss = loss_of(module, case, given)
        loss.backward()
        return loss.detach(), [given[i].grad for i in moving]

    if not moving and not list(layer.parameters()):
        pytest.skip("nothing to differentiate")
    same_bits(
        leaves(step(layer, args)), leaves(tb.jit(lambda *a: step(twin, list(a)), target="reference")(*args))
    )
    grads, twins = [[p.grad for p in m.parameters()] for m in (layer, twin)]
    same_bits(leaves(grads), leaves(twins))


@pytest.mark.parametrize("p", [0.25, 0.7])
def test_dropout_drops_as_often_as_it_says_and_keeps_the_mean(p: float) -> None:
    random.manual_seed(5)
    x = tb.ones((200, 300))
    out = nn.Dropout(p)(x).numpy()
    assert set(np.unique(out)) == {0.0, np.float32(1 / (1 - p))}
    assert abs((out == 0).mean() - p) < 5 * np.sqrt(p * (1 - p) / out.size)
    assert np.array_equal(nn.Dropout(p).eval()(x).numpy(), x.numpy())


@pytest.mark.parametrize(("layer", "shape", "axes"), [
    ("Dropout1d", (40, 50, 3), (2,)), ("Dropout2d", (40, 50, 2, 3), (2, 3)),
    ("Dropout3d", (40, 50, 2, 1, 3), (2, 3, 4)),
])  # fmt: skip
def test_channel_dropout_drops_whole_channels(
    layer: str, shape: tuple[int, ...], axes: tuple[int, ...]
) -> None:
    random.manual_seed(6)
    out = getattr(nn, layer)(0.4)(tb.ones(shape)).numpy()
    zero = (out == 0).all(axes)
    assert np.array_equal(zero, (out == 0).any(axes))
    assert 0.3 < zero.mean() < 0.5


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    random.manual_seed(7)
    x = random.randn(400, 500)
    out = nn.AlphaDropout(0.3)(x).numpy()
    assert abs(out.mean()) < 0.02 and abs(out.std() - 1) < 0.02


def test_two_dropouts_differ_and_a_seed_repeats_them() -> None:
    x = tb.ones((50, 50))
    random.manual_seed(1)
    first, second = nn.Dropout()(x).numpy(), nn.Dropout()(x).numpy()
    random.manual_seed(1)
    assert not np.array_equal(first, second)
    assert np.array_equal(first, nn.Dropout()(x).numpy())


# -- on the cpu ----------------------------------------------------------------------------------------------


def close(a: list[np.ndarray], b: list[np.ndarray]) -> None:
    """Equal integers; floats within rounding of sums of a few hundred terms."""
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape
        if x.dtype.kind in "iub":
            assert x.tobytes() == y.tobytes()
        else:
            size = max(float(np.abs(y[np.isfinite(y)]).max(initial=0.0)), 1e-3)
            np.testing.assert_allclose(x, y, rtol=2e-5, atol=2e-5 * size)


@every
def test_every_layer_runs_on_the_cpu(case: Case) -> None:
    layer = build(case, "float32")
    twin = copy.deepcopy(layer)
    args, moving = inputs(case, "float32"), differentiable(case)

    def step(module: nn.Module, given: list[Any]) -> Any:
        given = list(given)
        for i in moving:
            given[i] = given[i].detach().clone().requires_grad_()
        out = call(module, case, given)
        if moving or list(module.parameters()):
            loss_of(module, case, given).backward()
        return out, [given[i].grad for i in moving]

    compiled = tb.jit(lambda *a: step(twin, list(a)), target="cpu")
    tb.manual_seed(7)
    want = leaves(step(layer, args))
    tb.manual_seed(7)
    close(leaves(compiled(*args)), want)
    grads, twins = [[p.grad for p in m.parameters()] for m in (layer, twin)]
    close(leaves(twins), leaves(grads))
