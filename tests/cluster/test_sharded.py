"""Sharded functions: what users see of split tensors, and training as one process does it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cluster_models import check_equal, distance, loss_of, one_process
from sharding_models import train

import trilobite as tb
from trilobite import cluster, nn, optim
from trilobite.base.errors import ArgumentError, ClusterError, GradientError
from trilobite.cluster.sharding import conversion, partition
from trilobite.ir.graph import Equation
from trilobite.ir.primitives import table

CASES = {
    "mlp, data": ("mlp", (2, 1), {}),
    "mlp, data x model": ("mlp", (2, 2), {}),
    "mlp, three ranks": ("mlp", (3, 1), {}),
    "mlp, zero 1": ("mlp", (2, 1), {"zero": 1}),
    "mlp, zero 3": ("mlp", (2, 1), {"zero": 3}),
    "mlp, zero 3 x model": ("mlp", (2, 2), {"zero": 3}),
    "gpt, model": ("gpt", (1, 2), {}),
    "gpt, data x model": ("gpt", (2, 2), {}),
    "gpt, zero 3": ("gpt", (2, 1), {"zero": 3}),
    "lstm, data": ("lstm", (2, 1), {}),
    "lstm, data x model": ("lstm", (2, 2), {}),
    "convolutions, data": ("convolutions", (2, 1), {}),
    "convolutions, data x channels": ("convolutions", (2, 2), {}),
    "convolutions, space": ("convolutions", (1, 2), {"space": True, "splits": False}),
    "convolutions, data x space": ("convolutions", (2, 2), {"space": True, "splits": False}),
}


@pytest.mark.parametrize("name", ["mlp, data x model", "convolutions, data x space"])
def test_a_split_step_is_one_process(name: str) -> None:
    """Loss, gradients, AdamW, dropout, batch norm over all ranks; two steps of the twenty.
    By the reference; compiled in the longer run."""
    model, shape, settings = CASES[name]
    want = one_process(model)
    for found in cluster.lockstep(
        lambda: train(model, shape, steps=2, target="reference", **settings), int(np.prod(shape))
    ):
        np.testing.assert_allclose(found.losses, want.losses[:2], rtol=1e-12)
        for key in want.first:
            np.testing.assert_allclose(found.first[key], want.first[key], rtol=1e-9, atol=1e-13)


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_twenty_split_steps_are_one_process(name: str) -> None:
    model, shape, settings = CASES[name]
    for found in cluster.lockstep(lambda: train(model, shape, **settings), int(np.prod(shape))):
        check_equal(found, one_process(model))


@pytest.mark.long
@pytest.mark.parametrize("name", ["lenet", "char_lstm", "resnet18_32x32"])
def test_networks_of_the_zoo_as_data_parallel_ranks(name: str) -> None:
    """Batch norm takes the statistics of all ranks, as one process does; two steps."""
    rng = np.random.default_rng(0)
    sizes = {"lenet": (6, 1, 28, 28), "resnet18_32x32": (6, 3, 32, 32)}
    x = rng.normal(size=sizes[name]) if name in sizes else rng.integers(0, 90, (6, 16))
    y = rng.integers(0, 10, 6) if name in sizes else rng.integers(0, 90, (6, 16))

    def trained(compile: Any) -> Any:
        tb.manual_seed(0)
        model = tb.zoo.create(name).double()
        opt = optim.SGD(model.parameters(), lr=0.01)

        def step(a: Any, b: Any) -> Any:
            loss = loss_of(model(a), b)
            opt.zero_grad()
            loss.backward()
            opt.step()
            return loss

        compiled = compile(step)
        losses = [compiled(tb.tensor(x), tb.tensor(y)).item() for _ in range(2)]
        return losses, [np.array(p.detach().numpy()) for p in model.parameters()]

    def rank() -> Any:
        mesh = cluster.mesh((2,), ("data",))
        return trained(lambda f: cluster.sharded(f, mesh=mesh, inputs=[{"data": 0}, {"data": 0}]))

    want, parameters = trained(tb.jit)
    for losses, found in cluster.lockstep(rank, 2):
        np.testing.assert_allclose(losses, want, rtol=1e-12)
        for a, b in zip(found, parameters, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-13)


def test_what_a_user_sees_of_a_split_tensor() -> None:
    def rank() -> Any:
        mesh = cluster.mesh((3,), ("rows",))
        x = tb.tensor(np.arange(14.0).reshape(7, 2))
        cluster.shard(x, mesh, rows=0)
        assert cluster.is_split(x) and x.shape == (7, 2)
        with pytest.raises(ClusterError, match="split over ranks") as told:
            x.numpy()
        assert "tb.cluster.whole" in str(told.value)
        with pytest.raises(ClusterError):
            x.sum().item()
        np.testing.assert_array_equal(cluster.whole(x).numpy(), np.arange(14.0).reshape(7, 2))
        own = cluster.local(x).numpy()
        again = cluster.from_local(own, mesh, size=7, rows=0)
        total = cluster.sharded(lambda a, b: (a * b).sum(), mesh=mesh)(x, again)
        cluster.unshard(x)
        return own.shape, total.item(), x.sum().item()

    want = float((np.arange(14.0) ** 2).sum())
    assert cluster.lockstep(rank, 3) == [((k, 2), want, 91.0) for k in (3, 2, 2)]


def test_state_that_nobody_split_follows_what_it_belongs_to() -> None:
    def rank() -> Any:
        mesh = cluster.mesh((2,), ("model",))
        tb.manual_seed(0)
        layer = nn.Linear(3, 5)
        opt = optim.Adam(layer.parameters(), lr=0.1)
        cluster.shard(layer.weight, mesh, model=0)

        @cluster.sharded(mesh=mesh)
        def step(x: Any) -> Any:
            loss = (layer(x) ** 2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            return loss

        loss = step(tb.tensor(np.ones((4, 3), np.float32)))
        state = [t for t in opt.state[layer.weight].values() if t.shape == (5, 3)]
        assert state and all(cluster.is_split(t) for t in state)
        assert cluster.is_split(layer.weight.grad) and not cluster.is_split(layer.bias)
        assert cluster.local(layer.weight).shape == (3 - cluster.rank(), 3)
        said = step.explain(tb.tensor(np.ones((4, 3), np.float32)))
        assert "all_" in said and "test_sharded.py" in said and "sent by each rank" in said
        cluster.unshard(layer, opt)
        return loss.item(), layer.weight.detach().numpy().tobytes()

    assert len(set(cluster.lockstep(rank, 2))) == 1


def test_mistakes_are_named() -> None:
    def rank() -> None:
        mesh = cluster.mesh((2,), ("model",))
        with pytest.raises(ArgumentError, match="sides"):
            cluster.shard(tb.ones((4, 4)), mesh, data=0)
        with pytest.raises(ArgumentError, match="at least one element"):
            cluster.shard(tb.ones((1, 4)), mesh, model=0)
        with pytest.raises(ArgumentError, match="no parameter matches"):
            cluster.shard(nn.Linear(2, 2), mesh, {"weights": {"model": 0}})
        layer = nn.Linear(2, 2)
        with pytest.raises(GradientError, match="history"):
            cluster.sharded(lambda x: layer(x), mesh=mesh)(tb.ones((2, 2)))
        with pytest.raises(ClusterError, match="cluster_all_reduce inside"):
            cluster.sharded(lambda x: cluster.all_reduce(x), mesh=mesh)(tb.ones((2, 2)))

    cluster.lockstep(rank, 2)


def test_one_process_runs_the_same_script() -> None:
    mesh = cluster.mesh((1, 1), ("data", "model"))
    x = cluster.shard(tb.tensor(np.arange(6.0).reshape(2, 3)), mesh, data=0)
    out = cluster.sharded(lambda a: (a * 2.0).sum(), mesh=mesh, inputs=[{"data": 0}])(x)
    assert out.item() == 30.0 and not cluster.is_split(x)


@pytest.mark.parametrize("which", range(3))
def test_a_sum_that_is_left_out_is_caught(which: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: one of the sums is what the rank has itself."""
    plain = partition.sums_early

    def forgets(*args: Any) -> list[Equation]:
        rows = plain(*args)
        sums = [i for i, e in enumerate(rows) if e.primitive.name == "cluster_all_reduce"]
        if len(sums) > which:
            e = rows[sums[which]]
            rows[sums[which]] = Equation(
                table["reshape"], e.inputs, {"shape": e.inputs[0].type.shape}, e.outputs
            )
        return rows

    monkeypatch.setattr(partition, "sums_early", forgets)
    found = cluster.lockstep(lambda: train("mlp", (2, 1), steps=1, target="reference"), 2)[0]
    want = one_process("mlp")
    far = max(abs(found.losses[0] / want.losses[0] - 1), distance(found.first, want.first))
    assert far > 1e-3


def test_a_wrong_group_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: sums along one side of the mesh go along the other."""
    plain = conversion.groups_along
    monkeypatch.setattr(
        conversion, "groups_along", lambda mesh, sides: plain(mesh, tuple(1 - a for a in sides))
    )
    found = cluster.lockstep(lambda: train("mlp", (2, 2), steps=1, target="reference"), 4)[0]
    assert distance(found.first, one_process("mlp").first) > 1e-3
