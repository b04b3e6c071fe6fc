"""ASGD keeps a mean of its parameters from a step on; Rprop's steps are a matter of signs."""

from __future__ import annotations

import numpy as np
import pytest

import trilobite as tb
from trilobite import optim


def test_the_mean_begins_after_t0() -> None:
    w = tb.tensor(np.random.default_rng(0).standard_normal(4), requires_grad=True)
    optimizer, passed = optim.ASGD([w], lr=0.1, lambd=0.05, t0=2), []
    for t in range(1, 8):
        optimizer.zero_grad()
        (w**2).sum().backward()
        optimizer.step()
        passed.append(w.detach().numpy().copy())
        mean = optimizer.state[w]["ax"].numpy()
        np.testing.assert_allclose(mean, passed[-1] if t <= 4 else np.mean(passed[3:], axis=0), rtol=1e-12)
    state = optimizer.state[w]
    assert state["mu"].item() == pytest.approx(1 / 5)
    assert state["eta"].item() == pytest.approx(0.1 / (1 + 0.05 * 0.1 * 7) ** 0.75)


def test_an_element_that_turned_rests() -> None:
    w = tb.tensor([1.0, 1.0], requires_grad=True)
    optimizer = optim.Rprop([w], lr=0.1)
    seen = []
    for g in ([1.0, 1.0], [1.0, -1.0], [1.0, -1.0]):
        w.grad = tb.tensor(g)
        optimizer.step()
        seen.append(w.tolist())
    np.testing.assert_allclose(seen, [[0.9, 0.9], [0.78, 0.9], [0.636, 0.95]], rtol=1e-6)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"etas": (1.2, 0.5)}, "shrinks is 1.2"),
        ({"etas": (0.5, 0.9)}, "grows is 0.9"),
        ({"etas": 0.5}, "2 numbers"),
        ({"step_sizes": (2.0, 1.0)}, "the smallest step first"),
        ({"lr": -1.0}, "lr is -1.0"),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, object], text: str) -> None:
    with pytest.raises(tb.errors.ArgumentError, match=text):
        optim.Rprop([tb.ones(2, requires_grad=True)], **settings)  # type: ignore[arg-type]
