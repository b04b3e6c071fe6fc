"""Sharded functions on four processes: every rank trains over MPI and compares with one process."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from trilobite import cluster

sys.path.insert(0, str(Path(__file__).parent))
models: Any = import_module("cluster_models")
train: Any = import_module("sharding_models").train
staged: Any = import_module("staged_models").train

CASES: list[tuple[str, tuple[int, int], dict[str, Any]]] = [
    ("mlp", (2, 2), {}),
    ("mlp", (4, 1), {"zero": 3}),
    ("mlp", (2, 2), {"zero": 1}),
    ("convolutions", (2, 2), {"space": True, "splits": False}),
    ("convolutions", (2, 2), {}),
    ("gpt", (2, 2), {}),
    ("gpt", (1, 4), {}),
    ("lstm", (4, 1), {}),
]
for name, shape, settings in CASES:
    models.check_equal(train(name, shape, **settings), models.one_process(name))
    print("equal", name, shape, cluster.rank(), flush=True)

PLANS: list[tuple[str, cluster.Plan]] = [
    ("gpt", cluster.Plan((1, 1), (), stages=4, micro=4)),
    ("mlp", cluster.Plan((2, 1), (), stages=2, micro=2)),
    ("gpt", cluster.Plan((1, 2), (("blocks.*.up.weight", (("model", 0),)),), stages=2, micro=2, alike=True)),
    ("convolutions", cluster.Plan((2, 1), (), 3, stages=2, micro=2)),
]
for name, plan in PLANS:
    models.check_equal(staged(name, plan), models.one_process(name))
    print("equal", name, plan.stages, "stages", cluster.rank(), flush=True)
