"""Normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np

import trilobite as tb
from trilobite.base.dtypes import accumulator
from trilobite.framework.nn import functional as F
from trilobite.framework.tensor import Tensor
from trilobite.inference.model import Node
from trilobite.inference.operators.convolution import per_channel
from trilobite.inference.operators.registry import operator
from trilobite.inference.operators.shaping import fixed
from trilobite.inference.tensors import DTYPES

Array = np.ndarray[Any, Any]


@operator("BatchNormalization")
def batch_normalization(
    node: Node, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor
) -> tuple[Any, ...]:
    """By given statistics; in training by those of the batch, which move the given ones."""
    epsilon, rank = node.attribute("epsilon", 1e-5), x.ndim - 2
    training = node.attribute("training_mode", 0) if node.version >= 14 else 0
    if not training:
        wide = accumulator(x.dtype)
        s = scale.astype(wide) / tb.sqrt(var.astype(wide) + epsilon)
        shift = bias.astype(wide) - mean.astype(wide) * s
        out = x.astype(wide) * per_channel(s, rank) + per_channel(shift, rank)
        return (out.astype(x.dtype), *_unmoved(node, mean, var))
    axes = (0, *range(2, x.ndim))
    now, spread = tb.mean(x, axes), tb.var(x, axis=axes)
    keep = node.attribute("momentum", 0.9)
    out = (x - per_channel(now, rank)) / tb.sqrt(per_channel(spread, rank) + epsilon)
    out = out * per_channel(scale, rank) + per_channel(bias, rank)
    moved = (mean * keep + now * (1 - keep), var * keep + spread * (1 - keep))
    return out.astype(x.dtype), *(m.astype(mean.dtype) for m in moved)


def _unmoved(node: Node, mean: Tensor, var: Tensor) -> list[Tensor]:
    return [mean, var, mean, var][: len(node.outputs) - 1]


@operator("InstanceNormalization")
def instance_normalization(node: Node, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    return F.instance_norm(x, weight=scale, bias=bias, eps=node.attribute("epsilon", 1e-5))


@operator("LayerNormalization", since=17)
def layer_normalization(node: Node, x: Tensor, scale: Tensor, bias: Tensor | None = None) -> Any:
    axis, epsilon = node.attribute("axis", -1) % x.ndim, node.attribute("epsilon", 1e-5)
    shape = tuple(x.shape[axis:])
    if len(node.outputs) == 1 and tuple(scale.shape) == shape:
        return F.layer_norm(x, fixed(shape), scale, bias, epsilon)
    wide = x.astype(DTYPES[node.attribute("stash_type", 1)])
    axes = tuple(range(axis, x.ndim))
    mean = tb.mean(wide, axes, keepdims=True)
    inverse = tb.rsqrt(tb.var(wide, axes, keepdims=True) + epsilon)
    out = ((wide - mean) * inverse).astype(x.dtype) * scale
    return (out if bias is None else out + bias), mean, inverse


@operator("RMSNormalization", since=23)
def rms_normalization(node: Node, x: Tensor, scale: Tensor) -> Tensor:
    axis, epsilon = node.attribute("axis", -1) % x.ndim, node.attribute("epsilon", 1e-5)
    wide = x.astype(DTYPES[node.attribute("stash_type", 1)])
    mean = tb.mean(wide * wide, tuple(range(axis, x.ndim)), keepdims=True)
    return (wide * tb.rsqrt(mean + epsilon)).astype(x.dtype) * scale


@operator("GroupNormalization", since=18)
def group_normalization(node: Node, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    groups, epsilon = node.attributes["num_groups"], node.attribute("epsilon", 1e-5)
    if node.version >= 21:
        return F.group_norm(x, groups, scale, bias, epsilon)
    each = x.shape[1] // groups  # one number per group, before operator set 21
    spread = [
        tb.reshape(tb.broadcast_to(tb.expand_dims(v, axis=1), (groups, each)), (-1,)) for v in (scale, bias)
    ]
    return F.group_norm(x, groups, spread[0], spread[1], epsilon)


@operator("LRN")
def lrn(node: Node, x: Tensor) -> Tensor:
    size = node.attributes["size"]
    alpha, beta, bias = (node.attribute(k, d) for k, d in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0)))
    if size % 2:
        return F.local_response_norm(x, size, alpha, beta, bias)
    # Of an even number of channels ONNX has one more after the middle, the framework one more before it.
    return tb.flip(F.local_response_norm(tb.flip(x, axis=1), size, alpha, beta, bias), axis=1)


@operator("MeanVarianceNormalization", since=9)
def mean_variance_normalization(node: Node, x: Tensor) -> Tensor:
    axes = node.attribute("axes", (0, 2, 3))
    mean = tb.mean(x, axes, keepdims=True)
    spread = tb.sqrt(tb.mean(x * x, axes, keepdims=True) - mean * mean)
    return (x - mean) / (spread + 1e-9)


def rms(x: Tensor, scale: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    wide = x.astype(tb.float32)
    inverse = tb.rsqrt(tb.mean(wide * wide, -1, keepdims=True) + epsilon)
    return (wide * inverse).astype(x.dtype) * scale, inverse


@operator("SimplifiedLayerNormalization")
@operator("SimplifiedLayerNormalization", domain="com.microsoft")
def simplified_layer_normalization(node: Node, x: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    return rms(x, scale, node.attribute("epsilon", 1e-5))
