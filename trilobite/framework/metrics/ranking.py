"""Ranking: average precision of one ranking, and its mean over classes or over queries.

In: scores and which items are relevant. Out: sums of precision over steps of recall, without interpolation.
Items of equal score stand at one place of the ranking: their order among themselves cannot matter.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from trilobite.base.errors import ArgumentError, DataError, ShapeError
from trilobite.framework.metrics import inputs
from trilobite.framework.metrics.base import Array, Gathering
from trilobite.framework.metrics.classification import mean

AVERAGES = ("macro", "micro", "weighted", "samples", None)


def average_precision(scores: Any, relevant: Any, *, empty: float = float("nan")) -> float:
    """Σ (recall_n - recall_n-1) · precision_n over distinct scores; `empty` if nothing is relevant."""
    ranked, truth = inputs.scores(scores), _relevance(relevant)
    if ranked.shape != truth.shape or ranked.ndim != 1:
        raise ShapeError(
            f"scores of shape {ranked.shape} and relevance of shape {truth.shape}",
            expected="one axis, equally long",
        )
    return _average_precision(ranked, truth, empty)


def _relevance(values: Any) -> npt.NDArray[np.bool_]:
    array = inputs.labels(values, "relevance")
    if array.size and (array.min() < 0 or array.max() > 1):
        raise DataError(f"relevance runs from {array.min()} to {array.max()}", expected="0 or 1")
    return array.astype(np.bool_)


def _average_precision(scores: Array, relevant: npt.NDArray[np.bool_], empty: float) -> float:
    if not relevant.any():
        return empty
    order = np.argsort(scores, kind="stable")[::-1]
    ranked = scores[order]
    ends = np.append(
        np.flatnonzero(ranked[1:] != ranked[:-1]), ranked.size - 1
    )  # last item of each distinct score
    hits = np.cumsum(relevant[order])[ends]
    precision, gained = hits / (ends + 1), np.diff(hits, prepend=0)
    return float((gained * precision).sum() / hits[-1])


class MeanAveragePrecision(Gathering):
    """The mean of average precisions over a table of scores, items × classes.

    Targets are class numbers, or a 0/1 table (several classes per item). `average`: "macro" over classes,
    "weighted" by how often a class occurs, "micro" over the whole table as one ranking, "samples" over the
    rows (each a query that ranks the columns), None for one number per class. A class or query with nothing
    relevant counts as `empty`; NaN leaves it out.
    """

    def __init__(self, classes: int, *, average: str | None = "macro", empty: float = float("nan")) -> None:
        if average not in AVERAGES:
            raise ArgumentError(
                f"average {average!r}", expected="'macro', 'micro', 'weighted', 'samples' or None"
            )
        self.classes = inputs.at_least_one(classes, "the number of classes")
        self.average, self.empty = average, float(empty)
        self._fields = {"scores": (np.float64, (self.classes,)), "relevant": (np.bool_, (self.classes,))}
        super().__init__()

    def update(self, scores: Any, target: Any) -> None:
        table = inputs.scores(scores)
        if table.ndim != 2 or table.shape[1] != self.classes:
            raise ShapeError(f"scores of shape {table.shape}", expected=f"(items, {self.classes})")
        self._add({"scores": table.astype(np.float64), "relevant": self._table(target, table.shape)})

    def _table(self, target: Any, shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
        if np.ndim(target) == 1:
            truth = inputs.labels(target, "target")
            inputs.in_range(truth, self.classes, "target")
            relevant = np.asarray(truth[:, None] == np.arange(self.classes))
        else:
            relevant = _relevance(target)
        if relevant.shape != shape:
            raise ShapeError(
                f"targets of shape {np.shape(target)} beside scores of shape {shape}",
                expected=f"({shape[0]},) class numbers or {shape} of 0 and 1",
            )
        return relevant

    def compute(self) -> Any:
        state = self.state_dict()
        scores, relevant = state["scores"], state["relevant"]
        if self.average == "micro":
            return _average_precision(scores.ravel(), relevant.ravel(), self.empty)
        if self.average == "samples":
            scores, relevant = scores.T, relevant.T
        each = np.array(
            [_average_precision(s, r, self.empty) for s, r in zip(scores.T, relevant.T, strict=True)]
        )
        if self.average is None:
            return each
        return mean(each, relevant.sum(axis=0) if self.average == "weighted" else None, self.empty)


def mean_average_precision(
    scores: Any, target: Any, *, average: str | None = "macro", empty: float = float("nan")
) -> Any:
    """The mean average precision of one table; see `MeanAveragePrecision`."""
    table = inputs.scores(scores)
    if table.ndim != 2:
        raise ShapeError(f"scores of shape {table.shape}", expected="(items, classes)")
    metric = MeanAveragePrecision(table.shape[1], average=average, empty=empty)
    metric.update(table, target)
    return metric.compute()
