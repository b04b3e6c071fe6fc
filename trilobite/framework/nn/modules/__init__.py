"""`tb.nn.modules`: the layers under the modules that PyTorch keeps them in.

`namespace.ROOMS` gives the same rooms to `import trilobite.nn.modules.conv`; here they are attributes.
"""

from __future__ import annotations

from typing import Any

from trilobite.base.rooms import inner_room
from trilobite.framework.nn import containers as container
from trilobite.framework.nn import layers, losses, module
from trilobite.framework.nn.layers import activation, distance, dropout, linear, pooling, transformer
from trilobite.framework.nn.layers import convolution as conv
from trilobite.framework.nn.layers import embedding as sparse
from trilobite.framework.nn.layers import normalisation as batchnorm
from trilobite.framework.nn.layers import recurrent as rnn
from trilobite.framework.nn.layers import resampling as upsampling
from trilobite.framework.nn.layers import shaping as padding
from trilobite.framework.nn.module import Module

loss, instancenorm, normalization, pixelshuffle = losses, batchnorm, batchnorm, upsampling
flatten = fold = padding

__all__ = [
    "Module", "activation", "batchnorm", "container", "conv", "distance", "dropout", "flatten", "fold",
    "instancenorm", "layers", "linear", "loss", "module", "normalization", "padding", "pixelshuffle",
    "pooling", "rnn", "sparse", "transformer", "upsampling",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Layers themselves: `nn.modules.Linear`."""
    from trilobite.framework import nn
    from trilobite.framework.nn import tuples

    if name == "utils":
        return tuples
    if name.startswith("__") or not hasattr(nn, name):
        return inner_room("nn.modules", name)
    return getattr(nn, name)
