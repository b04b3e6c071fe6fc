"""One recording serves every batch size: layers under a symbolic dimension, with the bits of eager calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb
import trilobite.framework.nn.functional as F
from trilobite.framework import nn

RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def network() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.AvgPool2d(2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 2),
    )


# A module, and its inputs (per size of the batch) without the batch axis in front.
CASES: dict[str, tuple[Any, tuple[tuple[int, ...], ...]]] = {
    "linear": (nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 2)), ((3,),)),
    "batch_norm": (nn.BatchNorm1d(3), ((3,),)),
    "batch_norm_eval": (nn.BatchNorm1d(3).eval(), ((3,),)),
    "layer_norm": (nn.LayerNorm(3), ((3,),)),
    "rms_norm": (nn.RMSNorm(3), ((3,),)),
    "group_norm": (nn.GroupNorm(2, 4), ((4, 3),)),
    "instance_norm": (nn.InstanceNorm2d(4), ((4, 3, 3),)),
    "softmax": (nn.Softmax(1), ((5,),)),
    "prelu": (nn.PReLU(3), ((3, 2),)),
    "network": (network(), ((1, 12, 12),)),
    "adaptive_max": (nn.AdaptiveMaxPool2d((3, 2)), ((2, 5, 7),)),
    "conv_transpose": (nn.ConvTranspose2d(2, 3, 3, stride=2), ((2, 3, 3),)),
    "upsample": (nn.Upsample(scale_factor=2), ((2, 3, 3),)),
    "bilinear_upsample": (nn.Upsample(size=(5, 4), mode="bilinear"), ((2, 3, 3),)),
    "pixel_shuffle": (nn.PixelShuffle(2), ((4, 3, 3),)),
    "reflect": (nn.ReflectionPad2d(1), ((4, 3, 3),)),
    "bilinear": (nn.Bilinear(3, 4, 2), ((3,), (4,))),
    "lstm": (nn.LSTM(3, 4, 2, bidirectional=True, batch_first=True), ((6, 3),)),
    "encoder": (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(), ((4, 8),)),
    "mse": (F.mse_loss, ((5,), (5,))),
    "smooth_l1": (F.smooth_l1_loss, ((5,), (5,))),
}


def same(found: np.ndarray, expected: np.ndarray, target: str) -> None:
    """Bits on the reference, rounding on the cpu."""
    if target == "reference":
        assert found.tobytes() == expected.tobytes()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", ["reference", "cpu"])
@pytest.mark.parametrize("name", CASES)
def test_one_recording_serves_every_batch_size(name: str, target: str) -> None:
    module, shapes = CASES[name]
    n = tb.dim("n", max=64)
    compiled = tb.jit(lambda *a: module(*a), target=target, shapes=[(n, *[None] * len(s)) for s in shapes])
    for size in (2, 5, 9):
        args = [tb.tensor(normal(size, *s)) for s in shapes]
        found, expected = compiled(*args), module(*args)
        found, expected = (x[0] if isinstance(x, tuple) else x for x in (found, expected))
        same(found.detach().numpy(), expected.detach().numpy(), target)
    assert compiled.recompilations == []


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_classes_and_embeddings(target: str) -> None:
    n = tb.dim("n", max=64)
    embed = nn.Embedding(7, 3)
    loss = nn.CrossEntropyLoss(label_smoothing=0.1)
    f = tb.jit(lambda i, y: loss(embed(i), y), target=target, shapes=[(n,), (n,)])
    for size in (1, 4, 30):
        i, y = tb.tensor(RNG.integers(0, 7, size)), tb.tensor(RNG.integers(0, 3, size))
        same(f(i, y).detach().numpy(), loss(embed(i), y).detach().numpy(), target)
    assert f.recompilations == []
