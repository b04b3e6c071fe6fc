"""Line searches on functions of every kind, and L-BFGS at its limits."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import StateError
from trilobite.framework import optim
from trilobite.framework.optim.line_search import CURVATURE, SUFFICIENT, Point, Search, cubic_minimum


def leaf(*shape: int) -> Any:
    return tb.tensor(np.ones(shape, np.float32), requires_grad=True)


FUNCTIONS: dict[str, tuple[Callable[[float], float], Callable[[float], float]]] = {
    "bowl": (lambda t: (t - 3) ** 2, lambda t: 2 * (t - 3)),
    "far bowl": (lambda t: (t / 100 - 3) ** 2, lambda t: 2 * (t / 100 - 3) / 100),
    "narrow": (lambda t: 1e4 * (t - 1e-3) ** 2, lambda t: 2e4 * (t - 1e-3)),
    "quartic": (lambda t: (t - 2) ** 4 - t, lambda t: 4 * (t - 2) ** 3 - 1),
    "waves": (lambda t: -math.sin(5 * t) / 5 - 0.3 * t, lambda t: -math.cos(5 * t) - 0.3),
    "edge": (lambda t: -t if t < 1 else 5 * t - 6, lambda t: -1.0 if t < 1 else 5.0),
    "wall": (lambda t: -t if t < 2 else math.inf, lambda t: -1.0 if t < 2 else math.nan),
    "log": (lambda t: -math.log1p(t) + 0.05 * t * t, lambda t: -1 / (1 + t) + 0.1 * t),
    "saddle": (lambda t: (t - 1) ** 3 - 0.5 * t, lambda t: 3 * (t - 1) ** 2 - 0.5 if t else -1.0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("first", [1e-3, 0.1, 1.0, 7.0, 100.0])
def test_a_search_keeps_its_promises(name: str, first: float) -> None:
    value, slope = FUNCTIONS[name]
    seen: list[float] = []

    def at(step: float) -> tuple[float, float, Any]:
        seen.append(step)
        return value(step), slope(step), np.array([slope(step)])

    origin = Point(0.0, value(0.0), slope(0.0), np.array([slope(0.0)]))
    for limit in (1, 2, 5, 60):
        seen.clear()
        search = Search(at, origin, limit, 1e-12)
        found = search.run(first)
        assert search.evaluations == len(seen) <= limit and seen[0] == first and min(seen) > 0
        assert found.step in (0.0, *seen) and (found.step == 0.0 or found.value == value(found.step))
        if limit == 60 and name not in ("edge", "wall", "saddle"):
            assert found.value <= origin.value + SUFFICIENT * found.step * origin.slope
            assert abs(found.slope) <= -CURVATURE * origin.slope
        if limit >= 5:
            assert math.isfinite(found.value)


def test_cubics_have_their_minimum_where_numpy_says() -> None:
    rng = np.random.default_rng(6)
    for _ in range(200):
        a, b = rng.uniform(0, 3, 2)
        poly = np.polynomial.Polynomial(rng.standard_normal(4))
        slope = poly.deriv()
        points = [Point(t, float(poly(t)), float(slope(t)), np.zeros(1)) for t in (a, b)]
        roots = [x.real for x in slope.roots() if abs(x.imag) < 1e-12]
        lows = [x for x in roots if float(slope.deriv()(x)) > 0]
        found = cubic_minimum(*points, -77.0)
        if not lows:
            assert found == -77.0
        else:
            assert found == pytest.approx(lows[0], rel=1e-5, abs=1e-6)
    flat = Point(1.0, 2.0, -1.0, np.zeros(1))
    for other in (flat, flat._replace(step=2.0, value=math.inf), flat._replace(step=2.0, slope=math.nan)):
        assert cubic_minimum(flat, other, 9.0) == 9.0 and cubic_minimum(other, flat, 9.0) == 9.0


def test_an_interval_shrinks_by_a_tenth_at_least() -> None:
    """Where the cubic points at an end, twice in a row, the step is kept off it."""
    seen: list[float] = []

    def at(step: float) -> tuple[float, float, Any]:
        seen.append(step)
        return (-step if step < 0.011 else 1e6 * step), (-1.0 if step < 0.011 else 1e6), np.ones(1)

    origin = Point(0.0, 0.0, -1.0, np.ones(1))
    Search(at, origin, 25, 1e-9).run(1.0)
    low, high, widths = 0.0, 1.0, []
    for step in seen[1:]:
        assert low < step < high
        low, high = (step, high) if step < 0.011 else (low, step)
        widths.append(high - low)
    assert all(b <= 0.91 * a for a, b in zip(widths, widths[2:], strict=False))


def solve(history: int = 100, steps: int = 3, **given: Any) -> tuple[list[float], Any]:
    x = tb.tensor(np.array([-1.2, 1.0, 0.3]), requires_grad=True)
    optimizer = optim.LBFGS([x], history_size=history, **given)
    losses: list[float] = []

    def closure() -> Any:
        optimizer.zero_grad()
        loss = ((x[1:] - x[:-1] ** 2) ** 2 * 10 + (1 - x[:-1]) ** 2).sum()
        loss.backward()
        losses.append(loss.item())
        return loss

    for _ in range(steps):
        optimizer.step(closure)
    return losses, optimizer


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_limits_of_iterations_and_evaluations(search: Any) -> None:
    for iterations, evaluations in ((1, 100), (3, 100), (20, 1), (20, 4)):
        given = {"max_iter": iterations, "max_eval": evaluations, "line_search_fn": search, "lr": 0.05}
        losses, optimizer = solve(steps=1, **given)
        count = optimizer.state_dict()["memory"]["count"]
        assert count <= iterations
        if search is None:
            assert len(losses) == min(iterations, evaluations)
    assert optim.LBFGS([leaf(1)], max_iter=9).param_groups[0]["max_eval"] == 11


def test_states_of_a_search_go_on_as_before() -> None:
    one, first = solve(steps=2, line_search_fn="strong_wolfe", max_iter=4)
    state = copy.deepcopy(first.state_dict())
    for key in ("move", "gradient"):
        fresh = optim.LBFGS(
            [tb.tensor(np.zeros(3), requires_grad=True)], line_search_fn="strong_wolfe", max_iter=4
        )
        assert fresh.state_dict()["memory"][key] is None
        fresh.load_state_dict(fresh.state_dict())
        spoilt = copy.deepcopy(state)
        spoilt["memory"][key] = np.zeros(4)
        with pytest.raises(StateError, match="memory is of other parameters"):
            fresh.load_state_dict(spoilt)
        spoilt["memory"][key] = np.zeros(3, np.float32)
        with pytest.raises(StateError, match="memory is of other parameters"):
            fresh.load_state_dict(spoilt)
    assert one[-1] < one[0]


@pytest.mark.parametrize(
    ("slope", "curve", "lr", "still"),
    [(0.0, 1e4, 1e-3, 5e-3), (1e-2, 0.0, 0.1, 5e-5)],
    ids=["a small move", "a small fall"],
)
def test_either_a_small_move_or_a_small_fall_ends_it(
    slope: float, curve: float, lr: float, still: float
) -> None:
    x = tb.tensor(np.array([1e-3]), requires_grad=True)
    optimizer = optim.LBFGS([x], lr=lr, tolerance_change=still, tolerance_grad=1e-12)
    losses: list[float] = []

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (x * x * curve + x * slope).sum()
        loss.backward()
        losses.append(loss.item())
        return loss

    optimizer.step(closure)
    assert len(losses) == 2
    moved, fell = abs(x.item() - 1e-3), losses[0] - losses[1]
    assert (moved <= still) != (fell < still)
