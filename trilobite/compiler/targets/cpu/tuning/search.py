"""The search: which parameters to measure next, until trials or time are used up.

Enters: a space, a function that measures. Leaves: all that was measured, best first. The default comes
first; then points next to the best so far, and now and then one from anywhere, in case that best is only one
among its neighbours.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import field

import numpy as np

from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.tuning.spaces import Space

Parameters = dict[str, int]
Measure = Callable[[Parameters], float]
_ANYWHERE = 0.25  # of all trials


@dataclass
class Found:
    """Trials in the order in which they were made."""

    trials: list[tuple[Parameters, float]] = field(default_factory=list)

    @property
    def best(self) -> tuple[Parameters, float]:
        return min(self.trials, key=lambda t: t[1])

    def ranked(self) -> list[tuple[Parameters, float]]:
        return sorted(self.trials, key=lambda t: t[1])

    def seen(self) -> set[tuple[int, ...]]:
        return {tuple(p.values()) for p, _ in self.trials}


@dataclass(frozen=True)
class Budget:
    """Ends a search: whichever comes first."""

    trials: int
    seconds: float = math.inf

    def until(self) -> float:
        return time.perf_counter() + self.seconds


def search(
    space: Space, default: Parameters, measure: Measure, budget: Budget, rng: np.random.Generator
) -> Found:
    found, until = Found(), budget.until()
    point: Parameters | None = default
    while point is not None:
        found.trials.append((point, measure(point)))
        if len(found.trials) >= budget.trials or time.perf_counter() > until:
            break
        point = _next(space, found, rng)
    return found


def _next(space: Space, found: Found, rng: np.random.Generator) -> Parameters | None:
    """A point beside the best one that has such which were not measured, or any other; None without one."""
    seen = found.seen()
    beside = ([p for p in space.beside(q) if tuple(p.values()) not in seen] for q, _ in found.ranked())
    left = next(filter(None, beside), [])
    if not left or rng.random() < _ANYWHERE:
        left = [p for p in space if tuple(p.values()) not in seen]
    return left[int(rng.integers(len(left)))] if left else None
