"""Plans, predicted and measured: `trilobite launch -n 2 benchmarks/cluster_plans.py`.

Five networks, up to eight plans each, one set of machine figures (measured first). Prints, per plan, the
predicted and the measured seconds of a step, and per network whether the plan that the search puts first is
the one that is quickest.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import trilobite as tb
from trilobite import cluster, nn, optim
from trilobite.framework.nn import functional as F

STEPS = 12


def task_of(model: Any, args: list[Any], loss: Callable[[Any, Any], Any]) -> cluster.Task:
    opt = optim.AdamW(model.parameters(), lr=1e-3)

    def step(x: Any, y: Any) -> Any:
        out = loss(model(x), y)
        opt.zero_grad()
        out.backward()
        opt.step()
        return out

    return cluster.Task(step, model, opt, args)


def _classes(out: Any, y: Any) -> Any:
    return F.cross_entropy(out.reshape((-1, out.shape[-1])), y.reshape(-1))


def _mean(out: Any, y: Any) -> Any:
    return ((out - y) ** 2).mean()


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.first, self.second, self.heads = nn.LayerNorm(width), nn.LayerNorm(width), heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        b, t, w = x.shape
        h = self.first(x)
        q, k, v = (f(h).reshape((b, t, self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        h = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape((b, t, w))
        x = x + self.out(h)
        return x + self.down(F.gelu(self.up(self.second(x))))


class Words(nn.Module):
    def __init__(self, words: int, width: int, layers: int) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(words, width), nn.Linear(width, words, bias=False)
        self.blocks = nn.ModuleList([Block(width, 4) for _ in range(layers)])

    def forward(self, x: Any) -> Any:
        h = self.table(x)
        for block in self.blocks:
            h = block(h)
        return self.head(h)


def _mlp(width: int, batch: int) -> cluster.Task:
    model = nn.Sequential(nn.Linear(256, width), nn.GELU(), nn.Linear(width, 256))
    rng = np.random.default_rng(0)
    return task_of(model, [tb.tensor(rng.normal(size=(batch, 256)).astype("f4"))] * 2, _mean)


def _words() -> cluster.Task:
    x = tb.tensor(np.random.default_rng(1).integers(0, 1000, (8, 64)))
    return task_of(Words(1000, 128, 2), [x, x], _classes)


def _pictures() -> cluster.Task:
    layers: list[Any] = [
        nn.Conv2d(3, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 32, 3, padding=1, stride=2),
        nn.ReLU(),
    ]
    layers += [nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 256, 10)]
    model = nn.Sequential(*layers)
    rng = np.random.default_rng(2)
    x = tb.tensor(rng.normal(size=(16, 3, 32, 32)).astype("f4"))
    return task_of(model, [x, tb.tensor(rng.integers(0, 10, 16))], _classes)


NETWORKS: dict[str, Callable[[], cluster.Task]] = {
    "small batch, wide layers": lambda: _mlp(4096, 8),
    "large batch": lambda: _mlp(1024, 512),
    "middle": lambda: _mlp(2048, 64),
    "transformer": _words,
    "convolutions": _pictures,
}


def measured(plan: cluster.Plan, make: Callable[[], cluster.Task]) -> float:
    """The median of some steps, the slowest rank's."""
    tb.manual_seed(0)
    task = make()
    step = plan.apply(task)
    times = []
    for _ in range(STEPS):
        begun = time.perf_counter()
        step(*task.args)
        times.append(time.perf_counter() - begun)
    return float(cluster.all_reduce(np.float64(np.median(times[3:])), "max").item())


def main() -> None:
    machine = cluster.measure(4.0)
    if cluster.rank() == 0:
        print(machine, flush=True)
    errors = []
    for name, make in NETWORKS.items():
        tb.manual_seed(0)
        found = cluster.plans(make(), cluster.size(), machine)
        tried = found[:: max(1, len(found) // 8)][:8]
        rows = [(p, measured(p, make)) for p in tried]
        best = min(s for _, s in rows)
        errors += [abs(p.seconds / s - 1) for p, s in rows]
        if cluster.rank() == 0:
            print(f"{name}: first plan {rows[0][1] / best:.2f} x the quickest of {len(rows)}", flush=True)
            for p, s in rows:
                said = str(p).splitlines()[0]
                print(f"    {s * 1e3:8.2f} ms, predicted {p.seconds * 1e3:8.2f}: {said}", flush=True)
    if cluster.rank() == 0:
        print(f"median error of the prediction {100 * float(np.median(errors)):.0f}%")


if __name__ == "__main__":
    main()
