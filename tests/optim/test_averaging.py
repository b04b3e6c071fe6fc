"""Averages of parameters: the formulas, evaluation with them and back, saved and restored, recorded."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ArgumentError, StateError
from trilobite.framework import optim


class Model:
    def __init__(self) -> None:
        self.w = tb.tensor([1.0, -2.0], requires_grad=True)
        self.h = tb.tensor(np.asarray([3.0, 0.5], tb.bfloat16), requires_grad=True)
        self.running = tb.tensor([10.0])
        self.seen = tb.tensor(0)

    def parameters(self) -> list[tb.Tensor]:
        return [self.w, self.h]

    def buffers(self) -> list[tb.Tensor]:
        return [self.running, self.seen]

    def move(self, n: int) -> None:
        with tb.no_grad():
            self.w.copy_(np.random.default_rng(n).normal(size=2))
            self.h.copy_(np.random.default_rng(n + 50).normal(size=2))
            self.running += 1.0
            self.seen += 1


def history(n: int) -> np.ndarray:
    return np.stack([np.random.default_rng(i).normal(size=2).astype(np.float32) for i in range(n)])


@pytest.mark.parametrize("wrap", [lambda f: f, partial(tb.jit, target="reference")], ids=["eager", "jit"])
def test_exponential(wrap: Any) -> None:
    model = Model()
    ema = optim.ExponentialMovingAverage(model, 0.9)
    update, want = wrap(ema.update), np.array([1.0, -2.0])
    for n, w in enumerate(history(20)):
        model.move(n)
        update()
        want = 0.9 * want + 0.1 * w
    np.testing.assert_allclose(ema.averages[0].numpy(), want, rtol=1e-5)
    assert ema.averages[1].dtype == tb.float32, "bfloat16 would forget small changes"
    assert ema.taken[0].item() == 30.0 and ema.taken[1].item() == 20


def test_exponential_warms_up() -> None:
    model = Model()
    ema = optim.ExponentialMovingAverage([model.w], 0.99, warmup=True)
    want = np.array([1.0, -2.0])
    for n, w in enumerate(history(30)):
        model.move(n)
        ema.update()
        decay = min(0.99, (1 + n) / (10 + n))
        want = decay * want + (1 - decay) * w
    np.testing.assert_allclose(ema.averages[0].numpy(), want, rtol=1e-5)


@pytest.mark.parametrize("wrap", [lambda f: f, partial(tb.jit, target="reference")], ids=["eager", "jit"])
def test_equal_weights(wrap: Any) -> None:
    model = Model()
    swa = optim.StochasticWeightAverage(model)
    update = wrap(swa.update)
    for n in range(12):
        model.move(n)
        update()
    np.testing.assert_allclose(swa.averages[0].numpy(), history(12).mean(axis=0), rtol=1e-5)
    assert swa.count.item() == 12


def test_applied_and_taken_back() -> None:
    model = Model()
    ema = optim.ExponentialMovingAverage(model, 0.5)
    model.move(3)
    ema.update()
    model.move(4)
    before = [t.detach().numpy().copy() for t in (model.w, model.h, model.running, model.seen)]
    with pytest.raises(KeyError), ema.applied():
        np.testing.assert_array_equal(model.w.detach().numpy(), ema.averages[0].numpy())
        assert model.running.item() == 11.0
        raise KeyError
    for t, old in zip((model.w, model.h, model.running, model.seen), before, strict=True):
        np.testing.assert_array_equal(t.detach().numpy(), old)
    assert model.w.requires_grad


def test_copied_to_the_model_or_to_another() -> None:
    model, other = Model(), Model()
    ema = optim.ExponentialMovingAverage(model, 0.5)
    model.move(3)
    ema.update()
    ema.copy_to(other)
    ema.copy_to()
    np.testing.assert_array_equal(model.w.detach().numpy(), ema.averages[0].numpy())
    np.testing.assert_array_equal(other.w.detach().numpy(), ema.averages[0].numpy())
    with pytest.raises(ArgumentError, match="other shapes"):
        ema.copy_to([tb.zeros(3)])


def test_restored() -> None:
    model = Model()
    ema = optim.ExponentialMovingAverage(model, 0.9, warmup=True)
    for n in range(5):
        model.move(n)
        ema.update()
    saved = ema.state_dict()
    again = optim.ExponentialMovingAverage(Model(), 0.9, warmup=True)
    again.load_state_dict(saved)
    again.parameters, again.buffers = ema.parameters, ema.buffers
    model.move(9)
    ema.update()
    again.update()
    for a, b in zip(ema.averages, again.averages, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    saved["averages"][0] = np.zeros(3, np.float32)
    with pytest.raises(StateError, match=r"tensor 0 is float32\[3\]"):
        again.load_state_dict(saved)
    with pytest.raises(StateError, match="it has 1 tensors"):
        again.load_state_dict({"averages": [np.zeros(2)], "buffers": [], "count": 0})


def test_wrong_uses() -> None:
    with pytest.raises(ArgumentError, match="an average of int"):
        optim.StochasticWeightAverage(3)

    class Half:
        """Has parameters and no buffers: not a module."""

        def parameters(self) -> list[tb.Tensor]:
            return [tb.zeros(2)]

    with pytest.raises(ArgumentError, match=r"an average of Half[\s\S]*a module, or a list of float tensors"):
        optim.StochasticWeightAverage(Half())
    with pytest.raises(ArgumentError, match=r"decay is 1.0[\s\S]*in \[0, 1\)"):
        optim.ExponentialMovingAverage([tb.zeros(2)], 1.0)
    ema = optim.ExponentialMovingAverage([tb.zeros(2)])

    def inside() -> None:
        with ema.applied():
            pass

    with pytest.raises(RuntimeError, match=r"applied\(\) while a function is being recorded"):
        tb.jit(inside)()


def test_statistics_are_taken_anew_for_averaged_parameters() -> None:
    tb.manual_seed(0)
    model = tb.nn.Sequential(tb.nn.Linear(3, 4), tb.nn.BatchNorm1d(4), tb.nn.Dropout(0.5))
    model[2].eval()
    batches = [np.random.default_rng(i).normal(size=(6, 3)).astype(np.float32) for i in range(5)]
    optim.update_bn(((x, None) for x in batches), model)
    hidden = np.stack([model[0](tb.tensor(x)).detach().numpy() for x in batches])
    np.testing.assert_allclose(model[1].running_mean.numpy(), hidden.mean(axis=(0, 1)), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        model[1].running_var.numpy(), hidden.var(axis=1, ddof=1).mean(axis=0), rtol=1e-4
    )
    assert model[1].momentum == 0.1 and model[1].num_batches_tracked.item() == 5
    assert model[0].training and not model[2].training
