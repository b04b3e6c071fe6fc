"""Training of the small networks as sharded functions, equal to one process."""

from __future__ import annotations

from typing import Any

import numpy as np
from cluster_models import STEPS, Trained, adam, case, loss_of, made

import trilobite as tb
from trilobite import cluster

COLUMNS, ROWS = {"model": 0}, {"model": 1}
SPLITS: dict[str, dict[str, Any]] = {
    "mlp": {"up.*": COLUMNS, "down.weight": ROWS, "out.weight": ROWS},
    "gpt": {
        "*.up.*": COLUMNS, "*.down.weight": ROWS, "*.attention.out.weight": ROWS, "tokens.weight": COLUMNS,
        "head.weight": COLUMNS, "*.qkv.weight": COLUMNS,
    },
    "lstm": {"lstm.weight_hh_l1": COLUMNS, "out.weight": ROWS},
    "resnet18": {"layer*.*.conv1.weight": COLUMNS, "layer*.*.conv2.weight": ROWS, "fc.weight": ROWS},
    "convolutions": {"conv.weight": ROWS, "stem.weight": COLUMNS, "out.weight": ROWS},
}  # fmt: skip


def train(
    name: str, shape: tuple[int, int], splits: bool = True, zero: int = 0, space: bool = False,
    steps: int = STEPS, dtype: str = "double", target: str = "cpu",
) -> Trained:  # fmt: skip
    """One rank. `zero` splits optimiser state (1), and parameters (3), along the data."""
    at, model = case(name), made(name)
    if dtype == "float":
        model = model.float()
    opt = adam(model.parameters())
    mesh = cluster.mesh(shape, ("data", "model"))
    if splits and shape[1] > 1:
        cluster.shard(model, mesh, SPLITS[name])
    if zero:
        split_state(model, opt, mesh, zero)
    tb.manual_seed(3)
    x, y = (
        tb.tensor(at.x if at.x.dtype.kind == "i" or dtype == "double" else at.x.astype("f4")),
        tb.tensor(at.y),
    )
    inputs = [{"model": 2, "data": 0} if space else {"data": 0}, {"data": 0}]

    @cluster.sharded(mesh=mesh, inputs=inputs, target=target)
    def step(x: Any, y: Any) -> Any:
        loss = loss_of(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    losses, grads = [], []
    for i in range(steps):
        losses.append(step(x, y).item())
        if i in (0, steps - 1):
            grads.append({n: whole(p.grad) for n, p in model.named_parameters()})
    return Trained(losses, grads[0], grads[-1], {n: whole(p) for n, p in model.named_parameters()})


def whole(t: Any) -> np.ndarray[Any, Any]:
    return np.array(cluster.whole(t).numpy())


def split_state(model: Any, opt: Any, mesh: Any, stage: int) -> None:
    n = mesh.size("data")
    for p in model.parameters():
        if p.shape[0] < n or cluster.is_split(p):
            continue
        if stage == 3:
            cluster.shard(p, mesh, data=0)
        for t in opt.state[p].values():
            if t.shape == p.shape:
                cluster.shard(t, mesh, data=0)
