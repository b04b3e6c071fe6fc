"""A training whose ranks die on the way: those that are left go on, and end where one process ends.

Arguments: strategy, steps, a folder, and which rank of the start dies at which step: `zero3 12 /tmp/f 1@4`.
`zero1` keeps no copies: it writes checkpoints.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import trilobite as tb
from trilobite import cluster as c

sys.path.insert(0, str(Path(__file__).parent))
models: Any = import_module("cluster_models")
strategy, steps, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
deaths = dict(tuple(map(int, d.split("@"))) for d in sys.argv[4:])
START = c.rank()
ROWS = 12
rng = np.random.default_rng(2)
X, Y = rng.normal(size=(ROWS, 6)), rng.integers(0, 5, ROWS)


def make() -> Any:
    tb.manual_seed(7)
    return models.MLP().double()


def built(model: Any) -> tuple[Any, Any, Any]:
    """The model as this strategy has it, its optimiser, and a step."""
    if strategy.startswith("zero"):
        zero = c.Zero(model, models.adam, int(strategy[-1]))

        def zero_step(x: Any, y: Any) -> Any:
            zero.zero_grad()
            loss = models.loss_of(zero(x), y)
            loss.backward()
            zero.reduce_gradients()
            zero.step()
            return loss.detach()

        return zero, zero.optimizer, zero_step
    dp, opt = c.DataParallel(model), models.adam(model.parameters())

    @tb.jit
    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        loss = models.loss_of(dp(x), y)
        loss.backward()
        dp.reduce_gradients()
        opt.step()
        return loss.detach()

    return dp, opt, step


def train(copies: c.Copies) -> Any:
    model, opt, step = built(make())
    tb.manual_seed(3)
    done = copies.restore(model, opt) or 0
    print(f"from {done} on {c.size()}", flush=True)
    x, y = c.own_rows(tb.tensor(X)), c.own_rows(tb.tensor(Y))
    (folder / f"pid{START}").write_text(str(os.getpid()))  # whoever wants to kill this rank finds it
    while done < steps:
        if deaths.get(START) == done:
            os.kill(os.getpid(), signal.SIGKILL)
        while done == steps - 1 and (folder / "hold").exists():
            time.sleep(0.01)  # somebody is not done with killing
        step(x, y)
        done += 1
        if copies.checkpoint is None:
            copies.keep(model, opt, done)
        else:
            c.save(copies.checkpoint, model, opt, done)
    return c.whole_state(model, opt)["model"]


where = folder / "saved" if strategy == "zero1" else None
found = c.survive(train, where)
if c.rank() == 0 and strategy != "zero1":  # a checkpoint does not hold the random state
    np.savez(folder / "final.npz", **found)
print(f"ended on {c.size()}", flush=True)
