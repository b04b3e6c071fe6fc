"""Layers and operations of the framework, exported and read back: the same values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from tests.inference.export.running import apart
from trilobite.base import pytree
from trilobite.inference import export, load

pytest.importorskip("onnx")
nn, F = tb.nn, tb.nn.functional
Array = np.ndarray[Any, Any]
_rng = np.random.default_rng(0)


def normal(*shape: int) -> Array:
    return _rng.standard_normal(shape).astype(np.float32)


IMAGE, SEQUENCE, ROWS, OTHER = normal(2, 4, 9, 8), normal(2, 5, 8), normal(3, 8), normal(3, 8)
LINE, VOLUME = normal(2, 4, 9), normal(1, 4, 4, 5, 3)
ACTIVATIONS = (
    "ReLU ReLU6 GELU SiLU ELU SELU CELU Softplus Softsign Tanh Sigmoid LogSigmoid Hardswish Hardsigmoid "
    "Hardtanh Mish LeakyReLU PReLU Hardshrink Softshrink Tanhshrink"
).split()
Maker = Callable[[], Callable[..., Any]]
LAYERS: dict[str, tuple[Maker, Array]] = {
    **{name: (getattr(nn, name), ROWS) for name in ACTIVATIONS},
    "GELU by tanh": (lambda: nn.GELU(approximate="tanh"), ROWS),
    "Conv1d": (lambda: nn.Conv1d(4, 6, 3), LINE),
    "Conv3d": (lambda: nn.Conv3d(4, 6, 2), VOLUME),
    "Conv2d": (lambda: nn.Conv2d(4, 8, (3, 2), (2, 1), (2, 1), (2, 1), groups=2), IMAGE),
    "Conv2d same": (lambda: nn.Conv2d(4, 8, 4, padding="same"), IMAGE),
    "Conv2d reflect": (lambda: nn.Conv2d(4, 8, 3, padding=1, padding_mode="reflect"), IMAGE),
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(4, 6, 3), LINE),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(4, 6, 3, 2, 1, 1, groups=2, dilation=2), IMAGE),
    "MaxPool2d": (lambda: nn.MaxPool2d(3, stride=2, padding=1), IMAGE),
    "MaxPool2d up": (lambda: nn.MaxPool2d(3, stride=2, ceil_mode=True), IMAGE),
    "AvgPool2d": (lambda: nn.AvgPool2d(3, stride=2, padding=1), IMAGE),
    "AvgPool2d up": (lambda: nn.AvgPool2d(3, stride=2, ceil_mode=True), IMAGE),
    "AvgPool2d without padding": (lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=False), IMAGE),
    **{f"AdaptiveAvgPool2d {k}": (lambda k=k: nn.AdaptiveAvgPool2d(k), IMAGE) for k in (1, 3, (4, 5))},
    **{f"AdaptiveMaxPool2d {k}": (lambda k=k: nn.AdaptiveMaxPool2d(k), IMAGE) for k in (1, 3, (4, 5))},
    "BatchNorm2d": (lambda: nn.BatchNorm2d(4).eval(), IMAGE),
    "RMSNorm of two axes": (lambda: nn.RMSNorm((9, 8)), IMAGE),
    "RMSNorm without weights": (lambda: nn.RMSNorm(8, elementwise_affine=False), ROWS),
    "LayerNorm without weights": (lambda: nn.LayerNorm(8, elementwise_affine=False), ROWS),
    "LayerNorm without bias": (lambda: nn.LayerNorm(8, bias=False), ROWS),
    "LayerNorm of two axes": (lambda: nn.LayerNorm((9, 8), eps=0.1), IMAGE),
    "BatchNorm2d plain": (lambda: nn.BatchNorm2d(4, affine=False).eval(), IMAGE),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), IMAGE),
    "InstanceNorm2d": (lambda: nn.InstanceNorm2d(4, affine=True), IMAGE),
    "LayerNorm": (lambda: nn.LayerNorm((5, 8)), SEQUENCE),
    "RMSNorm": (lambda: nn.RMSNorm(8), SEQUENCE),
    "LSTM": (lambda: nn.LSTM(8, 6, batch_first=True), SEQUENCE),
    "GRU both ways": (lambda: nn.GRU(8, 6, num_layers=2, batch_first=True, bidirectional=True), SEQUENCE),
    "RNN": (lambda: nn.RNN(8, 6), SEQUENCE),
    "attention": (lambda: _self_attention(nn.MultiheadAttention(8, 2, batch_first=True)), SEQUENCE),
    "encoder": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(), SEQUENCE),
    **{
        f"Upsample {m}": (lambda m=m: nn.Upsample(scale_factor=2, mode=m), IMAGE)
        for m in ("nearest", "bicubic")
    },
    "Upsample aligned": (lambda: nn.Upsample(size=(5, 11), mode="bilinear", align_corners=True), IMAGE),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), IMAGE),
    "Unfold": (lambda: nn.Unfold(3, padding=1), IMAGE),
    "Softmax": (lambda: nn.Softmax(1), IMAGE),
    "ReflectionPad2d": (lambda: nn.ReflectionPad2d((1, 2, 0, 1)), IMAGE),
    "ReplicationPad2d": (lambda: nn.ReplicationPad2d((1, 2, 0, 1)), IMAGE),
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "einsum": lambda x: tb.einsum("bij,bkj->ik", x, x),
    "index": lambda x: x[:, [0, 2], 1:-1][..., ::2],
    "sort": lambda x: tb.sort(x),
    "running sum": lambda x: tb.cumulative_sum(x, axis=1),
    "where": lambda x: tb.where(x > 0, x, -x),
    "reductions": lambda x: (x.std(axis=1), x.mean(), x.max(axis=(0, 2)), x.argmax(axis=-1)),
    "roll": lambda x: tb.roll(x, 2, axis=1),
    "stack": lambda x: tb.stack([x, x * 2], axis=1),
    "tril": lambda x: tb.tril(x),
    "norm": lambda x: tb.linalg.vector_norm(x, axis=-1),
    "clip": lambda x: tb.clip(x, -0.5, 0.5),
    "half": lambda x: (x.astype(tb.float16) * 2).astype(tb.float32),
    "integers": lambda x: (x * 10).astype(tb.int32) // 3 % 5,
    "loss": lambda x: F.cross_entropy(x[0], tb.tensor(np.arange(5))),
    "similar": lambda x: F.cosine_similarity(x, x.sin()),
    "pooled and where": lambda x: F.max_pool1d(x, 2, return_indices=True),
}


def _self_attention(module: Any) -> Callable[..., Any]:
    return lambda x: module(x, x, x)


def same(f: Callable[..., Any], x: Array, **options: Any) -> None:
    with tb.no_grad():
        leaves = pytree.flatten(f(tb.tensor(x)), lambda t: isinstance(t, tb.Tensor))[0]
    wanted = [np.asarray(y) for y in leaves if y is not None]
    model = export(f, (tb.tensor(x),), **options)
    found = [
        np.asarray(y) for y in load(model, target="reference").run({model.graph.input[0].name: x}).values()
    ]
    assert len(found) == len(wanted)
    assert [apart(got, want) < 5e-5 for got, want in zip(found, wanted, strict=True)] == [True] * len(wanted)


@pytest.mark.parametrize("name", list(LAYERS))
def test_layers(name: str) -> None:
    make, x = LAYERS[name]
    same(make(), x)


NEWER = [n for n in LAYERS if "Norm" in n or n in ("attention", "encoder", "GELU", "Mish")]


@pytest.mark.parametrize("name", NEWER)
def test_layers_with_operators_of_newer_opsets(name: str) -> None:
    make, x = LAYERS[name]
    same(make(), x, opset=23)


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_functions(name: str) -> None:
    same(FUNCTIONS[name], SEQUENCE)


SPREAD = [((1, 2), 0), ((2, 1), (1, 0)), ((2, 3), 1)]


@pytest.mark.parametrize(("stride", "padding"), SPREAD)
def test_convolutions_spread_along_one_axis(stride: tuple[int, int], padding: Any) -> None:
    w = tb.asarray(normal(4, 5, 3, 2))
    model = export(lambda x: F.conv_transpose2d(x, w, stride=stride, padding=padding), IMAGE)
    wanted = F.conv_transpose2d(tb.asarray(IMAGE), w, stride=stride, padding=padding).numpy()
    (found,) = load(model, target="reference").run({model.graph.input[0].name: IMAGE}).values()
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_a_constant_of_one_axis_is_known_by_its_own_shape() -> None:
    """Divisors without zeros need no guard; which rows they belong to is not forgotten."""
    divisors, places = np.array([2, 3, 5]), np.array([2, 0, 1])

    def f(x: Any) -> Any:
        whole = (x * 100).astype(tb.int32)
        rows = whole // tb.asarray(divisors.astype(np.int32))[:, None]
        return tb.take_along_axis(rows, tb.broadcast_to(tb.asarray(places)[:, None], (3, 8)), axis=0)

    model = export(f, ROWS)
    (found,) = load(model, target="reference").run({model.graph.input[0].name: ROWS}).values()
    assert (found == f(tb.asarray(ROWS)).numpy()).all()
