"""Pipelines of every schedule train as one process; their orders keep what they promise."""

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
    loss_of,
    made,
    one_process,
)
from trilobite.nn import functional as F

import trilobite as tb
from trilobite import cluster as c
from trilobite import nn
from trilobite.base.errors import ArgumentError
from trilobite.cluster.schedules import KINDS, Task, plan

LONG = pytest.mark.long


class Begin(nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.tokens, self.places = model.tokens, model.places

    def forward(self, tokens: Any) -> Any:
        return self.tokens(tokens) + self.places(tb.arange(tokens.shape[1]))


class End(nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.norm, self.head = model.norm, model.head

    def forward(self, x: Any) -> Any:
        return self.head(self.norm(x))


NAMES = {"stage0.": "", "stage1.": "blocks.0.", "stage2.": "blocks.1.", "stage3.": ""}


def renamed(name: str) -> str:
    stage = name.partition(".")[0] + "."
    return NAMES[stage] + name.removeprefix(stage)


def train(kind: str, shape: tuple[int, int], mistake: str = "") -> list[Any]:
    """What each rank of a mesh of data × pipe finds of its own stages."""
    mesh = c.mesh(shape, ("data", "pipe"))
    model, at = made("gpt"), case("gpt")
    stages = [Begin(model), *model.blocks, End(model)]
    if shape[1] == 2 and kind == "1f1b":
        stages = [nn.Sequential(*stages[:2]), nn.Sequential(*stages[2:])]
    pipe = c.Pipeline(stages, mesh["pipe"], schedule=kind, micro_batches=2, data=mesh["data"])
    opt = adam(pipe.parameters())
    tb.manual_seed(3)
    begin, end = c.part_of(BATCH, mesh["data"])
    x, y = tb.tensor(at.x[begin:end]), tb.tensor(at.y[begin:end])
    losses, grads = [], []
    for _ in range(STEPS):
        opt.zero_grad()
        loss = pipe.step(x, y, loss_of if mistake != "unscaled loss" else lambda o, t: loss_of(o, t) * 2)
        c.reduce_gradients(pipe.parameters(), mesh["data"])
        losses.append(c.all_reduce(loss, "mean", group=mesh["data"]).item())
        grads.append(copied({n: p.grad for n, p in pipe.named_parameters()}))
        opt.step()
    return [losses, grads[0], grads[-1], copied(dict(pipe.named_parameters()))]


def joined(found: list[list[Any]], kind: str, pipe: int) -> Trained:
    """The stages of all ranks as one model."""
    parts: list[dict[str, Any]] = [{}, {}, {}]
    for row in found:
        for part, own in zip(parts, row[1:], strict=True):
            part.update({name_of(n, kind, pipe): v for n, v in own.items()})
    names = list(one_process("gpt").parameters)
    return Trained(found[0][0], *({n: part[n] for n in names} for part in parts))


def name_of(name: str, kind: str, pipe: int) -> str:
    if pipe == 2 and kind == "1f1b":  # two stages in each
        outer, inner, rest = name.split(".", 2)
        name = f"stage{2 * int(outer[-1]) + int(inner)}.{rest}"
    return renamed(name)


@pytest.mark.parametrize(
    ("kind", "shape"),
    [("1f1b", (1, 4)), ("interleaved", (2, 2)), *(pytest.param(k, s, marks=LONG) for k, s in (
        ("gpipe", (1, 4)), ("gpipe", (1, 2)), ("interleaved", (1, 2)), ("1f1b", (2, 4)), ("1f1b", (1, 2)),
        ("1f1b", (2, 2))))],
)  # fmt: skip
def test_a_pipeline_trains_as_one_process(kind: str, shape: tuple[int, int]) -> None:
    found = c.lockstep(train, shape[0] * shape[1], kind, shape)
    check_equal(joined(found[: shape[1]], kind, shape[1]), one_process("gpt"))
    assert all(row[0] == found[0][0] for row in found)  # every rank knows the loss


def test_an_unscaled_loss_is_caught() -> None:
    found = joined(c.lockstep(train, 2, "gpipe", (1, 2), "unscaled loss"), "gpipe", 2)
    assert apart(found, one_process("gpt"))[0] > 1e-3


# -- schedules -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ranks", [1, 2, 4, 5])
@pytest.mark.parametrize("micros", [1, 3, 8])
def test_every_task_happens_once_after_what_it_needs(kind: str, ranks: int, micros: int) -> None:
    chunks = 2 if kind == "interleaved" and micros % ranks == 0 else 1
    found = plan(kind, ranks, chunks, micros)
    stages = ranks * chunks
    want = {Task(b, s, m) for b in (False, True) for s in range(stages) for m in range(micros)}
    assert sorted(want) == sorted(t for tasks in found.tasks for t in tasks)
    for tasks in found.tasks:
        for t in tasks:
            if t.backward:
                assert tasks.index(Task(False, t.stage, t.micro)) < tasks.index(t)


def test_idle_times_are_those_of_the_literature() -> None:
    """(p − 1) / (m + p − 1) for GPipe and 1F1B; interleaving divides the bubble by the number of chunks."""
    p, m = 4, 8
    assert plan("gpipe", p, 1, m).idle == pytest.approx((p - 1) / (m + p - 1))
    assert plan("1f1b", p, 1, m).idle == pytest.approx((p - 1) / (m + p - 1))
    for v in (2, 4):
        bubble = (p - 1) / v
        assert plan("interleaved", p, v, m).idle == pytest.approx(bubble / (m + bubble))
    assert plan("1f1b", p, 1, m).kept == (4, 3, 2, 1) and plan("gpipe", p, 1, m).kept == (8,) * 4


def test_mistakes_are_named() -> None:
    with pytest.raises(ArgumentError, match="3 stages on 2 ranks"):
        c.lockstep(lambda: c.Pipeline([nn.Identity()] * 3), 2)
    with pytest.raises(ArgumentError, match="'2f1b'"):
        c.Pipeline([nn.Identity()], schedule="2f1b")
    pipe = c.Pipeline([nn.Linear(2, 2)], micro_batches=3)
    with pytest.raises(ArgumentError, match="a batch of 4 in 3 micro-batches"):
        pipe.step(tb.ones((4, 2)), tb.ones((4, 2)), F.mse_loss)


def test_one_rank_runs_all_stages() -> None:
    tb.manual_seed(1)
    layers = [nn.Linear(3, 3).double() for _ in range(3)]
    x, y = (tb.tensor(np.random.default_rng(k).normal(size=(4, 3))) for k in (0, 1))
    pipe = c.Pipeline(layers, schedule="interleaved", micro_batches=2)
    loss = pipe.step(x, y, F.mse_loss)
    got = [p.grad.numpy().copy() for p in pipe.parameters()]
    pipe.zero_grad()
    want = F.mse_loss(nn.Sequential(*layers)(x), y)
    want.backward()
    assert loss.item() == pytest.approx(want.item(), rel=1e-14)
    for g, p in zip(got, pipe.parameters(), strict=True):
        np.testing.assert_allclose(g, p.grad.numpy(), rtol=1e-12)
