"""The search: which parameters to measure next, until trials or time are used up.

Enters: a space, a function that measures, models. Leaves: all that was measured, best first. The default and
what the written model likes best come first. Then generations: children of the best so far, mutated and
crossed, and some newcomers; the learned model, fitted to everything measured, says which of them are worth a
measurement. It has to beat as many trials by lot.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.tuning.model import Boosted, Features
from trilobite.compiler.targets.cpu.tuning.spaces import Space

Parameters = dict[str, int]
Measure = Callable[[Parameters], float]
FIRST, BATCH, CHILDREN, PARENTS = 2, 4, 48, 6
_LEARNS_FROM = 6  # measurements, at least
_NEWCOMERS = 0.15  # of a generation, measured without asking the model


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
    space: Space,
    default: Parameters,
    measure: Measure,
    guess: Callable[[Parameters], float],
    describe: Callable[[Parameters], list[float]],
    budget: Budget,
    rng: np.random.Generator,
) -> Found:
    """Evolution, led by the written model `guess` at first and by a learned one over `describe` then."""
    found, until = Found(), budget.until()
    liked = sorted(space, key=guess)[: 8 * FIRST]
    queue = [default, *(liked[i] for i in rng.permutation(len(liked))[:FIRST])]
    queue += [space.random(rng) for _ in range(FIRST)]  # in case the written model is wrong here
    while len(found.trials) < budget.trials:
        for p in queue:
            if tuple(p.values()) in found.seen():
                continue
            found.trials.append((p, measure(p)))
            if len(found.trials) >= budget.trials or time.perf_counter() > until:
                return found
        queue = _generation(space, found, guess, describe, rng)
        if not queue:  # everything was measured
            break
    return found


def _generation(
    space: Space,
    found: Found,
    guess: Callable[[Parameters], float],
    describe: Callable[[Parameters], list[float]],
    rng: np.random.Generator,
) -> list[Parameters]:
    seen = found.seen()
    children = [c for c in _children(space, found, rng) if tuple(c.values()) not in seen]
    unique = list({tuple(c.values()): c for c in children}.values())
    if not unique:
        unique = [p for p in space if tuple(p.values()) not in seen]
        return [unique[i] for i in rng.permutation(len(unique))[:BATCH]]
    if len(found.trials) < _LEARNS_FROM:
        return sorted(unique, key=guess)[:BATCH]
    order = np.argsort(_learned(found, describe)(_table([describe(p) for p in unique])))
    chosen = [unique[i] for i in order[:BATCH]]
    if rng.random() < _NEWCOMERS * BATCH:
        chosen[-1] = unique[int(rng.integers(len(unique)))]
    return chosen


def _children(space: Space, found: Found, rng: np.random.Generator) -> list[Parameters]:
    parents = [p for p, _ in found.ranked()[:PARENTS]]
    out = []
    for _ in range(CHILDREN):
        a, b = (parents[int(rng.integers(len(parents)))] for _ in range(2))
        way = rng.random()
        child = space.random(rng) if way < _NEWCOMERS else space.crossed(a, b, rng) if way < 0.4 else a
        out.append(space.mutated(child, rng) if way >= _NEWCOMERS else child)
    return out


def _learned(found: Found, describe: Callable[[Parameters], list[float]]) -> Boosted:
    seconds = np.array([s for _, s in found.trials])
    return Boosted().fit(_table([describe(p) for p, _ in found.trials]), np.log(seconds))


def _table(rows: Sequence[Sequence[float]]) -> Features:
    out: np.ndarray[Any, np.dtype[np.float64]] = np.array(rows, np.float64)
    return out
