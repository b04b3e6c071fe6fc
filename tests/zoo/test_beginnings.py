"""How networks begin: the deviations of their weights, their defaults, sizes behind odd pictures."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import trilobite as tb
from trilobite import nn
from trilobite.zoo.googlenet import GoogLeNet
from trilobite.zoo.gpt2 import GPT2, Attention
from trilobite.zoo.vgg import POOL, VGG, vgg19


def test_convolutions_of_vgg_begin_by_what_they_lead_to() -> None:
    tb.manual_seed(2)
    network = VGG((24, POOL, 48), classifier=False)
    for layer in (m for m in network.modules() if isinstance(m, nn.Conv2d)):
        wanted = np.sqrt(2 / (layer.weight.shape[0] * 9))  # fan out, ReLU
        assert layer.weight.detach().numpy().std() == pytest.approx(wanted, rel=0.1)
        assert layer.bias is not None and not layer.bias.detach().numpy().any()


def test_linear_layers_of_gpt2_begin_small() -> None:
    tb.manual_seed(3)
    network = GPT2(vocabulary=31, context=16, width=24, layers=2, heads=3)
    for name, weight in network.named_parameters():
        if weight.ndim == 2:
            wanted = 0.02 / 2 if name.endswith("c_proj.weight") else 0.02  # 2 layers: over the root of 4
            assert weight.detach().numpy().std() == pytest.approx(wanted, rel=0.2), name
        elif name.endswith("bias"):
            assert not weight.detach().numpy().any(), name


@pytest.mark.parametrize(("make", "dropout"), [(vgg19, 0.5), (VGG, 0.5), (GoogLeNet, 0.2)])
def test_defaults_are_the_published_ones(make: object, dropout: float) -> None:
    known = inspect.signature(make).parameters  # type: ignore[arg-type]
    assert known["dropout"].default == dropout and known["classes"].default == 1000


def test_pools_of_googlenet_keep_what_stands_over() -> None:
    network = tb.zoo.create("googlenet", initialise=False)
    x = tb.zeros((1, 1, 112, 112))
    for pool, side in ((network.maxpool1, 56), (network.maxpool2, 28), (network.maxpool3, 14)):
        x = pool(x)
        assert x.shape[2:] == (side, side)
    assert network.maxpool4(tb.zeros((1, 1, 15, 15))).shape[2:] == (8, 8)


def test_without_positions_the_cache_is_left_alone() -> None:
    tb.manual_seed(1)
    attention = Attention(8, 2)
    x = tb.randn(1, 3, 8)

    class Untouched:
        def write(self, *given: object) -> None:
            raise AssertionError("nobody said where")

    with tb.no_grad():
        np.testing.assert_array_equal(attention(x, 0, Untouched(), None).numpy(), attention(x, 0).numpy())
