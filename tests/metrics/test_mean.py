"""Means and perplexity."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from trilobite.base.errors import ArgumentError, DataError, DTypeError, ShapeError
from trilobite.framework import metrics as M


class TestMean:
    def test_weights(self) -> None:
        mean = M.Mean()
        mean.update(2.0, 3)
        mean.update(np.float32(8.0))
        assert mean.compute() == 3.5
        mean.update([[1.0, -1.0], [4.0, 0.0]])
        assert mean.compute() == 18 / 8
        mean.update([100.0, 5.0], [0.0, 2.0])
        assert mean.compute() == 28 / 10

    def test_edges(self) -> None:
        assert math.isnan(M.Mean().compute())
        for values, expected in (([np.inf, 1], np.inf), ([np.inf, -np.inf], np.nan), ([np.nan, 1], np.nan)):
            mean = M.Mean()
            mean.update(values)
            np.testing.assert_equal(mean.compute(), expected)

    def test_half_precision_sums_in_float64(self) -> None:
        mean = M.Mean()
        for _ in range(3000):
            mean.update(np.float16(0.1))
        assert mean.compute() == pytest.approx(float(np.float16(0.1)), rel=1e-12)

    def test_refused(self) -> None:
        for weight in (-1, np.nan, np.inf):
            with pytest.raises(ArgumentError, match="a weight is negative, infinite or NaN"):
                M.Mean().update(1.0, weight)


class TestPerplexity:
    def test_by_hand(self) -> None:
        assert M.perplexity(np.zeros((7, 5)), np.arange(7) % 5) == pytest.approx(5)
        probabilities = np.array([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]])
        assert M.perplexity(np.log(probabilities), [1, 1]) == pytest.approx((0.25 * 0.8) ** -0.5)

    def test_shift_and_large_logits(self) -> None:
        rng = np.random.default_rng(0)
        logits, target = rng.normal(size=(4, 6, 9)), rng.integers(0, 6, (4, 9))
        base = M.perplexity(logits, target)
        assert M.perplexity(logits + 1e4, target) == pytest.approx(base)
        assert M.perplexity(np.moveaxis(logits, 1, -1), target, axis=-1) == pytest.approx(base)
        assert M.perplexity(np.array([[1e308, -1e308]]), [0]) == 1.0

    def test_impossible_targets_and_nan(self) -> None:
        assert M.perplexity([[0.0, -np.inf]], [1]) == np.inf and M.perplexity([[0.0, -np.inf]], [0]) == 1
        assert M.perplexity([[0.0, -2000.0]], [1]) == np.inf  # beyond float64
        assert math.isnan(M.perplexity([[0.0, np.nan]], [0]))

    def test_ignore_index(self) -> None:
        logits = np.random.default_rng(0).normal(size=(3, 4))
        assert M.perplexity(logits, [1, -100, 3], ignore_index=-100) == pytest.approx(
            M.perplexity(logits[[0, 2]], [1, 3])
        )
        assert math.isnan(M.perplexity(logits, [0, 0, 0], ignore_index=0))

    def test_agrees_with_scikit_learn(self) -> None:
        sk = pytest.importorskip("sklearn.metrics")
        p = np.random.default_rng(0).dirichlet(np.ones(5), 50)
        target = np.random.default_rng(1).integers(0, 5, 50)
        assert math.log(M.perplexity(np.log(p), target)) == pytest.approx(
            sk.log_loss(target, p, labels=range(5))
        )

    def test_bfloat16(self) -> None:
        logits = np.array([[1.0, 2.0]]).astype(ml_dtypes.bfloat16)
        assert M.perplexity(logits, [0]) == pytest.approx(1 + math.e)

    def test_refused(self) -> None:
        with pytest.raises(DataError, match="target contains class 2"):
            M.perplexity(np.zeros((1, 2)), [2])
        with pytest.raises(
            ShapeError,
            match=r"scores of shape \(2, 3\) \(classes on axis 1\) do not fit targets of shape \(3,\)",
        ):
            M.perplexity(np.zeros((2, 3)), [0, 1, 2])
        with pytest.raises(DTypeError, match="target has dtype float64"):
            M.perplexity(np.zeros((1, 2)), [0.5])
