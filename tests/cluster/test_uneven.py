"""Batches that do not divide, tied weights, frozen and unused parameters: as one process has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cluster_models import loss_of
from trilobite.nn import functional as F

import trilobite as tb
from trilobite import cluster as c
from trilobite import nn, optim
from trilobite.base.errors import ArgumentError, ClusterError

ROWS = 7
RNG = np.random.default_rng(5)
X, Y = RNG.integers(0, 11, (ROWS, 4)), RNG.integers(0, 11, (ROWS, 4))


class Odd(nn.Module):
    """Tied weights, dropout, a frozen parameter and one that nothing uses."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.inner, self.unused = nn.Embedding(11, 6), nn.Linear(6, 6), nn.Linear(2, 3)
        self.drop, self.head = nn.Dropout(0.3), nn.Linear(6, 11, bias=False)
        self.head.weight = self.table.weight
        self.inner.bias.requires_grad_(False)

    def forward(self, tokens: Any) -> Any:
        return self.head(self.drop(F.gelu(self.inner(self.table(tokens)))))


def made() -> Any:
    tb.manual_seed(7)
    return Odd().double()


def adam(parameters: Any) -> Any:
    return optim.AdamW(parameters, lr=0.03, weight_decay=0.1)


def one_process(steps: int) -> Any:
    model = made()
    opt = adam(model.parameters())
    tb.manual_seed(3)
    losses = []
    for _ in range(steps):
        opt.zero_grad()
        loss = loss_of(model(tb.tensor(X)), tb.tensor(Y))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.4)
        opt.step()
        losses.append(loss.item())
    return losses, {n: p.detach().numpy() for n, p in model.named_parameters()}


def train(stage: int, steps: int, jitted: bool = False) -> Any:
    model: Any = made()
    at: Any
    if stage:
        at = c.Zero(model, adam, stage)
        opt: Any = at
        clip: Any = at.clip_grad_norm_
    else:
        at, opt = c.DataParallel(model), adam(model.parameters())

        def clip(limit: float) -> None:
            c.clip_grad_norm_(model.parameters(), limit)

    at.rows = ROWS
    tb.manual_seed(3)
    x, y = c.own_rows(tb.tensor(X)), c.own_rows(tb.tensor(Y))

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        loss = loss_of(at(x), y)
        loss.backward()
        at.reduce_gradients()
        clip(0.4)
        opt.step()
        return c.all_reduce(loss.detach() * at.weight, "mean")

    run = tb.jit(step) if jitted else step
    losses = [run(x, y).item() for _ in range(steps)]
    whole = at.parameters_whole() if stage else dict(model.named_parameters())
    return losses, {n: p.detach().numpy() for n, p in whole.items()}


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
@pytest.mark.parametrize("n", [2, pytest.param(4, marks=pytest.mark.long)])
def test_uneven_batches_train_as_one_process(stage: int, n: int) -> None:
    losses, want = one_process(5)
    for found, parameters in c.lockstep(train, n, stage, 5):
        np.testing.assert_allclose(found, losses, rtol=1e-11)
        assert parameters.keys() == want.keys()
        for name, array in want.items():
            np.testing.assert_allclose(parameters[name], array, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("stage", [0, 2])
def test_uneven_batches_of_compiled_steps(stage: int) -> None:
    losses, want = one_process(3)
    found, parameters = c.lockstep(train, 2, stage, 3, True)[1]
    np.testing.assert_allclose(found, losses, rtol=1e-11)
    for name, array in want.items():
        np.testing.assert_allclose(parameters[name], array, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("stage", [0, 1, 3])
@pytest.mark.parametrize("jitted", [False, True])
def test_uneven_parts_that_nobody_has_mentioned_are_an_error_on_all_ranks(stage: int, jitted: bool) -> None:
    errors: list[str] = []

    def rank() -> None:
        model = made()
        at = c.Zero(model, adam, stage) if stage else c.DataParallel(model)
        run = tb.jit(lambda x: at(x).sum()) if jitted else lambda x: at(x).sum()
        even = tb.tensor(X[: ROWS - 1])
        run(c.own_rows(even))  # a batch that divides; then the last one of an epoch
        try:
            run(c.own_rows(tb.tensor(X)))
        except ClusterError as error:
            errors.append(str(error))

    c.lockstep(rank, 2)
    assert len(errors) == 2
    for text in errors:
        assert "4 rows on every rank" in text and "3 rows on every rank; if uneven, set .rows" in text


def test_models_that_only_look_may_have_any_rows() -> None:
    """Without gradients, or in evaluation, nobody asks the others."""

    def rank() -> Any:
        dp = c.DataParallel(made())
        with tb.no_grad():
            dp(c.own_rows(tb.tensor(X)))
        dp.eval()
        return dp(c.own_rows(tb.tensor(X))).shape[0] if c.rank() == 0 else 0

    assert c.lockstep(rank, 2) == [4, 0]


def test_a_batch_is_found_in_any_arguments() -> None:
    class Nested(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(2, 2)

        def forward(self, batch: Any, scale: float = 1.0) -> Any:
            return {"out": self.inner(batch["x"]) * scale}

    def rank() -> Any:
        dp = c.DataParallel(Nested())
        with pytest.raises(ArgumentError, match="no tensor with rows"):
            dp(3)
        return dp({"x": tb.ones((3, 2))}, scale=2.0)["out"].shape

    assert c.lockstep(rank, 2) == [(3, 2)] * 2


def test_a_part_of_another_size_is_refused() -> None:
    def rank() -> None:
        dp = c.DataParallel(made())
        dp.rows = ROWS
        dp(tb.tensor(X))

    with pytest.raises(ArgumentError, match="7 rows on member 0 of 2"):
        c.lockstep(rank, 2)


def test_batch_norm_counts_the_rows_of_all() -> None:
    x = np.random.default_rng(1).normal(size=(ROWS, 4))
    one = nn.BatchNorm1d(4).double()
    want = one(tb.tensor(x)).detach().numpy()

    def rank() -> Any:
        model: Any = c.over_all_ranks(nn.BatchNorm1d(4).double())
        out = model(c.own_rows(tb.tensor(x)))
        return c.all_gather(out.detach(), size=ROWS).numpy(), model.running_var.numpy().copy()

    for out, variance in c.lockstep(rank, 3):
        np.testing.assert_allclose(out, want, rtol=1e-12)
        np.testing.assert_allclose(variance, one.running_var.numpy(), rtol=1e-12)  # type: ignore[union-attr]


@pytest.mark.parametrize("top", [1, 2])
def test_experts_count_the_tokens_of_all(top: int) -> None:
    x = np.random.default_rng(1).normal(size=(ROWS, 4))

    def rank() -> Any:
        tb.manual_seed(2)
        gate, experts = nn.Linear(4, 3).double(), [nn.Linear(4, 4).double() for _ in range(3)]
        out, balance = c.Experts(gate, experts, top=top, capacity=0.8)(c.own_rows(tb.tensor(x)), ROWS)
        return c.all_gather(out.detach(), size=ROWS).numpy(), balance.item()

    want, loss = c.lockstep(rank, 1)[0]
    for found, balance in c.lockstep(rank, 3):
        np.testing.assert_allclose(found, want, rtol=1e-11, atol=1e-14)
        assert abs(balance - loss) < 1e-12


@pytest.mark.parametrize("stage", [1, 3])
def test_the_state_of_zero_is_that_of_one_process(stage: int) -> None:
    """Names, tied ones too, and whole tensors; and back."""
    want = made().state_dict()

    def rank() -> Any:
        zero = c.Zero(made(), adam, stage)
        found = {k: v.numpy().copy() for k, v in zero.state_dict().items()}
        zero.load_state_dict({k: v + 1.0 for k, v in found.items()})
        return found, {k: v.numpy().copy() for k, v in zero.state_dict().items()}, zero.parameters_whole()

    for found, moved, whole in c.lockstep(rank, 3):
        assert found.keys() == want.keys() == moved.keys()
        for name, t in want.items():
            np.testing.assert_array_equal(found[name], t.numpy())
            np.testing.assert_array_equal(moved[name], t.numpy() + 1.0)
        for name, t in whole.items():
            np.testing.assert_array_equal(t.numpy(), moved[name])
