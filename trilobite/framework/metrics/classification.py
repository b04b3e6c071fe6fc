"""Classification: accuracy, top-k accuracy, the confusion matrix, and precision, recall and F1 from it.

In: predictions and class numbers (see `inputs`). Out: floats or arrays. Where a ratio is 0/0 the caller's
`zero_division` stands (0 unless said otherwise; NaN leaves the class out of averages). With nothing counted
an accuracy is NaN.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trilobite.base.errors import ArgumentError
from trilobite.framework.metrics import inputs
from trilobite.framework.metrics.base import Array, Counting

AVERAGES = ("micro", "macro", "weighted", None)


class Accuracy(Counting):
    """The share of items whose predicted class is the true one."""

    def __init__(self, *, ignore_index: int | None = None, axis: int = 1) -> None:
        self.ignore_index, self.axis = ignore_index, axis
        super().__init__()

    def _zeros(self) -> dict[str, Array]:
        return {"right": np.zeros((), np.int64), "seen": np.zeros((), np.int64)}

    def update(self, prediction: Any, target: Any) -> None:
        guess, truth = inputs.class_pairs(prediction, target, self.axis, self.ignore_index)
        self._count(guess == truth)

    def _count(self, right: npt.NDArray[np.bool_]) -> None:
        self._add({"right": np.array(np.count_nonzero(right)), "seen": np.array(right.size)})

    def compute(self) -> float:
        seen = int(self._state["seen"])
        return int(self._state["right"]) / seen if seen else float("nan")


class TopKAccuracy(Accuracy):
    """How often the true class is among the `k` best scores; of equal scores lower classes come first."""

    def __init__(self, k: int = 5, *, ignore_index: int | None = None, axis: int = 1) -> None:
        self.k = inputs.at_least_one(k, "top-k accuracy: k")
        super().__init__(ignore_index=ignore_index, axis=axis)

    def update(self, prediction: Any, target: Any) -> None:
        table, truth = inputs.rows(inputs.scores(prediction), inputs.labels(target, "target"), self.axis)
        keep = inputs.kept(truth, self.ignore_index)
        table, truth = table[keep], truth[keep]
        if self.k > table.shape[1]:
            raise ArgumentError(
                f"top-{self.k} accuracy over {table.shape[1]} classes", expected="k <= classes"
            )
        inputs.in_range(truth, table.shape[1], "target")
        own = np.take_along_axis(table, truth[:, None], axis=1)
        earlier = np.arange(table.shape[1]) < truth[:, None]
        self._count(((table > own) | ((table == own) & earlier)).sum(axis=1) < self.k)


class ConfusionMatrix(Counting):
    """How often class i (row) was taken for class j (column)."""

    def __init__(self, classes: int, *, ignore_index: int | None = None, axis: int = 1) -> None:
        self.classes = inputs.at_least_one(classes, "the number of classes")
        self.ignore_index, self.axis = ignore_index, axis
        super().__init__()

    def _zeros(self) -> dict[str, Array]:
        return {"matrix": np.zeros((self.classes, self.classes), np.int64)}

    def update(self, prediction: Any, target: Any) -> None:
        guess, truth = inputs.class_pairs(prediction, target, self.axis, self.ignore_index)
        inputs.in_range(guess, self.classes, "prediction")
        inputs.in_range(truth, self.classes, "target")
        counts = np.bincount(truth * self.classes + guess, minlength=self.classes**2)
        self._add({"matrix": counts.reshape(self.classes, self.classes)})

    def compute(self) -> Any:
        return self._state["matrix"].copy()


class Scores(NamedTuple):
    """Precision, recall and F1, each a number or one per class, and how many items each class has."""

    precision: Any
    recall: Any
    f1: Any
    support: npt.NDArray[np.int64]


class PrecisionRecallF1(ConfusionMatrix):
    """Precision TP/(TP+FP), recall TP/(TP+FN) and F1 2TP/(2TP+FP+FN), per class or averaged.

    `average`: "micro" counts all items together, "macro" is the plain mean over classes, "weighted" the mean
    by support, None gives one number per class.
    """

    def __init__(
        self,
        classes: int,
        *,
        average: str | None = "macro",
        zero_division: float = 0.0,
        ignore_index: int | None = None,
        axis: int = 1,
    ) -> None:
        if average not in AVERAGES:
            raise ArgumentError(f"average {average!r}", expected="'micro', 'macro', 'weighted' or None")
        self.average, self.zero_division = average, float(zero_division)
        super().__init__(classes, ignore_index=ignore_index, axis=axis)

    def compute(self) -> Scores:
        matrix = self._state["matrix"]
        hit, guessed, support = np.diag(matrix), matrix.sum(axis=0), matrix.sum(axis=1)
        fractions = ((hit, guessed), (hit, support), (2 * hit, guessed + support))
        precision, recall, f1 = (self._ratio(over, under, support) for over, under in fractions)
        return Scores(precision, recall, f1, support)

    def _ratio(self, over: Array, under: Array, support: Array) -> Any:
        if self.average == "micro":
            over, under = over.sum(keepdims=True), under.sum(keepdims=True)
        ratio = np.full(over.shape, self.zero_division)
        np.divide(over, under, out=ratio, where=under > 0)
        if self.average is None:
            return ratio
        return mean(ratio, support if self.average == "weighted" else None, self.zero_division)


def mean(values: Array, weights: Array | None, empty: float) -> float:
    """The (weighted) mean of what is not NaN; `empty` if nothing has weight."""
    known = ~np.isnan(values)
    if not known.any():
        return float("nan")
    weight = (np.ones(values.shape) if weights is None else np.asarray(weights, np.float64))[known]
    return float((values[known] * weight).sum() / weight.sum()) if weight.sum() else empty


def accuracy(prediction: Any, target: Any, *, ignore_index: int | None = None, axis: int = 1) -> float:
    """The accuracy of one batch; see `Accuracy`."""
    metric = Accuracy(ignore_index=ignore_index, axis=axis)
    metric.update(prediction, target)
    return metric.compute()


def top_k_accuracy(
    scores: Any, target: Any, k: int = 5, *, ignore_index: int | None = None, axis: int = 1
) -> float:
    """The top-k accuracy of one batch; see `TopKAccuracy`."""
    metric = TopKAccuracy(k, ignore_index=ignore_index, axis=axis)
    metric.update(scores, target)
    return metric.compute()


def confusion_matrix(
    prediction: Any,
    target: Any,
    classes: int | None = None,
    *,
    ignore_index: int | None = None,
    axis: int = 1,
) -> npt.NDArray[np.int64]:
    """Counts [true, predicted]; without `classes` there are as many as the largest number seen asks for."""
    guess, truth = inputs.class_pairs(prediction, target, axis, ignore_index)
    metric = ConfusionMatrix(_classes(classes, guess, truth), axis=axis)
    metric.update(guess, truth)
    return np.asarray(metric.compute())


def precision_recall_f1(
    prediction: Any,
    target: Any,
    classes: int | None = None,
    *,
    average: str | None = "macro",
    zero_division: float = 0.0,
    ignore_index: int | None = None,
    axis: int = 1,
) -> Scores:
    """All three of one batch; see `PrecisionRecallF1`."""
    guess, truth = inputs.class_pairs(prediction, target, axis, ignore_index)
    metric = PrecisionRecallF1(_classes(classes, guess, truth), average=average, zero_division=zero_division)
    metric.update(guess, truth)
    return metric.compute()


def _classes(given: int | None, guess: inputs.Labels, truth: inputs.Labels) -> int:
    return int(max(guess.max(initial=0), truth.max(initial=0)) + 1) if given is None else given


def precision(prediction: Any, target: Any, classes: int | None = None, **settings: Any) -> Any:
    """Precision alone; settings as for `precision_recall_f1`."""
    return precision_recall_f1(prediction, target, classes, **settings).precision


def recall(prediction: Any, target: Any, classes: int | None = None, **settings: Any) -> Any:
    """Recall alone; settings as for `precision_recall_f1`."""
    return precision_recall_f1(prediction, target, classes, **settings).recall


def f1(prediction: Any, target: Any, classes: int | None = None, **settings: Any) -> Any:
    """F1 alone; settings as for `precision_recall_f1`."""
    return precision_recall_f1(prediction, target, classes, **settings).f1
