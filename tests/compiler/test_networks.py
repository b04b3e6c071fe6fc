"""Every network of the zoo on the target `cpu` beside the target `reference`: inference, and training steps.

Large networks are made small where their class has the options, and see small images. Batch norm of few
numbers amplifies roundings, and one that turns the sign before a ReLU changes a gradient at once: so training
steps are compared closely in float64, and loosely in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.framework import nn

TINY = {"vocabulary": 61, "context": 16, "width": 24, "heads": 3, "layers": 2}
NETWORKS: dict[str, tuple[tuple[int, ...], dict[str, Any], int]] = {  # input, options; 0: floats, else tokens
    "resnet18": ((2, 3, 65, 47), {}, 0),
    "resnet34": ((2, 3, 40, 33), {}, 0),
    "resnet50": ((2, 3, 33, 40), {}, 0),
    "resnet18_32x32": ((3, 3, 17, 16), {}, 0),
    "mobilenet_v2": ((2, 3, 65, 64), {}, 0),
    "vgg19": ((1, 3, 35, 33), {"classifier": False}, 0),
    "alexnet": ((1, 3, 70, 64), {"dropout": 0.0}, 0),
    "googlenet": ((2, 3, 40, 33), {"dropout": 0.0}, 0),
    "efficientnet_lite0": ((2, 3, 35, 64), {"dropout": 0.0}, 0),
    "unet": ((2, 2, 12, 8), {"channels": 2, "classes": 3, "widths": (4, 6, 8)}, 0),
    "tiny_yolov3": ((1, 3, 64, 96), {"classes": 3}, 0),
    "style_transform": ((1, 3, 20, 28), {"width": 8, "blocks": 2}, 0),
    "mlp": ((5, 784), {}, 0),
    "lenet": ((3, 1, 28, 28), {}, 0),
    "gpt2": ((2, 11), TINY, 61),
    "bert_base": ((2, 11), TINY, 61),
    "char_lstm": ((3, 7), {}, 96),
    "char_transformer": ((2, 9), {}, 96),
}
LARGE = {"resnet18", "resnet34", "resnet50", "mobilenet_v2", "vgg19", "alexnet", "googlenet", "tiny_yolov3",
         "efficientnet_lite0"}  # fmt: skip
LONG = pytest.mark.long


def made(name: str) -> tuple[Any, Any]:
    shape, options, tokens = NETWORKS[name]
    tb.manual_seed(1)
    rng = np.random.default_rng(3)
    x = rng.integers(0, tokens, shape) if tokens else rng.standard_normal(shape).astype(np.float32)
    return tb.zoo.create(name, **options), tb.tensor(x)


def tensors(out: Any) -> list[Any]:
    return [t for t in (out if isinstance(out, tuple | list) else [out]) if isinstance(t, tb.Tensor)]


def near(got: Any, want: Any, tolerance: float, what: str) -> None:
    assert got.shape == want.shape and got.dtype == want.dtype
    assert np.isfinite(got).all()
    size, off = np.abs(want).max(initial=1e-3), np.abs(got - want).max(initial=0.0)
    assert off <= tolerance * size, f"{what}: off by {off / size} of its largest number"


def test_every_network_is_here() -> None:
    assert set(NETWORKS) == set(tb.zoo.names())


@pytest.mark.parametrize("name", NETWORKS)
def test_inference(name: str) -> None:
    results = []
    for target in ("reference", "cpu"):
        net, x = made(name)
        with tb.no_grad():
            results.append([t.numpy().copy() for t in tensors(tb.jit(net.eval(), target=target)(x))])
    for i, (want, got) in enumerate(zip(*results, strict=True)):
        near(got, want, 2e-5, f"result {i}")


def train(name: str, target: str, dtype: Any = tb.float32) -> tuple[dict[str, Any], dict[str, Any]]:
    """The loss and the gradients, and the buffers after a step."""
    net, x = made(name)
    net = net.to(dtype)
    x = x.to(dtype) if x.dtype == tb.float32 else x

    def step(x: Any) -> Any:
        (out, *_) = tensors(net(x))
        goal = tb.sin(tb.arange(out.numel()).to(dtype)).reshape(out.shape)
        loss = nn.functional.mse_loss(out, goal)
        for p in net.parameters():
            p.grad = None
        loss.backward()
        return {"loss": loss, **{n: p.grad for n, p in net.named_parameters() if p.grad is not None}}

    found = {n: t.detach().numpy().copy() for n, t in tb.jit(step, target=target)(x).items()}
    return found, {n: b.numpy().copy() for n, b in net.named_buffers()}


@pytest.mark.parametrize("name", [pytest.param(n, marks=LONG if n in LARGE else ()) for n in NETWORKS])
def test_a_training_step(name: str) -> None:
    (truth, before), (found, after) = (train(name, target, tb.float64) for target in ("reference", "cpu"))
    short, _ = train(name, "cpu")
    assert set(short) == set(found) == set(truth)
    largest = max(float(np.abs(g).max(initial=0.0)) for g in truth.values())
    for n, want in truth.items():
        off, size = (float(np.abs(g).max(initial=0.0)) for g in (found[n] - want, want))
        assert off <= 1e-8 * size + 1e-10 * largest, f"{n}: off by {off} of {size}"
        off, size = (float(np.linalg.norm(g)) for g in (short[n] - want, want))
        assert off <= 0.1 * size + 1e-5 * largest, f"{n} in float32: off by {off} of {size}"
    for n, want in before.items():
        near(after[n], want, 1e-9, n)
