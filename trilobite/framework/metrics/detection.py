"""Detection: mean average precision of boxes, as COCO and as PASCAL VOC define it.

In: per image, predicted boxes with scores and classes, and true boxes with classes; boxes are (x1, y1, x2,
y2). Out: average precisions per class and overlap threshold, and their means. Matching is in `matching`;
masks and keypoints are not scored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from trilobite.base.errors import ArgumentError, DataError, ShapeError
from trilobite.base.records import dataclass
from trilobite.base.wrong_use import explain_room
from trilobite.framework.metrics import inputs
from trilobite.framework.metrics.base import Array, Gathering
from trilobite.framework.metrics.classification import mean
from trilobite.framework.metrics.matching import Matches, box_area, match_coco, match_voc

_SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Style:
    """A way to score: thresholds, detections per image and class, how to match, how to average a curve."""

    thresholds: tuple[float, ...]
    limit: int | None
    match: Any
    average: Any


@dataclass(frozen=True)
class DetectionScores:
    """`table[threshold, class]`: average precisions, NaN for classes without true boxes. `map`: their
    mean.
    """

    table: Floats
    recall: Floats
    thresholds: tuple[float, ...]
    classes: tuple[int, ...]

    @property
    def map(self) -> float:
        return mean(self.table, None, float("nan"))

    @property
    def mean_recall(self) -> float:
        """The highest recall reached, averaged as `map` is."""
        return mean(self.recall, None, float("nan"))

    @property
    def per_class(self) -> dict[int, float]:
        return {c: mean(self.table[:, i], None, float("nan")) for i, c in enumerate(self.classes)}

    def at(self, threshold: float) -> float:
        """The mean over classes at one of the overlap thresholds."""
        for i, t in enumerate(self.thresholds):
            if abs(t - threshold) < 1e-9:
                return mean(self.table[i], None, float("nan"))
        raise ArgumentError(f"no scores at overlap {threshold}", expected=f"one of {self.thresholds}")


def average_coco(precision: Floats, recall: Floats) -> float:
    """The mean of the best precision at or beyond each of 101 recalls."""
    return _sampled(precision, recall, np.linspace(0, 1, 101))


def average_eleven(precision: Floats, recall: Floats) -> float:
    """VOC 2007: the same at 11 recalls."""
    return _sampled(precision, recall, np.linspace(0, 1, 11))


def average_area(precision: Floats, recall: Floats) -> float:
    """VOC 2010 and later: the whole area under the best precision at or beyond each recall."""
    best = np.maximum.accumulate(precision[::-1])[::-1]
    return float((np.diff(recall, prepend=0.0) * best).sum())


def _sampled(precision: Floats, recall: Floats, at: Floats) -> float:
    best = np.append(np.maximum.accumulate(precision[::-1])[::-1], 0.0)  # beyond the last recall: 0
    return float(best[np.searchsorted(recall, at, side="left")].mean())


_COCO = tuple(round(0.5 + 0.05 * i, 2) for i in range(10))
STYLES = {
    "coco": Style(_COCO, 100, match_coco, average_coco),
    "voc2007": Style((0.5,), None, match_voc, average_eleven),
    "voc2012": Style((0.5,), None, match_voc, average_area),
}


_FIELDS: dict[str, tuple[npt.DTypeLike, tuple[int, ...]]] = {
    "boxes": (np.float64, (4,)), "scores": (np.float64, ()), "labels": (np.int64, ()),
    "predictions": (np.int64, ()), "true_boxes": (np.float64, (4,)), "true_labels": (np.int64, ()),
    "ignore": (np.bool_, ()), "area": (np.float64, ()), "truths": (np.int64, ()),
}  # fmt: skip


class DetectionMeanAveragePrecision(Gathering):
    """Average precision of detections over all images seen.

    `update` takes a mapping per image: predictions with "boxes", "scores", "labels"; targets with "boxes",
    "labels", and if wanted "ignore" (COCO's crowds, VOC's difficult: found or not, they do not count) and
    "area" (else that of the box). `area` restricts COCO scores to true boxes of a size, such as (0, 32**2)
    for small ones.
    """

    def __init__(
        self,
        style: str = "coco",
        *,
        thresholds: Sequence[float] | None = None,
        area: tuple[float, float] | None = None,
    ) -> None:
        if style not in STYLES:
            raise ArgumentError(f"detection style {style!r}", expected=f"one of {', '.join(STYLES)}")
        if area is not None and style != "coco":
            raise ArgumentError(f"area ranges in style {style!r}", expected="style 'coco'")
        self.style, self._fields = style, _FIELDS
        self.thresholds = tuple(
            float(t) for t in (STYLES[style].thresholds if thresholds is None else thresholds)
        )
        self.area = (0.0, np.inf) if area is None else (float(area[0]), float(area[1]))
        if not self.thresholds or not all(0 < t <= 1 for t in self.thresholds):
            raise ArgumentError(f"overlap thresholds {self.thresholds}", expected="numbers in (0, 1]")
        super().__init__()

    def update(self, predictions: Sequence[Mapping[str, Any]], targets: Sequence[Mapping[str, Any]]) -> None:
        if len(predictions) != len(targets):
            raise ShapeError(
                f"predictions of {len(predictions)} images, targets of {len(targets)}",
                expected="one of each per image",
            )
        for image, (guess, truth) in enumerate(zip(predictions, targets, strict=True)):
            self._add(
                {
                    **_read_guess(guess, f"prediction of image {image}"),
                    **_read_truth(truth, f"target of image {image}"),
                }
            )

    def compute(self) -> DetectionScores:
        state = self.state_dict()
        guess_ends, truth_ends = np.cumsum(state["predictions"]), np.cumsum(state["truths"])
        classes = np.unique(np.concatenate([state["labels"], state["true_labels"]]))
        found = [self._score(state, int(c), guess_ends, truth_ends) for c in classes]
        shape = (len(self.thresholds), len(classes))
        table, recall = (np.array([f[i] for f in found]).T.reshape(shape) for i in range(2))
        return DetectionScores(table, recall, self.thresholds, tuple(int(c) for c in classes))

    def _score(
        self, state: dict[str, Array], label: int, guess_ends: Array, truth_ends: Array
    ) -> tuple[Any, Any]:
        """Average precision and highest recall of one class, at every threshold."""
        guesses, truths = (
            np.flatnonzero(state["labels"] == label),
            np.flatnonzero(state["true_labels"] == label),
        )
        image_of_guess = np.searchsorted(guess_ends, guesses, side="right")
        image_of_truth = np.searchsorted(truth_ends, truths, side="right")
        images = np.union1d(image_of_guess, image_of_truth)
        pairs = zip(
            _runs(guesses, image_of_guess, images), _runs(truths, image_of_truth, images), strict=True
        )
        parts = [self._match(state, *pair) for pair in pairs]
        return _curves(parts, STYLES[self.style].average, len(self.thresholds))

    def _match(self, state: dict[str, Array], guesses: Array, truths: Array) -> Matches:
        style = STYLES[self.style]
        best = guesses[np.argsort(-state["scores"][guesses], kind="stable")][: style.limit]
        matches: Matches = style.match(
            state["boxes"][best], state["scores"][best], state["true_boxes"][truths], state["ignore"][truths],
            state["area"][truths], np.array(self.thresholds), self.area,
        )  # fmt: skip
        return matches


def _runs(rows: Array, image_of_row: Array, images: Array) -> list[Array]:
    """The rows of each image; rows are in the order of their images."""
    first, last = (np.searchsorted(image_of_row, images, side=side) for side in _SIDES)
    return [rows[a:b] for a, b in zip(first, last, strict=True)]


def _curves(parts: Sequence[Matches], average: Any, thresholds: int) -> tuple[Floats, Floats]:
    relevant = sum(p.relevant for p in parts)
    if not relevant:
        return np.full(thresholds, np.nan), np.full(thresholds, np.nan)
    scores = np.concatenate([p.scores for p in parts])
    order = np.argsort(-scores, kind="stable")
    hit, counted = (
        np.concatenate([getattr(p, name) for p in parts], axis=1)[:, order] for name in ("hit", "counted")
    )
    precisions, recalls = np.zeros(thresholds), np.zeros(thresholds)
    for i in range(thresholds):
        hits = np.cumsum(hit[i][counted[i]])
        if hits.size:
            recall = hits / relevant
            precisions[i], recalls[i] = average(hits / np.arange(1, hits.size + 1), recall), recall[-1]
    return precisions, recalls


def _boxes(values: Any, name: str) -> Floats:
    boxes = (
        np.asarray(values, np.float64).reshape(-1, 4)
        if np.size(values) == 0
        else np.asarray(values, np.float64)
    )
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise ShapeError(f"boxes of shape {boxes.shape}", where=name, expected="(n, 4): x1, y1, x2, y2")
    if not np.isfinite(boxes).all() or (boxes[:, :2] > boxes[:, 2:]).any():
        raise DataError(
            "a box is not finite, or its corners are exchanged",
            where=name,
            expected="x1 <= x2 and y1 <= y2",
            remedy="boxes given as x, y, width, height must be turned into corners",
        )
    return boxes


def _column(source: Mapping[str, Any], key: str, n: int, name: str) -> Array:
    if key not in source:
        raise DataError(f"{key!r} is missing", where=name, expected=f"{key!r}: one per box")
    column = (
        inputs.labels(source[key], key) if key in ("labels", "ignore") else inputs.scores(source[key], key)
    )
    if column.shape != (n,):
        raise ShapeError(f"{key} of shape {column.shape} beside {n} boxes", where=name, expected=f"({n},)")
    return column


def _read_guess(source: Mapping[str, Any], name: str) -> dict[str, Array]:
    boxes = _boxes(source.get("boxes", ()), name)
    scores, labels = (_column(source, key, len(boxes), name) for key in ("scores", "labels"))
    return {"boxes": boxes, "scores": scores, "labels": labels, "predictions": np.array([len(boxes)])}


def _read_truth(source: Mapping[str, Any], name: str) -> dict[str, Array]:
    boxes = _boxes(source.get("boxes", ()), name)
    n = len(boxes)
    ignore = _column(source, "ignore", n, name) if "ignore" in source else np.zeros(n, np.bool_)
    area = _column(source, "area", n, name) if "area" in source else box_area(boxes)
    labels = _column(source, "labels", n, name)
    return {
        "true_boxes": boxes,
        "true_labels": labels,
        "ignore": ignore,
        "area": area,
        "truths": np.array([n]),
    }


def detection_mean_average_precision(
    predictions: Sequence[Mapping[str, Any]],
    targets: Sequence[Mapping[str, Any]],
    style: str = "coco",
    **settings: Any,
) -> DetectionScores:
    """The scores of a list of images; see `DetectionMeanAveragePrecision`."""
    metric = DetectionMeanAveragePrecision(style, **settings)
    metric.update(predictions, targets)
    return metric.compute()


explain_room(globals())
