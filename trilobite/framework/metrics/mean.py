"""Means and what is made of them: the weighted mean of numbers, and the perplexity of predicted tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from trilobite.base.errors import ArgumentError
from trilobite.framework.metrics import inputs
from trilobite.framework.metrics.base import Array, Counting


class Mean(Counting):
    """The mean of all numbers seen, each with a weight: `update(loss, len(batch))`. Nothing seen: NaN."""

    def _zeros(self) -> dict[str, Array]:
        return {"total": np.zeros((), np.float64), "weight": np.zeros((), np.float64)}

    def update(self, value: Any, weight: Any = 1.0) -> None:
        values, weights = np.broadcast_arrays(np.asarray(value, np.float64), np.asarray(weight, np.float64))
        if not np.all(np.isfinite(weights) & (weights >= 0)):
            raise ArgumentError("Mean: a weight is negative, infinite or NaN", expected="finite weights >= 0")
        with np.errstate(invalid="ignore"):
            self._add({"total": np.sum(values * weights), "weight": np.sum(weights)})

    def compute(self) -> float:
        total, weight = float(self._state["total"]), float(self._state["weight"])
        return total / weight if weight else float("nan")


class Perplexity(Counting):
    """exp of the mean negative log-probability of the targets.

    `update` takes logits (or log-probabilities: they are logits that need no normalising) and class numbers.
    """

    def __init__(self, *, ignore_index: int | None = None, axis: int = 1) -> None:
        self.ignore_index, self.axis = ignore_index, axis
        super().__init__()

    def _zeros(self) -> dict[str, Array]:
        return {"nll": np.zeros((), np.float64), "tokens": np.zeros((), np.int64)}

    def update(self, logits: Any, target: Any) -> None:
        table, truth = inputs.rows(np.asarray(logits), inputs.labels(target, "target"), self.axis)
        keep = inputs.kept(truth, self.ignore_index)
        table, truth = table[keep].astype(np.float64), truth[keep]
        inputs.in_range(truth, table.shape[1], "target")
        if truth.size:
            self._add({"nll": np.sum(_nll(table, truth)), "tokens": np.array(truth.size, np.int64)})

    def compute(self) -> float:
        tokens = int(self._state["tokens"])
        with np.errstate(over="ignore"):
            return float(np.exp(self._state["nll"] / tokens)) if tokens else float("nan")


def _nll(logits: npt.NDArray[np.float64], target: npt.NDArray[np.int64]) -> Array:
    top = logits.max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        shifted = logits - top
        return np.asarray(np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(target.size), target])


def perplexity(logits: Any, target: Any, *, ignore_index: int | None = None, axis: int = 1) -> float:
    """The perplexity of one batch; see `Perplexity`."""
    metric = Perplexity(ignore_index=ignore_index, axis=axis)
    metric.update(logits, target)
    return metric.compute()
