"""What layers' functions refuse, beside the nearest use that they take: guards that ordinary calls miss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite import nn
from trilobite.base.errors import TrilobiteError

F = nn.functional
Case = tuple[Callable[[], Any], str, Callable[[], Any]]
RNG = np.random.default_rng(11)


def z(*shape: int, dtype: Any = None) -> Any:
    return tb.zeros(shape, dtype=dtype)


def r(*shape: int) -> Any:
    return tb.tensor(RNG.standard_normal(shape).astype(np.float32))


def whole(*values: Any) -> Any:
    return tb.tensor(list(values))


X, IMAGE, ROWS = r(3, 4), r(2, 4, 5, 6), r(2, 3, 4)
HEADS = r(2, 4, 3, 5)  # batch, heads, length, features
LOGS = tb.nn.functional.log_softmax(r(6, 2, 4), 2)
att = F.scaled_dot_product_attention


def ctc(logs: Any = LOGS, targets: Any = None, times: Any = None, counts: Any = None, **given: Any) -> Any:
    targets = whole([1, 2], [3, 1]) if targets is None else targets
    times, counts = ([6, 5] if times is None else times), ([2, 1] if counts is None else counts)
    return F.ctc_loss(logs, targets, times, counts, **given)


def heads(**given: Any) -> Any:
    w, b = r(12, 4), r(12)
    named = {"embed_dim_to_check": 4, "num_heads": 2, "in_proj_weight": w, "in_proj_bias": b, "bias_k": None,
             "bias_v": None, "add_zero_attn": False, "dropout_p": 0.0, "out_proj_weight": r(4, 4),
             "out_proj_bias": None}  # fmt: skip
    x = r(3, 2, 4)
    return F.multi_head_attention_forward(x, x, x, **{**named, **given})


CASES: dict[str, Case] = {
    "logits": (
        lambda: F.binary_cross_entropy(tb.tensor([0.5, 1.0001]), tb.ones(2)),
        "numbers from 0.5 to 1.0001",
        lambda: F.binary_cross_entropy(tb.tensor([0.0, 1.0]), tb.ones(2)),
    ),
    "negative logits": (
        lambda: F.binary_cross_entropy(tb.tensor([-0.0001, 1.0]), tb.ones(2)),
        "numbers from -0.0001 to 1",
        lambda: F.binary_cross_entropy(tb.tensor([float("nan"), 1.0]), tb.ones(2)),
    ),
    # -- attention
    "vectors": (
        lambda: att(z(4), z(4), z(4)),
        "attention of query (4,)",
        lambda: att(z(1, 4), z(1, 4), z(1, 4)),
    ),
    "flat queries": (
        lambda: att(z(3, 5), HEADS, HEADS),
        "(..., heads, length, features)",
        lambda: att(z(1, 3, 5), HEADS, HEADS),
    ),
    "flat keys": (
        lambda: att(HEADS, z(3, 5), HEADS),
        "(..., heads, length, features)",
        lambda: att(HEADS, z(1, 3, 5), HEADS),
    ),
    "features": (
        lambda: att(HEADS, z(2, 4, 3, 4), HEADS),
        "as many features in queries",
        lambda: att(HEADS, HEADS, z(2, 4, 3, 7)),
    ),
    "keys": (
        lambda: att(HEADS, HEADS, z(2, 4, 2, 5)),
        "as many keys as values",
        lambda: att(HEADS, z(2, 4, 2, 5), z(2, 4, 2, 5)),
    ),
    "shared values": (
        lambda: att(HEADS, z(2, 2, 3, 5), z(2, 4, 3, 5), enable_gqa=True),
        "as many key heads as value heads",
        lambda: att(HEADS, z(2, 2, 3, 5), z(2, 2, 3, 5), enable_gqa=True),
    ),
    "shared heads": (
        lambda: att(HEADS, z(2, 3, 3, 5), z(2, 3, 3, 5), enable_gqa=True),
        "a multiple of them in queries",
        lambda: att(HEADS, z(2, 1, 3, 5), z(2, 1, 3, 5), enable_gqa=True),
    ),
    "dropout": (
        lambda: att(HEADS, HEADS, HEADS, dropout_p=1.01),
        "dropout_p <= 1",
        lambda: att(HEADS, HEADS, HEADS, dropout_p=1.0),
    ),
    "dropout below": (
        lambda: att(HEADS, HEADS, HEADS, dropout_p=-0.01),
        "0 <= dropout_p",
        lambda: att(HEADS, HEADS, HEADS, dropout_p=0.0),
    ),
    "rotary": (
        lambda: F.rotary_embedding(z(4)),
        "rotary_embedding of shape",
        lambda: F.rotary_embedding(z(1, 4)),
    ),
    "rotary of odd": (
        lambda: F.rotary_embedding(z(2, 3)),
        "an even number",
        lambda: F.rotary_embedding(z(2, 2)),
    ),
    "heads of features": (lambda: heads(num_heads=3), "a multiple of the heads", lambda: heads(num_heads=4)),
    "another dimension": (lambda: heads(embed_dim_to_check=5), "5 features", lambda: heads()),
    # -- classes
    "cross_entropy": (
        lambda: F.cross_entropy(tb.tensor(1.0), whole(0)),
        "cross_entropy of a scalar",
        lambda: F.cross_entropy(r(4), tb.tensor(0)),
    ),
    "smoothing": (
        lambda: F.cross_entropy(X, whole(0, 1, 2), label_smoothing=1.01),
        "between 0 and 1",
        lambda: F.cross_entropy(X, whole(0, 1, 2), label_smoothing=1.0),
    ),
    "smoothing below": (
        lambda: F.cross_entropy(X, whole(0, 1, 2), label_smoothing=-0.01),
        "between 0 and 1",
        lambda: F.cross_entropy(X, whole(0, 1, 2), label_smoothing=0.0),
    ),
    "smoothing in a plan": (
        lambda: tb.jit(lambda x, y: F.cross_entropy(x, y, label_smoothing=1.5))(X, whole(0, 1, 2)),
        "label_smoothing 1.5",
        lambda: tb.jit(lambda x, y: F.cross_entropy(x, y, label_smoothing=1.0))(X, whole(0, 1, 2)),
    ),
    "targets": (
        lambda: F.nll_loss(X, whole(0, 1)),
        "classes of shape (3,)",
        lambda: F.nll_loss(X, whole(0, 1, 3)),
    ),
    "a class too many": (
        lambda: F.nll_loss(X, whole(0, 1, 4)),
        "class 4 of 4",
        lambda: F.nll_loss(X, whole(0, 1, -100)),
    ),
    "a negative class": (
        lambda: F.nll_loss(X, whole(0, 1, -1)),
        "class -1 of 4",
        lambda: F.nll_loss(X, whole(0, 1, -1), ignore_index=-1),
    ),
    "weights of classes": (
        lambda: F.nll_loss(X, whole(0, 1, 2), z(3)),
        "weight of shape (3,)",
        lambda: F.nll_loss(X, whole(0, 1, 2), r(4)),
    ),
    "classes that are floats": (
        lambda: F.nll_loss(X, z(3)),
        "classes of float32",
        lambda: F.nll_loss(X, z(3, dtype=tb.int32)),
    ),
    "one_hot": (lambda: F.one_hot(whole(0, 3), 3), "class outside of 3", lambda: F.one_hot(whole(0, 2), 3)),
    "one_hot below": (
        lambda: F.one_hot(whole(0, -1), 3),
        "class outside of 3",
        lambda: F.one_hot(whole(0, 0), 1),
    ),
    "one_hot of nothing": (
        lambda: F.one_hot(z(0, dtype=tb.int64)),
        "one_hot without",
        lambda: F.one_hot(z(0, dtype=tb.int64), 3),
    ),
    "one_hot in a plan": (
        lambda: tb.jit(lambda x: F.one_hot(x))(whole(0, 1)),
        "only a run knows the classes",
        lambda: tb.jit(lambda x: F.one_hot(x, 2))(whole(0, 1)),
    ),
    # -- ctc
    "ctc of a vector": (
        lambda: ctc(z(4)),
        "ctc_loss of shape (4,)",
        lambda: ctc(LOGS[:, 0], whole(1, 2), 6, 2),
    ),
    "ctc of four axes": (lambda: ctc(z(6, 2, 4, 1)), "ctc_loss of shape", lambda: ctc()),
    "blank": (lambda: ctc(blank=4), "with blank 4", lambda: ctc(blank=0)),
    "blank below": (
        lambda: ctc(blank=-1),
        "with blank -1",
        lambda: ctc(targets=whole([1, 2], [0, 1]), blank=3),
    ),
    "times": (lambda: ctc(times=[7, 5]), "an input length of 7 in 6 steps", lambda: ctc(times=[6, 6])),
    "times below": (lambda: ctc(times=[-1, 5]), "at most 6", lambda: ctc(times=[0, 5], zero_infinity=True)),
    "lengths": (lambda: ctc(counts=[2]), "target_lengths of shape (1,)", lambda: ctc(counts=[0, 0])),
    "lengths of inputs": (
        lambda: ctc(times=[2, 2, 2]),
        "input_lengths of shape (3,)",
        lambda: ctc(times=[2, 2]),
    ),
    "rows of targets": (
        lambda: ctc(targets=whole([1, 2])),
        "targets of shape (1, 2)",
        lambda: ctc(targets=whole(1, 2, 3)),
    ),
    # -- tables
    "padding_idx": (
        lambda: F.embedding(whole(0, 1), X, padding_idx=3),
        "padding_idx 3 of a table with 3 rows",
        lambda: F.embedding(whole(0, 1), X, padding_idx=2),
    ),
    "padding_idx below": (
        lambda: F.embedding(whole(0, 1), X, padding_idx=-4),
        "-3 <= padding_idx < 3",
        lambda: F.embedding(whole(0, 1), X, padding_idx=-3),
    ),
    "an index": (lambda: F.embedding(whole(3), X), "an index 3 of a table", lambda: F.embedding(whole(2), X)),
    "an index below": (
        lambda: F.embedding(whole(-1, 1), X),
        "an index -1 of a table",
        lambda: F.embedding(whole(0), X),
    ),
    "mode of bags": (
        lambda: F.embedding_bag(whole([0, 1]), X, mode="min"),
        "embedding_bag(mode='min')",
        lambda: F.embedding_bag(whole([0, 1]), X, mode="max"),
    ),
    "weights of means": (
        lambda: F.embedding_bag(whole([0, 1]), X, mode="mean", per_sample_weights=z(1, 2)),
        "with mode 'mean'",
        lambda: F.embedding_bag(whole([0, 1]), X, mode="sum", per_sample_weights=z(1, 2)),
    ),
    "weights of bags": (
        lambda: F.embedding_bag(whole([0, 1]), X, mode="sum", per_sample_weights=z(2)),
        "one weight per index",
        lambda: F.embedding_bag(whole(0, 1), X, whole(0), mode="sum", per_sample_weights=z(2)),
    ),
    # -- windows
    "unfold": (lambda: F.unfold(IMAGE, (6, 1)), "in blocks (6, 1)", lambda: F.unfold(IMAGE, (5, 1))),
    "unfold apart": (
        lambda: F.unfold(IMAGE, 3, dilation=(1, 3)),
        "a plane that a block fits on",
        lambda: F.unfold(IMAGE, 3, dilation=(2, 2)),
    ),
    "fractional": (
        lambda: F.fractional_max_pool2d(IMAGE, 2, output_size=(5, 5)),
        "1 <= size of the result",
        lambda: F.fractional_max_pool2d(IMAGE, 2, output_size=(4, 5)),
    ),
    "fractional to nothing": (
        lambda: F.fractional_max_pool2d(IMAGE, 2, output_size=(0, 5)),
        "1 <= size of the result",
        lambda: F.fractional_max_pool2d(IMAGE, 2, output_size=1),
    ),
    "fractional twice": (
        lambda: F.fractional_max_pool2d(IMAGE, 2, output_size=2, output_ratio=0.5),
        "one of them",
        lambda: F.fractional_max_pool2d(IMAGE, 2, output_ratio=(0.5, 0.6)),
    ),
    "divisor": (
        lambda: F.avg_pool2d(IMAGE, 2, divisor_override=0),
        "divisor_override 0",
        lambda: F.avg_pool2d(IMAGE, 2, divisor_override=1),
    ),
    "norm_type": (
        lambda: F.lp_pool2d(IMAGE, 0, 2),
        "lp_pool2d with norm_type=0",
        lambda: F.lp_pool2d(IMAGE, 0.5, 2),
    ),
    "padding of windows": (
        lambda: F.max_pool2d(IMAGE, 3, padding=2),
        "at most half a window",
        lambda: F.max_pool2d(IMAGE, 4, padding=2),
    ),
    "padding below": (
        lambda: F.max_pool2d(IMAGE, 3, padding=-1),
        "at most half a window",
        lambda: F.max_pool2d(IMAGE, 3, padding=0),
    ),
    # -- padding
    "odd sides": (lambda: F.pad(X, (1, 1, 1)), "two numbers per axis", lambda: F.pad(X, (1, 1, 1, 1))),
    "sides": (lambda: F.pad(X, (0,) * 6), "two numbers per axis", lambda: F.pad(X, (0,) * 4)),
    "value": (
        lambda: F.pad(X, (1, 1), "replicate", 1.0),
        "a value with 'constant' only",
        lambda: F.pad(X, (1, 1), "replicate", 0),
    ),
    "mode": (lambda: F.pad(X, (1, 1), "edge"), "pad(mode='edge')", lambda: F.pad(X, (1, 1), "circular")),
    "cropped": (lambda: F.pad(X, (-2, -3)), "at least 0 elements", lambda: F.pad(X, (-2, -2))),
    "reflected": (
        lambda: F.pad(X, (4, 0), "reflect"),
        "at most 3 on a side",
        lambda: F.pad(X, (3, 0), "reflect"),
    ),
    "reflected behind": (
        lambda: F.pad(X, (0, 4), "reflect"),
        "at most 3 on a side",
        lambda: F.pad(X, (0, 3), "reflect"),
    ),
    "circle": (
        lambda: F.pad(X, (5, 0), "circular"),
        "at most 4 on a side",
        lambda: F.pad(X, (4, 4), "circular"),
    ),
    "circle of what is left": (
        lambda: F.pad(X, (-2, 3), "circular"),
        "at most 2 on a side",
        lambda: F.pad(X, (-2, 2), "circular"),
    ),
    "edge of nothing": (
        lambda: F.pad(z(2, 0), (1, 0), "replicate"),
        "at most 0 on a side",
        lambda: F.pad(z(2, 1), (5, 0), "replicate"),
    ),
    # -- resampling
    "interpolate": (
        lambda: F.interpolate(IMAGE, 4, mode="cubic"),
        "interpolate(mode='cubic')",
        lambda: F.interpolate(IMAGE, 4, mode="bicubic"),
    ),
    "interpolate in five": (
        lambda: F.interpolate(z(1, 1, 2, 2, 2, 2), 2),
        "1 to 3 axes of space",
        lambda: F.interpolate(z(1, 1, 2, 2, 2), 2),
    ),
    "interpolate nothing": (
        lambda: F.interpolate(z(1, 1), 2),
        "1 to 3 axes of space",
        lambda: F.interpolate(z(1, 1, 1), 2),
    ),
    "bilinear": (
        lambda: F.interpolate(ROWS, 4, mode="bilinear"),
        "2 axes of space",
        lambda: F.interpolate(ROWS, 4, mode="linear"),
    ),
    "corners": (
        lambda: F.interpolate(IMAGE, 4, mode="area", align_corners=False),
        "align_corners with linear",
        lambda: F.interpolate(IMAGE, 4, mode="bilinear", align_corners=False),
    ),
    "no size": (
        lambda: F.interpolate(IMAGE),
        "one of size and scale_factor",
        lambda: F.interpolate(IMAGE, scale_factor=1),
    ),
    "both sizes": (
        lambda: F.interpolate(IMAGE, 3, 2),
        "one of size and scale_factor",
        lambda: F.interpolate(IMAGE, (3, 2)),
    ),
    "many sizes": (
        lambda: F.interpolate(IMAGE, (3, 2, 1)),
        "one number, or 2",
        lambda: F.interpolate(IMAGE, [3, 2]),
    ),
    "to nothing": (
        lambda: F.interpolate(IMAGE, scale_factor=0.19),
        "sizes of at least 1",
        lambda: F.interpolate(IMAGE, scale_factor=0.2),
    ),
    "of nothing": (
        lambda: F.interpolate(z(1, 1, 0, 2), 2),
        "sizes of at least 1",
        lambda: F.interpolate(z(1, 1, 1, 2), 2),
    ),
    "antialias": (
        lambda: F.interpolate(IMAGE, 3, mode="nearest", antialias=True),
        "'bilinear' or 'bicubic'",
        lambda: F.interpolate(IMAGE, 3, mode="bicubic", antialias=True),
    ),
    "pixel_shuffle": (
        lambda: F.pixel_shuffle(IMAGE, 3),
        "channels that 9 divides",
        lambda: F.pixel_shuffle(IMAGE, 2),
    ),
    "pixel_shuffle by 0": (
        lambda: F.pixel_shuffle(IMAGE, 0),
        "pixel_shuffle by 0",
        lambda: F.pixel_shuffle(IMAGE, 1),
    ),
    "pixel_shuffle of rows": (
        lambda: F.pixel_shuffle(z(4, 4), 1),
        "at least 3 axes",
        lambda: F.pixel_shuffle(z(4, 4, 4), 2),
    ),
    "pixel_unshuffle": (
        lambda: F.pixel_unshuffle(z(1, 4, 3), 2),
        "a height and width that 2 divides",
        lambda: F.pixel_unshuffle(z(1, 4, 2), 2),
    ),
    "pixel_unshuffle of rows": (
        lambda: F.pixel_unshuffle(z(1, 3, 4), 2),
        "that 2 divides",
        lambda: F.pixel_unshuffle(z(1, 2, 4), 2),
    ),
    "pixel_unshuffle by 0": (
        lambda: F.pixel_unshuffle(IMAGE, 0),
        "pixel_unshuffle by 0",
        lambda: F.pixel_unshuffle(IMAGE, 1),
    ),
    "channel_shuffle": (
        lambda: F.channel_shuffle(IMAGE, 3),
        "in 3 groups",
        lambda: F.channel_shuffle(IMAGE, 4),
    ),
    "channel_shuffle by 0": (
        lambda: F.channel_shuffle(IMAGE, 0),
        "in 0 groups",
        lambda: F.channel_shuffle(IMAGE, 1),
    ),
    "channel_shuffle of rows": (
        lambda: F.channel_shuffle(X, 1),
        "at least 3 axes",
        lambda: F.channel_shuffle(ROWS, 1),
    ),
    # -- sampling
    "sampling": (
        lambda: F.grid_sample(IMAGE, z(2, 1, 1, 2), "cubic"),
        "mode='cubic'",
        lambda: F.grid_sample(IMAGE, z(2, 1, 1, 2), "bicubic"),
    ),
    "edges": (
        lambda: F.grid_sample(IMAGE, z(2, 1, 1, 2), padding_mode="wrap"),
        "padding_mode='wrap'",
        lambda: F.grid_sample(IMAGE, z(2, 1, 1, 2), padding_mode="border"),
    ),
    "bicubic volumes": (
        lambda: F.grid_sample(z(1, 1, 2, 2, 2), z(1, 1, 1, 1, 3), "bicubic"),
        "bicubic for images",
        lambda: F.grid_sample(z(1, 1, 2, 2, 2), z(1, 1, 1, 1, 3), "nearest"),
    ),
    "a grid": (
        lambda: F.grid_sample(IMAGE, z(2, 1, 1, 3)),
        "with a grid of shape",
        lambda: F.grid_sample(IMAGE, z(2, 0, 1, 2)),
    ),
    "a grid of others": (
        lambda: F.grid_sample(IMAGE, z(1, 1, 1, 2)),
        "with a grid of shape",
        lambda: F.grid_sample(IMAGE[:1], z(1, 1, 1, 2)),
    ),
    "a grid of rows": (
        lambda: F.grid_sample(ROWS, z(2, 1, 1)),
        "(N, C, H, W) with",
        lambda: F.grid_sample(IMAGE, z(2, 3, 1, 2)),
    ),
    "affine_grid": (
        lambda: F.affine_grid(z(1, 2, 3), (1, 1, 2, 2, 2)),
        "(N, 2, 3) for",
        lambda: F.affine_grid(z(1, 3, 4), (1, 1, 2, 2, 2)),
    ),
    "affine_grid of one": (
        lambda: F.affine_grid(z(2, 3), (1, 1, 2, 2)),
        "(N, 2, 3) for",
        lambda: F.affine_grid(z(1, 2, 3), (1, 1, 1, 2)),
    ),
    # -- losses and norms
    "weights of losses": (
        lambda: F.mse_loss(X, X, weight=z(4)),
        "with weights of shape (4,)",
        lambda: F.mse_loss(X, X, weight=tb.ones((3, 4))),
    ),
    "beta": (
        lambda: F.smooth_l1_loss(X, X, beta=-0.1),
        "smooth_l1_loss(beta=-0.1)",
        lambda: F.smooth_l1_loss(X, X, beta=0.0),
    ),
    "variances": (
        lambda: F.gaussian_nll_loss(X, X, z(4)),
        "variances of shape (4,)",
        lambda: F.gaussian_nll_loss(X, X, tb.ones((3,))),
    ),
    "instance_norm": (
        lambda: F.instance_norm(z(2, 3, 1, 1)),
        "more than one value per channel",
        lambda: F.instance_norm(z(2, 3, 1, 2)),
    ),
    "local_response_norm": (
        lambda: F.local_response_norm(IMAGE, 0),
        "over 0 channels",
        lambda: F.local_response_norm(IMAGE, 1),
    ),
    "linear": (
        lambda: F.linear(tb.tensor(1.0), X),
        "linear of an input of shape ()",
        lambda: F.linear(r(4), X),
    ),
    "linear of a table": (
        lambda: F.linear(ROWS, z(1, 2, 4)),
        "with a weight of shape (1, 2, 4)",
        lambda: F.linear(ROWS, z(4)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_side(name: str) -> None:
    wrong, text, right = CASES[name]
    with pytest.raises(TrilobiteError) as caught:
        wrong()
    assert text in str(caught.value), str(caught.value)
    right()
