"""Strategies on four processes: every rank trains over MPI, then in lock-step, and compares bits."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from trilobite import cluster as c

sys.path.insert(0, str(Path(__file__).parent))


def trainer(name: str) -> Any:
    """The function of a test module that every rank runs, for four steps."""
    module: Any = import_module(name)
    module.STEPS = 4
    return module.train


import_module("cluster_models").STEPS = 4  # type: ignore[attr-defined]
data, zero, tensor, pipeline = map(
    trainer, ("test_data_parallel", "test_zero", "test_tensor_parallel", "test_pipeline")
)


def flat(found: Any) -> list[Any]:
    if isinstance(found, dict):
        return [v for k in sorted(found) for v in flat(found[k])]
    if isinstance(found, (list, tuple)):
        return [v for x in found for v in flat(x)]
    return [np.asarray(found).tobytes()]


def work() -> list[Any]:
    """Batch norm over ranks and compiled steps; stage 3; data × sequence; data × interleaved pipeline."""
    first = data("convolutions", 4, "jit"), zero("mlp", 4, 3)
    return flat([*first, tensor((2, 2), True), pipeline("interleaved", (2, 2))])


got = work()
wanted = c.lockstep(work, 4)[c.rank()]
assert len(got) == len(wanted)
assert all(a == b for a, b in zip(got, wanted, strict=True))
print("same", len(got), flush=True)
