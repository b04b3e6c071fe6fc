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


def requantised(total: Tensor, scale: Tensor, zero: Tensor, axis: int | None) -> Tensor:
    """Sums of products on the grid of the result, rounded once; one scale, or one per place on an axis."""
    if axis is None or scale.ndim == 0 or scale.shape[0] == 1:
        scale, zero, axis = tb.reshape(scale, ()), tb.reshape(zero, ()), None
    elif zero.ndim == 0 or zero.shape[0] == 1:
        zero = tb.broadcast_to(tb.reshape(zero, ()), tuple(scale.shape))
    place = None if axis is None else axis % total.ndim
    return primitive("requantise", total, scale, zero, axis=place, dtype=zero.dtype)


@operator("QLinearConv", since=10)
def qlinear_conv(
    node: Node, x: Tensor, x_scale: Tensor, x_zero: Tensor, w: Tensor, w_scale: Tensor, w_zero: Tensor,
    y_scale: Tensor, y_zero: Tensor, bias: Tensor | None = None,
) -> Tensor:  # fmt: skip
    total = convolved(node, lowered(x, x_zero, 1), lowered(w, w_zero, 0), tb.int32)
    if bias is not None:
        total = total + per_channel(bias, x.ndim - 2)
    return requantised(total, _ratio(x_scale, w_scale, y_scale), y_zero, 1)


def _ratio(left: Tensor, right: Tensor, out: Tensor) -> Tensor:
    """left·right/out, rounded once to float32."""
    left, right, out = (v.astype(tb.float64) for v in (left, right, out))
    return (left * right / out).astype(tb.float32)


@operator("QLinearMatMul", since=10)
def qlinear_matmul(
    node: Node, a: Tensor, a_scale: Tensor, a_zero: Tensor, b: Tensor, b_scale: Tensor, b_zero: Tensor,
    y_scale: Tensor, y_zero: Tensor,
) -> Tensor:  # fmt: skip
    total = tb.matmul(lowered(a, a_zero, -2), lowered(b, b_zero, -1))
    left = a_scale if a_scale.ndim != 1 or a_scale.shape[0] == 1 else tb.expand_dims(a_scale, axis=-1)
    scale = _ratio(left, b_scale, y_scale)
    if scale.ndim < 2 and (y_zero.ndim == 0 or y_zero.shape[0] == 1):
        return requantised(total, scale, y_zero, -1)
    flat = [tb.reshape(tb.broadcast_to(v, tuple(total.shape)), (-1,)) for v in (scale, y_zero)]
    return tb.reshape(requantised(tb.reshape(total, (-1,)), flat[0], flat[1], 0), total.shape)
