"""Plans of several stages: run as pipelines they train as one process does, whatever the cut."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cluster_models import check_equal, made, one_process
from staged_models import task_of, train

import trilobite as tb
from trilobite import cluster, nn, optim
from trilobite.base.errors import ArgumentError, ClusterError
from trilobite.cluster.planning.pipelined import Cuts, PaperPipeline
from trilobite.cluster.planning.search import SMALL, SPARE, Judge
from trilobite.cluster.planning.staged import StagedPlan, _Run

GPT_SPLITS = (("blocks.*.up.weight", (("model", 0),)), ("blocks.*.down.weight", (("model", 1),)))
CASES: dict[str, tuple[str, cluster.Plan, dict[str, Any]]] = {
    "mlp, 2 stages": ("mlp", cluster.Plan((1, 1), (), stages=2, micro=4), {}),
    "mlp, 3 stages": ("mlp", cluster.Plan((1, 1), (), stages=3, micro=2), {}),
    "mlp, clipped": ("mlp", cluster.Plan((1, 1), (), stages=2, micro=2), {"clip": 0.05}),
    "mlp, x data": ("mlp", cluster.Plan((2, 1), (), stages=2, micro=2), {}),
    "mlp, x zero 1": ("mlp", cluster.Plan((2, 1), (), 1, stages=2, micro=4), {}),
    "mlp, x zero 3": ("mlp", cluster.Plan((2, 1), (), 3, stages=2, micro=2), {}),
    "gpt, 2 stages": ("gpt", cluster.Plan((1, 1), (), stages=2, micro=4), {}),
    "gpt, 4 stages": ("gpt", cluster.Plan((1, 1), (), stages=4, micro=8), {}),
    "gpt, x data": ("gpt", cluster.Plan((2, 1), (), stages=2, micro=2), {}),
    "gpt, x model": ("gpt", cluster.Plan((1, 2), GPT_SPLITS, stages=2, micro=2, alike=True), {}),
    "lstm, 2 stages": ("lstm", cluster.Plan((1, 1), (), stages=2, micro=2), {}),
    "convolutions with batch norm": ("convolutions", cluster.Plan((1, 1), (), stages=2, micro=2), {}),
    "convolutions, x data": ("convolutions", cluster.Plan((2, 1), (), stages=2, micro=2), {}),
}


@pytest.mark.parametrize("name", ["mlp, x data", "convolutions with batch norm"])
def test_two_staged_steps_are_one_process(name: str) -> None:
    model, plan, settings = CASES[name]
    want = one_process(model, settings.get("clip"))
    for found in cluster.lockstep(lambda: train(model, plan, steps=2, **settings), plan.ranks):
        np.testing.assert_allclose(found.losses, want.losses[:2], rtol=1e-12)
        for key in want.first:
            np.testing.assert_allclose(found.first[key], want.first[key], rtol=1e-9, atol=1e-13)


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_twenty_staged_steps_are_one_process(name: str) -> None:
    """Dropout, batch norm over the whole batch, clipping by the norm of all stages."""
    model, plan, settings = CASES[name]
    for found in cluster.lockstep(lambda: train(model, plan, **settings), plan.ranks):
        check_equal(found, one_process(model, settings.get("clip")))


@pytest.mark.long
@pytest.mark.parametrize("cut", range(1, 28, 5))
def test_any_cut_is_one_process(cut: int) -> None:
    """Also in the middle of a layer, and with stages that own what the other half of it needs."""
    homes = tuple(int((k * 7 + cut) % 29 >= 14) for k in range(29))  # not even in order
    plan = cluster.Plan((1, 1), (), stages=2, micro=2, homes=homes)
    for found in cluster.lockstep(lambda: train("gpt", plan, steps=3), 2):
        np.testing.assert_allclose(found.losses, one_process("gpt").losses[:3], rtol=1e-11)


BETWEEN_BLOCKS = cluster.Plan((1, 1), (), stages=2, micro=4, homes=(0,) * 14 + (1,) * 15)


def plan_of(step: Any) -> StagedPlan:
    ((_, plan),) = step._plans.values()
    assert isinstance(plan, StagedPlan)
    return plan


def test_only_activations_and_their_gradients_travel() -> None:
    """Between neighbours one value each way for a micro-batch, and the loss: no parameter, no gradient."""
    ran: list[Any] = []
    cluster.lockstep(lambda: train("gpt", BETWEEN_BLOCKS, steps=1, ran=ran), 2)
    cut = plan_of(ran[0]).staging
    found = sorted((str(v.type), cut.home[v], tuple(to)) for v, to in cut.goes.items())
    assert found == [("f64[2,6,8]", 0, (1,)), ("f64[2,6,8]", 1, (0,)), ("f64[]", 1, (0,))]


def test_the_way_back_does_not_wait_for_all_micro_batches() -> None:
    """The count of targets divides every loss: it is known before, so forward and backward are one phase."""
    ran: list[Any] = []
    cluster.lockstep(lambda: train("gpt", BETWEEN_BLOCKS, steps=1, ran=ran), 2)
    stage0 = [s.key for s in plan_of(ran[0]).staging.of(0) if s.micro]
    assert stage0 == [(1, True, 0), (1, True, 3)]


def test_stages_keep_their_own_parameters_alone() -> None:
    plan = cluster.Plan((1, 1), (), stages=2, micro=2, homes=(0, 0, 1, 1, 1, 1, 1, 1))

    def rank() -> tuple[list[bool], float]:
        task = task_of("mlp")
        plan.apply(task)(*task.args)
        states = [s for p in task.model.parameters() for s in task.optimizer.state[p].values() if s.ndim]
        tensors = [*task.model.parameters(), *states, *(p.grad for p in task.model.parameters())]
        mine = []
        for t in tensors:
            try:
                mine.append(cluster.local(t).shape == t.shape)
            except ClusterError as error:
                assert "stage" in str(error)
                mine.append(False)
        with pytest.raises(ClusterError, match="stage"):
            task.model.out.weight.numpy()
        return mine, float(sum(bool(m) for m in mine))

    (first, a), (second, b) = cluster.lockstep(rank, 2)
    assert all(x != y for x, y in zip(first, second, strict=True)) and a and b


def test_micro_batches_that_are_left_out_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison with one process fails if one micro-batch's gradients do not count."""
    plain = _Run._add

    def forgets(self: _Run, m: Any, value: Any) -> None:
        plain(self, m, value if m.out not in self.sums else 0 * value)

    monkeypatch.setattr(_Run, "_add", forgets)
    found = cluster.lockstep(lambda: train("mlp", CASES["mlp, 2 stages"][1], steps=1), 2)[0]
    assert abs(found.losses[0] / one_process("mlp").losses[0] - 1) > 1e-3


# -- the search ----------------------------------------------------------------------------------------------


def test_the_cut_of_the_first_plan_is_the_best_of_all() -> None:
    task = task_of("gpt")
    judge = Judge(task, cluster.Machine())
    found = cluster.plans(task, 2, stages=(2,), micro=4)
    paper = PaperPipeline(judge, cluster.Plan((1, 1), (), stages=2, micro=found[0].micro))
    cuts = Cuts(judge, SMALL)
    every = [cuts.homes(c) for c in itertools.combinations(range(1, len(cuts.weights)), 1)]
    best = min(paper.judged(homes).seconds for homes in every)
    assert found[0].stages == 2 and found[0].seconds == pytest.approx(best, rel=1e-9)


def test_balanced_cuts() -> None:
    cuts = Cuts(Judge(task_of("mlp"), cluster.Machine()), SMALL)
    cuts.weights = [5.0, 1.0, 1.0, 1.0, 4.5]
    cuts.places = [1, 2, 3, 4]
    assert cuts.balanced(2) == (2,) and cuts.balanced(3) == (1, 4)
    assert cuts.balanced(5) == (1, 2, 3, 4)


def test_a_searched_plan_runs_as_predicted() -> None:
    """In memory; and what a rank needs was not far from what was said."""
    plan = cluster.plans(task_of("mlp"), 2, stages=(2,))[0]

    def rank() -> cluster.Plan:
        return cluster.measured(plan, task_of("mlp"), steps=1)

    for found in cluster.lockstep(rank, 2):
        assert found.measured is not None and 0.3 * plan.memory < found.measured[1] < SPARE * plan.memory
    assert "2 pipeline stages" in str(plan) and "micro-batches" in str(plan)


def test_memory_can_make_stages_the_first_choice() -> None:
    """What does not fit whole fits in two stages."""
    task = task_of("mlp")
    flat = min(p.memory for p in cluster.plans(task, 2, stages=(1,)) if not p.zero and not p.splits)
    found = [p for p in cluster.plans(task, 2, stages=(1, 2)) if p.stages == 2 or not (p.zero or p.splits)]
    least = min(p.memory for p in found)
    tight = cluster.Machine(memory=SPARE * least)
    assert least < flat
    fit = [p for p in cluster.plans(task, 2, tight) if p.fits]
    assert all(SPARE * p.memory <= tight.memory for p in fit) and any(p.stages == 2 for p in fit)


def test_batches_must_divide() -> None:
    plan = cluster.Plan((1, 1), (), stages=2, micro=3)

    def rank() -> None:
        task = task_of("mlp")
        plan.apply(task)(*task.args)

    with pytest.raises(ArgumentError, match="multiple of 3"):
        cluster.lockstep(rank, 2)
    assert all(8 % p.micro == 0 for p in cluster.plans(task_of("mlp"), 2, stages=(2,)))


def test_a_checkpoint_of_stages_is_that_of_one_process(tmp_path: Path) -> None:
    plan = CASES["mlp, 2 stages"][1]

    def rank() -> None:
        task = task_of("mlp")
        step = plan.apply(task)
        tb.manual_seed(3)
        for _ in range(2):
            step(*task.args)
        cluster.save(tmp_path / "c", task.model, task.optimizer)

    def again() -> list[float]:
        task = task_of("mlp")
        step = plan.apply(task)
        cluster.load(tmp_path / "c", task.model, task.optimizer)
        return [step(*task.args).item()]

    def alone() -> list[float]:
        task = task_of("mlp")
        cluster.load(tmp_path / "c", task.model, task.optimizer)
        return [task.step(*task.args).item()]

    cluster.lockstep(rank, 2)
    want = one_process("mlp")
    tb.manual_seed(5)
    one = alone()

    def seeded() -> list[float]:
        tb.manual_seed(5)
        return again()

    for found in cluster.lockstep(seeded, 2):
        np.testing.assert_allclose(found, one, rtol=1e-12)
    assert made("mlp") is not None and one[0] != want.losses[0]


# -- steps of other kinds ------------------------------------------------------------------------------------


class Tied(nn.Module):
    """One table for the way in and the way out, a frozen layer, a layer that nobody uses."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.up = nn.Embedding(7, 6), nn.Linear(6, 9)
        self.norm, self.down = nn.BatchNorm1d(9), nn.Linear(9, 6)
        self.idle = nn.Linear(3, 3)
        for p in self.up.parameters():
            p.requires_grad_(False)

    def forward(self, x: Any) -> Any:
        return self.down(tb.tanh(self.norm(self.up(self.table(x))))) @ self.table.weight.T


def tied(kind: str) -> cluster.Task:
    tb.manual_seed(4)
    model = Tied().double() if kind != "bfloat16" else Tied().bfloat16()
    used = [p for n, p in model.named_parameters() if p.requires_grad and "idle" not in n]
    opt = optim.SGD(used, lr=0.3, momentum=0.9) if kind == "adds up" else optim.Adam(used, lr=0.02)
    for p in model.parameters():
        opt.state.setdefault(p, {})
    rng = np.random.default_rng(5)

    def step(x: Any, y: Any) -> Any:
        out = model(x)
        loss = nn.functional.cross_entropy(out.to(tb.float64), y)
        if kind != "adds up":
            opt.zero_grad()
        loss.backward()
        opt.step()
        return {"loss": loss, "out": out, "right": (out.argmax(-1) == y).sum()}

    args = [tb.tensor(rng.integers(0, 7, 8)), tb.tensor(rng.integers(0, 7, 8))]
    return cluster.Task(step, model, opt, args)


@pytest.mark.parametrize("kind", ["plain", "adds up", "bfloat16"])
@pytest.mark.parametrize(
    "plan",
    [
        cluster.Plan((1, 1), (), stages=2, micro=2, homes=(0, 0, 0, 1, 1, 1, 1, 1, 1)),
        cluster.Plan((1, 1), (), stages=2, micro=2, homes=(1, 0, 1, 0, 1, 0, 1, 0, 1)),
        cluster.Plan((2, 1), (), 3),
    ],
    ids=["halves", "in turn", "zero 3"],
)
def test_steps_of_other_kinds(kind: str, plan: cluster.Plan) -> None:
    """Tied and frozen parameters, gradients that add up over steps, whole results, statistics in buffers."""

    def results(task: cluster.Task, step: Any) -> list[Any]:
        out: list[Any] = []
        for _ in range(3):
            found = step(*task.args)
            out += [
                np.array(cluster.whole(found[k]).to(tb.float64).numpy()) for k in ("loss", "out", "right")
            ]
        kept = [*task.model.parameters(), *task.model.buffers()]
        return out + [np.array(cluster.whole(t).to(tb.float64).numpy()) for t in kept]

    task = tied(kind)
    want = results(task, tb.jit(task.step))

    def rank() -> list[Any]:
        task = tied(kind)
        return results(task, plan.apply(task))

    for found in cluster.lockstep(rank, 2):
        for a, b in zip(found, want, strict=True):
            np.testing.assert_allclose(a, b, **({"atol": 0.15} if kind == "bfloat16" else {"rtol": 1e-10}))
