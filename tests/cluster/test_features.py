"""What trainings are made of, in every strategy: recomputed activations, mixed precision, gradients that add
up, clipping. Each as one process does it.
"""

from __future__ import annotations

from typing import Any

import cluster_models as models
import numpy as np
import pytest
import sharding_models
import test_data_parallel as data
import test_pipeline as pipeline
import test_tensor_parallel as tensor
import test_zero as zero
from cluster_models import BATCH, Trained, adam, apart, case, check_equal, gradients, loss_of, made

import trilobite as tb
from trilobite import cluster as c
from trilobite import nn

STEPS = 4
LONG = pytest.mark.long


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few steps, and nothing that was computed without the feature."""
    for module in (models, data, zero, tensor, pipeline):
        monkeypatch.setattr(module, "STEPS", STEPS)
    monkeypatch.setattr(models, "_known", {})


def with_block(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    plain = models.Block.forward
    monkeypatch.setattr(models.Block, "forward", lambda self, x: change(lambda h: plain(self, h), x))


def run(strategy: str) -> Trained:
    """A transformer with dropout on two or four ranks."""
    if strategy == "data":
        return c.lockstep(data.train, 2, "gpt", 2, "jit")[1]
    if strategy.startswith("zero"):
        return c.lockstep(zero.train, 2, "gpt", 2, int(strategy[-1]))[1]
    if strategy in ("tensor", "sequence"):
        return tensor.reordered(c.lockstep(tensor.train, 4, (2, 2), strategy == "sequence")[3])
    if strategy in ("gpipe", "1f1b", "interleaved"):
        return pipeline.joined(c.lockstep(pipeline.train, 2, strategy, (1, 2)), strategy, 2)
    stage = 3 if strategy == "sharded zero" else 0
    return c.lockstep(sharding_models.train, 4, "gpt", (2, 2), True, stage, False, STEPS)[2]


STRATEGIES = [
    "data", "zero 3", "tensor", "1f1b",
    *(pytest.param(s, marks=LONG)
      for s in ("zero 1", "zero 2", "sequence", "gpipe", "interleaved", "sharded", "sharded zero")),
]  # fmt: skip


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_recomputed_activations(strategy: str, few: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dropout draws the same masks again."""
    want = models.one_process("gpt")
    with_block(monkeypatch, lambda block, x: tb.checkpoint(block)(x))
    models._known.clear()
    check_equal(models.one_process("gpt"), want)
    check_equal(run(strategy), want)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_mixed_precision(strategy: str, few: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Products in bfloat16: sums of other order round some of them to the next number, no more."""

    def narrow(block: Any, x: Any) -> Any:
        with tb.autocast(tb.bfloat16):
            return block(x.to(tb.float32)).to(x.dtype)

    plain = models.one_process("gpt")
    with_block(monkeypatch, narrow)
    monkeypatch.setattr(models, "_known", {})
    monkeypatch.setattr(models, "made", of_float32(models.made))
    for module in (data, zero, tensor, pipeline, sharding_models):
        monkeypatch.setattr(module, "made", models.made)
    want = models.one_process("gpt")
    assert apart(want, plain)[0] > 1e-4  # the control: it is another computation
    begin, end = apart(run(strategy), want)
    assert begin < 2e-2 and end < 6e-2, (begin, end)


def of_float32(made: Any) -> Any:
    def narrow(name: str) -> Any:
        model = made(name)
        for block in model.blocks:
            block.float()
        return model

    return narrow


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_gradients_add_up(stage: int) -> None:
    """Two halves of a rank's rows, without dropout, whose masks go by calls."""
    at = case("gpt")
    whole = made("gpt").eval()
    loss_of(whole(tb.tensor(at.x)), tb.tensor(at.y)).backward()
    want = gradients(whole)

    def rank() -> Any:
        model = made("gpt").eval()
        strategy: Any = c.Zero(model, adam, stage) if stage else c.DataParallel(model)
        x, y = (c.own_rows(tb.tensor(a)) for a in (at.x, at.y))
        for half in (slice(0, BATCH // 4), slice(BATCH // 4, None)):
            (loss_of(strategy(x[half]), y[half]) / 2).backward()
        strategy.reduce_gradients()
        shapes = {n: a.shape for n, a in want.items()}
        return zero.whole_gradients(strategy, shapes) if stage else gradients(model)

    for found in c.lockstep(rank, 2):
        assert models.distance(found, want) < 1e-12


def test_clipping_over_the_stages_of_a_pipeline() -> None:
    at, limit = case("gpt"), 0.05
    whole = made("gpt").eval()
    loss_of(whole(tb.tensor(at.x)), tb.tensor(at.y)).backward()
    norm = float(nn.utils.clip_grad_norm_(whole.parameters(), limit))
    want = gradients(whole)

    def rank() -> Any:
        model = made("gpt").eval()
        stages = [pipeline.Begin(model), *model.blocks, pipeline.End(model)]
        pipe = c.Pipeline(stages, schedule="gpipe", micro_batches=2).eval()
        pipe.step(tb.tensor(at.x), tb.tensor(at.y), loss_of)
        found = c.clip_grad_norm_([], limit, split={c.world(): pipe.parameters()})
        return float(found), {pipeline.renamed(n): p.grad.numpy() for n, p in pipe.named_parameters()}

    parts = c.lockstep(rank, 2)
    assert [f for f, _ in parts] == pytest.approx([norm] * 2, rel=1e-12)
    found = {n: a for _, own in parts for n, a in own.items()}
    assert models.distance({n: found[n] for n in want}, want) < 1e-12


@pytest.mark.long
def test_clipping_inside_a_sharded_function() -> None:
    at, limit = case("gpt"), 0.05

    def trained(wrap: Any) -> Any:
        model = made("gpt").eval()
        opt = adam(model.parameters())

        def step(x: Any, y: Any) -> Any:
            opt.zero_grad()
            for k in (0, 4):  # gradients add up, too
                (loss_of(model(x[k : k + 4]), y[k : k + 4]) / 2).backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), limit)
            opt.step()
            return norm

        run = wrap(model, step)
        norms = [float(run(tb.tensor(at.x), tb.tensor(at.y))) for _ in range(3)]
        return norms, {n: np.array(c.whole(p).numpy()) for n, p in model.named_parameters()}

    def split(model: Any, step: Any) -> Any:
        mesh = c.mesh((2, 2), ("data", "model"))
        c.shard(model, mesh, sharding_models.SPLITS["gpt"])
        return c.sharded(step, mesh=mesh, inputs=[{"data": 0}, {"data": 0}])

    norms, want = trained(lambda model, step: step)
    for found, parameters in c.lockstep(trained, 4, split):
        assert found == pytest.approx(norms, rel=1e-11)
        assert models.distance(parameters, want) < 1e-11
