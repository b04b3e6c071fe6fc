"""Data parallel ranks train as one process with the whole batch; mistakes in the exchange are noticed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cluster_models import (
    BATCH,
    STEPS,
    Trained,
    adam,
    apart,
    case,
    check_equal,
    copied,
    gradients,
    loss_of,
    made,
    one_process,
)  # fmt: skip

import trilobite as tb
from trilobite import cluster as c
from trilobite.base.errors import ClusterError

MODELS = ["mlp", "convolutions", "lstm", pytest.param("gpt", marks=pytest.mark.long)]


def own(a: Any, n: int, k: int) -> Any:
    return tb.tensor(a[k * BATCH // n : (k + 1) * BATCH // n])


def train(name: str, n: int, mode: str = "eager", clip: float | None = None, mistake: str = "") -> Trained:
    """What every rank does."""
    at = case(name)
    model = c.over_all_ranks(made(name))
    if c.rank() and mistake != "another start":
        for p in model.parameters():
            p.data = p.data * 0.0  # the start comes from rank 0
    dp = c.DataParallel(model)
    opt = adam(model.parameters())
    halves = 2 if mode == "accumulated" else 1
    tb.manual_seed(3)
    x, y = own(at.x, n, c.rank()), own(at.y, n, c.rank())

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        total = 0.0
        for part in range(halves):
            rows = slice(part * len(x) // halves, (part + 1) * len(x) // halves)
            loss = loss_of(dp(x[rows]), y[rows]) / halves
            loss.backward()
            total = total + loss.detach()
        if mistake == "wrong group":
            c.reduce_gradients(model.parameters(), c.Group(((0, 1), (2, 3))))
        elif mistake == "unscaled loss":
            c.reduce_gradients(model.parameters(), op="sum")
        elif mistake != "left out":
            dp.reduce_gradients()
        if clip is not None:
            c.clip_grad_norm_(model.parameters(), clip)
        return c.all_reduce(total, "mean")

    run = tb.jit(step) if mode == "jit" else step
    losses, grads = [], []
    for _ in range(STEPS):
        losses.append(run(x, y).item())
        grads.append(gradients(model))
        opt.step()
    return Trained(losses, grads[0], grads[-1], copied(dict(model.named_parameters())))


@pytest.mark.parametrize("n", [2, pytest.param(4, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", MODELS)
def test_ranks_train_as_one_process(name: str, n: int) -> None:
    for found in c.lockstep(train, n, name, n):
        check_equal(found, one_process(name))


@pytest.mark.parametrize("name", ["mlp", pytest.param("convolutions", marks=pytest.mark.long)])
def test_compiled_steps_do_so_too(name: str) -> None:
    for found in c.lockstep(train, 2, name, 2, "jit"):
        check_equal(found, one_process(name))


def test_clipping_is_by_the_norm_of_all() -> None:
    for found in c.lockstep(train, 2, "mlp", 2, "eager", 0.05):
        check_equal(found, one_process("mlp", 0.05))


@pytest.mark.parametrize("mistake", ["left out", "wrong group", "unscaled loss"])
def test_mistakes_are_caught(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By numbers, where ranks do not tell each other theirs. If they do, those that train apart raise."""
    if mistake != "unscaled loss":
        with pytest.raises(ClusterError, match="left out"):
            c.lockstep(train, 4, "mlp", 4, "eager", None, mistake)
    monkeypatch.setattr(c.DataParallel, "told", lambda self: [])
    begin, end = apart(c.lockstep(train, 4, "mlp", 4, "eager", None, mistake)[0], one_process("mlp"))
    assert begin > 1e-3 and end > 1e-3


def test_accumulated_gradients_are_those_of_the_whole() -> None:
    """Without dropout, whose masks go by the parts of the batch."""

    def rank(halves: int) -> Any:
        model = made("gpt").eval()
        dp = c.DataParallel(model)
        at = case("gpt")
        x, y = own(at.x, 2, c.rank()), own(at.y, 2, c.rank())
        for rows in np.split(np.arange(len(x)), halves):
            (loss_of(dp(x[rows.tolist()]), y[rows.tolist()]) / halves).backward()
        dp.reduce_gradients()
        return gradients(model)

    once, twice = c.lockstep(rank, 2, 1)[0], c.lockstep(rank, 2, 2)[0]
    for name in once:
        np.testing.assert_allclose(twice[name], once[name], rtol=1e-9, atol=1e-14)


def test_local_batch_norm_is_not_that_of_all_ranks() -> None:
    """The control: with each rank's own statistics the losses differ."""

    def rank() -> float:
        at, model = case("convolutions"), made("convolutions")
        loss = loss_of(c.DataParallel(model)(own(at.x, 2, c.rank())), own(at.y, 2, c.rank()))
        return c.all_reduce(loss, "mean").item()

    assert abs(c.lockstep(rank, 2)[0] - one_process("convolutions").losses[0]) > 1e-4


def test_running_statistics_are_those_of_one_process() -> None:
    at = case("convolutions")
    whole = made("convolutions")
    whole(tb.tensor(at.x))

    def rank() -> Any:
        model = c.over_all_ranks(made("convolutions"))
        model(own(at.x, 4, c.rank()))
        return model.first.running_mean.numpy(), model.first.running_var.numpy()

    for mean, var in c.lockstep(rank, 4):
        np.testing.assert_allclose(mean, whole.first.running_mean.numpy(), rtol=1e-12)
        np.testing.assert_allclose(var, whole.first.running_var.numpy(), rtol=1e-12)


def test_attention_with_dropout_of_its_own_is_refused() -> None:
    q = tb.ones((2, 3, 4))
    with c.one_randomness(total=2), pytest.raises(ValueError, match="on a part of a batch"):
        tb.nn.functional.scaled_dot_product_attention(q, q, q, dropout_p=0.1)
