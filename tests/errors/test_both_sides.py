"""Guards on both sides: what is just not allowed says so by text, what is just allowed passes.

A guard that is dropped lets the first by; a bound that is moved by one, or a condition too many, stops the
second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite import nn
from trilobite.base.errors import TrilobiteError

F = tb.nn.functional
Case = tuple[Callable[[], Any], str, Callable[[], Any]]


def z(*shape: int, dtype: Any = None) -> Any:
    return tb.zeros(shape, dtype=dtype)


def whole(*values: int) -> Any:
    return tb.tensor(list(values))


X, V = z(3, 4), z(3)
MATRIX = tb.eye(3)
COUNTS = whole(1, 0, 2)
CASES: dict[str, Case] = {
    # -- operations
    "diff": (lambda: tb.diff(V, n=-1), "diff with n=-1", lambda: tb.diff(V, n=0)),
    "diff of nothing": (lambda: tb.diff(tb.tensor(1.0)), "without dimensions", lambda: tb.diff(z(1))),
    "iinfo": (lambda: tb.iinfo(tb.float32), "iinfo of float32", lambda: tb.iinfo(tb.int8)),
    "einsum": (lambda: tb.einsum(X, "ij"), "einsum of", lambda: tb.einsum("ij->j", X)),
    "fftfreq": (
        lambda: tb.fft.fftfreq(4, dtype=tb.int32),
        "fft.fftfreq in int32",
        lambda: tb.fft.fftfreq(4, dtype=tb.float64),
    ),
    "concat of one": (lambda: tb.concat(np.zeros(3)), "concat of ndarray", lambda: tb.concat([np.zeros(3)])),
    "concat of a number": (lambda: tb.concat(3), "concat of int", lambda: tb.concat((V,))),
    "concat of a word": (lambda: tb.concat("ab"), "concat of str", lambda: tb.concat([V, V])),
    "split": (lambda: tb.split(V, 0), "split into pieces of size 0", lambda: tb.split(V, 1)),
    "split by sizes": (lambda: tb.split(V, [1, 1]), "add up to 3", lambda: tb.split(V, [1, 2])),
    "narrow": (lambda: V.narrow(0, 1, 3), "narrow of axis 0 to 1:4", lambda: V.narrow(0, 1, 2)),
    "narrow from": (lambda: V.narrow(0, -1, 1), "narrow of axis 0 to -1:0", lambda: V.narrow(0, 0, 0)),
    "narrow by": (lambda: V.narrow(0, 1, -1), "narrow of axis 0 to 1:0", lambda: V.narrow(0, 3, 0)),
    "repeat": (
        lambda: tb.repeat(V, tb.tensor([1.0, 2.0, 1.0])),
        "repeat by float32",
        lambda: tb.repeat(V, COUNTS),
    ),
    "repeat by a matrix": (
        lambda: tb.repeat(V, tb.ones((3, 1), dtype=tb.int64)),
        "repeat by int64",
        lambda: tb.repeat(V, whole(2)),
    ),
    "roll": (
        lambda: tb.roll(X, (1, 2), axis=0),
        "roll by 2 shifts along 1 axes",
        lambda: tb.roll(X, (1, 2), axis=(0, 1)),
    ),
    "roll of all": (
        lambda: tb.roll(X, (1, 2)),
        "roll by several shifts without axes",
        lambda: tb.roll(X, (1,)),
    ),
    "qr": (
        lambda: tb.linalg.qr(X, mode="full"),
        "linalg.qr with mode='full'",
        lambda: tb.linalg.qr(X, mode="complete"),
    ),
    "solve": (
        lambda: tb.linalg.solve(MATRIX, z(4, 1)),
        "linalg.solve of shapes",
        lambda: tb.linalg.solve(MATRIX, z(3, 1)),
    ),
    "solve a vector": (
        lambda: tb.linalg.solve(MATRIX, z(2)),
        "3 rows on the right",
        lambda: tb.linalg.solve(MATRIX, V),
    ),
    "outer": (lambda: tb.outer(X, V), "outer of shapes", lambda: tb.outer(V, V)),
    "outer of the second": (lambda: tb.outer(V, X), "outer of shapes", lambda: tb.outer(V, z(0))),
    "cdist": (lambda: tb.cdist(X, z(3, 3)), "cdist of shapes", lambda: tb.cdist(X, z(2, 4))),
    "cdist of rows": (lambda: tb.cdist(z(4), X), "cdist of shapes", lambda: tb.cdist(z(1, 4), X)),
    "cdist to rows": (lambda: tb.cdist(X, z(4)), "cdist of shapes", lambda: tb.cdist(X, z(1, 4))),
    "tensordot": (
        lambda: tb.tensordot(X, V, axes=2),
        "tensordot over 2 axes",
        lambda: tb.tensordot(X.T, V, axes=1),
    ),
    "tensordot over less": (
        lambda: tb.tensordot(X, V, axes=-1),
        "tensordot over -1 axes",
        lambda: tb.tensordot(X, V, axes=0),
    ),
    "pca": (
        lambda: tb.pca_lowrank(X, q=4),
        "pca_lowrank of a matrix of 3 x 4 with q=4",
        lambda: tb.pca_lowrank(X, q=3),
    ),
    "gradient": (
        lambda: tb.gradient(z(1)),
        "gradient along a dimension of 1",
        lambda: tb.gradient(z(2)),
    ),
    "gradient of the second order": (
        lambda: tb.gradient(z(2), edge_order=2),
        "gradient along a dimension of 2",
        lambda: tb.gradient(V, edge_order=2),
    ),
    "flatten": (
        lambda: tb.flatten(X, 1, 0),
        "flatten from axis 1 to axis 0",
        lambda: tb.flatten(X, 1, 1),
    ),
    "stft": (
        lambda: tb.stft(z(16), 8, window=z(9), win_length=9, return_complex=True),
        "a window of shape",
        lambda: tb.stft(z(16), 8, window=z(8), win_length=8, return_complex=True),
    ),
    "stft of another window": (
        lambda: tb.stft(z(16), 8, window=z(7), return_complex=True),
        r"a window of shape \(7,\) for frames of 8",
        lambda: tb.stft(z(16), 8, window=z(7), win_length=7, return_complex=True),
    ),
    "quantile": (
        lambda: tb.quantile(V, 0.5, interpolation="best"),
        "quantile.interpolation='best'",
        lambda: tb.quantile(V, 0.5, interpolation="lower"),
    ),
    "kthvalue": (lambda: tb.kthvalue(V, 4), "kthvalue with k=4 of 3", lambda: tb.kthvalue(V, 3)),
    "kthvalue from": (lambda: tb.kthvalue(V, 0), "kthvalue with k=0 of 3", lambda: tb.kthvalue(V, 1)),
    "histc": (
        lambda: tb.histc(V, 4, min=2.0, max=1.0),
        "histc between 2.0 and 1.0",
        lambda: tb.histc(V, 4, min=1.0, max=2.0),
    ),
    "histc without end": (
        lambda: tb.histc(V, 4, min=0.0, max=float("inf")),
        "histc between 0.0 and inf",
        lambda: tb.histc(V, 4),
    ),
    "as_strided": (
        lambda: tb.as_strided(V, (2, 2), (1,)),
        r"as_strided with sizes \(2, 2\)",
        lambda: tb.as_strided(V, (2,), (1,)),
    ),
    "scatter": (
        lambda: tb.scatter(V, 0, COUNTS, V, reduce="mean"),
        "scatter.reduce='mean'",
        lambda: tb.scatter(V, 0, COUNTS, V, reduce="add"),
    ),
    "median": (lambda: tb.median(z(0), 0), "median of no elements", lambda: tb.median(z(1), 0)),
    "to_device": (lambda: V.to_device("cpu", stream=1), "to_device.stream=1", lambda: V.to_device("cpu")),
    "a setting": (
        lambda: tb.zeros(3, colour=1),
        "the setting colour=1",
        lambda: tb.zeros(3, pin_memory=True),
    ),
    # -- functions of layers
    "celu": (lambda: F.celu(V, 0.0), "celu with alpha 0", lambda: F.celu(V, -0.5)),
    "adaptive": (
        lambda: F.adaptive_avg_pool2d(z(1, 3, 4), (2, 2, 2)),
        r"to \(2, 2, 2\)",
        lambda: F.adaptive_avg_pool2d(z(1, 3, 4), (2, None)),
    ),
    "adaptive to less": (
        lambda: F.adaptive_avg_pool1d(X, -1),
        "to -1",
        lambda: F.adaptive_avg_pool1d(X, 1),
    ),
    "attention": (
        lambda: F.scaled_dot_product_attention(*[z(1, 1, 2, 2)] * 3, dropout_p=1.5),
        "attention with dropout_p = 1.5",
        lambda: F.scaled_dot_product_attention(*[z(1, 1, 2, 2)] * 3, dropout_p=1.0),
    ),
    "one_hot": (
        lambda: F.one_hot(z(0, dtype=tb.int64)),
        "one_hot without num_classes",
        lambda: F.one_hot(COUNTS),
    ),
    "dropout": (lambda: F.dropout(V, 1.01), "dropout with p = 1.01", lambda: F.dropout(V, 1.0)),
    "dropout below": (lambda: F.dropout(V, -0.01), "dropout with p = -0.01", lambda: F.dropout(V, 0.0)),
    "dropout2d": (
        lambda: F.dropout2d(z(3, 4)),
        "dropout of channels of shape",
        lambda: F.dropout2d(z(2, 3, 4)),
    ),
    "embedding": (
        lambda: F.embedding(COUNTS, z(3)),
        "an embedding table of shape",
        lambda: F.embedding(COUNTS, X),
    ),
    "fold": (
        lambda: F.fold(z(1, 5, 4), (3, 3), (2, 2)),
        r"fold of shape \(1, 5, 4\)",
        lambda: F.fold(z(1, 4, 4), (3, 3), (2, 2)),
    ),
    "fold of columns": (
        lambda: F.fold(z(1, 4, 5), (3, 3), (2, 2)),
        r"fold of shape \(1, 4, 5\)",
        lambda: F.fold(z(4, 4), (3, 3), (2, 2)),
    ),
    "fractional": (
        lambda: F.fractional_max_pool2d(z(1, 4, 4), 2),
        "output_size or output_ratio",
        lambda: F.fractional_max_pool2d(z(1, 4, 4), 2, output_size=3),
    ),
    "fractional to more": (
        lambda: F.fractional_max_pool2d(z(1, 4, 4), 2, output_size=4),
        "by windows of",
        lambda: F.fractional_max_pool2d(z(1, 4, 4), 2, output_size=1),
    ),
    "huber": (
        lambda: F.huber_loss(V, V, delta=0.0),
        "huber_loss.delta=0.0",
        lambda: F.huber_loss(V, V, delta=1e-6),
    ),
    "interpolate": (
        lambda: F.interpolate(z(1, 1, 4, 4), size=(2, 2, 2)),
        r"interpolate by \(2, 2, 2\)",
        lambda: F.interpolate(z(1, 1, 4, 4), size=(2, 1)),
    ),
    "interpolate to nothing": (
        lambda: F.interpolate(z(1, 1, 4), scale_factor=0.2),
        r"interpolate of space \(4,\) to \(0,\)",
        lambda: F.interpolate(z(1, 1, 4), scale_factor=0.25),
    ),
    "grid_sample": (
        lambda: F.grid_sample(z(1, 1, 4, 4), z(1, 2, 2, 3), align_corners=False),
        "grid_sample of shape",
        lambda: F.grid_sample(z(1, 1, 4, 4), z(1, 2, 2, 2), align_corners=False),
    ),
    "grid_sample of more": (
        lambda: F.grid_sample(z(2, 1, 4, 4), z(1, 2, 2, 2), align_corners=False),
        "grid_sample of shape",
        lambda: F.grid_sample(z(2, 1, 4, 4, 4), z(2, 2, 2, 2, 3), align_corners=False),
    ),
    # -- first weights
    "fan": (
        lambda: nn.init.kaiming_normal_(z(3, 4), mode="fan"),
        "mode 'fan'",
        lambda: nn.init.kaiming_normal_(z(3, 4), mode="fan_out"),
    ),
    "eye_": (lambda: nn.init.eye_(z(3)), "eye_ of shape", lambda: nn.init.eye_(z(3, 2))),
    "sparse_": (
        lambda: nn.init.sparse_(z(3), 0.5),
        "sparse_ of shape",
        lambda: nn.init.sparse_(z(3, 2), 0.5),
    ),
    "orthogonal_": (
        lambda: nn.init.orthogonal_(z(3)),
        "orthogonal_ of shape",
        lambda: nn.init.orthogonal_(z(3, 1, 2)),
    ),
    # -- layers
    "Softmax2d": (lambda: nn.Softmax2d()(X), "Softmax2d of shape", lambda: nn.Softmax2d()(z(1, 2, 3))),
    "Conv2d": (lambda: nn.Conv2d(1, 1, 0), "kernel_size", lambda: nn.Conv2d(1, 1, 1)),
    "Conv2d by": (
        lambda: nn.Conv2d(1, 1, 3, stride=(1, 0)),
        "stride",
        lambda: nn.Conv2d(1, 1, 3, stride=(1, 1)),
    ),
    "Conv2d spread": (
        lambda: nn.Conv2d(1, 1, 3, dilation=0),
        "dilation",
        lambda: nn.Conv2d(1, 1, 3, dilation=1),
    ),
    "Conv2d of three": (
        lambda: nn.Conv2d(1, 1, (3, 3, 3)),
        "an integer, or 2 of them",
        lambda: nn.Conv2d(1, 1, (3,)),
    ),
    "Conv2d of half": (
        lambda: nn.Conv2d(1, 1, 1.5),
        "an integer, or 2 of them",
        lambda: nn.Conv2d(1, 1, [1, 2]),
    ),
    "ConvTranspose2d": (
        lambda: nn.ConvTranspose2d(1, 1, 3, padding_mode="reflect"),
        "with padding 0 of 'reflect'",
        lambda: nn.ConvTranspose2d(1, 1, 3, padding_mode="zeros"),
    ),
    "ConvTranspose2d same": (
        lambda: nn.ConvTranspose2d(1, 1, 3, padding="same"),
        "with padding 'same'",
        lambda: nn.ConvTranspose2d(1, 1, 3, padding=1),
    ),
    "Linear": (lambda: nn.Linear(0, 1), r"Linear\(in_features=0\)", lambda: nn.Linear(1, 1)),
    "Linear of half": (lambda: nn.Linear(1, 0.5), r"Linear\(out_features=0.5\)", lambda: nn.Linear(1, 2)),
    "Dropout": (lambda: nn.Dropout(1.5), r"Dropout\(p=1.5\)", lambda: nn.Dropout(1)),
    "Dropout below": (lambda: nn.Dropout(-0.5), r"Dropout\(p=-0.5\)", lambda: nn.Dropout(0)),
    "Embedding": (
        lambda: nn.Embedding(3, 4, _weight=z(4, 3)),
        "a table of shape",
        lambda: nn.Embedding(3, 4, _weight=z(3, 4)),
    ),
    "ZeroPad2d": (lambda: nn.ZeroPad2d((1, 2)), r"ZeroPad2d\(\(1, 2\)\)", lambda: nn.ZeroPad2d((1, 2, 0, 1))),
    "activation": (
        lambda: nn.TransformerEncoderLayer(4, 2, activation="best"),
        "an activation 'best'",
        lambda: nn.TransformerEncoderLayer(4, 2, activation="gelu"),
    ),
    "ModuleList": (
        lambda: nn.ModuleList([V]),
        "Tensor in a ModuleList",
        lambda: nn.ModuleList([nn.Linear(1, 1)]),
    ),
    "ModuleDict": (
        lambda: nn.ModuleDict({"a": nn.Linear(1, 1)})["b"],
        "b",
        lambda: nn.ModuleDict({"a": nn.Linear(1, 1)})["a"],
    ),
    "to": (lambda: nn.Linear(1, 1).to(tb.int32), r"to\(int32\)", lambda: nn.Linear(1, 1).to(tb.float64)),
    "mask": (
        lambda: nn.MultiheadAttention(4, 2)(*[z(3, 1, 4)] * 3, attn_mask=z(2, 3)),
        "booleans or floats of shape",
        lambda: nn.MultiheadAttention(4, 2)(*[z(3, 1, 4)] * 3, attn_mask=z(3, 3)),
    ),
    "mask of integers": (
        lambda: nn.MultiheadAttention(4, 2)(*[z(3, 1, 4)] * 3, attn_mask=z(3, 3, dtype=tb.int64)),
        "booleans or floats of shape",
        lambda: nn.MultiheadAttention(4, 2)(*[z(3, 1, 4)] * 3, attn_mask=z(3, 3, dtype=tb.bool)),
    ),
    "state": (
        lambda: nn.Linear(1, 1).load_state_dict({"weight": z(1, 1)}),
        "bias",
        lambda: nn.Linear(1, 1).load_state_dict({"weight": z(1, 1)}, strict=False),
    ),
    "state of more": (
        lambda: nn.Linear(1, 1, bias=False).load_state_dict({"weight": z(1, 1), "b": V}),
        "b",
        lambda: nn.Linear(1, 1, bias=False).load_state_dict({"weight": z(1, 1), "b": V}, strict=False),
    ),
    "state of another shape": (
        lambda: nn.Linear(1, 1, bias=False).load_state_dict({"weight": z(2, 1)}, strict=False),
        "weight",
        lambda: nn.Linear(1, 1, bias=False).load_state_dict({"weight": z(1, 1)}, strict=False),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_guard(name: str) -> None:
    wrong, message, right = CASES[name]
    with pytest.raises((TrilobiteError, KeyError), match=message):
        wrong()
    right()
