"""L-BFGS: minima found, conditions of the line search met, state restored, refused inside jit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ArgumentError, StateError, TraceError
from trilobite.framework import optim
from trilobite.framework.optim.line_search import CURVATURE, SUFFICIENT, Point, Search


def rosenbrock(x: tb.Tensor) -> tb.Tensor:
    a, b = x[1:] - x[:-1] * x[:-1], 1.0 - x[:-1]
    return (a * a * 100.0 + b * b).sum()


def minimise(x: tb.Tensor, f: Any, calls: int, **settings: Any) -> tuple[optim.LBFGS, list[float]]:
    optimizer = optim.LBFGS([x], **settings)
    seen = []

    def closure() -> tb.Tensor:
        optimizer.zero_grad()
        loss = f(x)
        loss.backward()
        seen.append(loss.item())
        return loss

    for _ in range(calls):
        optimizer.step(closure)
    return optimizer, seen


def test_rosenbrock_s_valley_to_its_end() -> None:
    x = tb.tensor(np.array([-1.2, 1.0, 0.7, -0.4, 2.0]), requires_grad=True)
    settings = {"line_search_fn": "strong_wolfe", "max_iter": 50, "max_eval": 500, "tolerance_change": 1e-14}
    _, seen = minimise(x, rosenbrock, 10, **settings)
    np.testing.assert_allclose(x.detach().numpy(), np.ones(5), atol=1e-6)
    assert len(seen) < 200


@pytest.mark.parametrize("history", [1, 3, 100])
def test_a_quadratic_is_solved_exactly(history: int) -> None:
    rng = np.random.default_rng(1)
    q = rng.normal(size=(6, 6))
    a, b = q @ q.T + np.eye(6), rng.normal(size=6)
    x = tb.tensor(np.zeros(6), requires_grad=True)
    at, bt = tb.tensor(a), tb.tensor(b)
    minimise(x, lambda x: ((at @ x) * x).sum() * 0.5 - (bt * x).sum(), 20, line_search_fn="strong_wolfe",
             history_size=history, tolerance_change=1e-14, tolerance_grad=1e-12)  # fmt: skip
    np.testing.assert_allclose(x.detach().numpy(), np.linalg.solve(a, b), rtol=1e-5, atol=1e-6)


def test_without_a_line_search_the_rate_decides() -> None:
    x = tb.tensor(np.array([3.0, -2.0]), requires_grad=True)
    minimise(x, lambda x: (x * x).sum(), 5, lr=0.5)
    np.testing.assert_allclose(x.detach().numpy(), 0.0, atol=1e-3)


def test_several_tensors_of_several_kinds_are_one_vector() -> None:
    a = tb.tensor([1.0, 2.0], requires_grad=True)
    z = tb.tensor([1.0 - 2.0j], requires_grad=True)
    still = tb.tensor([5.0], requires_grad=True)
    optimizer = optim.LBFGS([a, z, still], line_search_fn="strong_wolfe")

    def closure() -> tb.Tensor:
        optimizer.zero_grad()
        distance = z - (0.5 + 0.25j)
        loss = ((a - 3.0) ** 4).sum() + (tb.abs(distance) ** 2).sum()
        loss.backward()
        return loss

    for _ in range(10):
        optimizer.step(closure)
    np.testing.assert_allclose(a.detach().numpy(), 3.0, atol=0.05)
    np.testing.assert_allclose(z.detach().numpy(), [0.5 + 0.25j], atol=1e-3)
    assert still.detach().tolist() == [5.0]


def test_it_returns_the_first_loss_and_stops_at_a_minimum() -> None:
    x = tb.tensor([0.0, 0.0], requires_grad=True)
    optimizer, seen = minimise(x, lambda x: (x * x).sum(), 1, line_search_fn="strong_wolfe")
    assert seen == [0.0]
    assert optimizer.step(lambda: (x * x).sum()).item() == 0.0


def test_restored_it_goes_on_with_the_same_bits() -> None:
    def run(split: bool) -> bytes:
        x = tb.tensor(np.array([-1.2, 1.0, 0.3]), requires_grad=True)
        optimizer, _ = minimise(x, rosenbrock, 2, max_iter=4, line_search_fn="strong_wolfe")
        if split:
            saved, values = optimizer.state_dict(), x.detach().numpy().copy()
            x = tb.tensor(values, requires_grad=True)
            optimizer = optim.LBFGS([x], max_iter=4, line_search_fn="strong_wolfe")
            optimizer.load_state_dict(saved)

        def closure() -> tb.Tensor:
            optimizer.zero_grad()
            loss = rosenbrock(x)
            loss.backward()
            return loss

        for _ in range(3):
            optimizer.step(closure)
        return x.detach().numpy().tobytes()

    assert run(True) == run(False)


def test_a_memory_of_other_parameters_is_refused() -> None:
    x = tb.tensor([1.0, 2.0], requires_grad=True)
    optimizer, _ = minimise(x, lambda x: (x * x).sum(), 1, max_iter=2, lr=0.1)
    other = optim.LBFGS([tb.tensor([1.0], requires_grad=True)], max_iter=2, lr=0.1)
    with pytest.raises(StateError, match="its memory is of other parameters"):
        other.load_state_dict(optimizer.state_dict())


def test_inside_jit_it_says_that_it_is_eager_only() -> None:
    x = tb.tensor([1.0], requires_grad=True)
    optimizer = optim.LBFGS([x])
    with pytest.raises(
        TraceError, match=r"LBFGS.step\(\) while a function is being recorded[\s\S]*remedy: jit the"
    ):
        tb.jit(lambda: optimizer.step(lambda: (x * x).sum()))()


def test_wrong_uses() -> None:
    x, y = (tb.tensor([1.0], requires_grad=True) for _ in range(2))
    with pytest.raises(ArgumentError, match=r"LBFGS.step\(\) without a closure"):
        optim.LBFGS([x]).step()
    with pytest.raises(ArgumentError, match="several parameter groups"):
        optim.LBFGS([{"params": [x]}, {"params": [y]}])
    with pytest.raises(ArgumentError, match="'strong_wolfe' or None"):
        optim.LBFGS([x], line_search_fn="wolf")
    with pytest.raises(ArgumentError, match="history_size is 0"):
        optim.LBFGS([x], history_size=0)


# ---- the line search alone ----


@pytest.mark.parametrize("first", [1e-3, 0.1, 1.0, 10.0, 300.0])
@pytest.mark.parametrize("kind", range(4))
def test_the_step_satisfies_both_conditions(kind: int, first: float) -> None:
    f, d = [
        (lambda t: (t - 2.0) ** 2, lambda t: 2 * (t - 2.0)),
        (lambda t: -t / (t * t + 2.0), lambda t: (t * t - 2.0) / (t * t + 2.0) ** 2),
        (lambda t: np.exp(-t) + 0.01 * t * t, lambda t: -np.exp(-t) + 0.02 * t),
        (lambda t: np.cos(3 * t) + 0.3 * t * t - 0.5 * t, lambda t: -3 * np.sin(3 * t) + 0.6 * t - 0.5),
    ][kind]
    origin = Point(0.0, float(f(0.0)), float(d(0.0)), np.zeros(1))
    search = Search(lambda t: (float(f(t)), float(d(t)), np.array([d(t)])), origin, 50, 1e-12)
    p = search.run(first)
    assert p.value <= origin.value + SUFFICIENT * p.step * origin.slope
    assert abs(p.slope) <= -CURVATURE * origin.slope


def test_a_step_into_the_undefined_comes_back() -> None:
    f = lambda t: -np.log(1.0 - t) - 3 * t if t < 1 else np.nan  # noqa: E731
    d = lambda t: 1 / (1.0 - t) - 3 if t < 1 else np.nan  # noqa: E731
    origin = Point(0.0, 0.0, -2.0, np.array([-2.0]))
    p = Search(lambda t: (float(f(t)), float(d(t)), np.array([d(t)])), origin, 40, 1e-12).run(5.0)
    assert 0 < p.step < 1 and p.value < 0


def test_a_far_minimum_is_reached_in_a_few_steps() -> None:
    """Where values and slopes fit no cubic with a minimum, the step grows by its most, not by its least."""
    f = lambda t: np.hypot(1.0, t - 300.0)  # noqa: E731
    d = lambda t: (t - 300.0) / np.hypot(1.0, t - 300.0)  # noqa: E731
    origin = Point(0.0, float(f(0.0)), float(d(0.0)), np.zeros(1))
    search = Search(lambda t: (float(f(t)), float(d(t)), np.array([d(t)])), origin, 25, 1e-12)
    assert abs(search.run(1.0).step - 300.0) < 5.0 and search.evaluations < 12


@pytest.mark.parametrize(("search", "calls"), [(None, 5), ("strong_wolfe", None)])
def test_no_more_evaluations_than_needed(search: str | None, calls: int | None) -> None:
    """Without a search the loss behind the last iteration is the next step's first."""
    x, seen = tb.tensor([-1.2, 1.0], dtype=tb.float64, requires_grad=True), []
    opt = optim.LBFGS([x], lr=1e-3 if search is None else 1.0, max_iter=5, line_search_fn=search)

    def closure() -> tb.Tensor:
        opt.zero_grad()
        loss = rosenbrock(x)
        loss.backward()
        seen.append(x.detach().numpy().tobytes())
        return loss

    opt.step(closure)
    assert calls is None or len(seen) == calls
    assert len(set(seen)) == len(seen)
