"""Metrics at the ends of their spans, and beside their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trilobite.framework import metrics as M
from trilobite.framework.metrics.matching import match_coco

RNG = np.random.default_rng(4)


@pytest.mark.parametrize(
    ("area", "span", "counts"),
    [(1023.9, (0, 1024), True), (1024.0, (0, 1024), True), (1024.1, (0, 1024), False), (1024.0, (1024,
     9216), True),
     (1023.9, (1024, 9216), False), (9216.0, (1024, 9216), True)],
)  # fmt: skip
def test_true_boxes_at_the_ends_of_a_span_count(area: float, span: tuple[float, float], counts: bool) -> None:
    """An area of exactly 32 x 32 is small and medium, as in COCO's own evaluation."""
    truth = np.asarray([[0.0, 0.0, 32.0, area / 32]])
    found = match_coco(
        truth,
        np.asarray([0.9]),
        truth,
        np.asarray([False]),
        np.asarray([area]),
        np.asarray([0.5, 0.75]),
        span,
    )
    assert found.hit.shape == (2, 1) and bool(found.hit.all()) == counts
    assert int(found[3]) == int(counts)
    stray = np.asarray([[50.0, 50.0, 82.0, 50 + area / 32]])
    missed = match_coco(
        stray, np.asarray([0.9]), truth, np.asarray([False]), np.asarray([area]), np.asarray([0.5]), span
    )
    assert bool(missed.counted.all()) == counts and not missed.hit.any()


@pytest.mark.parametrize("average", ["micro", "macro", "weighted", None])
@pytest.mark.parametrize("zero", [0.0, 1.0])
def test_precision_recall_and_f1_beside_their_definitions(average: str | None, zero: float) -> None:
    truth, guess = RNG.integers(0, 3, 60), RNG.integers(0, 3, 60)  # of four classes one never comes
    metric = M.PrecisionRecallF1(4, average=average, zero_division=zero)
    metric.update(np.eye(4)[guess], truth)
    found = metric.compute()
    tp = np.asarray([((truth == c) & (guess == c)).sum() for c in range(4)], float)
    guessed, support = (np.bincount(v, minlength=4).astype(float) for v in (guess, truth))

    def ratio(over: Any, under: Any) -> Any:
        if average == "micro":
            over, under = over.sum(keepdims=True), under.sum(keepdims=True)
        each = np.where(under > 0, over / np.where(under > 0, under, 1), zero)
        if average is None:
            return each
        return (each * support).sum() / support.sum() if average == "weighted" else each.mean()

    wanted = (ratio(tp, guessed), ratio(tp, support), ratio(2 * tp, guessed + support))
    for value, want in zip(found[:3], wanted, strict=True):
        np.testing.assert_allclose(value, want, rtol=1e-12)
    assert found.support.tolist() == support.tolist()
