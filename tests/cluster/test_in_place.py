"""Steps over split tensors write where the step before wrote, unless somebody holds what lies there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite import cluster, nn, optim
from trilobite.cluster.sharding.function import local_array

X, Y = (np.random.default_rng(k).normal(size=(8, 6)) for k in (0, 1))


class Training:
    """Two layers and AdamW, as one process or split as columns and rows."""

    def __init__(self, mesh: Any = None) -> None:
        tb.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 6)).double()
        self.optimizer = optim.AdamW(self.model.parameters(), lr=0.05)
        self.run: Any = self.step
        if mesh is not None:
            cluster.shard(self.model, mesh, {"0.*": {"m": 0}, "2.weight": {"m": 1}})
            self.run = cluster.sharded(self.step, mesh=mesh)

    def step(self, x: Any, y: Any) -> Any:
        loss = ((self.model(x) - y) ** 2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss

    def steps(self, n: int, rows: int = 8) -> list[float]:
        x, y = tb.tensor(X[:rows]), tb.tensor(Y[:rows])
        return [float(self.run(x, y).item()) for _ in range(n)]

    def addresses(self) -> list[int]:
        state = [s for p in self.model.parameters() for s in (p, p.grad, *self.optimizer.state[p].values())]
        return [local_array(t._cell).ctypes.data for t in state if t.ndim]


def split() -> Training:
    return Training(cluster.mesh((2,), ("m",)))


@pytest.mark.counted
def test_parts_gradients_and_state_stay_where_they_are() -> None:
    def rank() -> tuple[list[float], bool]:
        t = split()
        losses = t.steps(2)
        seen = t.addresses()
        losses += t.steps(3)
        return losses, t.addresses() == seen

    want = Training().steps(5)
    for losses, same in cluster.lockstep(rank, 2):
        np.testing.assert_allclose(losses, want, rtol=1e-12)
        assert same


def test_a_gradient_that_somebody_holds_keeps_its_numbers() -> None:
    def rank() -> tuple[np.ndarray, np.ndarray, list[float]]:
        t = split()
        losses = t.steps(2)
        held, part = t.model[0].weight.grad, cluster.local(t.model[2].weight.grad).numpy()
        before, kept = cluster.whole(held).numpy().copy(), part.copy()
        losses += t.steps(2)
        assert held is not t.model[0].weight.grad
        np.testing.assert_array_equal(part, kept)
        return before, cluster.whole(held).numpy(), losses

    want = Training().steps(4)
    for before, after, losses in cluster.lockstep(rank, 2):
        np.testing.assert_array_equal(before, after)
        np.testing.assert_allclose(losses, want, rtol=1e-12)


def test_weights_that_another_function_reads_are_those_of_the_last_step() -> None:
    def trained(t: Training, mesh: Any) -> list[float]:
        def size(x: Any) -> Any:
            with tb.no_grad():
                return (t.model(x) ** 2).sum()

        judged: Any = size if mesh is None else cluster.sharded(size, mesh=mesh)
        out = []
        for rows in (8, 6, 8, 8, 6):
            out += [*t.steps(1, rows), float(judged(tb.tensor(X)).item())]
        return out

    def rank() -> list[float]:
        mesh = cluster.mesh((2,), ("m",))
        return trained(Training(mesh), mesh)

    want = trained(Training(), None)
    for found in cluster.lockstep(rank, 2):
        np.testing.assert_allclose(found, want, rtol=1e-12)


def test_a_run_that_fails_leaves_no_half_written_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise MemoryError("in the middle")

    def rank() -> list[bool]:
        t = split()
        t.steps(2)
        _, plan = list(t.run._plans.values())[-1]
        assert plan.prepared is not None
        with monkeypatch.context() as m:
            m.setattr(plan.prepared, "run", fails)
            with pytest.raises(MemoryError):
                t.steps(1)
        return [p.grad is None for p in t.model.parameters()]

    assert all(map(all, cluster.lockstep(rank, 2)))
