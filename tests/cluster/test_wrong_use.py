"""What people write who come from one process: it is right, or all ranks raise; no rank trains alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite import cluster, nn, optim
from trilobite.base.errors import ClusterError, GradientError
from trilobite.framework.nn import functional as F

RNG = np.random.default_rng(4)
X, Y = RNG.normal(size=(3, 12, 6)), RNG.normal(size=(3, 12, 3))
STAGES = (0, 1, 2, 3)  # of ZeRO; 0 is data parallel


class Two(nn.Module):
    """Two layers of one shape, of which a call uses one."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.head = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x: Any, which: int = 0) -> Any:
        return self.head(F.tanh((self.b if which else self.a)(x)))


def made() -> Two:
    tb.manual_seed(1)
    return Two().double()


def adam(ps: Any) -> Any:
    return optim.AdamW(ps, lr=0.01)


def wrapped(model: nn.Module, stage: int) -> tuple[Any, Any, Any]:
    """The model on all ranks, its optimiser, and whose step it is."""
    if stage == 0:
        optimizer = adam(model.parameters())
        return cluster.DataParallel(model), optimizer, optimizer
    zero = cluster.Zero(model, adam, stage)
    return zero, zero.optimizer, zero


def numbers(w: Any) -> np.ndarray:
    found = w.parameters_whole() if isinstance(w, cluster.Zero) else dict(w.module.named_parameters())
    return np.concatenate([p.detach().numpy().ravel() for p in found.values()])


def own(k: int) -> tuple[Any, Any]:
    return cluster.own_rows(tb.tensor(X[k])), cluster.own_rows(tb.tensor(Y[k]))


def agree(rank: Callable[[], np.ndarray], want: np.ndarray, ranks: int) -> None:
    for found in cluster.lockstep(rank, ranks):
        np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("stage", STAGES)
def test_layers_that_some_ranks_alone_use(stage: int, ranks: int) -> None:
    """Of one shape, so that sums would fit. They are summed by name, or all ranks raise."""

    def rank() -> np.ndarray:
        w, _, stepped = wrapped(made(), stage)
        x, y = own(0)
        ((w(x, cluster.rank() % 2) - y) ** 2).mean().backward()
        w.reduce_gradients()
        stepped.step()
        return numbers(w)

    if stage > 1:
        with pytest.raises(ClusterError, match="parameters"):
            cluster.lockstep(rank, ranks)
        return
    model = made()
    optimizer = adam(model.parameters())
    rows = [np.array_split(v[0], ranks) for v in (X, Y)]
    losses = [((model(tb.tensor(x), k % 2) - tb.tensor(y)) ** 2).mean()
              for k, (x, y) in enumerate(zip(*rows, strict=True))]  # fmt: skip
    (sum(losses[1:], losses[0]) / ranks).backward()
    optimizer.step()
    agree(rank, np.concatenate([p.detach().numpy().ravel() for p in model.parameters()]), ranks)


def test_compiled_ranks_that_use_other_layers_raise() -> None:
    def rank() -> None:
        w, optimizer, _ = wrapped(made(), 0)

        @tb.jit
        def step(x: Any, y: Any) -> None:
            optimizer.zero_grad()
            ((w(x, cluster.rank()) - y) ** 2).mean().backward()
            w.reduce_gradients()
            optimizer.step()

        step(*own(0))

    with pytest.raises(ClusterError, match="gradients of parameters"):
        cluster.lockstep(rank, 2)


def test_a_sum_that_was_left_out_before_a_step() -> None:
    def rank(rows: int | None) -> None:
        w, optimizer, _ = wrapped(made(), 0)
        w.rows = rows
        for k in range(2):
            optimizer.zero_grad()
            x, y = own(k)
            ((w(x) - y) ** 2).mean().backward()
            optimizer.step()

    for rows in (None, 12):
        with pytest.raises(ClusterError, match="left out"):
            cluster.lockstep(rank, 2, rows)


def trained(step: Callable[[int, Any, Any, Any], Any]) -> tuple[Any, Any]:
    """Three steps of one process."""
    model = made()
    optimizer = adam(model.parameters())
    for k in range(3):
        optimizer.zero_grad()
        x = tb.tensor(X[k])
        loss = ((model(x) - tb.tensor(Y[k])) ** 2).mean()
        step(k, loss, model, optimizer)
    return model, optimizer


@pytest.mark.parametrize("stage", STAGES)
def test_the_optimisers_own_step(stage: int) -> None:
    def plain(k: int, loss: Any, model: Any, optimizer: Any) -> None:
        loss.backward()
        optimizer.step()

    def rank() -> np.ndarray:
        w, optimizer, stepped = wrapped(made(), stage)
        for k in range(3):
            stepped.zero_grad()
            x, y = own(k)
            ((w(x) - y) ** 2).mean().backward()
            w.reduce_gradients()
            optimizer.step()
        w.eval()
        return w(tb.tensor(X[0])).detach().numpy().ravel()

    model, _ = trained(plain)
    agree(rank, model(tb.tensor(X[0])).detach().numpy().ravel(), 2)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("stage", STAGES)
def test_a_scaler_leaves_a_step_out_on_all_ranks_or_on_none(stage: int, compiled: bool) -> None:
    """One infinite number in one gradient: with ZeRO one rank alone has it."""

    def hurt(p: Any, k: int) -> None:
        if k == 1:
            p.grad[0, 0] = float("inf")

    def plain(k: int, loss: Any, model: Any, optimizer: Any) -> None:
        scaler.scale(loss).backward()
        hurt(model.a.weight, k)
        scaler.step(optimizer)
        scaler.update()

    def rank() -> np.ndarray:
        w, optimizer, stepped = wrapped(made(), stage)
        mine = optim.GradScaler(init_scale=4.0)

        def update() -> None:
            mine.step(optimizer)
            mine.update()

        run = tb.jit(update) if compiled else update
        for k in range(3):
            stepped.zero_grad()
            x, y = own(k)
            mine.scale(((w(x) - y) ** 2).mean()).backward()
            w.reduce_gradients()
            if stage == 0:
                hurt(w.module.a.weight, k)
            elif k == 1 and cluster.rank() == 0:
                w.shards[0].grad[0] = float("inf")
            run()
        return np.array([mine.get_scale(), *numbers(w)])

    scaler = optim.GradScaler(init_scale=4.0)
    model, _ = trained(plain)
    want = [scaler.get_scale(), *np.concatenate([p.detach().numpy().ravel() for p in model.parameters()])]
    assert scaler.get_scale() == 2.0
    agree(rank, np.array(want), 2)


@pytest.mark.parametrize("of", ["module", "shards", "groups", "cluster"])
def test_norms_of_parts_are_refused(of: str) -> None:
    def rank() -> None:
        w, optimizer, _ = wrapped(made(), 2)
        x, y = own(0)
        ((w(x) - y) ** 2).mean().backward()
        w.reduce_gradients()
        if of == "cluster":
            cluster.clip_grad_norm_(w.parameters(), 0.1)
            return
        rows = {"module": w.parameters(), "shards": w.shards, "groups": optimizer.param_groups[0]["params"]}
        nn.utils.clip_grad_norm_(rows[of], 0.1)

    with pytest.raises(GradientError, match=r"clip_grad_norm_\(max_norm\) of cluster.Zero"):
        cluster.lockstep(rank, 2)
    cluster.lockstep(rank, 1)  # one process has them whole


def test_no_gradients_have_no_norm() -> None:
    assert cluster.clip_grad_norm_(nn.Linear(2, 2).parameters(), 1.0).item() == 0.0
