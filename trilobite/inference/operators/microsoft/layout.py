"""Convolutions and pools whose channels stand last."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import trilobite as tb
from trilobite.framework.tensor import Tensor
from trilobite.inference.model import Node
from trilobite.inference.operators.convolution import conv, conv_transpose
from trilobite.inference.operators.microsoft.fused import MS, activated
from trilobite.inference.operators.pooling import max_pool
from trilobite.inference.operators.quantising import qlinear_conv
from trilobite.inference.operators.registry import operator

Array = np.ndarray[Any, Any]


def channels_first(x: Tensor) -> Tensor:
    return tb.moveaxis(x, -1, 1)


def channels_last(x: Tensor) -> Tensor:
    return tb.moveaxis(x, 1, -1)


@operator("NhwcConv", "NhwcFusedConv", domain=MS)
def nhwc_conv(
    node: Node, x: Tensor, w: Tensor, bias: Tensor | None = None, more: Tensor | None = None
) -> Tensor:
    """Weights stand as ONNX has them, a tensor to add as the result."""
    out = channels_last(conv(node, channels_first(x), w, bias))
    return activated(node, out if more is None else out + more)


@operator("NhwcMaxPool", domain=MS)
def nhwc_max_pool(node: Node, x: Tensor) -> Tensor:
    return channels_last(max_pool(node, channels_first(x)))


@operator("QLinearConv", domain=MS)
def ms_qlinear_conv(node: Node, x: Tensor, *rest: Any) -> Tensor:
    last = node.attribute("channels_last", 0)
    out: Tensor = qlinear_conv(node, channels_first(x) if last else x, *rest)
    return channels_last(out) if last else out


@operator("ConvTransposeWithDynamicPads", domain=MS, known=(2,))
def conv_transpose_with_pads(
    node: Node, x: Tensor, w: Tensor, pads: Array | None = None, bias: Tensor | None = None
) -> Tensor:
    given = {} if pads is None else {"pads": tuple(int(p) for p in pads.reshape(-1))}
    return conv_transpose(replace(node, attributes={**node.attributes, **given}), x, w, bias)
