"""Plans: as good as trying everything, within memory, described machines, growth with layers and ranks."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite import cluster, nn, optim
from trilobite.base.errors import ArgumentError
from trilobite.cluster.planning import machines
from trilobite.cluster.planning.prediction import alive, as_compiled, work
from trilobite.cluster.planning.search import SPARE, Judge, kind

ROOT = Path(__file__).resolve().parent.parent.parent


def mlp(sizes: tuple[int, ...], batch: int) -> cluster.Task:
    tb.manual_seed(1)
    layers: list[Any] = []
    for a, b in itertools.pairwise(sizes):
        layers += [nn.Linear(a, b, bias=False), nn.Tanh()]
    model = nn.Sequential(*layers[:-1])
    opt = optim.AdamW(model.parameters(), lr=1e-2)

    def step(x: Any, y: Any) -> Any:
        loss = ((model(x) - y) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    rng = np.random.default_rng(2)
    args = [tb.tensor(rng.normal(size=(batch, n)).astype("f4")) for n in (sizes[0], sizes[-1])]
    return cluster.Task(step, model, opt, args)


def every_plan(task: cluster.Task, ranks: int) -> list[cluster.Plan]:
    names = [n for n, _ in task.model.named_parameters()]
    out = []
    for m in (k for k in range(1, ranks + 1) if ranks % k == 0):
        for row in itertools.product((None, 0, 1), repeat=len(names)):
            splits = tuple((n, (("model", d),)) for n, d in zip(names, row, strict=True) if d is not None)
            if m > 1 or not splits:
                out += [cluster.Plan((ranks // m, m), tuple(sorted(splits)), z) for z in (0, 1, 3)]
    return out


@pytest.mark.parametrize(("sizes", "batch"), [((512, 2048, 512), 16), ((64, 128, 64), 512)])
def test_the_first_plan_is_the_best_of_all(sizes: tuple[int, ...], batch: int) -> None:
    task = mlp(sizes, batch)
    judge = Judge(task, cluster.Machine())
    best = min(judge.predicted(p).seconds for p in every_plan(task, 2))
    assert cluster.plans(task, 2)[0].seconds == pytest.approx(best, rel=1e-9)


def test_columns_then_rows_are_found() -> None:
    """Nothing here knows Megatron's layers."""
    splits = dict(next(p for p in cluster.plans(mlp((256, 4096, 256), 4), 2) if p.splits).splits)
    assert splits == {"0.weight": (("model", 0),), "2.weight": (("model", 1),)}


def test_plans_stay_within_memory() -> None:
    task = mlp((256, 2048, 256), 64)
    free = cluster.plans(task, 2)
    tight = cluster.Machine(memory=SPARE * sorted(p.memory for p in free)[len(free) // 2])
    found = cluster.plans(task, 2, tight)
    assert SPARE * found[0].memory <= tight.memory < SPARE * max(p.memory for p in found)
    fits = [p.fits for p in found]
    assert True in fits and False in fits and fits == sorted(fits, reverse=True)
    assert "does not fit" in str(found[-1]) and "does not fit" not in str(found[0])


@pytest.mark.parametrize("zero", [0, 1, 3])
@pytest.mark.parametrize("model", [1, 2])
def test_a_compiled_step_stays_within_what_was_predicted(zero: int, model: int) -> None:
    """With the room that plans leave; and the predicted bytes are not many times too many."""
    splits = (("0.weight", (("model", 0),)), ("2.weight", (("model", 1),))) if model == 2 else ()
    plan = Judge(mlp((64, 256, 64), 512), cluster.Machine()).judged(
        cluster.Plan((2 // model, model), splits, zero)
    )

    def rank() -> cluster.Plan:
        return cluster.measured(plan, mlp((64, 256, 64), 512), steps=1)

    for found in cluster.lockstep(rank, 2):
        assert found.measured is not None and found.measured[0] > 0
        assert 0.4 * plan.memory < found.measured[1] < SPARE * plan.memory
        assert "measured:" in str(found)


def test_a_plan_that_is_applied_trains_as_one_process() -> None:
    want_task = mlp((6, 10, 4), 6)
    want = [float(want_task.step(*want_task.args).item()) for _ in range(3)]
    chosen = cluster.plans(mlp((6, 10, 4), 6), 2)
    plan = next(p for p in chosen if p.splits and p.mesh[1] == 2)

    def rank() -> list[float]:
        task = mlp((6, 10, 4), 6)
        step = plan.apply(task)
        return [float(step(*task.args).item()) for _ in range(3)]

    for found in cluster.lockstep(rank, 2):
        np.testing.assert_allclose(found, want, rtol=1e-5)


def test_every_kind_of_plan_can_be_judged_and_applied() -> None:
    """What a search returns: meshes, splits, ZeRO, stages, and these together, on four ranks; one that has
    stages is measured as well.
    """
    sizes, batch = (8, 12, 8), 16
    want_task = mlp(sizes, batch)
    want = [float(want_task.step(*want_task.args).item()) for _ in range(2)]
    judge = Judge(mlp(sizes, batch), cluster.Machine())
    kinds = {(p.mesh, p.zero, p.stages, bool(p.splits)): p for p in cluster.plans(mlp(sizes, batch), 4)}
    assert {k[2] for k in kinds} == {1, 2} and {k[1] for k in kinds if k[2] == 2} == {0, 1, 3}
    for plan in kinds.values():
        assert plan.ranks == 4
        again = judge.judged(plan)
        assert again == plan and again.seconds == pytest.approx(plan.seconds)
        assert again.memory == pytest.approx(plan.memory)
    staged = judge.judged(next(p for p in kinds.values() if p.stages == 2))

    def rank() -> list[list[float]]:
        found = cluster.measured(staged, mlp(sizes, batch), steps=1).measured
        assert found is not None and found[0] > 0
        out = []
        for plan in kinds.values():
            task = mlp(sizes, batch)
            step = plan.apply(task)
            out.append([float(step(*task.args).item()) for _ in range(2)])
        return out

    for row in cluster.lockstep(rank, 4):
        for losses in row:
            np.testing.assert_allclose(losses, want, rtol=1e-5)


def deep(layers: int) -> cluster.Task:
    return mlp((64, *(64,) * layers, 64), 4096)


def test_what_a_layer_adds_is_what_further_ones_add() -> None:
    """One and two layers say what five cost, within the difference of first and last ones."""
    plan = cluster.Plan((64, 1), ())
    costs = [Judge(deep(n), cluster.Machine()).predicted(plan) for n in (1, 2, 5)]
    guess = costs[0].grown(costs[1], 4)
    assert guess.seconds == pytest.approx(costs[2].seconds, rel=0.05)
    assert guess.state == pytest.approx(costs[2].state, rel=0.05)


def test_growth_with_ranks_and_layers() -> None:
    """4,096 ranks and a thousand layers take about as long as 64 and ten, on paper."""
    times = []
    for ranks, layers in ((64, 10), (4096, 1000)):
        begun = time.thread_time()
        found = cluster.plans(deep, ranks, layers=layers, stages=(1, 4), most_model=2)
        times.append(time.thread_time() - begun)
        assert any(p.stages == 4 for p in found) and all(p.ranks == ranks for p in found)
    assert times[1] < 4 * times[0] + 1.0


def test_kinds_of_names() -> None:
    assert kind("blocks.12.up.weight") == "blocks.*.up.weight"
    assert kind("layer1.0.conv2.weight") == "layer1.*.conv2.weight"


def test_elementwise_chains_are_one_pass_over_memory() -> None:
    machine = cluster.Machine(kernel=1e-9, cache=1.0)
    x = tb.zeros(1 << 20)

    def seconds(n: int) -> float:
        def chain(x: Any) -> Any:
            for _ in range(n):
                x = tb.tanh(x) * 0.5
            return x

        graph = tb.jit(chain).lower(x).graph
        assert alive(graph) <= 4 << 20
        return work(graph, machine, 8 << 20)

    assert seconds(2) == pytest.approx(2 * 4 * (1 << 20) / machine.stream, rel=0.2)


def test_views_move_no_bytes() -> None:
    """Other shapes, and products in another order of axes; a transpose that elements are read from moves."""
    a, b = tb.rand(256, 8), tb.rand(8, 512)
    machine = cluster.Machine(flops=1e15, cached=1e10, kernel=1e-15)

    def bytes_moved(fn: Any) -> float:
        return work(tb.jit(fn).lower(a, b).graph, machine, 1e9) * 1e10

    made, given = 256 * 512 * 4, (256 + 512) * 8 * 4
    for fn in (
        lambda x, y: x @ y,
        lambda x, y: (x @ y).reshape(512, 256).detach(),
        lambda x, y: (x @ y).transpose(0, 1),
        lambda x, y: y.transpose(0, 1) @ x.transpose(0, 1),
    ):
        assert bytes_moved(fn) == pytest.approx(made + given, rel=1e-3)
    turned = bytes_moved(lambda x, y: (x @ y).exp().transpose(0, 1) + 1.0)
    assert turned > 3 * made


def test_few_bytes_travel_with_the_word() -> None:
    """What a collective waits for: one exchange, or more of them for many bytes."""
    costs = cluster.Machine(latency=1.0, bandwidth=1e18).costs((4, 1))
    rows = [("all_reduce", 8192, 2), ("all_reduce", 8196, 6), ("all_gather", 32768, 2),
            ("all_gather", 32772, 4), ("reduce_scatter", 1000000, 4)]  # fmt: skip
    for name, nbytes, wanted in rows:
        assert costs.collective(f"cluster_{name}", nbytes, 4, (0,)) == pytest.approx(wanted)


def test_what_caches_hold_is_quicker() -> None:
    """A step that fits touches everything at the caches' speed; one that is much larger, at the memory's."""
    machine = cluster.Machine(stream=1e9, cache=1e6, cached=1e10)
    assert machine.through(1e6, 0.5e6) == pytest.approx(1e-4)
    assert machine.through(1e6, 1e12) == pytest.approx(1e-3, rel=1e-3)
    assert 1e-4 < machine.through(1e6, 2e6) < 1e-3
    graph = tb.jit(lambda x: x * 2.0).lower(tb.zeros(1 << 20)).graph
    assert 5 * work(graph, machine, 1e6) < work(graph, machine, 1e9)


def test_where_caches_end_is_where_loops_get_slower() -> None:
    sizes = [1 << k for k in range(20, 28)]
    machine = cluster.Machine(stream=1e10, cache=2e7, cached=5e10)
    found = machines._of_memory({size: size / machine.through(size, size) for size in sizes})
    assert found["cached"] == 5e10
    assert found["cache"] == pytest.approx(2e7, rel=0.05)
    assert found["stream"] == pytest.approx(1e10, rel=0.02)
    flat = machines._of_memory({1 << 20: 1e10, 1 << 27: 1e10})
    assert flat["stream"] == pytest.approx(1e10) and flat["cached"] == 1e10


def test_loops_cost_what_the_compiler_makes_of_them() -> None:
    """The gradient of a recurrent weight is one product behind the loop, not a sum that every step reads and
    writes.
    """
    tb.manual_seed(0)
    machine = cluster.Machine(flops=1e15, stream=1e10, cached=1e10, kernel=1e-15)
    lstm = tb.nn.LSTM(8, 64)

    def step(x: Any) -> Any:
        loss = (lstm(x)[0] ** 2).sum()
        loss.backward()
        return loss

    graph = tb.jit(step).lower(tb.rand(32, 2, 8)).graph
    grown, recurrent = 32 * 3 * 256 * 64 * 4, 256 * 64 * 4
    as_recorded, seen = work(graph, machine, 1e9) * 1e10, work(as_compiled(graph), machine, 1e9) * 1e10
    assert as_recorded > grown + 32 * recurrent  # carried, read and written in every step
    assert seen < as_recorded - 0.9 * grown
    assert alive(as_compiled(graph)) < alive(graph)
    assert as_compiled(tb.jit(lambda x: x + 1).lower(tb.ones(2)).graph).outputs


def test_messages_that_a_rank_handles_take_its_time() -> None:
    """Sums that are under way together share the rest of their latency."""
    task = mlp((8, 8, 8, 8), 8)
    plan = cluster.Plan((2, 1), ())
    little, much = (
        Judge(task, cluster.Machine(latency=1e-3, bandwidth=1e15, handling=h)).predicted(plan).along["data"]
        for h in (1e-9, 0.5)
    )
    n = len(list(task.model.parameters()))
    assert much - little > 0.5e-3 * (n - 1)


def test_machines_in_files(tmp_path: Path) -> None:
    cluster.Machine(flops=1e14, devices_per_node=8).save(tmp_path / "m.yaml")
    found = cluster.described(tmp_path / "m.yaml")
    assert found == cluster.Machine(flops=1e14, devices_per_node=8)
    costs = found.costs((16, 8))
    assert costs.sides[1].bandwidth == found.bandwidth and costs.sides[0].bandwidth == found.node_bandwidth
    (tmp_path / "bad.yaml").write_text("speed: 3\n")
    with pytest.raises(ArgumentError, match="speed"):
        cluster.described(tmp_path / "bad.yaml")
    with pytest.raises(ArgumentError, match="flops"):
        cluster.Machine(flops=0)


def test_measured_figures_are_figures() -> None:
    found = cluster.Machine(**machines._computing(0.05))
    assert 1e8 < found.flops < 1e14 and 1e-9 < found.kernel < 1e-2
    assert 1e7 < found.stream <= found.cached < 1e14


def test_dry_run_prints_plans(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from test_planning import deep as task\nLAYERS = 100\n"
        "assert __name__ != '__main__'\n"
    )
    command = [sys.executable, "-m", "trilobite", "launch", "--dry-run", "-n", "2", str(script)]
    done = subprocess.run(
        [*command, str(ROOT / "tests" / "cluster")], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    assert "plans for 2 ranks fit into memory" in done.stdout and "a step" in done.stdout


def split_on_paper(zero: int, machine: cluster.Machine) -> tuple[Any, dict[str, float]]:
    """A data-parallel step of four layers on two ranks, and what its collectives add."""
    task = mlp((32, 32, 32, 32, 32), 64)
    judge = Judge(task, machine)
    found = judge.predicted(cluster.Plan((2, 1), (), zero))
    return found, found.along


def test_latencies_of_sums_that_are_under_way_together_count_once() -> None:
    """Gradients of all layers travel at once; gathers of ZeRO 3 are waited for one after another."""
    near = {"latency": 1e-3, "node_latency": 1e-3, "bandwidth": 1e15, "node_bandwidth": 1e15}
    machine = cluster.Machine(**near, handling=1e-9)  # type: ignore[arg-type]
    once = machine.costs((2, 1)).collective("cluster_all_reduce", 0.0, 2, (0,))
    assert split_on_paper(0, machine)[1]["data"] == pytest.approx(once, rel=0.1)
    assert split_on_paper(3, machine)[1]["data"] > 1.9 * once


def test_bytes_that_a_rank_moves_itself_are_not_hidden() -> None:
    near = {"latency": 1e-9, "node_latency": 1e-9, "bandwidth": 1e6, "node_bandwidth": 1e6, "flops": 1e6}
    hidden = split_on_paper(0, cluster.Machine(**near, exposed=1e-6))[1]["data"]
    own = split_on_paper(0, cluster.Machine(**near, exposed=1.0))[1]["data"]
    moved = 4 * 32 * 32 * 4 / 1e6
    assert own == pytest.approx(moved, rel=0.05) and hidden < 0.5 * moved


def test_sums_stand_behind_what_they_sum() -> None:
    """Gradients are sent in the order of the backward pass, each as soon as it is there."""

    def rank() -> list[tuple[int, int]]:
        task = mlp((8, 9, 10, 11), 4)
        graph = cluster.Plan((2, 1), ()).apply(task).plan(*task.args).made.graph
        maker = {v: i for i, e in enumerate(graph.equations) for v in e.outputs}
        sums = [(i, e) for i, e in enumerate(graph.equations) if e.primitive.name == "cluster_all_reduce"]
        assert all(maker[e.inputs[0]] == i - 1 for i, e in sums)
        return [tuple(map(int, e.inputs[0].type.shape)) for _, e in sums if e.inputs[0].type.ndim == 2]  # type: ignore[misc]

    assert cluster.lockstep(rank, 2)[0] == [(11, 10), (10, 9), (9, 8)]
