"""Regions of images, deformed convolutions, columns to images."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import trilobite as tb
from trilobite.framework.nn.functional.calling import run
from trilobite.framework.nn.functional.folding import Line, summed_blocks
from trilobite.framework.tensor import Tensor
from trilobite.inference.model import Node
from trilobite.inference.operators.convolution import per_channel
from trilobite.inference.operators.registry import operator
from trilobite.inference.operators.resampling import linearly
from trilobite.inference.operators.shaping import fixed, ints

Array = np.ndarray[Any, Any]


@operator("MaxRoiPool", host=True, gives="numbers")
def max_roi_pool(node: Node, x: Array, rois: Array) -> Array:
    """The largest element of every bin of every region; 0 of empty ones."""
    height, width = node.attributes["pooled_shape"]
    out = np.zeros((len(rois), x.shape[1], height, width), x.dtype)
    for i, roi in enumerate(rois):
        x1, y1, x2, y2 = np.floor(roi[1:] * node.attribute("spatial_scale", 1.0) + 0.5).astype(int)
        rows = _bins(y1, max(y2 - y1 + 1, 1), height, x.shape[2])
        columns = _bins(x1, max(x2 - x1 + 1, 1), width, x.shape[3])
        for (h, r), (w, c) in itertools.product(enumerate(rows), enumerate(columns)):
            part = x[int(roi[0]), :, r, c]
            if part.size:
                out[i, :, h, w] = part.max(axis=(1, 2))
    return out


def _bins(start: int, extent: int, count: int, limit: int) -> list[slice]:
    each = extent / count
    edges = [(int(np.floor(i * each)) + start, int(np.ceil((i + 1) * each)) + start) for i in range(count)]
    return [slice(min(max(a, 0), limit), min(max(b, 0), limit)) for a, b in edges]


@operator("DeformConv", since=19)
def deform_conv(
    node: Node, x: Tensor, w: Tensor, offset: Tensor, bias: Tensor | None = None, mask: Tensor | None = None
) -> Tensor:
    """A convolution whose taps are moved by offsets and weighted by a mask, at every place of the result."""
    rank = x.ndim - 2
    batch, channels = fixed(x.shape[:2])
    kernel, out_space = fixed(w.shape[2:]), fixed(offset.shape[2:])
    groups, shared = node.attribute("group", 1), node.attribute("offset_group", 1)
    n_taps, points = int(np.prod(kernel)), int(np.prod(out_space))
    moved = tb.reshape(offset, (batch, shared, n_taps, rank, points))
    weight = None if mask is None else tb.reshape(mask, (batch, shared, n_taps, points))
    each = channels // shared
    columns = []
    for g in range(shared):
        part = x[:, g * each : (g + 1) * each]
        taps = []
        for t, k in enumerate(itertools.product(*map(range, kernel))):
            where = [_grid(node, a, k[a], out_space, rank) + moved[:, g, t, a] for a in range(rank)]
            value = linearly(part, where)
            taps.append(value if weight is None else value * tb.expand_dims(weight[:, g, t], axis=1))
        columns.append(tb.stack(taps, axis=2))
    gathered = tb.concat(columns, axis=1)
    split = tb.reshape(gathered, (batch, groups, channels // groups * n_taps, points))
    flat = tb.reshape(w, (groups, w.shape[0] // groups, w.shape[1] * n_taps))
    out = tb.reshape(tb.einsum("gok,ngkp->ngop", flat, split), (batch, w.shape[0], *out_space))
    return out if bias is None else out + per_channel(bias, rank)


def _grid(node: Node, axis: int, tap: int, out_space: tuple[int, ...], rank: int) -> Tensor:
    """Where a tap lies on an axis, for all places of the result in one line."""
    stride = (node.attribute("strides") or (1,) * rank)[axis]
    dilation = (node.attribute("dilations") or (1,) * rank)[axis]
    pad = (node.attribute("pads") or (0,) * (2 * rank))[axis]
    line = np.arange(out_space[axis]) * stride - pad + tap * dilation
    shape = [-1 if a == axis else 1 for a in range(rank)]
    return tb.asarray(np.broadcast_to(line.reshape(shape), out_space).reshape(-1).astype(np.float32))


@operator("Col2Im", since=18, known=(1, 2))
def col2im(node: Node, x: Tensor, image: Array, block: Array) -> Tensor:
    """Sums of blocks at their places. Elements are moved: an infinity stays where it lies."""
    space, kernel = ints(image), ints(block)
    rank = len(space)
    stride = node.attribute("strides") or (1,) * rank
    dilation = node.attribute("dilations") or (1,) * rank
    pads = node.attribute("pads") or (0,) * (2 * rank)
    low, high = pads[:rank], pads[rank:]
    counts = tuple(
        (n + a + b - d * (k - 1) - 1) // s + 1
        for n, a, b, d, k, s in zip(space, low, high, dilation, kernel, stride, strict=True)
    )
    lines = zip(kernel, counts, dilation, stride, space, low, high, strict=True)
    return run(summed_blocks, x, lines=tuple(Line(*line) for line in lines))
