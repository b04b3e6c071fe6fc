"""Detection: hand-made scenes, plain restatements of COCO's and VOC's, COCO's own where it is installed."""

from __future__ import annotations

import contextlib
import io
import math
from typing import Any

import numpy as np
import pytest

from tests.metrics import coco_by_loops
from trilobite.base.errors import ArgumentError, DataError, ShapeError
from trilobite.framework import metrics as M
from trilobite.framework.metrics.matching import overlap

Scene = tuple[list[dict[str, Any]], list[dict[str, Any]]]


def scene(seed: int, images: int = 12, classes: int = 3, crowds: bool = True, ties: bool = True) -> Scene:
    """Random true boxes; predictions near them, far from them, doubled, of the wrong class, with equal
    scores.
    """
    rng = np.random.default_rng(seed)
    predictions, targets = [], []
    for _ in range(images):
        n = int(rng.integers(0, 8))
        corner = rng.uniform(0, 100, (n, 2))
        boxes = np.concatenate([corner, corner + rng.uniform(3, 120, (n, 2))], axis=1)
        labels = rng.integers(0, classes, n)
        which = rng.integers(0, max(n, 1), int(rng.integers(0, 14))) if n else np.zeros(0, int)
        near = boxes[which] + rng.normal(scale=4, size=(len(which), 4)) if n else np.zeros((0, 4))
        stray = rng.uniform(0, 100, (3, 2))
        guesses = np.concatenate([near, np.concatenate([stray, stray + 20], axis=1)])
        guesses[:, 2:] = np.maximum(guesses[:, 2:], guesses[:, :2])
        m = len(guesses)
        kinds = np.concatenate([labels[which], rng.integers(0, classes, 3)]).astype(int)
        kinds[rng.random(m) < 0.15] = 0
        scores = rng.random(m)
        predictions.append(
            {"boxes": guesses, "scores": np.round(scores, 1) if ties else scores, "labels": kinds}
        )
        ignore = rng.random(n) < 0.2 if crowds else np.zeros(n, bool)
        targets.append({"boxes": boxes, "labels": labels, "ignore": ignore})
    return predictions, targets


def coco_table(predictions: Any, targets: Any, span: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """Average precision and recall [threshold, class] by pycocotools; -1 there is NaN here."""
    coco = pytest.importorskip("pycocotools.coco")
    evaluation = pytest.importorskip("pycocotools.cocoeval")
    labels = np.unique(
        np.concatenate(
            [np.concatenate([p["labels"], t["labels"]]) for p, t in zip(predictions, targets, strict=True)]
        )
    )

    def corners(b: Any) -> list[float]:
        return [float(b[0]), float(b[1]), float(b[2] - b[0]), float(b[3] - b[1])]

    truth, found = coco.COCO(), []
    annotations = [
        {"image_id": i + 1, "category_id": int(label) + 1, "bbox": corners(box), "iscrowd": int(crowd),
         "area": float((box[2] - box[0]) * (box[3] - box[1]))}
        for i, t in enumerate(targets)
        for box, label, crowd in zip(t["boxes"], t["labels"], t["ignore"], strict=True)
    ]  # fmt: skip
    truth.dataset = {
        "images": [{"id": i + 1} for i in range(len(targets))],
        "categories": [{"id": int(c) + 1} for c in labels],
        "annotations": [{**a, "id": k + 1} for k, a in enumerate(annotations)],
    }
    found = [
        {"image_id": i + 1, "category_id": int(label) + 1, "bbox": corners(box), "score": float(score)}
        for i, p in enumerate(predictions)
        for box, label, score in zip(p["boxes"], p["labels"], p["scores"], strict=True)
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        truth.createIndex()
        run = evaluation.COCOeval(truth, truth.loadRes(found), "bbox")
        run.params.areaRng, run.params.areaRngLbl = [list(span)], ["all"]
        run.evaluate()
        run.accumulate()
    precision, recall = run.eval["precision"][:, :, :, 0, -1].mean(axis=1), run.eval["recall"][:, :, 0, -1]
    return np.where(precision < 0, np.nan, precision), np.where(recall < 0, np.nan, recall)


class TestCoco:
    @pytest.mark.parametrize("seed", range(6))
    @pytest.mark.parametrize("span", [(0, 1e10), (0, 32**2), (32**2, 96**2)])
    def test_agrees_with_its_own_evaluation(self, seed: int, span: tuple[float, float]) -> None:
        predictions, targets = scene(seed)
        table, recall = coco_by_loops.table(predictions, targets, span)
        mine = M.detection_mean_average_precision(predictions, targets, area=span)
        np.testing.assert_allclose(mine.table, table, atol=1e-12)
        np.testing.assert_allclose(mine.recall, recall, atol=1e-12)
        if np.isfinite(table).any():
            assert mine.map == pytest.approx(np.nanmean(table)) and mine.at(0.75) == pytest.approx(
                np.nanmean(table[5])
            )

    def test_more_than_a_hundred_detections(self) -> None:
        boxes = np.tile([[0.0, 0, 10, 10]], (120, 1)) + np.arange(120)[:, None] * 20
        predictions = [{"boxes": boxes, "scores": np.linspace(1, 0, 120), "labels": np.zeros(120, int)}]
        targets = [{"boxes": boxes, "labels": np.zeros(120, int), "ignore": np.zeros(120, bool)}]
        mine = M.detection_mean_average_precision(predictions, targets)
        assert mine.mean_recall == pytest.approx(100 / 120)
        table = coco_by_loops.table(predictions, targets, (0, 1e10))[0]
        np.testing.assert_allclose(mine.table, table, atol=1e-12)

    def test_the_restatement_is_its_own_evaluation(self) -> None:
        for seed, span in ((0, (0, 1e10)), (1, (0, 32**2)), (2, (32**2, 96**2))):
            predictions, targets = scene(seed)
            for a, b in zip(
                coco_by_loops.table(predictions, targets, span),
                coco_table(predictions, targets, span),
                strict=True,
            ):
                np.testing.assert_allclose(a, b, atol=1e-12)

    def test_by_hand(self) -> None:
        """Two true boxes; found: the first exactly, nothing, the second. Precision 1, 1/2, 2/3 at recall
        1/2, 1/2, 1.
        """
        targets = [{"boxes": [[0, 0, 10, 10], [20, 20, 30, 30]], "labels": [4, 4]}]
        predictions = [
            {
                "boxes": [[20, 20, 30, 30], [50, 50, 60, 60], [0, 0, 10, 10]],
                "scores": [0.3, 0.6, 0.9],
                "labels": [4, 4, 4],
            }
        ]
        expected = (51 * 1 + 50 * 2 / 3) / 101
        out = M.detection_mean_average_precision(predictions, targets)
        assert out.map == pytest.approx(expected) and out.per_class == {4: pytest.approx(expected)}
        assert M.detection_mean_average_precision(predictions, targets, "voc2012").map == pytest.approx(
            0.5 + 0.5 * 2 / 3
        )
        assert M.detection_mean_average_precision(predictions, targets, "voc2007").map == pytest.approx(
            (6 + 5 * 2 / 3) / 11
        )

    def test_overlap_exactly_at_the_threshold_counts(self) -> None:
        targets = [{"boxes": [[0, 0, 10, 10]], "labels": [0]}]
        predictions = [{"boxes": [[0, 0, 10, 5]], "scores": [1], "labels": [0]}]
        for style in ("coco", "voc2007", "voc2012"):
            assert M.detection_mean_average_precision(
                predictions, targets, style, thresholds=[0.5]
            ).map == pytest.approx(1)
            assert M.detection_mean_average_precision(predictions, targets, style, thresholds=[0.51]).map == 0


def voc_by_the_book(predictions: Any, targets: Any, label: int, threshold: float, eleven: bool) -> float:
    """VOC's development kit restated: one pass over all detections in order of confidence."""
    rows = [
        (-float(s), i, k)
        for i, p in enumerate(predictions)
        for k, (s, c) in enumerate(zip(p["scores"], p["labels"], strict=True))
        if c == label
    ]
    total = sum(int(((t["labels"] == label) & ~t["ignore"]).sum()) for t in targets)
    if not total:
        return math.nan
    seen: set[tuple[int, int]] = set()
    curve, hits, wrong = [], 0, 0
    for _, i, k in sorted(rows, key=lambda r: r[0]):
        mine = np.flatnonzero(targets[i]["labels"] == label)
        shares = [
            float(overlap(predictions[i]["boxes"][k : k + 1], targets[i]["boxes"][g : g + 1])[0, 0])
            for g in mine
        ]
        best = int(np.argmax(shares)) if shares else -1
        if best >= 0 and shares[best] >= threshold:
            if targets[i]["ignore"][mine[best]]:
                continue
            if (i, int(mine[best])) in seen:
                wrong += 1
            else:
                seen.add((i, int(mine[best])))
                hits += 1
        else:
            wrong += 1
        curve.append((hits / total, hits / (hits + wrong)))
    if eleven:
        return sum(max((p for r, p in curve if r >= t), default=0.0) for t in np.linspace(0, 1, 11)) / 11
    area, last = 0.0, 0.0
    for r in sorted({r for r, _ in curve}):
        area += (r - last) * max(p for s, p in curve if s >= r)
        last = r
    return area


class TestVoc:
    @pytest.mark.parametrize("seed", range(5))
    @pytest.mark.parametrize(("style", "eleven"), [("voc2007", True), ("voc2012", False)])
    def test_agrees_with_the_book(self, seed: int, style: str, eleven: bool) -> None:
        predictions, targets = scene(seed, ties=False)
        out = M.detection_mean_average_precision(predictions, targets, style, thresholds=[0.3, 0.5, 0.7])
        expected = [
            [voc_by_the_book(predictions, targets, c, t, eleven) for c in out.classes] for t in out.thresholds
        ]
        np.testing.assert_allclose(out.table, expected, atol=1e-12)

    def test_a_second_detection_is_wrong_even_near_another_box(self) -> None:
        """COCO would let it have the other box."""
        targets = [{"boxes": [[0, 0, 10, 10], [0, 0, 10, 14]], "labels": [0, 0]}]
        predictions = [{"boxes": [[0, 0, 10, 10], [0, 0, 10, 10.5]], "scores": [0.9, 0.8], "labels": [0, 0]}]
        coco = M.detection_mean_average_precision(predictions, targets, thresholds=[0.5])
        voc = M.detection_mean_average_precision(predictions, targets, "voc2012")
        assert coco.map == pytest.approx(1) and voc.map == pytest.approx(0.5)


class TestAccumulation:
    def test_batches_merge_and_state(self) -> None:
        predictions, targets = scene(3)
        whole = M.detection_mean_average_precision(predictions, targets)
        a, b, c = (M.DetectionMeanAveragePrecision() for _ in range(3))
        a.update(predictions[:5], targets[:5])
        b.update(predictions[5:], targets[5:])
        c.load_state_dict(b.state_dict())
        a.merge(c)
        np.testing.assert_array_equal(a.compute().table, whole.table)
        a.reset()
        assert math.isnan(a.compute().map) and a.compute().classes == ()

    def test_only_predictions_or_only_targets(self) -> None:
        box = {"boxes": [[0, 0, 1, 1]], "labels": [2]}
        none = {"boxes": [], "labels": []}
        missed = M.detection_mean_average_precision([{**none, "scores": []}], [box])
        assert missed.map == 0 and missed.classes == (2,)
        invented = M.detection_mean_average_precision([{**box, "scores": [1]}], [none])
        assert math.isnan(invented.map) and math.isnan(invented.per_class[2])

    def test_empty_boxes_overlap_nothing(self) -> None:
        assert overlap(np.array([[1.0, 1, 1, 1]]), np.array([[1.0, 1, 1, 1]]))[0, 0] == 0

    @pytest.mark.parametrize(
        ("prediction", "error", "text"),
        [
            (
                {"boxes": [[0, 0, 1, 1]], "labels": [0]},
                DataError,
                r"'scores' is missing\n  where: prediction of image 0",
            ),
            ({"boxes": [[0, 0, 1]], "labels": [0], "scores": [1]}, ShapeError, r"boxes of shape \(1, 3\)"),
            (
                {"boxes": [[5, 0, 1, 1]], "labels": [0], "scores": [1]},
                DataError,
                r"(?s)corners are exchanged.*width, height",
            ),
            ({"boxes": [[0, 0, 1, np.inf]], "labels": [0], "scores": [1]}, DataError, "not finite"),
            (
                {"boxes": [[0, 0, 1, 1]], "labels": [0, 1], "scores": [1]},
                ShapeError,
                r"labels of shape \(2,\) beside 1 boxes",
            ),
            ({"boxes": [[0, 0, 1, 1]], "labels": [0], "scores": [np.nan]}, DataError, "contain NaN"),
        ],
    )
    def test_refused(self, prediction: dict[str, Any], error: type[Exception], text: str) -> None:
        metric = M.DetectionMeanAveragePrecision()
        with pytest.raises(error, match=text):
            metric.update([prediction], [{"boxes": [], "labels": []}])
        assert metric.state_dict()["predictions"].size == 0

    def test_arguments_refused(self) -> None:
        with pytest.raises(
            ArgumentError, match=r"style 'imagenet'\n  expected: one of coco, voc2007, voc2012"
        ):
            M.DetectionMeanAveragePrecision("imagenet")
        with pytest.raises(ArgumentError, match=r"overlap thresholds \(0.0,\)"):
            M.DetectionMeanAveragePrecision(thresholds=[0.0])
        with pytest.raises(ArgumentError, match="area ranges in style 'voc2007'"):
            M.DetectionMeanAveragePrecision("voc2007", area=(0, 9))
        with pytest.raises(ShapeError, match="predictions of 0 images, targets of 1"):
            M.DetectionMeanAveragePrecision().update([], [{}])
        with pytest.raises(ArgumentError, match=r"no scores at overlap 0\.6"):
            M.detection_mean_average_precision([], [], "voc2007").at(0.6)


def test_of_equal_scores_the_first_one_given_counts_first() -> None:
    """Forty detections of one score: hits at known places, so precision is known at each."""
    rng = np.random.default_rng(4)
    hits = rng.permutation(40) < 12
    true = np.tile([[0.0, 0, 10, 10]], (12, 1)) + np.arange(12)[:, None] * 20
    far = np.tile([[0.0, 500, 10, 510]], (28, 1)) + np.arange(28)[:, None] * 20
    boxes = np.empty((40, 4))
    boxes[hits], boxes[~hits] = true, far
    predictions = [{"boxes": boxes, "scores": np.full(40, 0.5), "labels": np.zeros(40, int)}]
    targets = [{"boxes": true, "labels": np.zeros(12, int)}]
    found = M.detection_mean_average_precision(predictions, targets, "voc2012").map
    exact = np.cumsum(hits) / np.arange(1, 41)
    envelope = np.maximum.accumulate(exact[::-1])[::-1]
    assert found == pytest.approx(envelope[hits].sum() / 12)


@pytest.mark.parametrize("count", [99, 100, 101, 120])
def test_a_hundred_detections_of_a_picture_count(count: int) -> None:
    boxes = np.tile([[0.0, 0, 10, 10]], (count, 1)) + np.arange(count)[:, None] * 20
    order = np.random.default_rng(count).permutation(count)
    predictions = [{"boxes": boxes[order], "scores": 1 - order / count, "labels": np.zeros(count, int)}]
    targets = [{"boxes": boxes, "labels": np.zeros(count, int)}]
    found = M.detection_mean_average_precision(predictions, targets)
    assert found.mean_recall == pytest.approx(min(count, 100) / count)
    assert M.detection_mean_average_precision(predictions, targets, "voc2012").map == pytest.approx(1.0)
