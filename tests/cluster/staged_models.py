"""Training of the small networks as plans of several stages, equal to one process."""

from __future__ import annotations

from typing import Any

import numpy as np
from cluster_models import STEPS, Trained, adam, case, loss_of, made

import trilobite as tb
from trilobite import cluster, nn


def task_of(name: str, clip: float | None = None) -> cluster.Task:
    at, model = case(name), made(name)
    opt = adam(model.parameters())

    def step(x: Any, y: Any) -> Any:
        loss = loss_of(model(x), y)
        opt.zero_grad()
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        opt.step()
        return loss

    return cluster.Task(step, model, opt, [tb.tensor(at.x), tb.tensor(at.y)])


def train(
    name: str, plan: cluster.Plan, steps: int = STEPS, clip: float | None = None, ran: list[Any] | None = None
) -> Trained:
    """One rank. `ran` takes the step, for those who look into it."""
    task = task_of(name, clip)
    step: Any = plan.apply(task)
    tb.manual_seed(3)
    losses, grads = [], []
    for i in range(steps):
        losses.append(step(*task.args).item())
        if i in (0, steps - 1):
            grads.append({n: whole(p.grad) for n, p in task.model.named_parameters()})
    if ran is not None:
        ran.append(step)
    return Trained(losses, grads[0], grads[-1], {n: whole(p) for n, p in task.model.named_parameters()})


def whole(t: Any) -> np.ndarray[Any, Any]:
    return np.array(cluster.whole(t).numpy())
