"""ZeRO of every stage trains as one process, and keeps what its table says."""

from __future__ import annotations

import itertools
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

import trilobite as tb
from trilobite import cluster as c
from trilobite import optim
from trilobite.base.errors import ArgumentError


def train(name: str, n: int, stage: int, how: str = "") -> Trained:
    """What every rank does."""
    at, shapes = case(name), {k: v.shape for k, v in one_process(name).parameters.items()}
    zero = c.Zero(c.over_all_ranks(made(name)), adam, stage, again=how == "again")
    tb.manual_seed(3)
    rows = slice(c.rank() * BATCH // n, (c.rank() + 1) * BATCH // n)
    x, y = tb.tensor(at.x[rows]), tb.tensor(at.y[rows])
    losses, grads = [], []
    for _ in range(STEPS):
        zero.zero_grad()
        loss = loss_of(zero(x), y)
        loss.backward()
        zero.reduce_gradients()
        if how == "clipped":
            zero.clip_grad_norm_(0.05)
        losses.append(c.all_reduce(loss.detach(), "mean").item())
        grads.append(whole_gradients(zero, shapes))
        zero.step()
    return Trained(losses, grads[0], grads[-1], copied(zero.parameters_whole()))


def whole_gradients(zero: Any, shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    pairs = zip(shapes.items(), zero.shards, strict=True)
    lines = {name: (c.all_gather(q.grad, size=int(np.prod(shape))), shape) for (name, shape), q in pairs}
    return {name: line.numpy().reshape(shape) for name, (line, shape) in lines.items()}


LONG = [pytest.param(m, n, marks=pytest.mark.long) for m in ("mlp", "lstm", "gpt") for n in (2, 4)]


@pytest.mark.parametrize("stage", [1, 2, 3])
@pytest.mark.parametrize(("name", "n"), [("mlp", 2), *LONG])
def test_every_stage_trains_as_one_process(name: str, n: int, stage: int) -> None:
    for found in c.lockstep(train, n, name, n, stage):
        check_equal(found, one_process(name))


def test_parameters_that_come_again_in_the_backward_pass() -> None:
    for found in c.lockstep(train, 2, "mlp", 2, 3, "again"):
        check_equal(found, one_process("mlp"))


@pytest.mark.parametrize("stage", [1, 3])
def test_clipping_is_by_the_norm_of_all(stage: int) -> None:
    for found in c.lockstep(train, 4, "mlp", 4, stage, "clipped"):
        check_equal(found, one_process("mlp", 0.05))


def kept(stage: int, n: int) -> tuple[int, int, int]:
    """Elements of parameters, gradients and optimiser state that rank 0 holds after a backward pass."""
    at = case("mlp")
    model = made("mlp")
    zero = c.Zero(model, adam, stage)
    loss_of(zero(tb.tensor(at.x)), tb.tensor(at.y)).backward()
    zero.reduce_gradients()
    held = [p for p in model.parameters()] if stage < 3 else zero.shards
    grads = [p.grad.size for p in (*model.parameters(), *zero.shards) if p.grad is not None]
    state = [t.size for row in zero.optimizer.state.values() for k, t in row.items() if k != "step"]
    return sum(p.size for p in held), sum(grads), sum(state)


@pytest.mark.parametrize("stage", [1, 2])
def test_parts_lie_in_the_memory_of_whole_parameters(stage: int) -> None:
    """P + 3P/n, not P + 4P/n; also behind steps, in the eager form, where memory is the parameter's own."""

    def rank() -> list[bool]:
        at, model = case("mlp"), made("mlp")
        zero = c.Zero(model, adam, stage)
        lie = []
        for _ in range(2):
            zero.zero_grad()
            loss_of(zero(tb.tensor(at.x)), tb.tensor(at.y)).backward()
            lie.append(stage == 1 or all(p.grad is None for p in model.parameters()))
            zero.reduce_gradients()
            zero.step()
            pairs = zip(model.parameters(), zero.shards, strict=True)
            lie += [np.may_share_memory(p._cell.value, q._cell.value) for p, q in pairs]
        return lie

    assert all(itertools.chain(*c.lockstep(rank, 3)))


@pytest.mark.parametrize("stage", [1, 2])
def test_compiled_and_eager_steps_in_turn(stage: int) -> None:
    """Parts that lie in whole parameters, and those that compiled steps leave beside them."""

    def rank() -> Trained:
        at, model = case("mlp"), made("mlp")
        zero = c.Zero(model, adam, stage)
        tb.manual_seed(3)
        x, y = c.own_rows(at.x), c.own_rows(at.y)

        def step(x: Any, y: Any) -> Any:
            loss = loss_of(zero(x), y)
            zero.zero_grad()
            loss.backward()
            zero.reduce_gradients()
            zero.step()
            return loss.detach()

        compiled, losses, grads = tb.jit(step), [], []
        for i in range(STEPS):
            run = compiled if i % 4 in (1, 2) else step
            losses.append(c.all_reduce(run(x, y), "mean").item())
            grads.append(whole_gradients(zero, {n: tuple(p.shape) for n, p in model.named_parameters()}))
        return Trained(losses, grads[0], grads[-1], copied(zero.parameters_whole()))

    for found in c.lockstep(rank, 2):
        check_equal(found, one_process("mlp"))


@pytest.mark.parametrize("n", [2, 4])
def test_each_rank_keeps_its_part(n: int) -> None:
    total = sum(p.size for p in made("mlp").parameters())
    part = -(-total // n)
    few = part + 8  # every tensor is split alone, and the first ranks get the remainders
    for stage in (1, 2, 3):
        parameters, grads, state = c.lockstep(kept, n, stage, n)[0]
        assert parameters == total if stage < 3 else part <= parameters <= few
        assert part <= grads <= few and 2 * part <= state <= 2 * few


def test_optimisers_that_look_at_whole_parameters_are_refused() -> None:
    with pytest.raises(ArgumentError, match="LAMB, which looks at whole parameters"):
        c.Zero(made("mlp"), lambda ps: optim.LAMB(ps, lr=0.1))
    with pytest.raises(ArgumentError, match="ZeRO of stage 4"):
        c.Zero(made("mlp"), adam, 4)


def test_a_parameter_without_a_unit_is_named() -> None:
    model = made("mlp")
    with pytest.raises(ArgumentError, match=r"no unit of stage 3 holds .*down\.weight"):
        c.Zero(model, adam, 3, units=[model.up])


def test_a_sum_that_is_left_out_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: every rank goes on with its own gradients."""
    own = lambda self, line: c.part(line, group=self.group) * self.group.size  # noqa: E731
    monkeypatch.setattr(c.Zero, "_summed", own)
    begin, end = apart(c.lockstep(train, 2, "mlp", 2, 1)[0], one_process("mlp"))
    assert begin > 1e-3 and end > 1e-3
