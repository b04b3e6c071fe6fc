"""Average precision: by hand, against scikit-learn, ties and empty classes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilobite.base.errors import ArgumentError, DataError, DTypeError, ShapeError
from trilobite.framework import metrics as M


def sk() -> Any:
    return pytest.importorskip("sklearn.metrics")


class TestAveragePrecision:
    def test_by_hand(self) -> None:
        assert M.average_precision([0.9, 0.8, 0.7, 0.6], [1, 0, 1, 0]) == pytest.approx((1 + 2 / 3) / 2)
        assert (
            M.average_precision([1, 2, 3], [0, 0, 1]) == 1
            and M.average_precision([3, 2, 1], [0, 0, 1]) == 1 / 3
        )

    def test_ties_do_not_depend_on_order(self) -> None:
        assert (
            M.average_precision([5, 5, 5, 5], [1, 0, 0, 0])
            == M.average_precision([5, 5, 5, 5], [0, 0, 0, 1])
            == 0.25
        )
        assert M.average_precision([0.0, -0.0], [0, 1]) == 0.5

    @given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=1, max_size=30))
    def test_agrees_with_scikit_learn_on_ties(self, items: list[tuple[int, bool]]) -> None:
        scores, relevant = (np.array(column) for column in zip(*items, strict=True))
        if relevant.any():
            expected = sk().average_precision_score(relevant, scores)
            assert M.average_precision(scores, relevant) == pytest.approx(expected, rel=1e-12)
            perm = np.random.default_rng(0).permutation(len(items))
            assert M.average_precision(scores[perm], relevant[perm]) == M.average_precision(scores, relevant)

    def test_nothing_relevant(self) -> None:
        assert (
            math.isnan(M.average_precision([1.0, 2.0], [0, 0]))
            and M.average_precision([1.0], [0], empty=0.0) == 0
        )
        assert math.isnan(M.average_precision([], []))

    def test_infinite_scores(self) -> None:
        assert M.average_precision([np.inf, -np.inf, 0], [1, 0, 1]) == 1

    @pytest.mark.parametrize(
        ("scores", "relevant", "error", "text"),
        [
            ([1.0], [2], DataError, r"relevance runs from 2 to 2\n  expected: 0 or 1"),
            ([1.0, 2.0], [1], ShapeError, r"scores of shape \(2,\) and relevance of shape \(1,\)"),
            ([[1.0]], [[1]], ShapeError, "one axis"),
            ([np.nan], [1], DataError, "contain NaN"),
            ([1j], [1], DTypeError, "complex128"),
        ],
    )
    def test_refused(self, scores: Any, relevant: Any, error: type[Exception], text: str) -> None:
        with pytest.raises(error, match=text):
            M.average_precision(scores, relevant)


class TestMeanAveragePrecision:
    @pytest.mark.parametrize("seed", range(3))
    @pytest.mark.parametrize("average", ["macro", "micro", "weighted", "samples", None])
    def test_agrees_with_scikit_learn(self, seed: int, average: str | None) -> None:
        rng = np.random.default_rng(seed)
        scores = np.round(rng.normal(size=(40, 6)), 1)  # with ties
        relevant = rng.random((40, 6)) < 0.4
        relevant[0], relevant[:, 0] = True, True  # every row and column has something
        expected = sk().average_precision_score(relevant, scores, average=average)
        np.testing.assert_allclose(
            M.mean_average_precision(scores, relevant, average=average), expected, rtol=1e-12
        )

    def test_class_numbers(self) -> None:
        rng = np.random.default_rng(0)
        scores, target = rng.normal(size=(30, 4)), rng.integers(0, 4, 30)
        assert M.mean_average_precision(scores, target) == pytest.approx(
            sk().average_precision_score(np.eye(4)[target], scores)
        )

    def test_empty_classes_are_left_out_or_counted(self) -> None:
        scores = [[3.0, 1.0, 0.0], [2.0, 5.0, 0.0]]
        each = M.mean_average_precision(scores, [1, 1], average=None)
        np.testing.assert_array_equal(each, [np.nan, 1.0, np.nan])
        assert M.mean_average_precision(scores, [0, 0], empty=0.0) == pytest.approx(1 / 3)
        assert M.mean_average_precision(scores, [0, 0]) == 1.0
        assert M.mean_average_precision([[1.0, 0.0], [0.0, 1.0]], [[0, 0], [0, 1]], average="samples") == 1.0

    def test_refused(self) -> None:
        with pytest.raises(
            ShapeError,
            match=r"targets of shape \(3,\) beside scores of shape \(2, 4\)\n  expected: \(2,\) class",
        ):
            M.mean_average_precision(np.zeros((2, 4)), [0, 1, 2])
        with pytest.raises(ShapeError, match=r"expected: \(items, 4\)"):
            M.MeanAveragePrecision(4).update(np.zeros((2, 3)), [0, 1])
        with pytest.raises(ShapeError, match=r"\(items, classes\)"):
            M.mean_average_precision([1.0], [0])
        with pytest.raises(ArgumentError, match="average 'mean'"):
            M.MeanAveragePrecision(4, average="mean")
        with pytest.raises(DataError, match="target contains class 4"):
            M.mean_average_precision(np.zeros((1, 4)), [4])
