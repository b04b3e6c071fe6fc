"""Pooling by windows and over all space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import trilobite as tb
from trilobite.base.dtypes import accumulator
from trilobite.framework.tensor import Tensor
from trilobite.inference.model import Node
from trilobite.inference.operators.convolution import paddings, strides_of
from trilobite.inference.operators.primitives import primitive
from trilobite.inference.operators.registry import operator
from trilobite.inference.operators.shaping import fixed

Array = np.ndarray[Any, Any]


def windows_of(node: Node, space: Sequence[Any]) -> dict[str, tuple[Any, ...]]:
    """Attributes of the window primitives; ceil mode adds padding above, but no window that begins in it."""
    kernel = node.attributes["kernel_shape"]
    rank = len(kernel)
    stride, dilation = strides_of(node, rank)
    low, high = paddings(node, space, kernel, stride, dilation)
    if node.attribute("ceil_mode", 0):
        high = tuple(
            h + _more(n, k, s, d, lo, h)
            for n, k, s, d, lo, h in zip(space, kernel, stride, dilation, low, high, strict=True)
        )
    return {"size": kernel, "stride": stride, "low": low, "high": high, "dilation": dilation}


def _more(n: int, k: int, s: int, d: int, low: int, high: int) -> int:
    extent, reach = n + low + high, d * (k - 1) + 1
    count = -(-(extent - reach) // s) + 1
    if (count - 1) * s >= n + low:
        count -= 1
    return max((count - 1) * s + reach - extent, 0)


@operator("MaxPool")
def max_pool(node: Node, x: Tensor) -> Any:
    windows = windows_of(node, x.shape[2:])
    out = primitive("window_reduce", x, kind="max", **windows)
    if len(node.outputs) < 2 or not node.outputs[1]:
        return out
    return out, _whole_places(node, x, primitive("window_argmax", x, **windows))


def _whole_places(node: Node, x: Tensor, places: Tensor) -> Tensor:
    """Places in the plane as places in the whole tensor; storage_order 1 counts columns first."""
    plane = int(np.prod(fixed(x.shape[2:])))
    if node.attribute("storage_order", 0):
        unraveled, rest = [], places
        for n in reversed(x.shape[2:]):
            unraveled.append(rest % n)
            rest = rest // n
        places, step = tb.zeros_like(places), 1
        for c, n in zip(reversed(unraveled), x.shape[2:], strict=True):
            places, step = places + c * step, step * n
    lead = x.shape[0] * x.shape[1]
    first = tb.reshape(tb.arange(lead) * plane, (*x.shape[:2], *[1] * (x.ndim - 2)))
    return places + first


@operator("AveragePool")
def average_pool(node: Node, x: Tensor) -> Tensor:
    windows = windows_of(node, x.shape[2:])
    wide = x.astype(accumulator(x.dtype))
    summed = primitive("window_reduce", wide, kind="sum", **windows)
    if not any((*windows["low"], *windows["high"])):
        return (summed / float(np.prod(windows["size"]))).astype(x.dtype)
    return (summed / _counted(node, x, windows, wide.dtype)).astype(x.dtype)


def _counted(node: Node, x: Tensor, windows: dict[str, Any], dtype: Any) -> Tensor:
    """How many elements each window covers; padding counts if asked for, what ceil mode adds never."""
    ones = tb.ones(tuple(x.shape[2:]), dtype=dtype)
    if node.attribute("count_include_pad", 0):
        stride, dilation = windows["stride"], windows["dilation"]
        low, high = paddings(node, x.shape[2:], windows["size"], stride, dilation)
        ones = primitive("pad", ones, low=low, high=high, between=(0,) * len(low), value=1.0)
        more = tuple(a - b for a, b in zip(windows["high"], high, strict=True))
        windows = {**windows, "low": (0,) * len(low), "high": more}
    return primitive("window_reduce", ones, kind="sum", **windows)


@operator("LpPool")
def lp_pool(node: Node, x: Tensor) -> Tensor:
    windows, p = windows_of(node, x.shape[2:]), node.attribute("p", 2)
    summed = primitive("window_reduce", tb.abs(x) ** p, kind="sum", **windows)
    return summed ** (1.0 / p)


def _space(x: Tensor) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


@operator("GlobalAveragePool")
def global_average_pool(node: Node, x: Tensor) -> Tensor:
    return tb.mean(x, _space(x), keepdims=True)


@operator("GlobalMaxPool")
def global_max_pool(node: Node, x: Tensor) -> Tensor:
    return tb.max(x, _space(x), keepdims=True)


@operator("GlobalLpPool")
def global_lp_pool(node: Node, x: Tensor) -> Tensor:
    p = node.attribute("p", 2)
    return tb.sum(tb.abs(x) ** p, _space(x), keepdims=True) ** (1.0 / p)


@operator("MaxUnpool", since=9, known=(2,))
def max_unpool(node: Node, x: Tensor, places: Tensor, shape: Array | None = None) -> Tensor:
    """Zeros with x at places that count through the whole tensor of the usual size."""
    kernel = node.attributes["kernel_shape"]
    rank = len(kernel)
    stride, _ = strides_of(node, rank)
    pads = node.attribute("pads") or (0,) * (2 * rank)
    usual = [
        (n - 1) * s + k - lo - hi
        for n, s, k, lo, hi in zip(x.shape[2:], stride, kernel, pads[:rank], pads[rank:], strict=True)
    ]
    whole = tuple(x.shape[:2]) + tuple(usual)
    flat = tb.zeros((int(np.prod(whole)),), dtype=x.dtype)
    at = tb.reshape(places.astype(tb.int64), (-1,))
    out = tb.reshape(primitive("scatter_along", flat, at, tb.reshape(x, (-1,)), axis=0, kind="set"), whole)
    if shape is None:
        return out
    more = tuple(int(n) - d for n, d in zip(shape.reshape(-1), whole, strict=True))
    return primitive("pad", out, low=(0,) * out.ndim, high=more, between=(0,) * out.ndim, value=0.0)
