"""A training that saves every step and goes on where the last one stopped; tests kill it."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import trilobite as tb
from trilobite import cluster as c

sys.path.insert(0, str(Path(__file__).parent))
models: Any = import_module("cluster_models")
folder, steps = Path(sys.argv[1]), int(sys.argv[2])
(folder / f"pid{c.rank()}").write_text(str(os.getpid()))
at, done = models.case("mlp"), 0
zero = c.Zero(models.made("mlp").eval(), models.adam, 2)
if (folder / "saved").exists():
    done = c.load(folder / "saved", zero, zero.optimizer)
x, y = c.own_rows(tb.tensor(at.x)), c.own_rows(tb.tensor(at.y))
while done < steps:
    zero.zero_grad()
    models.loss_of(zero(x), y).backward()
    zero.reduce_gradients()
    zero.step()
    done += 1
    c.save(folder / "saved", zero, zero.optimizer, done)
if c.rank() == 0:
    final = {name: t.numpy() for name, t in zero.parameters_whole().items()}
    np.savez(folder / "final.npz", **final)
else:
    zero.parameters_whole()
