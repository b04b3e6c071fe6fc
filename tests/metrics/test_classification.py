"""Accuracy, top-k, confusion, precision, recall and F1: by hand, against scikit-learn, and at the edges."""

from __future__ import annotations

import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from trilobite.base.errors import ArgumentError, DataError, DTypeError, ShapeError, StateError
from trilobite.framework import metrics as M


def sklearn_metrics() -> Any:
    return pytest.importorskip("sklearn.metrics")


def case(seed: int, n: int = 200, classes: int = 6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, classes - 1, n), rng.integers(0, classes - 2, n)  # the last classes never occur


class HasArray:
    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return self.values


class TestAccuracy:
    def test_by_hand(self) -> None:
        assert M.accuracy([0, 1, 2, 2], [0, 2, 2, 1]) == 0.5
        assert M.accuracy(HasArray([[0.1, 0.9], [0.8, 0.2], [0.3, 0.4]]), HasArray([1, 1, 1])) == 2 / 3
        assert M.accuracy(np.array([0.2, 0.9]) > 0.5, [0, 1]) == 1.0

    def test_ties_go_to_the_first_class(self) -> None:
        assert M.accuracy([[0.5, 0.5], [0.5, 0.5]], [0, 1]) == 0.5
        assert M.accuracy([[-0.0, 0.0]], [0]) == 1.0

    def test_axes(self) -> None:
        scores = np.random.default_rng(0).normal(size=(4, 3, 5, 2))
        target = np.random.default_rng(1).integers(0, 3, (4, 5, 2))
        expected = (scores.argmax(1) == target).mean()
        assert (
            M.accuracy(scores, target) == expected == M.accuracy(np.moveaxis(scores, 1, -1), target, axis=-1)
        )
        assert M.accuracy([0.1, 0.7, 0.2], 1) == 1.0  # one item, no batch

    def test_ignore_index(self) -> None:
        assert M.accuracy([0, 1, 2], [-100, 1, 1], ignore_index=-100) == 0.5
        assert np.isnan(M.accuracy([0], [-1], ignore_index=-1))

    def test_empty(self) -> None:
        assert np.isnan(M.accuracy([], [])) and np.isnan(M.accuracy(np.zeros((0, 3)), np.zeros(0, int)))
        assert np.isnan(M.Accuracy().compute())

    def test_small_floats(self) -> None:
        for dtype in (np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn):
            assert M.accuracy(np.array([[1, 2], [4, -3]]).astype(dtype), [1, 0]) == 1.0

    @pytest.mark.parametrize(
        ("prediction", "target", "error", "text"),
        [
            ([0.2, 0.9], [0, 1], DTypeError, r"prediction has dtype float64\n.*\n  remedy: .*scores > 0\.5"),
            ([0, 1], [0.0, 1.0], DTypeError, "target has dtype float64"),
            ([0, 1, 2], [0, 1], ShapeError, r"shape \(3,\) does not fit targets of shape \(2,\)"),
            (
                np.zeros((2, 3, 4)),
                np.zeros((2, 3), int),
                ShapeError,
                r"(?s)classes on axis 1.*remedy: axis=-1",
            ),
            ([[0.1, np.nan]], [0], DataError, r"scores contain NaN\n  where: index \(0, 1\)"),
            (np.zeros((2, 0)), [0, 1], ShapeError, "have no classes"),
            ([["a", "b"]], [0], DTypeError, "real numbers"),
        ],
    )
    def test_refused(self, prediction: Any, target: Any, error: type[Exception], text: str) -> None:
        with pytest.raises(error, match=text):
            M.accuracy(prediction, target)


class TestTopK:
    def test_by_hand(self) -> None:
        scores = [[0.1, 0.5, 0.4], [0.6, 0.3, 0.1], [0.2, 0.2, 0.6]]
        assert [M.top_k_accuracy(scores, [2, 2, 1], k) for k in (1, 2, 3)] == [0, 1 / 3, 1]

    def test_ties(self) -> None:
        scores = np.zeros((4, 4))
        assert [M.top_k_accuracy(scores, [0, 1, 2, 3], k) for k in (1, 2, 4)] == [0.25, 0.5, 1.0]

    def test_agrees_with_scikit_learn(self) -> None:
        rng = np.random.default_rng(0)
        scores, target = rng.normal(size=(300, 7)), rng.integers(0, 7, 300)
        for k in (1, 2, 3, 6):
            expected = sklearn_metrics().top_k_accuracy_score(target, scores, k=k, labels=np.arange(7))
            assert M.top_k_accuracy(scores, target, k) == pytest.approx(expected)
        assert M.top_k_accuracy(scores, target, 1) == M.accuracy(scores, target)

    def test_infinite_scores(self) -> None:
        assert (
            M.top_k_accuracy([[-np.inf, np.inf, 0.0]], [0], 2) == 0
            and M.top_k_accuracy([[-np.inf, np.inf, 0]], [1], 1) == 1
        )

    def test_ignore_and_axis(self) -> None:
        scores = np.random.default_rng(0).normal(size=(2, 5, 3))
        target = np.array([[0, -1, 2], [-1, -1, 4]])
        kept = [(scores[0, :, 0], 0), (scores[0, :, 2], 2), (scores[1, :, 2], 4)]
        expected = np.mean([(s > s[t]).sum() < 2 for s, t in kept])
        assert M.top_k_accuracy(scores, target, 2, ignore_index=-1) == expected

    def test_refused(self) -> None:
        with pytest.raises(ArgumentError, match=r"top-5 accuracy over 3 classes\n  expected: k <= classes"):
            M.top_k_accuracy(np.zeros((1, 3)), [0])
        with pytest.raises(ArgumentError, match="k is 0"):
            M.TopKAccuracy(0)
        with pytest.raises(DataError, match=r"target contains class 3\n  expected: 0 <= class < 3"):
            M.top_k_accuracy(np.zeros((1, 3)), [3], 1)


class TestConfusion:
    def test_by_hand(self) -> None:
        assert M.confusion_matrix([0, 1, 1, 2], [0, 0, 1, 1]).tolist() == [[1, 1, 0], [0, 1, 1], [0, 0, 0]]

    @pytest.mark.parametrize("seed", range(3))
    def test_agrees_with_scikit_learn(self, seed: int) -> None:
        guess, truth = case(seed)
        expected = sklearn_metrics().confusion_matrix(truth, guess, labels=range(6))
        np.testing.assert_array_equal(M.confusion_matrix(guess, truth, 6), expected)

    def test_result_is_a_copy(self) -> None:
        metric = M.ConfusionMatrix(2)
        metric.update([0], [1])
        metric.compute()[:] = 9
        assert metric.compute().tolist() == [[0, 0], [1, 0]]

    def test_refused(self) -> None:
        with pytest.raises(
            DataError,
            match=r"prediction contains class 2\n  expected: 0 <= class < 2\n  remedy: ignore_index=",
        ):
            M.confusion_matrix([2], [0], 2)
        with pytest.raises(DataError, match="target contains class -1"):
            M.confusion_matrix([0], [-1], 2)
        with pytest.raises(ArgumentError, match="number of classes is 0"):
            M.ConfusionMatrix(0)


class TestPrecisionRecallF1:
    def test_by_hand(self) -> None:
        out = M.precision_recall_f1([0, 0, 1, 1, 1], [0, 1, 1, 1, 0], average=None)
        np.testing.assert_allclose(out.precision, [1 / 2, 2 / 3])
        np.testing.assert_allclose(out.recall, [1 / 2, 2 / 3])
        assert out.support.tolist() == [2, 3]

    @pytest.mark.parametrize("seed", range(4))
    @pytest.mark.parametrize("average", ["micro", "macro", "weighted", None])
    @pytest.mark.parametrize("zero", [0.0, 1.0, np.nan])
    def test_agrees_with_scikit_learn(self, seed: int, average: str | None, zero: float) -> None:
        guess, truth = case(seed, n=40)
        expected = sklearn_metrics().precision_recall_fscore_support(
            truth, guess, labels=range(6), average=average, zero_division=zero
        )
        mine = M.precision_recall_f1(guess, truth, 6, average=average, zero_division=zero)
        for a, b in zip(mine[:3], expected[:3], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)

    def test_single_functions(self) -> None:
        guess, truth = case(7)
        out = M.precision_recall_f1(guess, truth, average="weighted")
        assert M.precision(guess, truth, average="weighted") == out.precision
        assert M.recall(guess, truth, average="weighted") == out.recall
        assert M.f1(guess, truth, average="weighted") == out.f1
        assert M.f1(guess, truth, average="micro") == pytest.approx(M.accuracy(guess, truth))

    def test_zero_division(self) -> None:
        out = M.precision_recall_f1([0, 0], [0, 0], 3, average=None, zero_division=np.nan)
        np.testing.assert_array_equal(out.precision, [1, np.nan, np.nan])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert (
                np.isnan(M.f1([], [], 3, zero_division=np.nan)) and M.f1([], [], 3, zero_division=1.0) == 1.0
            )
            assert M.f1([], [], 3, average="weighted") == 0.0 and M.f1([], [], 3, average="micro") == 0.0

    def test_ignore_index(self) -> None:
        a = M.precision_recall_f1([0, 1, 1, 0], [0, 1, 255, 255], 2, ignore_index=255, average=None)
        assert a.precision.tolist() == [1, 1]

    def test_refused(self) -> None:
        with pytest.raises(
            ArgumentError, match=r"average 'samples'\n  expected: 'micro', 'macro', 'weighted' or None"
        ):
            M.PrecisionRecallF1(3, average="samples")


METRICS = [
    (lambda: M.Accuracy(ignore_index=1), "scores"),
    (lambda: M.TopKAccuracy(2), "scores"),
    (lambda: M.ConfusionMatrix(4), "scores"),
    (lambda: M.PrecisionRecallF1(4), "scores"),
    (lambda: M.Perplexity(), "scores"),
    (lambda: M.MeanAveragePrecision(4), "scores"),
    (lambda: M.Mean(), "mean"),
]


def same(a: Any, b: Any) -> None:
    if isinstance(a, tuple):
        for x, y in zip(a, b, strict=True):
            same(x, y)
    else:
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize(("make", "kind"), METRICS)
class TestAccumulation:
    def batches(self, kind: str) -> list[tuple[Any, Any]]:
        rng = np.random.default_rng(0)
        sizes = [5, 1, 8, 0, 3]
        if kind == "mean":
            return [(rng.normal(size=n), rng.random(n)) for n in sizes]
        return [(rng.normal(size=(n, 4)), rng.integers(0, 4, n)) for n in sizes]

    def test_division_into_batches_does_not_matter(self, make: Any, kind: str) -> None:
        parts, whole = make(), make()
        for batch in self.batches(kind):
            parts.update(*batch)
        whole.update(*(np.concatenate(column) for column in zip(*self.batches(kind), strict=True)))
        same(parts.compute(), whole.compute())

    def test_merge_reset_and_state(self, make: Any, kind: str) -> None:
        a, b, whole = make(), make(), make()
        for i, batch in enumerate(self.batches(kind)):
            (a if i < 2 else b).update(*batch)
            whole.update(*batch)
        restored = make()
        restored.load_state_dict(b.state_dict())
        same(restored.compute(), b.compute())
        a.merge(restored)
        same(a.compute(), whole.compute())
        saved = whole.state_dict()
        whole.reset()
        same(whole.compute(), make().compute())
        whole.load_state_dict(saved)
        whole.update(*self.batches(kind)[0])  # the saved state must not move with the metric
        again = make()
        again.load_state_dict(saved)
        same(again.compute(), a.compute())

    def test_foreign_states_are_refused(self, make: Any, kind: str) -> None:
        metric = make()
        state = metric.state_dict()
        name = next(iter(state))
        for bad in ({}, {**state, "x": np.zeros(2)}, {**state, name: np.zeros((2, 2, 2), state[name].dtype)},
                    {**state, name: state[name].astype(np.complex64)}):  # fmt: skip
            with pytest.raises(
                StateError, match=r"(?s)does not fit.*where: found.*expected: .*remedy: load what state_dict"
            ):
                metric.load_state_dict(bad)


def test_merge_wants_the_same_settings() -> None:
    with pytest.raises(
        StateError, match=r"(?s)ConfusionMatrix cannot be merged.*'classes': '2'.*'classes': '3'"
    ):
        M.ConfusionMatrix(2).merge(M.ConfusionMatrix(3))
    with pytest.raises(StateError, match="TopKAccuracy"):
        M.Accuracy().merge(M.TopKAccuracy(1))
