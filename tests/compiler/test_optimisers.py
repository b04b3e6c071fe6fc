"""Training on the target `cpu` beside eager: every optimiser, accumulated and clipped gradients, autocast,
loss scaling, averages of weights. What is compared: every loss, every parameter, all state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.framework import nn, optim

STEPS = 20
OPTIMISERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda p: optim.SGD(p, lr=0.1, weight_decay=0.01),
    "momentum": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.1),
    "nesterov": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "adagrad": lambda p: optim.Adagrad(p, lr=0.1, lr_decay=0.01),
    "rmsprop": lambda p: optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
    "adam": lambda p: optim.Adam(p, lr=0.01, amsgrad=True),
    "adamw": lambda p: optim.AdamW(p, lr=0.01, weight_decay=0.1),
    "lion": lambda p: optim.Lion(p, lr=0.01, weight_decay=0.1),
    "lamb": lambda p: optim.LAMB(p, lr=0.02, weight_decay=0.05),
    "nadam": lambda p: optim.NAdam(p, lr=0.01),
    "radam": lambda p: optim.RAdam(p, lr=0.01),
    "adamax": lambda p: optim.Adamax(p, lr=0.01),
    "adadelta": lambda p: optim.Adadelta(p, lr=0.5),
    "adafactor": lambda p: optim.Adafactor(p, lr=0.01),
    "asgd": lambda p: optim.ASGD(p, lr=0.1, lambd=1e-2, t0=3, weight_decay=0.01),
    "rprop": lambda p: optim.Rprop(p, lr=0.01),
}
Step = Callable[[Any, Any], Any]


def data(i: int, *shape: int) -> Any:
    return tb.tensor(np.random.default_rng(100 + i).standard_normal(shape).astype(np.float32))


def model() -> Any:
    tb.manual_seed(5)
    return nn.Sequential(nn.Linear(9, 17), nn.Tanh(), nn.Linear(17, 13), nn.GELU(), nn.Linear(13, 3))


def train(
    make: Callable[[Any], tuple[Step, Callable[[], list[Any]]]], compiled: bool, steps: int
) -> list[Any]:
    net = model()
    step, state = make(net)
    run = tb.jit(step) if compiled else step
    losses = [np.array(run(data(i, 11, 9), data(50 + i, 11, 3)).detach().numpy()) for i in range(steps)]
    if compiled:
        assert sum(map(len, run.entries.values())) <= 2, run.recompilations
    return [np.array(losses), *(np.array(t.detach().numpy()) for t in (*net.parameters(), *state()))]


def compare(make: Any, tolerance: float = 2e-5, steps: int = STEPS) -> None:
    want, got = train(make, False, steps), train(make, True, steps)
    assert len(got) == len(want)
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        assert a.dtype == b.dtype and a.shape == b.shape
        size = np.abs(b.astype(np.float64)).max(initial=1e-12)
        off = np.abs(a.astype(np.float64) - b.astype(np.float64)).max(initial=0.0)
        assert off <= tolerance * size, f"array {i} is off by {off / size}"
    assert not np.array_equal(want[0][0], want[0][-1])


def state_of(optimizer: Any) -> list[Any]:
    return [t for kept in optimizer.state.values() for t in kept.values()]


def test_every_optimiser_is_here() -> None:
    named = {type(make([tb.nn.Parameter(tb.ones(2))])).__name__ for make in OPTIMISERS.values()}
    classes = {
        n for n, c in vars(optim).items() if isinstance(c, type) and issubclass(c, optim.Optimizer)
    } - {"Optimizer", "LBFGS"}  # LBFGS searches along a line in Python; its own test is below
    assert named == classes


@pytest.mark.parametrize("name", OPTIMISERS)
def test_an_optimiser(name: str) -> None:
    def make(net: Any) -> Any:
        optimizer = OPTIMISERS[name](net.parameters())

        def step(x: Any, y: Any) -> Any:
            loss = nn.functional.mse_loss(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        return step, lambda: state_of(optimizer)

    compare(make, 1e-3 if name in ("lion", "rmsprop", "lamb") else 1e-4)


def test_lbfgs_with_a_compiled_closure() -> None:
    losses = []
    for compiled in (False, True):
        net, x, y = model(), data(0, 11, 9), data(1, 11, 3)
        optimizer = optim.LBFGS(net.parameters(), lr=0.5, max_iter=4)

        def closure(net: Any = net, optimizer: Any = optimizer, x: Any = x, y: Any = y) -> Any:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(net(x), y)
            loss.backward()
            return loss

        run = tb.jit(closure) if compiled else closure
        losses.append([float(optimizer.step(run).detach().numpy()) for _ in range(4)])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-3)
    assert losses[0][-1] < 0.8 * losses[0][0]


def test_gradients_accumulated_over_calls() -> None:
    def make(net: Any) -> Any:
        optimizer = optim.Adam(net.parameters(), lr=0.01)
        for p in net.parameters():
            p.grad = tb.zeros_like(p)

        def step(x: Any, y: Any) -> Any:
            for part in range(3):
                loss = nn.functional.mse_loss(net(x[part::3]), y[part::3]) / 3
                loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
            return loss

        return step, lambda: state_of(optimizer)

    compare(make, 1e-4)


@pytest.mark.parametrize("kind", ["norm", "value"])
def test_clipped_gradients(kind: str) -> None:
    def make(net: Any) -> Any:
        optimizer = optim.SGD(net.parameters(), lr=0.2, momentum=0.9)

        def step(x: Any, y: Any) -> Any:
            loss = nn.functional.mse_loss(net(x), y) * 10.0
            optimizer.zero_grad()
            loss.backward()
            if kind == "norm":
                optim.clip_grad_norm_(net.parameters(), 0.3)
            else:
                optim.clip_grad_value_(net.parameters(), 0.05)
            optimizer.step()
            return loss

        return step, lambda: state_of(optimizer)

    compare(make, 1e-4)


@pytest.mark.parametrize("dtype", [tb.bfloat16, tb.float16], ids=str)
def test_autocast_with_loss_scaling(dtype: Any) -> None:
    """Every fifth loss is infinite: those steps are left out, and the scale shrinks."""

    def make(net: Any) -> Any:
        optimizer = optim.SGD(net.parameters(), lr=0.05, momentum=0.5)  # not the sign of a tiny gradient
        scaler = optim.GradScaler(init_scale=1024.0, growth_interval=3)
        count = tb.zeros(())

        def step(x: Any, y: Any) -> Any:
            count.add_(1.0)
            with tb.autocast(dtype):
                out = net(x)
            loss = nn.functional.mse_loss(out.to(tb.float32), y)
            optimizer.zero_grad()
            scaler.scale(loss * tb.where(count % 5.0 == 0.0, float("inf"), 1.0)).backward()
            scaler.unscale_(optimizer)
            optim.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            return loss

        return step, lambda: [scaler._scale, count]

    compare(make, 0.03)


def test_averages_of_weights() -> None:
    def make(net: Any) -> Any:
        optimizer = optim.SGD(net.parameters(), lr=0.1)
        slow, mean = optim.ExponentialMovingAverage(net, 0.9), optim.StochasticWeightAverage(net)

        def step(x: Any, y: Any) -> Any:
            loss = nn.functional.mse_loss(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            slow.update()
            mean.update()
            return loss

        return step, lambda: [
            t for a in (slow, mean) for t in a.state_dict().values() if isinstance(t, tb.Tensor)
        ]

    compare(make, 1e-4)
