"""Plans, predicted and measured: `trilobite launch -n 2 benchmarks/cluster_plans.py`, or with words of the
names of networks behind it.

Five networks, one set of machine figures (measured first). Beside the plan that the search puts first run
seven that people write: data parallel, ZeRO, all columns, all rows, columns and rows in turn, and on four
ranks the same on 2 × 2. Prints, per plan, the predicted and the measured seconds of a step.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import trilobite as tb
from trilobite import cluster, nn, optim
from trilobite.cluster.planning.search import Judge
from trilobite.framework.nn import functional as F


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


def hand_written(task: cluster.Task, ranks: int) -> list[cluster.Plan]:
    """What people write without a search, on one side of the mesh or on both."""
    names = [n for n, p in task.model.named_parameters() if p.ndim > 1]
    every: dict[str, Callable[[int], int]] = {
        "columns": lambda i: 0,
        "rows": lambda i: 1,
        "in turn": lambda i: i % 2,
        "rows first": lambda i: 1 - i % 2,
    }
    bare = [cluster.Plan((ranks, 1), (), zero) for zero in (0, 1, 3)]
    split = []
    for model in {2, ranks}:
        for dimension in every.values():
            sides = [(n, (("model", dimension(i)),)) for i, n in enumerate(names)]
            split.append(cluster.Plan((ranks // model, model), tuple(sorted(sides))))
    return [*bare, *split]


def tried_on(task: cluster.Task, machine: cluster.Machine) -> list[cluster.Plan]:
    """The first plan of the search and seven others, written by hand as far as there are so many."""
    found = cluster.plans(task, cluster.size(), machine)
    judge = Judge(task, machine)
    others = [p for p in hand_written(task, cluster.size()) if p != found[0]]
    others += [p for p in found[1:] if p not in others]
    return [found[0], *(judge.judged(p) for p in others[:7])]


def run(plan: cluster.Plan, make: Callable[[], cluster.Task]) -> cluster.Plan:
    tb.manual_seed(0)
    return cluster.measured(plan, make())


def main() -> None:
    machine = cluster.measure(4.0)
    first = cluster.rank() == 0
    if first:
        print(machine, flush=True)
    errors, sizes = [], []
    words = sys.argv[1:] or [""]
    for name, make in NETWORKS.items():
        if not any(word in name for word in words):
            continue
        tb.manual_seed(0)
        rows = [run(p, make) for p in tried_on(make(), machine)]
        took = [p.measured or (0.0, 0.0) for p in rows]
        errors += [abs(p.seconds / s - 1) for p, (s, _) in zip(rows, took, strict=True)]
        sizes += [p.memory / m for p, (_, m) in zip(rows, took, strict=True)]
        if first:
            best = min(s for s, _ in took)
            print(f"{name}: first plan {took[0][0] / best:.2f} x the quickest of {len(rows)}", flush=True)
            for p in rows:
                print("\n".join(f"    {line}" for line in str(p).splitlines()[:2]), flush=True)
    if first:
        print(f"median error of predicted seconds {100 * float(np.median(errors)):.0f}%, "
              f"predicted / planned memory {min(sizes):.2f} to {max(sizes):.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
