"""Quantised numbers: to a grid and back, per tensor, per axis and per block; products and convolutions of
them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import trilobite as tb
from trilobite.framework.tensor import Tensor
from trilobite.inference.model import Node
from trilobite.inference.operators.convolution import convolved, per_channel
from trilobite.inference.operators.primitives import primitive
from trilobite.inference.operators.product import lowered
from trilobite.inference.operators.registry import operator
from trilobite.inference.tensors import DTYPES

Array = np.ndarray[Any, Any]


def _grid(node: Node, x: Tensor, scale: Tensor) -> tuple[int | None, int]:
    """The axis of scales (None for one scale), and how many neighbours share one along it."""
    if scale.ndim == 0 or (scale.ndim == 1 and scale.shape[0] == 1 and x.ndim != 1):
        return None, 0
    axis = node.attribute("axis", 1) % x.ndim
    block = node.attribute("block_size", 0)
    return axis, block


def _spread(v: Tensor, x: Tensor, axis: int, block: int) -> Tensor:
    """Scales of blocks, one per element."""
    repeated = tb.repeat(v, block, axis=axis)
    kept = tuple(slice(0, n) for n in x.shape)
    return repeated[kept]


def quantised(x: Tensor, scale: Tensor, zero: Tensor, axis: int | None) -> Tensor:
    return primitive("quantise", x, scale, zero, axis=axis, dtype=zero.dtype)


@operator("QuantizeLinear", since=10)
def quantize_linear(node: Node, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    dtype = DTYPES[node.attribute("output_dtype", 0) or 2] if zero is None else zero.dtype
    axis, block = _grid(node, x, scale)
    wide = scale.dtype if tb.is_floating_point(scale) else tb.float32
    x, scale = x.astype(wide), scale.astype(wide)
    point = tb.zeros(tuple(scale.shape), dtype=tb.float32).astype(dtype) if zero is None else zero
    if axis is None:
        return quantised(x, tb.reshape(scale, ()), tb.reshape(point, ()), None)
    if not block:
        return quantised(x, scale, point, axis)
    return _by_blocks(x, scale, point, axis, block)


def _by_blocks(x: Tensor, scale: Tensor, point: Tensor, axis: int, block: int) -> Tensor:
    """Each block has a scale: blocks and all other axes become one axis of scales."""
    s = _spread(scale, x, axis, block)
    z = _spread(point.astype(tb.float32), x, axis, block).astype(point.dtype)
    flat = [tb.reshape(v, (-1,)) for v in (x, s, z)]
    return tb.reshape(quantised(flat[0], flat[1], flat[2], 0), x.shape)


@operator("DequantizeLinear", since=10, gives="numbers")
def dequantize_linear(node: Node, q: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    axis, block = _grid(node, q, scale)
    dtype = DTYPES[node.attribute("output_dtype", 0)] if node.attribute("output_dtype", 0) else scale.dtype
    if axis is None:
        scale, zero = tb.reshape(scale, ()), None if zero is None else tb.reshape(zero, ())
    if block or q.dtype == tb.int64:
        assert axis is not None
        s = _spread(scale.astype(tb.float32), q, axis, block)
        wide = q.astype(tb.float32)
        if zero is not None:
            wide = wide - _spread(zero.astype(tb.float32), q, axis, block)
        return (wide * s).astype(dtype)
    point = tb.zeros(tuple(scale.shape), dtype=tb.float32).astype(q.dtype) if zero is None else zero
    return primitive("dequantise", q, scale, point.astype(q.dtype), axis=axis).astype(dtype)


@operator("DynamicQuantizeLinear", since=11)
def dynamic_quantize_linear(node: Node, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    low, high = tb.minimum(tb.min(x), 0.0), tb.maximum(tb.max(x), 0.0)
    scale = (high - low) / 255
    point = tb.clip(tb.round(-low / tb.where(tb.equal(scale, 0), 1.0, scale)), 0, 255).astype(tb.uint8)
    return quantised(x, scale, point, None), scale, point


def _requantised(total: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    """Sums of products on the grid of the result."""
    found = tb.round(total.astype(tb.float32) * scale) + zero.astype(tb.float32)
    info = tb.iinfo(zero.dtype)
    return tb.clip(found, float(info.min), float(info.max)).astype(zero.dtype)


@operator("QLinearConv", since=10)
def qlinear_conv(
    node: Node, x: Tensor, x_scale: Tensor, x_zero: Tensor, w: Tensor, w_scale: Tensor, w_zero: Tensor,
    y_scale: Tensor, y_zero: Tensor, bias: Tensor | None = None,
) -> Tensor:  # fmt: skip
    total = convolved(node, lowered(x, x_zero, 1), lowered(w, w_zero, 0), tb.int32)
    rank = x.ndim - 2
    if bias is not None:
        total = total + per_channel(bias, rank)
    scale = x_scale * w_scale / y_scale
    if scale.ndim == 1 and scale.shape[0] > 1:
        scale = per_channel(scale, rank)
    return _requantised(total, scale if scale.ndim != 1 else tb.reshape(scale, ()), tb.reshape(y_zero, ()))


@operator("QLinearMatMul", since=10)
def qlinear_matmul(
    node: Node, a: Tensor, a_scale: Tensor, a_zero: Tensor, b: Tensor, b_scale: Tensor, b_zero: Tensor,
    y_scale: Tensor, y_zero: Tensor,
) -> Tensor:  # fmt: skip
    total = tb.matmul(lowered(a, a_zero, -2), lowered(b, b_zero, -1))
    left = a_scale if a_scale.ndim != 1 or a_scale.shape[0] == 1 else tb.expand_dims(a_scale, axis=-1)
    scale = (left * b_scale / y_scale).astype(tb.float32)
    return _requantised(total, scale, y_zero)
