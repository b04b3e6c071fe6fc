"""Networks by name: `tb.zoo.names()`, `tb.zoo.create("resnet18")`. One file each, in plain layers.

Names of parameters are those that published weights have, so that `tb.load_pth` and `load_safetensors` fit.
A network's file is imported when the network is asked for. No weights are fetched here.
"""

from __future__ import annotations

import importlib
from contextlib import nullcontext
from typing import Any, cast

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.framework import nn

__all__ = ["create", "names", "parameter_count"]

# name -> (file, maker in it)
_NETWORKS = {
    "resnet18": ("resnet", "resnet18"),
    "resnet34": ("resnet", "resnet34"),
    "resnet50": ("resnet", "resnet50"),
    "resnet18_32x32": ("resnet", "resnet18_32x32"),
    "mobilenet_v2": ("mobilenet_v2", "MobileNetV2"),
    "vgg19": ("vgg", "vgg19"),
    "gpt2": ("gpt2", "GPT2"),
    "bert_base": ("bert", "BERT"),
    "mlp": ("mlp", "MLP"),
    "lenet": ("lenet", "LeNet"),
    "char_transformer": ("char_transformer", "CharTransformer"),
    "char_lstm": ("char_lstm", "CharLSTM"),
    "alexnet": ("alexnet", "AlexNet"),
    "googlenet": ("googlenet", "GoogLeNet"),
    "efficientnet_lite0": ("efficientnet_lite", "EfficientNetLite0"),
    "unet": ("unet", "UNet"),
    "tiny_yolov3": ("yolo", "TinyYOLOv3"),
    "style_transform": ("style", "StyleTransform"),
}


def names() -> tuple[str, ...]:
    """All networks that `create` knows."""
    return tuple(_NETWORKS)


def create(name: str, *, initialise: bool = True, **options: Any) -> nn.Module:
    """A network; `options` are those of its class. Without `initialise` weights that would be drawn are
    zeros, which is quicker where `load_state_dict` follows.
    """
    if name not in _NETWORKS:
        raise ArgumentError(
            f"a network named {name!r}", where=user_location(), expected=f"one of {', '.join(_NETWORKS)}"
        )
    file, maker = _NETWORKS[name]
    make = getattr(importlib.import_module(f"{__name__}.{file}"), maker)
    with nullcontext() if initialise else nn.init.skipped():
        return cast(nn.Module, make(**options))


def parameter_count(model: nn.Module) -> int:
    """How many numbers are trained; a tied weight counts once."""
    return sum(int(p.numel()) for p in model.parameters())
