"""A jitted step is the eager step, bit for bit over 100 steps: every optimiser, with schedules,
statistics, dropout.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from optim_reference import CASES

import trilobite as tb
from trilobite.framework import nn, optim

DATA = np.random.default_rng(11).normal(size=(16, 5)).astype(np.float32)

SCHEDULES: dict[str, Callable[[Any], Any]] = {
    "lambda": lambda o: optim.LambdaLR(o, lambda t: 0.98**t),
    "step": lambda o: optim.StepLR(o, 7, 0.7),
    "multistep": lambda o: optim.MultiStepLR(o, [3, 30, 31], 0.5),
    "exponential": lambda o: optim.ExponentialLR(o, 0.97),
    "cosine": lambda o: optim.CosineAnnealingLR(o, 40, 1e-4),
    "restarts": lambda o: optim.CosineAnnealingWarmRestarts(o, 5, 2, 1e-4),
    "one cycle": lambda o: optim.OneCycleLR(o, 0.05, 80, cycle_momentum=False),
    "warm-up": lambda o: optim.LinearLR(o, 0.1, 1.0, 20),
    "polynomial": lambda o: optim.PolynomialLR(o, 90, 2.0),
    "sequential": lambda o: optim.SequentialLR(
        o, [optim.LinearLR(o, 0.1, 1.0, 10), optim.CosineAnnealingLR(o, 50)], [10]
    ),
    "chained": lambda o: optim.ChainedScheduler([optim.ExponentialLR(o, 0.99), optim.StepLR(o, 20, 0.5)]),
    "plateau": lambda o: optim.ReduceLROnPlateau(o, patience=2, factor=0.5, cooldown=1),
}


def make_model() -> nn.Module:
    """Running statistics, dropout and weights of several shapes."""
    return nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Dropout(0.2), nn.Linear(6, 3))


def train(case: str, schedule: str, jitted: bool, steps: int = 100) -> list[np.ndarray]:
    tb.manual_seed(9)
    name, _, settings = CASES[case]
    model = make_model()
    optimizer = getattr(optim, name)(model.parameters(), **{**settings, "maximize": False})
    made = SCHEDULES[schedule](optimizer)

    def step(x: tb.Tensor) -> tb.Tensor:
        loss = nn.functional.mse_loss(model(x), x[:, :3])
        optimizer.zero_grad()
        loss.backward()
        optim.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        made.step(loss) if schedule == "plateau" else made.step()
        return loss

    run = tb.jit(step, target="reference") if jitted else step
    losses = [run(tb.tensor(DATA)).item() for _ in range(steps)]
    if jitted:
        assert sum(map(len, run.entries.values())) <= 2, run.recompilations
    state = [t for kept in optimizer.state.values() for t in kept.values()]
    numbers = [v for group in optimizer.param_groups for v in group.numbers().values()]
    tensors = [*model.state_dict().values(), *state, *numbers, *made._tensors().values()]
    return [np.array(losses), *(t.detach().numpy().copy() for t in tensors)]


def same(case: str, schedule: str, steps: int = 100) -> None:
    runs = (train(case, schedule, jitted, steps) for jitted in (False, True))
    for a, b in zip(*runs, strict=True):
        np.testing.assert_array_equal(a.view(np.uint8) if a.ndim else a, b.view(np.uint8) if b.ndim else b)


@pytest.mark.parametrize("case", CASES)
def test_every_optimiser_with_a_schedule(case: str) -> None:
    same(case, list(SCHEDULES)[list(CASES).index(case) % len(SCHEDULES)])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_schedule_with_adam(schedule: str) -> None:
    same("adam", schedule, 40)


def test_one_cycle_moves_the_momentum_under_jit() -> None:
    def run(jitted: bool) -> list[float]:
        p = tb.tensor([3.0, -1.0], requires_grad=True)
        optimizer = optim.SGD([p], lr=0.1, momentum=0.9)
        schedule = optim.OneCycleLR(optimizer, 0.3, 20)

        def step() -> tb.Tensor:
            loss = (p * p).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            return optimizer.param_groups[0]["momentum"] * 1.0

        f = tb.jit(step, target="reference") if jitted else step
        return [f().item() for _ in range(25)] + p.detach().tolist()

    eager, jitted = run(False), run(True)
    assert eager == jitted
    assert min(eager[:25]) == pytest.approx(0.85) and len(set(eager[:20])) > 15


def test_a_rate_that_is_set_outside_reaches_a_recorded_step() -> None:
    p = tb.tensor([1.0], requires_grad=True)
    optimizer = optim.SGD([p], lr=0.5)

    @tb.jit
    def step() -> None:
        p.grad = tb.ones(1)
        optimizer.step()

    step()
    optimizer.param_groups[0]["lr"] = 0.25
    step()
    assert p.detach().tolist() == [0.25]
    assert len(step.recompilations) <= 1, "a new rate is a new value, not a new program"


def test_the_update_of_a_parameter_is_one_equation_by_name() -> None:
    p = tb.tensor([1.0, 2.0], requires_grad=True)
    optimizer = optim.Adam([p])

    def step(g: tb.Tensor) -> None:
        p.grad = g
        optimizer.step()

    graph = tb.make_graph(step)(tb.ones(2))
    calls = [e.attributes["name"] for e in graph.equations if e.primitive.name == "call"]
    assert calls == ["adam_update"]


def test_the_first_step_may_be_a_recorded_one() -> None:
    def run(wrap: Any) -> list[float]:
        p = tb.tensor([1.0, -2.0, 0.5], requires_grad=True)
        optimizer = optim.Adam([p], lr=0.1)

        def step() -> None:
            optimizer.zero_grad()
            (p * p * p).sum().backward()
            optimizer.step()

        first = wrap(step)
        first()
        step()
        first()
        return p.detach().tolist()

    assert run(partial(tb.jit, target="reference")) == run(lambda f: f)


def test_state_moves_between_eager_and_recorded_steps() -> None:
    p = tb.tensor([4.0], requires_grad=True)
    optimizer = optim.Adam([p], lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        (p * p).sum().backward()
        optimizer.step()

    jitted = tb.jit(step, target="reference")
    for f in (jitted, step, jitted, jitted, step):
        f()
    assert optimizer.state[p]["step"].item() == 5


def test_adding_a_group_while_recording_is_an_error() -> None:
    p, q = (tb.tensor([1.0], requires_grad=True) for _ in range(2))
    optimizer = optim.SGD([p])
    with pytest.raises(RuntimeError, match=r"add_param_group while a function is being recorded"):
        tb.jit(lambda: optimizer.add_param_group({"params": [q]}))()
    saved = optimizer.state_dict()
    with pytest.raises(RuntimeError, match=r"load_state_dict while a function is being recorded"):
        tb.jit(lambda: optimizer.load_state_dict(saved))()


def test_python_attributes_stay_while_a_function_is_recorded() -> None:
    p = tb.tensor([1.0], requires_grad=True)
    optimizer = optim.SGD([p])
    guarded = [optimizer, optim.StepLR(optimizer, 2), optim.GradScaler(), optim.ExponentialMovingAverage([p])]
    for thing in guarded:

        def change(thing: Any = thing) -> None:
            thing.note = 1

        with pytest.raises(
            RuntimeError, match=rf"{type(thing).__name__}.note is set while a function is being recorded"
        ):
            tb.jit(change)()
        change()


def test_an_optimiser_may_live_inside_a_recorded_function() -> None:
    """An inner loop of its own: parameters and state are born and used in one run."""

    def inner(start: tb.Tensor) -> tb.Tensor:
        w = (start * 1.0).detach().clone().requires_grad_()
        optimizer = optim.Adam([w], lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            ((w - 2.0) ** 2).sum().backward()
            optimizer.step()
        return w.detach() * 1.0

    x = tb.tensor([0.5, -1.0])
    np.testing.assert_array_equal(tb.jit(inner, target="reference")(x).numpy(), inner(x).numpy())


def test_gradients_that_are_new_tensors_every_time_are_read_anew() -> None:
    """backward() outside leaves another tensor as the gradient each time; a recorded step must see that
    one.
    """

    def run(jitted: bool) -> list[float]:
        p = tb.tensor([1.0, -2.0], requires_grad=True)
        optimizer = optim.SGD([p], lr=0.5, momentum=0.9)

        def step() -> None:
            optim.clip_grad_norm_([p], 3.0)
            optimizer.step()

        f = tb.jit(step, target="reference") if jitted else step
        norms = []
        for k in (1.0, 10.0, 0.1, 5.0):
            optimizer.zero_grad()
            (p * p * k).sum().backward()
            f()
            norms.append(optim.grad_norm([p]).item())
        p.grad = tb.tensor([[7.0, 8.0]]).reshape(2)
        f()
        if jitted:
            assert f.recompilations == ["the gradient of a parameter is another view of its memory"]
        return norms + p.detach().tolist()

    assert run(True) == run(False)
