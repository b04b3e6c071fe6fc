"""Averages of weights as PyTorch's recipes make them: a model that is called, its functions, its state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from trilobite.optim import swa_utils

import trilobite as tb
from trilobite import nn

RNG = np.random.default_rng(3)
X = RNG.standard_normal((6, 3)).astype("f4")


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(3, 2), nn.BatchNorm1d(2)

    def forward(self, x: Any) -> Any:
        return self.norm(self.linear(x))


def swa(seen: list[Any]) -> Any:
    return np.mean(seen, axis=0)


def ema(decay: float) -> Callable[[list[Any]], Any]:
    def of(seen: list[Any]) -> Any:
        out = seen[0]
        for v in seen[1:]:
            out = decay * out + (1 - decay) * v
        return out

    return of


CASES: dict[str, tuple[dict[str, Any], Callable[[list[Any]], Any]]] = {
    "equal": ({}, swa),
    "equal, of lists": ({"multi_avg_fn": swa_utils.get_swa_multi_avg_fn()}, swa),
    "exponential": ({"avg_fn": swa_utils.get_ema_avg_fn(0.8)}, ema(0.8)),
    "exponential, of lists": ({"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.7)}, ema(0.7)),
    "of the user": ({"avg_fn": lambda a, p, n: 0.25 * a + 0.75 * p}, ema(0.25)),
}


@pytest.mark.parametrize("use_buffers", [False, True])
@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_what_was_seen_is_averaged(name: str, jitted: bool, use_buffers: bool) -> None:
    settings, wanted = CASES[name]
    model = Model()
    averaged = swa_utils.AveragedModel(model, use_buffers=use_buffers, **settings)
    optimizer = tb.optim.SGD(model.parameters(), lr=0.3)

    def step() -> None:
        optimizer.zero_grad()
        (model(tb.tensor(X)) ** 3).mean().backward()
        optimizer.step()
        averaged.update_parameters(model)

    run, weights, means = tb.jit(step) if jitted else step, [], []
    for _ in range(5):
        run()
        weights.append(model.linear.weight.detach().numpy().copy())
        means.append(model.norm.running_mean.numpy().copy())
    np.testing.assert_allclose(
        averaged.module.linear.weight.detach().numpy(), wanted(weights), rtol=1e-5, atol=1e-6
    )
    found = averaged.module.norm.running_mean.numpy()
    np.testing.assert_allclose(found, wanted(means) if use_buffers else means[-1], rtol=1e-5, atol=1e-6)
    assert averaged.n_averaged.item() == 5
    assert not np.allclose(weights[0], weights[-1])


def test_it_is_a_model() -> None:
    model = Model()
    averaged = swa_utils.AveragedModel(model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.5))
    averaged.update_parameters(model)
    assert sorted(averaged.state_dict())[:2] == ["module.linear.bias", "module.linear.weight"]
    again = swa_utils.AveragedModel(Model())
    again.load_state_dict(averaged.state_dict())
    averaged.eval(), again.eval(), model.eval()
    y = model(tb.tensor(X)).detach().numpy()
    np.testing.assert_array_equal(averaged(tb.tensor(X)).detach().numpy(), y)
    np.testing.assert_array_equal(again(tb.tensor(X)).detach().numpy(), y)
    assert again.n_averaged.item() == 1
    assert averaged.module.linear.weight is not model.linear.weight


def test_statistics_are_taken_anew() -> None:
    model = Model()
    averaged = swa_utils.AveragedModel(model)
    averaged.update_parameters(model)
    swa_utils.update_bn([tb.tensor(X)], averaged)
    wanted = model.linear(tb.tensor(X)).detach().numpy().mean(0)
    np.testing.assert_allclose(averaged.module.norm.running_mean.numpy(), wanted, rtol=1e-5, atol=1e-6)


def test_refusals() -> None:
    fn = swa_utils.get_ema_avg_fn()
    with pytest.raises(tb.errors.ArgumentError, match="avg_fn and multi_avg_fn"):
        swa_utils.AveragedModel(Model(), avg_fn=fn, multi_avg_fn=fn)
    with pytest.raises(tb.errors.ArgumentError, match=r"decay is 1\.5"):
        swa_utils.get_ema_multi_avg_fn(1.5)
