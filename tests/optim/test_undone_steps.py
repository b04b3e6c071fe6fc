"""Steps on large parameters where something watches, and defaults that decide how long a search goes."""

from __future__ import annotations

import numpy as np
import pytest

import trilobite as tb
from trilobite import optim
from trilobite.framework.optim.blocks import BLOCK


@pytest.mark.parametrize("size", [2 * BLOCK, 2 * BLOCK + 1])
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_a_step_inside_a_checkpoint_counts_once_however_large(kind: str, size: int) -> None:
    """What a checkpointed function wrote is undone before it runs again in the backward pass."""
    rng = np.random.default_rng(1)
    start, slope = (rng.standard_normal(size).astype(np.float32) for _ in range(2))

    def stepped(checkpointed: bool) -> np.ndarray:
        p = tb.nn.Parameter(tb.tensor(start.copy()))
        optimiser = getattr(optim, kind)([p], lr=0.1)
        x = tb.tensor(np.ones(3, np.float32), requires_grad=True)

        def body(x: tb.Tensor) -> tb.Tensor:
            p.grad = tb.tensor(slope.copy())
            with tb.no_grad():
                optimiser.step()
            return (x * x * p.detach()[:3]).sum()

        (tb.checkpoint(body)(x) if checkpointed else body(x)).backward()
        return p.detach().numpy().copy()

    np.testing.assert_array_equal(stepped(True), stepped(False))


def test_a_search_evaluates_a_quarter_more_than_it_iterates() -> None:
    """Rosenbrock's valley, far from its floor: nothing else stops the search."""
    for iterations in (8, 20):
        x = tb.tensor(np.asarray([-1.9, 2.0]), requires_grad=True)
        optimiser = optim.LBFGS([x], lr=1e-3, max_iter=iterations, line_search_fn="strong_wolfe")
        calls = 0

        def closure(x: tb.Tensor = x, optimiser: optim.LBFGS = optimiser) -> tb.Tensor:
            nonlocal calls
            calls += 1
            optimiser.zero_grad()
            loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
            loss.backward()
            return loss

        optimiser.step(closure)
        assert optimiser.param_groups[0]["max_eval"] == iterations * 5 // 4
        assert iterations * 5 // 4 <= calls <= iterations * 5 // 4 + 25  # the last line search may finish
