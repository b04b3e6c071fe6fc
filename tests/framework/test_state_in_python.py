"""Tensors that a compiled function keeps in Python from one call to the next: an error, or as eagerly."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite import nn, optim
from trilobite.base.errors import TraceError

X = np.array([1.0, -2.0], np.float32)


def in_dict() -> Callable[[Any], Any]:
    kept: dict[str, Any] = {}

    def f(x: Any) -> Any:
        if "m" not in kept:
            kept["m"] = tb.zeros(2)
        kept["m"] = 0.9 * kept["m"] + x
        return kept["m"].sum()

    return f


def in_attribute() -> Callable[[Any], Any]:
    class Average:
        mean: Any = None

    average = Average()

    def f(x: Any) -> Any:
        average.mean = x if average.mean is None else 0.9 * average.mean + x
        return average.mean.sum()

    return f


def in_list() -> Callable[[Any], Any]:
    state: list[Any] = [tb.zeros(2)]

    def f(x: Any) -> Any:
        state[0] = 0.9 * state[0] + x
        return state[0].sum()

    return f


def in_queue() -> Callable[[Any], Any]:
    queue: deque[Any] = deque(maxlen=2)

    def f(x: Any) -> Any:
        queue.append(2 * x)
        return sum(queue).sum()  # type: ignore[attr-defined]

    return f


def in_closure() -> Callable[[Any], Any]:
    state = tb.zeros(2)

    def f(x: Any) -> Any:
        nonlocal state
        state = 0.9 * state + x
        return state.sum()

    return f


@pytest.mark.parametrize("make", [in_dict, in_attribute, in_list, in_queue, in_closure])
def test_what_the_next_call_would_read_is_refused(make: Callable[[], Callable[[Any], Any]]) -> None:
    with pytest.raises(TraceError, match="made while a function was being recorded is used outside"):
        tb.jit(make())(tb.tensor(X))


def test_what_is_kept_but_not_read_again_is_no_error() -> None:
    """Hooks that collect features, of a call that reads its own ones."""
    features: list[Any] = []
    layer = nn.Linear(2, 2)
    layer.register_forward_hook(lambda module, given, out: features.append(out))

    def f(x: Any) -> Any:
        features.clear()
        return layer(x).sum() + features[0].prod()

    wanted = [f(tb.tensor(X + i)).item() for i in range(3)]
    compiled = tb.jit(f)
    assert [compiled(tb.tensor(X + i)).item() for i in range(3)] == pytest.approx(wanted, rel=1e-5)
    assert compiled.recompilations == []


def test_a_log_is_recorded_once() -> None:
    log: list[Any] = []

    def f(x: Any) -> Any:
        log.append(2 * x)
        return x.sum()

    compiled = tb.jit(f)
    assert [compiled(tb.tensor(X)).item() for _ in range(4)] == [-1.0] * 4
    assert compiled.recompilations == [] and len(log) == 1


class Momentum(optim.Optimizer):
    """As optimisers are written for PyTorch: state made in the first step."""

    def __init__(self, params: Any, replaced: bool, counted: Any) -> None:
        super().__init__(params, {"lr": 0.1})
        self.replaced, self.counted = replaced, counted

    @tb.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                row = self.state[p]
                if len(row) == 0:
                    row["m"], row["step"] = tb.zeros_like(p), self.counted()
                row["step"] += 1
                if self.replaced:
                    row["m"] = 0.9 * row["m"] + p.grad
                else:
                    row["m"].mul_(0.9).add_(p.grad)
                p.add_(row["m"] / row["step"], alpha=-group["lr"])


def losses(replaced: bool, compiled: bool, counted: Any = lambda: tb.tensor(0.0)) -> tuple[list[float], Any]:
    model = nn.Linear(2, 1)
    with tb.no_grad():
        model.weight.copy_(tb.tensor([[0.5, -0.3]]))
        model.bias.fill_(0.1)
    opt = Momentum(model.parameters(), replaced, counted)

    def step(x: Any) -> Any:
        opt.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        opt.step()
        return loss

    run = tb.jit(step) if compiled else step
    found = [run(tb.tensor(X * (i + 1))).item() for i in range(5)]
    return found, {k: v.tolist() for k, v in opt.state[model.weight].items()}


@pytest.mark.parametrize("replaced", [False, True])
def test_optimisers_in_pytorchs_manner_keep_their_state(replaced: bool) -> None:
    (eager, kept), (found, there) = losses(replaced, False), losses(replaced, True)
    assert found == pytest.approx(eager, rel=1e-5)
    assert there["step"] == kept["step"] == 5.0
    np.testing.assert_allclose(there["m"], kept["m"], rtol=1e-5)


def test_counts_of_python_in_a_recorded_step_are_refused() -> None:
    with pytest.raises(TraceError, match="'step' in the state of a parameter is a number of Python"):
        losses(False, True, lambda: 0)
