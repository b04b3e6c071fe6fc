"""What a search has to beat: parameters by lot."""

from __future__ import annotations

import time

import numpy as np

from trilobite.compiler.targets.cpu.tuning.search import Budget, Found, Measure, Parameters
from trilobite.compiler.targets.cpu.tuning.spaces import Space


def draw_at_random(
    space: Space, default: Parameters, measure: Measure, budget: Budget, rng: np.random.Generator
) -> Found:
    """As many different parameters by lot, after the default."""
    found, until = Found([(default, measure(default))]), budget.until()
    everything = list(space)
    for i in rng.permutation(len(everything)):
        if len(found.trials) >= budget.trials or time.perf_counter() > until:
            break
        if tuple(everything[i].values()) not in found.seen():
            found.trials.append((everything[i], measure(everything[i])))
    return found
