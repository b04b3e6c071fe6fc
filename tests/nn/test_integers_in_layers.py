"""Losses, distances, normalisation and resampling of integers are those of the same numbers as floats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb

F = tb.nn.functional
R = np.random.default_rng(7)
X, Y, V = R.integers(-3, 4, (4, 5)), R.integers(0, 4, (4, 5)), R.integers(1, 5, (4, 5))
SIGN, WEIGHT, CLASSES = np.where(X > 0, 1, -1), R.random((4, 5)).astype(np.float32), np.array([0, 1, 2, 4])
Make = Callable[[Any], tb.Tensor]
LOSSES: dict[str, Callable[[Make, str], tb.Tensor]] = {
    "mse": lambda c, r: F.mse_loss(c(X), c(Y), r),
    "mse, weights": lambda c, r: F.mse_loss(c(X), c(Y), r, tb.tensor(WEIGHT)),
    "l1": lambda c, r: F.l1_loss(c(X), c(Y), r),
    "l1, weights": lambda c, r: F.l1_loss(c(X), c(Y), r, tb.tensor(WEIGHT)),
    "smooth l1": lambda c, r: F.smooth_l1_loss(c(X), c(Y), r, beta=2.0),
    "smooth l1, small beta": lambda c, r: F.smooth_l1_loss(c(X), c(Y), r, beta=0.7),
    "huber": lambda c, r: F.huber_loss(c(X), c(Y), r, delta=1.3),
    "huber, weights": lambda c, r: F.huber_loss(c(X), c(Y), r, 1.3, tb.tensor(WEIGHT)),
    "cross entropy of bits": lambda c, r: F.binary_cross_entropy_with_logits(c(X), c(Y > 1), reduction=r),
    "kl": lambda c, r: F.kl_div(c(X), c(Y), r),
    "kl of logarithms": lambda c, r: F.kl_div(c(X), c(Y), r, log_target=True),
    "poisson": lambda c, r: F.poisson_nll_loss(c(X), c(Y), full=True, reduction=r),
    "gaussian": lambda c, r: F.gaussian_nll_loss(c(X), c(Y), c(V), full=True, reduction=r),
    "gaussian, fractions": lambda c, r: F.gaussian_nll_loss(c(X), c(Y), tb.tensor(WEIGHT), reduction=r),
    "hinge": lambda c, r: F.hinge_embedding_loss(c(X), c(SIGN), 1.5, r),
    "soft margin": lambda c, r: F.soft_margin_loss(c(X), c(SIGN), r),
    "ranking": lambda c, r: F.margin_ranking_loss(c(X), c(Y), c(SIGN), 0.5, r),
    "cosine": lambda c, r: F.cosine_embedding_loss(c(X), c(Y), c(SIGN[:, 0]), 0.1, r),
    "triplet": lambda c, r: F.triplet_margin_loss(c(X), c(Y), c(V), reduction=r),
    "many labels": lambda c, r: F.multilabel_soft_margin_loss(c(X), c(Y > 1), reduction=r),
    "margins of classes": lambda c, r: F.multi_margin_loss(c(X), tb.tensor(CLASSES), reduction=r),
    "classes": lambda c, r: F.cross_entropy(c(X), tb.tensor(CLASSES), reduction=r),
    "shares of classes": lambda c, r: F.cross_entropy(c(X), tb.tensor(WEIGHT), reduction=r),
    "likelihood": lambda c, r: F.nll_loss(c(X), tb.tensor(CLASSES), tb.tensor(WEIGHT[0]), reduction=r),
}
LAYERS: dict[str, Callable[[Make], tb.Tensor]] = {
    "cosine similarity": lambda c: F.cosine_similarity(c(X), c(Y + V)),
    "distance": lambda c: F.pairwise_distance(c(X), c(Y), p=3.0),
    "normalize": lambda c: F.normalize(c(V), dim=0),
    "layer norm": lambda c: F.layer_norm(c(X), (5,)),
    "layer norm, weights": lambda c: F.layer_norm(c(X), (5,), tb.tensor(WEIGHT[0])),
    "rms norm": lambda c: F.rms_norm(c(X), (5,)),
    "group norm": lambda c: F.group_norm(c(X), 1),
    "batch norm": lambda c: F.batch_norm(c(X), None, None, training=True),
    "batch norm, given": lambda c: F.batch_norm(c(X), tb.tensor(WEIGHT[0]), tb.tensor(WEIGHT[1])),
    "response": lambda c: F.local_response_norm(c(X[None]), 3),
    "adaptive": lambda c: F.adaptive_avg_pool1d(c(X[None]), 2),
    "linear": lambda c: F.interpolate(c(X[None]), size=7, mode="linear"),
    "bicubic": lambda c: F.interpolate(c(X[None, None]), size=(3, 9), mode="bicubic"),
    "filtered": lambda c: F.interpolate(c(X[None, None]), size=(3, 2), mode="bilinear", antialias=True),
}


def as_floats(x: Any) -> tb.Tensor:
    return tb.tensor(np.asarray(x, np.float64))


@pytest.mark.parametrize("dtype", [np.int64, np.int8])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("name", LOSSES)
def test_losses_of_integers(name: str, reduction: str, dtype: Any) -> None:
    found = LOSSES[name](lambda x: tb.tensor(np.asarray(x, dtype)), reduction)
    np.testing.assert_allclose(
        found.numpy(), LOSSES[name](as_floats, reduction).numpy(), rtol=2e-5, atol=2e-5
    )


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_layers_of_integers(name: str, compiled: bool) -> None:
    def layer(shift: tb.Tensor) -> tb.Tensor:
        return LAYERS[name](lambda x: tb.tensor(x) + shift)

    found = (tb.jit(layer) if compiled else layer)(tb.tensor(0))
    assert found.dtype.is_floating_point
    np.testing.assert_allclose(found.numpy(), LAYERS[name](as_floats).numpy(), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("mode, antialias", [("bilinear", False), ("bicubic", False), ("bicubic", True)])
def test_bytes_of_a_picture_are_rounded(mode: str, antialias: bool) -> None:
    picture = R.integers(0, 256, (1, 3, 9, 7)).astype(np.uint8)
    picture[..., ::2] = np.where(picture[..., ::2] > 127, 255, 0)
    smaller: dict[str, Any] = {"size": (5, 11), "mode": mode, "antialias": antialias}
    exact = F.interpolate(as_floats(picture), **smaller).numpy()
    found = F.interpolate(tb.tensor(picture), **smaller)
    assert found.dtype == tb.uint8
    assert exact.min() < 0 or exact.max() > 255 or mode == "bilinear"
    assert np.abs(found.numpy() - np.clip(exact, 0, 255)).max() <= 0.5 + 1e-4


def test_bounds_keep_integers() -> None:
    x = tb.tensor([-3, 0, 2, 9])
    assert (F.hardtanh(x, -2, 3).dtype, F.hardtanh(x, -2, 3).tolist()) == (tb.int64, [-2, 0, 2, 3])
    assert (F.relu6(x).dtype, F.relu6(x).tolist()) == (tb.int64, [0, 0, 2, 6])
    assert (F.threshold(x, 1.5, 7).dtype, F.threshold(x, 1.5, 7).tolist()) == (tb.int64, [7, 7, 2, 9])
    assert F.hardtanh(x, -0.5, 2.5).tolist() == [-0.5, 0.0, 2.0, 2.5]


def test_masks_keep_truth() -> None:
    bits = tb.tensor([True, False, True])
    for value, want in (
        (0, [False, False, False]),
        (2.5, [True, True, True]),
        (False, [False, False, False]),
    ):
        found = bits.masked_fill(tb.tensor([True, True, True]), value)
        assert (found.dtype, found.tolist()) == (tb.bool, want)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.select(0, 0.2), lambda x: x.roll(0.5, 0), lambda x: x.roll(0.5), lambda x: x.rot90(0.5),
        lambda x: x.narrow(0, 0.5, 1), lambda x: x.narrow(0, 0, 1.5), lambda x: x.diagonal(0.5),
        lambda x: F.pad(x, (1.5, 0)), lambda x: tb.bincount(x[0], minlength=2.5), lambda x: x.repeat(1.5, 1),
        lambda x: tb.triu_indices(2.5, 2), lambda x: tb.tril_indices(2, 2, 0.5),
    ],
)  # fmt: skip
def test_half_an_element_is_refused(fn: Callable[[tb.Tensor], Any]) -> None:
    with pytest.raises(TypeError, match="integer"):
        fn(tb.tensor([[1, 2], [3, 4]]))


SAME: dict[str, Callable[[tb.Tensor], Any]] = {
    "histogram": lambda x: tb.histogram(x, 3)[1],
    "matrix_exp": lambda x: tb.linalg.matrix_exp(x),
    "attention": lambda x: F.scaled_dot_product_attention(x, x + 1, x - 2),
    "rotary": lambda x: F.rotary_embedding(x),
    "even adaptive": lambda x: F.adaptive_avg_pool1d(x[None], 2),
}


@pytest.mark.parametrize("name", SAME)
def test_functions_of_integers(name: str) -> None:
    x = np.array([[1, 0, 2, -1], [0, 1, 1, 3], [2, 1, -1, 0], [1, 1, 0, 2]])
    np.testing.assert_allclose(
        SAME[name](tb.tensor(x)).numpy(), SAME[name](as_floats(x)).numpy(), rtol=2e-5, atol=2e-5
    )
