"""Losses beyond the table: class weights, extremes, impossible alignments, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from gradcheck import check_gradients

import trilobite as tb
import trilobite.framework.nn.functional as F
from trilobite.base.errors import ArgumentError, DTypeError, IndexingError, ShapeError
from trilobite.framework import nn

RNG = np.random.default_rng(8)


def t(x: Any) -> tb.Tensor:
    return tb.tensor(np.asarray(x))


def log_softmax(x: np.ndarray) -> np.ndarray:
    return x - np.log(np.exp(x).sum(1, keepdims=True))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_class_weights_smoothing_and_ignored_targets(reduction: str, smoothing: float) -> None:
    x, y = RNG.standard_normal((5, 4)), np.array([3, 0, 2, 0, 1])
    w = np.array([0.5, 2.0, 1.5, 0.1])
    logs, counted = log_softmax(x), y != 2
    each = [
        -((1 - smoothing) * w[c] * logs[i, c] + smoothing / 4 * (w * logs[i]).sum()) * k
        for i, (c, k) in enumerate(zip(y, counted, strict=True))
    ]
    expected = {"none": np.array(each), "sum": sum(each), "mean": sum(each) / (w[y] * counted).sum()}[
        reduction
    ]
    loss = nn.CrossEntropyLoss(t(w), ignore_index=2, reduction=reduction, label_smoothing=smoothing)
    np.testing.assert_allclose(loss(t(x), t(y)).numpy(), expected, rtol=1e-10)
    assert list(loss.state_dict()) == ["weight"]
    check_gradients(lambda a: loss(a, t(y)), x)


def test_weights_of_binary_losses() -> None:
    x, y, w, pos = (
        RNG.standard_normal((3, 4)),
        RNG.random((3, 4)),
        RNG.random((3, 4)),
        np.array([1.0, 3.0, 0.2, 5.0]),
    )
    p = 1 / (1 + np.exp(-x))
    expected = -w * (pos * y * np.log(p) + (1 - y) * np.log(1 - p))
    found = F.binary_cross_entropy_with_logits(t(x), t(y), t(w), "none", t(pos))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10)
    found = F.binary_cross_entropy(t(p), t(y), t(w), "sum")
    np.testing.assert_allclose(
        found.numpy(), (-w * (y * np.log(p) + (1 - y) * np.log(1 - p))).sum(), rtol=1e-10
    )


def test_extremes_stay_finite() -> None:
    x = t(np.array([[1e4, -1e4], [-1e4, 1e4]], np.float32))
    assert F.cross_entropy(x, t([0, 0])).item() == 1e4
    assert F.binary_cross_entropy_with_logits(x, t(np.eye(2, dtype=np.float32))).item() == 0.0
    g = tb.grad(lambda v: F.binary_cross_entropy_with_logits(v, t(np.zeros((2, 2), np.float32))))(x)
    np.testing.assert_allclose(g.numpy(), [[0.25, 0], [0, 0.25]])
    assert F.binary_cross_entropy(t(np.float32([0.0, 1.0])), t(np.float32([1.0, 0.0]))).item() == 100.0
    kl = F.kl_div(t(np.log([[0.5, 0.5]])), t([[0.0, 1.0]]), "sum")
    assert kl.item() == pytest.approx(math.log(2))
    g = tb.grad(lambda v: F.kl_div(t(np.log([[0.5, 0.5]])), v, "sum"))(t([[0.0, 1.0]]))
    assert np.isfinite(g.numpy()).all()


def test_the_mean_of_nothing_counted_is_nan_and_the_sum_is_zero() -> None:
    x, y = t(RNG.standard_normal((2, 3))), t([-100, -100])
    assert math.isnan(F.cross_entropy(x, y).item()) and F.cross_entropy(x, y, reduction="sum").item() == 0.0


def test_losses_keep_the_dtype_and_add_up_wide() -> None:
    x = tb.ones((70_000,), dtype="float16")
    assert F.mse_loss(x, tb.zeros((70_000,), dtype="float16")).item() == 1.0
    assert F.l1_loss(x, x * 0, reduction="mean").dtype == tb.float16


# -- connectionist temporal classification -----------------------------------------------------------------


def test_an_impossible_alignment_is_infinite_or_zero() -> None:
    logs = t(log_softmax(RNG.standard_normal((3, 2, 4)).reshape(-1, 4)).reshape(3, 2, 4))
    targets = t([[1, 1], [2, 3]])  # two equal labels need three steps: with two there is no way
    plain = F.ctc_loss(logs, targets, [2, 3], [2, 2], reduction="none").numpy()
    assert np.isinf(plain[0]) and np.isfinite(plain[1])
    kept = F.ctc_loss(logs, targets, [2, 3], [2, 2], reduction="none", zero_infinity=True).numpy()
    assert kept[0] == 0 and kept[1] == plain[1]
    g = tb.grad(lambda v: F.ctc_loss(v, targets, [2, 3], [2, 2], zero_infinity=True))(logs).numpy()
    assert np.isfinite(g).all() and not g[:, 0].any() and g[:, 1].any()


def test_an_empty_target_is_blanks_alone() -> None:
    logs = log_softmax(RNG.standard_normal((4, 3)))
    found = F.ctc_loss(t(logs), t(np.zeros(0, np.int64)), 4, 0, blank=1, reduction="none")
    assert found.item() == pytest.approx(-logs[:, 1].sum())
    nothing = F.ctc_loss(t(logs[:, None]), t([[2]]), [0], [1], reduction="none").numpy()
    assert np.isinf(nothing[0])


def test_long_sequences_do_not_underflow() -> None:
    logs = np.full((400, 1, 5), math.log(0.2), np.float32)
    loss = F.ctc_loss(t(logs), t(RNG.integers(1, 5, (1, 60))), [400], [60], reduction="sum").item()
    assert 300 < loss < 644
    compiled = tb.jit(lambda a, b: F.ctc_loss(a, b, [400], [60], reduction="sum"))
    assert math.isfinite(compiled(t(logs), t(RNG.integers(1, 5, (1, 60)))).item())


# -- refusals ----------------------------------------------------------------------------------------------


def test_wrong_targets_are_refused_by_name() -> None:
    x = tb.ones((2, 3))
    with pytest.raises(ShapeError, match=r"mse_loss of shapes \(2, 3\) and \(2,\)") as e:
        F.mse_loss(x, tb.ones((2,)))
    assert "remedy: reshape the target" in str(e.value) and "test_losses.py" in str(e.value)
    with pytest.raises(
        ShapeError, match=r"cross_entropy of shape \(2, 3\) with a target of shape \(3,\)"
    ) as e:
        F.cross_entropy(x, t([0, 1, 2]))
    assert "expected: classes of shape (2,), or probabilities of shape (2, 3)" in str(e.value)
    with pytest.raises(DTypeError, match="cross_entropy with classes of float32") as e:
        F.cross_entropy(x, tb.ones((2,)))
    assert "remedy: target.astype(tb.int64)" in str(e.value)
    with pytest.raises(IndexingError, match="nll_loss: class 3 of 3"):
        F.nll_loss(x, t([0, 3]))
    with pytest.raises(ShapeError, match=r"cross_entropy with a weight of shape \(2,\)"):
        F.cross_entropy(x, t([0, 1]), tb.ones((2,)))
    with pytest.raises(ArgumentError, match="reduction 'average'") as e:
        F.l1_loss(x, x, "average")
    assert "expected: one of none, mean, sum" in str(e.value)
    with pytest.raises(ArgumentError, match=r"label_smoothing 1\.5"):
        F.cross_entropy(x, t([0, 1]), label_smoothing=1.5)
    with pytest.raises(ArgumentError, match="huber_loss"):
        F.huber_loss(x, x, delta=0.0)
    with pytest.raises(ShapeError, match="ctc_loss of shape"):
        F.ctc_loss(x, t([[1]]), [1], [1], blank=9)
    with pytest.raises(ShapeError, match="ctc_loss: input_lengths of shape"):
        F.ctc_loss(tb.zeros((4, 2, 3)), t([[1], [1]]), [4], [1, 1])
    with pytest.raises(ArgumentError, match="ctc_loss: an input length of 9 in 4 steps"):
        F.ctc_loss(tb.zeros((4, 1, 3)), t([[1]]), [9], [1])
    with pytest.raises(ShapeError, match="cosine_embedding_loss of shape"):
        F.cosine_embedding_loss(x, x, tb.ones((3,)))


@pytest.mark.parametrize("way", [lambda f: f, tb.jit], ids=["eager", "jit"])
def test_binary_cross_entropy_of_certainty_has_finite_slopes(way: Any) -> None:
    """The slope at 0 and 1 is that at 1e-12: a saturated sigmoid must not turn training into NaN."""
    p, y = tb.tensor([0.0, 1.0, 0.0, 1.0, 0.25]), tb.tensor([0.0, 1.0, 1.0, 0.0, 1.0])
    loss = lambda p: F.binary_cross_entropy(p, y, reduction="sum")  # noqa: E731
    np.testing.assert_allclose(way(loss)(p).item(), 200 - math.log(0.25), rtol=1e-6)
    np.testing.assert_allclose(way(tb.grad(loss))(p).numpy(), [1, -1, -1e12, 1e12, -4], rtol=1e-6)


def test_a_triplet_by_a_distance_of_ones_own() -> None:
    a, p, n = (t(RNG.standard_normal((4, 3))) for _ in range(3))

    def taxi(x: tb.Tensor, y: tb.Tensor) -> tb.Tensor:
        return (x - y).abs().sum(axis=-1)

    loss = nn.TripletMarginWithDistanceLoss(distance_function=taxi, margin=0.5, swap=True)
    near, far, other = (np.abs(u.numpy() - v.numpy()).sum(-1) for u, v in ((a, p), (a, n), (p, n)))
    expected = np.maximum(0, near - np.minimum(far, other) + 0.5).mean()
    np.testing.assert_allclose(loss(a, p, n).numpy(), expected)
    np.testing.assert_allclose(
        nn.TripletMarginWithDistanceLoss()(a, p, n).numpy(), nn.TripletMarginLoss()(a, p, n).numpy()
    )
