"""Experts over ranks and parameter servers: as one process, or as one process that repeats their order."""

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
)
from trilobite.nn import functional as F

import trilobite as tb
from trilobite import cluster as c
from trilobite import nn
from trilobite.base.errors import ArgumentError
from trilobite.cluster.server import replay

TOKENS, WIDTH, COUNT = 24, 5, 6
RNG = np.random.default_rng(5)
X, Y = RNG.normal(size=(TOKENS, WIDTH)), RNG.normal(size=(TOKENS, WIDTH))


def expert() -> Any:
    return nn.Sequential(nn.Linear(WIDTH, 7), nn.Tanh(), nn.Linear(7, WIDTH)).double()


def mixture(top: int, capacity: float, group: Any = None) -> Any:
    tb.manual_seed(2)
    gate, experts = nn.Linear(WIDTH, COUNT).double(), [expert() for _ in range(COUNT)]
    return c.Experts(gate, experts, group, top=top, capacity=capacity)


def token_by_token(model: Any, top: int) -> Any:
    """The same layer as a loop: every token asks its experts, in order, as long as there is room."""
    room, used = model.places(TOKENS), [0] * COUNT
    chances = F.softmax(model.gate(tb.tensor(X)), -1)
    order = np.argsort(-chances.detach().numpy(), axis=1, kind="stable")[:, :top]
    rows: list[list[Any]] = [[] for _ in range(TOKENS)]
    for choice in range(top):
        for t in range(TOKENS):
            e = int(order[t, choice])
            if used[e] < room:
                weight = chances[t, e] / chances[t, order[t].tolist()].sum() if top == 2 else chances[t, e]
                rows[t].append(getattr(model, f"expert{e}")(tb.tensor(X[t])) * weight)
            used[e] += 1
    zero = tb.zeros(WIDTH, dtype=tb.float64)
    parts = np.bincount(order[:, 0], minlength=COUNT) / TOKENS
    return tb.stack([sum(r, start=zero) for r in rows]), (
        tb.tensor(parts) * chances.mean(axis=0)
    ).sum() * COUNT


@pytest.mark.parametrize("top", [1, 2])
@pytest.mark.parametrize("capacity", [0.6, 1.25, 4.0])
def test_a_mixture_is_its_loop_over_tokens(top: int, capacity: float) -> None:
    model = mixture(top, capacity)
    out, balance = model(tb.tensor(X))
    want, wanted = token_by_token(model, top)
    np.testing.assert_allclose(out.detach().numpy(), want.detach().numpy(), rtol=1e-12, atol=1e-14)
    assert balance.item() == pytest.approx(wanted.item(), rel=1e-12)
    if capacity == 0.6:
        assert (out.detach().numpy() == 0).all(axis=1).any()  # some token finds no room


def train_mixture(n: int, top: int, capacity: float, mistake: str = "") -> Trained:
    group = c.world() if n > 1 else None
    model = mixture(top, capacity, group)
    opt = adam(model.parameters())
    rows = slice(c.rank() * TOKENS // n, (c.rank() + 1) * TOKENS // n)
    x, y = tb.tensor(X[rows]), tb.tensor(Y[rows])
    losses, grads = [], []
    for _ in range(STEPS):
        opt.zero_grad()
        out, balance = model(x)
        loss = F.mse_loss(x + out, y) + 0.1 * balance
        loss.backward()
        c.reduce_gradients(model.gate.parameters(), group)
        if mistake != "unscaled":
            model.mean_gradients()
        losses.append(c.all_reduce(loss.detach(), "mean").item())
        grads.append(gradients(model))
        opt.step()
    return Trained(losses, grads[0], grads[-1], copied(dict(model.named_parameters())))


def of_all(found: list[Trained]) -> Trained:
    first, last, final = ({k: v for f in found for k, v in f[i].items()} for i in (1, 2, 3))
    return Trained(found[0].losses, first, last, final)


@pytest.mark.parametrize(
    ("n", "top", "capacity"), [(2, 1, 1.0), (4, 2, 0.7), pytest.param(3, 2, 1.25, marks=pytest.mark.long)]
)
def test_experts_on_ranks_train_as_one_process(n: int, top: int, capacity: float) -> None:
    """Six experts on four ranks: two, two, one, one."""
    found = of_all(c.lockstep(train_mixture, n, n, top, capacity))
    check_equal(found, of_all([train_mixture(1, top, capacity)]))


def train_on_mesh(top: int, capacity: float) -> Trained:
    """Two rows of ranks with the same tokens' experts: the capacity counts the tokens of all four."""
    mesh = c.mesh((2, 2), ("data", "expert"))
    tb.manual_seed(2)
    gate, experts = nn.Linear(WIDTH, COUNT).double(), [expert() for _ in range(COUNT)]
    everyone = mesh["data", "expert"]
    model = c.Experts(gate, experts, mesh["expert"], top=top, capacity=capacity, batch=everyone)
    opt = adam(model.parameters())
    rows = slice(everyone.index * TOKENS // 4, (everyone.index + 1) * TOKENS // 4)
    x, y = tb.tensor(X[rows]), tb.tensor(Y[rows])
    losses, grads = [], []
    for _ in range(STEPS):
        opt.zero_grad()
        out, balance = model(x)
        loss = F.mse_loss(x + out, y) + 0.1 * balance
        loss.backward()
        c.reduce_gradients(model.gate.parameters(), everyone)
        model.mean_gradients()
        for one in model.own():
            c.reduce_gradients(one.parameters(), mesh["data"])
        losses.append(c.all_reduce(loss.detach(), "mean").item())
        grads.append(gradients(model))
        opt.step()
    return Trained(losses, grads[0], grads[-1], copied(dict(model.named_parameters())))


@pytest.mark.parametrize(("top", "capacity"), [(1, 0.7), pytest.param(2, 1.0, marks=pytest.mark.long)])
def test_data_and_experts_on_one_mesh_train_as_one_process(top: int, capacity: float) -> None:
    check_equal(
        of_all(c.lockstep(train_on_mesh, 4, top, capacity)), of_all([train_mixture(1, top, capacity)])
    )


def test_unscaled_experts_are_caught() -> None:
    found = of_all(c.lockstep(train_mixture, 2, 2, 1, 1.0, "unscaled"))
    assert apart(found, of_all([train_mixture(1, 1, 1.0)]))[0] > 1e-3


# -- parameter servers ---------------------------------------------------------------------------------------


def serve(n: int, staleness: int | None) -> Any:
    """A server and n workers, each with its part of the batch."""
    model, at = made("lstm").eval(), case("lstm")
    server = c.ParameterServer(model, adam, staleness=staleness)
    if c.rank() == 0:
        server.serve(STEPS)
        return copied(dict(model.named_parameters())), server.log
    k = c.rank() - 1
    rows = slice(k * BATCH // n, (k + 1) * BATCH // n)
    for _ in range(STEPS):
        server.zero_grad()
        loss_of(model(tb.tensor(at.x[rows])), tb.tensor(at.y[rows])).backward()
        server.exchange()
        if staleness is not None and c.rank() == 1:
            for _ in range(3):
                c.all_reduce(tb.ones(1), group=c.Group(((1,),)))
    return copied(dict(model.named_parameters())), None


def one_by_one() -> Any:
    model, at = made("lstm").eval(), case("lstm")
    opt = adam(model.parameters())
    for _ in range(STEPS):
        opt.zero_grad()
        loss_of(model(tb.tensor(at.x)), tb.tensor(at.y)).backward()
        opt.step()
    return copied(dict(model.named_parameters()))


def test_a_synchronous_server_is_one_process() -> None:
    want = one_by_one()
    for got, _ in c.lockstep(serve, 3, 2, None):
        for name, value in want.items():
            np.testing.assert_allclose(got[name], value, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("staleness", [0, 2])
def test_an_asynchronous_server_is_the_replay_of_its_order(staleness: int) -> None:
    got, log = c.lockstep(serve, 4, 3, staleness)[0]
    assert sorted(w for what, w in log if what == "apply") == [w for w in (1, 2, 3) for _ in range(STEPS)]
    clocks = dict.fromkeys((1, 2, 3), 0)
    for what, w in log:
        clocks[w] += what == "apply"
        assert what == "apply" or clocks[w] - min(clocks.values()) <= staleness
    model, at = made("lstm").eval(), case("lstm")
    opt = adam(model.parameters())

    def backward(worker: int, step: int) -> None:
        rows = slice((worker - 1) * BATCH // 3, worker * BATCH // 3)
        loss_of(model(tb.tensor(at.x[rows])), tb.tensor(at.y[rows])).backward()

    replay(model, opt, log, backward)
    for name, p in model.named_parameters():
        np.testing.assert_array_equal(got[name], p.detach().numpy())


def test_mistakes_are_named() -> None:
    with pytest.raises(ArgumentError, match="a parameter server on member 0 of 1"):
        c.ParameterServer(made("mlp"), adam)
    with pytest.raises(ArgumentError, match="top 3"):
        c.Experts(nn.Identity(), [nn.Identity()], top=3)
    assert one_process("mlp").losses
