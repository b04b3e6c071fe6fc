"""One of two processes that train together: `python -m benchmarks.cluster_step SYSTEM STRATEGY NETWORK`.

Each has half of the rows of a batch (of `rows_training`), batch norm by its own half. The first prints the
median seconds of a step as JSON, with the first losses, which systems must share.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

WARM, STEPS = 4, 24
Step = Callable[[], float]


def halves(shown: str, rank: int) -> tuple[Any, Any]:
    from benchmarks.rows_training import batch

    x, y = batch(shown)
    half = x.shape[0] // 2
    return x[rank * half : (rank + 1) * half], y[rank * half : (rank + 1) * half]


def on_trilobite(strategy: str, shown: str) -> tuple[Step, int]:
    import trilobite as tb
    from benchmarks import ours
    from benchmarks.rows_training import STEPS as networks
    from trilobite import cluster

    model = ours.network(networks[shown][0])
    x, y = (tb.tensor(a) for a in halves(shown, cluster.rank()))
    wanted = y.reshape(-1)

    def adam(parameters: Any) -> Any:
        return tb.optim.Adam(parameters, lr=1e-3)

    if strategy == "data":
        whole: Any = cluster.DataParallel(model)
        optimizer = adam(model.parameters())
    else:
        whole = optimizer = cluster.Zero(model, adam, 3)

    def update(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        scores = whole(x)
        loss = tb.nn.functional.cross_entropy(scores.reshape((-1, scores.shape[-1])), y)
        loss.backward()
        whole.reduce_gradients()
        optimizer.step()
        return loss.detach()

    step = tb.jit(update)
    return lambda: float(step(x, wanted).item()), cluster.rank()


def on_torch(strategy: str, shown: str) -> tuple[Step, int]:
    import torch
    import torch.distributed as dist

    from benchmarks.peers import networks, weights
    from benchmarks.peers.on_torch import Ops
    from benchmarks.rows_training import STEPS as named

    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo", init_method="env://", world_size=2, rank=rank)
    name = named[shown][0]

    class Network(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.names = list(weights.trained(name))
            for i, value in enumerate(weights.trained(name).values()):
                self.register_parameter(f"p{i}", torch.nn.Parameter(torch.from_numpy(value)))

        def forward(self, x: Any) -> Any:
            held = {key: getattr(self, f"p{i}") for i, key in enumerate(self.names)}
            return getattr(networks, name)(Ops, held, x)

    if strategy == "data":
        model = torch.nn.parallel.DistributedDataParallel(Network())
    else:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        model = Network()
        fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    x, y = (torch.from_numpy(np.ascontiguousarray(a)) for a in halves(shown, rank))
    wanted = y.reshape(-1)

    def step() -> float:
        optimizer.zero_grad()
        scores = model(x)
        loss = torch.nn.functional.cross_entropy(scores.reshape(-1, scores.shape[-1]), wanted)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step, rank


def main() -> None:
    system, strategy, shown = sys.argv[1:4]
    step, rank = (on_trilobite if system == "trilobite" else on_torch)(strategy, shown)
    losses = [step() for _ in range(WARM)]
    times = []
    for _ in range(STEPS):
        begun = time.perf_counter()
        step()
        times.append(time.perf_counter() - begun)
    if rank == 0:
        print(
            json.dumps({"seconds": float(np.median(times)), "least": min(times), "losses": losses}),
            flush=True,
        )
    if system == "torch":
        import torch.distributed as dist

        dist.destroy_process_group()


if __name__ == "__main__":
    main()
