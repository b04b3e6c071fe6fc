"""Trilobite's side of a row. The target is `cpu`, unless the harness was told another (`--target`)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.peers import weights
from benchmarks.row import Job

VARIABLE = "TRILOBITE_BENCH_TARGET"


def target() -> str:
    return os.environ.get(VARIABLE, "cpu")


def compiled(fn: Callable[..., Any]) -> Any:
    import trilobite as tb

    return tb.jit(fn, target=target())


def network(name: str, **options: Any) -> Any:
    """A zoo network with the weights that all systems get."""
    import trilobite as tb

    model = tb.zoo.create(name, initialise=False, **options)
    state = model.state_dict()
    for key, value in weights.each(name, **options):
        state[key].copy_(tb.from_numpy(value))
    return model


def job(fn: Callable[..., Any], *arrays: Any) -> Job:
    """The call of a compiled function without gradients, and what it gives."""
    import trilobite as tb

    jitted, given = compiled(fn), [tb.tensor(a) for a in arrays]

    def work() -> Any:
        with tb.no_grad():
            return jitted(*given)

    return Job(work, lambda: [work().numpy()], lambda: program(jitted, *given))


def program(jitted: Any, *given: Any) -> str:
    """The plan: steps, and what memory they need."""
    text: str = jitted.lower(*given).stages["program"]
    return text


def inference(name: str, x: Any, **options: Any) -> Job:
    return job(network(name, **options).eval(), x)


def first_losses(step: Callable[[], Any], text: Callable[[], str] | None = None) -> Job:
    return Job(step, lambda: [np.array([float(step()) for _ in range(3)])], text)


def training(name: str, x: Any, y: Any, eager: bool = False) -> Job:
    """Forward, backward and Adam; the outputs are the first three losses."""
    import trilobite as tb

    model = network(name)
    optimizer = tb.optim.Adam(model.parameters(), lr=1e-3)
    given, wanted = tb.tensor(x), tb.tensor(y.reshape(-1))

    def update(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        scores = model(x)
        loss = tb.nn.functional.cross_entropy(scores.reshape(-1, scores.shape[-1]), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    step = update if eager else compiled(update)
    text = None if eager else lambda: program(step, given, wanted)
    return first_losses(lambda: step(given, wanted), text)
