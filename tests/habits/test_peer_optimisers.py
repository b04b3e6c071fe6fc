"""Optimisers beside PyTorch's, eager and recorded, over a dozen steps on parameters of several ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import trilobite as tb  # noqa: E402

pytestmark = [pytest.mark.peer, pytest.mark.filterwarnings("ignore")]
CASES: list[tuple[str, dict[str, Any]]] = [
    ("NAdam", {}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True, "lr": 0.01}),
    ("RAdam", {"lr": 0.01}),
    ("RAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("Adamax", {"weight_decay": 0.1}),
    ("Adadelta", {"weight_decay": 0.1}),
    ("Adafactor", {}),
    ("Adafactor", {"lr": 0.5, "weight_decay": 0.1, "d": 1.5, "maximize": True}),
]
SHAPES = ((3, 4), (5,), (2, 3, 4), ())


@pytest.mark.parametrize("name, settings", CASES)
def test_the_same_steps(name: str, settings: dict[str, Any]) -> None:
    start = [np.random.default_rng(i).normal(size=s) for i, s in enumerate(SHAPES)]
    theirs = [torch.nn.Parameter(torch.tensor(w)) for w in start]
    eager, recorded = ([tb.nn.Parameter(tb.tensor(w)) for w in start] for _ in range(2))
    peer = getattr(torch.optim, name)(theirs, **settings)
    plain, compiled = (getattr(tb.optim, name)(ps, **settings) for ps in (eager, recorded))
    step = tb.jit(compiled.step)
    for t in range(12):
        grads = [np.random.default_rng(100 * t + i).normal(size=s) for i, s in enumerate(SHAPES)]
        for i, g in enumerate(grads):
            theirs[i].grad = torch.tensor(g)
            eager[i].grad, recorded[i].grad = tb.tensor(g), tb.tensor(g)
        peer.step()
        plain.step()
        step()
    for a, b, c in zip(theirs, eager, recorded, strict=True):
        np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), atol=1e-9)
        np.testing.assert_allclose(c.detach().numpy(), b.detach().numpy(), atol=1e-12)
