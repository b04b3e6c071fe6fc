"""Convolutions and their transposes, float and integer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import trilobite as tb
from trilobite.framework.tensor import Tensor
from trilobite.inference.model import Node
from trilobite.inference.operators.primitives import primitive
from trilobite.inference.operators.product import lowered
from trilobite.inference.operators.registry import operator

Array = np.ndarray[Any, Any]
Sizes = tuple[Any, ...]


def strides_of(node: Node, rank: int) -> tuple[Sizes, Sizes]:
    return node.attribute("strides") or (1,) * rank, node.attribute("dilations") or (1,) * rank


def paddings(
    node: Node, space: Sequence[Any], kernel: Sequence[Any], stride: Sizes, dilation: Sizes
) -> tuple[Sizes, Sizes]:
    """Below and above each axis, given or by rule."""
    rank, rule = len(space), node.attribute("auto_pad", "NOTSET")
    if rule in ("NOTSET", ""):
        given = node.attribute("pads") or (0,) * (2 * rank)
        return tuple(given[:rank]), tuple(given[rank:])
    if rule == "VALID":
        return (0,) * rank, (0,) * rank
    low, high = [], []
    for n, k, s, d in zip(space, kernel, stride, dilation, strict=True):
        total = max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0)
        less, more = total // 2, total - total // 2
        low.append(less if rule == "SAME_UPPER" else more)
        high.append(more if rule == "SAME_UPPER" else less)
    return tuple(low), tuple(high)


def convolved(node: Node, x: Tensor, w: Tensor, dtype: Any) -> Tensor:
    rank = x.ndim - 2
    stride, dilation = strides_of(node, rank)
    low, high = paddings(node, x.shape[2:], w.shape[2:], stride, dilation)
    return primitive(
        "conv", x, w, stride=stride, low=low, high=high, w_dilation=dilation, x_dilation=(1,) * rank,
        groups=node.attribute("group", 1), dtype=dtype,
    )  # fmt: skip


def per_channel(bias: Tensor, rank: int) -> Tensor:
    return tb.reshape(bias, (1, -1, *[1] * rank))


@operator("Conv")
def conv(node: Node, x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
    out = convolved(node, x, w, x.dtype)
    return out if bias is None else out + per_channel(bias, x.ndim - 2)


@operator("ConvInteger", since=10)
def conv_integer(node: Node, x: Tensor, w: Tensor, x_zero: Any = None, w_zero: Any = None) -> Tensor:
    return convolved(node, lowered(x, x_zero, 1), lowered(w, w_zero, 0), tb.int32)


@operator("ConvTranspose")
def conv_transpose(node: Node, x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
    rank = x.ndim - 2
    stride, dilation = strides_of(node, rank)
    extra = node.attribute("output_padding") or (0,) * rank
    full = [
        (n - 1) * s + d * (k - 1) + 1 + e
        for n, s, d, k, e in zip(x.shape[2:], stride, dilation, w.shape[2:], extra, strict=True)
    ]
    low, high, space = _transposed_sizes(node, x.shape[2:], full, stride)
    out = primitive(
        "conv_input_grad", x, w, space=space, stride=stride, low=low,
        high=tuple(h - e for h, e in zip(high, extra, strict=True)), w_dilation=dilation,
        x_dilation=(1,) * rank, groups=node.attribute("group", 1), dtype=x.dtype,
    )  # fmt: skip
    return out if bias is None else out + per_channel(bias, rank)


def _transposed_sizes(
    node: Node, small: Sequence[Any], full: Sequence[Any], stride: Sizes
) -> tuple[Sizes, Sizes, Sizes]:
    """What is cut off below and above, and what is left."""
    rank, rule = len(full), node.attribute("auto_pad", "NOTSET")
    wanted = node.attribute("output_shape")
    if wanted is not None:
        space = tuple(wanted[-rank:])
    elif rule.startswith("SAME"):
        space = tuple(n * s for n, s in zip(small, stride, strict=True))
    else:
        given = node.attribute("pads") or (0,) * (2 * rank)
        low, high = given[:rank], given[rank:]
        return low, high, tuple(f - a - b for f, a, b in zip(full, low, high, strict=True))
    totals = [f - s for f, s in zip(full, space, strict=True)]
    half = tuple(t // 2 for t in totals)
    rest = tuple(t - h for t, h in zip(totals, half, strict=True))
    if rule == "SAME_UPPER":
        return half, rest, space
    return rest, half, space
