"""Sliding blocks as columns, and back: rows of all blocks are taken, then their columns.

Elements are moved, never multiplied by zeros: an infinity stays in the blocks that hold it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trilobite.base.errors import ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.nn.composites.arithmetic import reshape
from trilobite.framework.nn.functional.calling import run
from trilobite.framework.nn.functional.padding import checked_rank
from trilobite.framework.nn.settings import repeated
from trilobite.framework.tensor import Tensor
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table

Ints = tuple[int, ...]
Array = np.ndarray[Any, Any]
_BY_ELEMENT = (0, 1, 2, 4, 3, 5)  # (elements, blocks) of both axes: all elements first; its own inverse


class Blocks:
    """The geometry of blocks over a plane."""

    def __init__(self, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> None:
        names = ("kernel_size", "dilation", "padding", "stride")
        self.kernel, self.dilation, self.padding, self.stride = (
            repeated(n, v, 2) for n, v in zip(names, (kernel_size, dilation, padding, stride), strict=True)
        )

    def counts(self, plane: Any) -> Ints:
        """How many blocks fit along each axis."""
        rows = zip(plane, self.kernel, self.dilation, self.padding, self.stride, strict=True)
        return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, d, p, s in rows)

    def places(self, plane: Any, counts: Ints) -> list[Array]:
        """Along each axis of the padded plane, (element of a block, block): where it lies."""
        rows = zip(self.kernel, counts, self.dilation, self.stride, strict=True)
        return [np.arange(k)[:, None] * d + np.arange(c)[None, :] * s for k, c, d, s in rows]


def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """(N, C, H, W) to (N, C·block, blocks): each sliding block as a column."""
    checked_rank("unfold", input, 2)
    return run(_unfold, input, blocks=Blocks(kernel_size, dilation, padding, stride))


def _unfold(x: Value, blocks: Blocks) -> Value:
    single = x.ndim == 3
    x = reshape(x, shape=(1, *x.shape)) if single else x
    n, channels, *plane = x.shape
    counts = blocks.counts(plane)
    if min(counts) < 1:
        raise ShapeError(
            f"unfold of a plane {tuple(plane)} in blocks {blocks.kernel}",
            where=user_location(),
            expected="a plane that a block fits on",
            remedy="add padding, or take smaller blocks",
        )
    for axis, at in zip((2, 4), blocks.places(plane, counts), strict=True):
        x = table["gather"](_padded(x, axis, blocks.padding[axis // 4]), at, axis=axis)
    size = math.prod(blocks.kernel)
    out = reshape(table["transpose"](x, axes=_BY_ELEMENT), shape=(n, channels * size, math.prod(counts)))
    return reshape(out, shape=out.shape[1:]) if single else out


def _padded(x: Value, axis: int, width: int) -> Value:
    if not width:
        return x
    edges = tuple(width if i == axis else 0 for i in range(x.ndim))
    return table["pad"](x, low=edges, high=edges, between=(0,) * x.ndim, value=0)


def fold(
    input: Tensor,
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Tensor:
    """(N, C·block, blocks) to (N, C, H, W): columns back as blocks, summed where they overlap."""
    blocks = Blocks(kernel_size, dilation, padding, stride)
    plane = repeated("output_size", output_size, 2)
    size, counts = math.prod(blocks.kernel), blocks.counts(plane)
    if input.ndim not in (2, 3) or input.shape[-2] % size or input.shape[-1] != math.prod(counts):
        raise ShapeError(
            f"fold of shape {tuple(input.shape)} to {plane}",
            where=user_location(),
            expected=f"rows that {size} divides, and {math.prod(counts)} columns",
            remedy="give fold the settings that unfold had",
        )
    return run(_fold, input, blocks=blocks, plane=plane, counts=counts)


def _fold(x: Value, blocks: Blocks, plane: Ints, counts: Ints) -> Value:
    single = x.ndim == 2
    x = reshape(x, shape=(1, *x.shape)) if single else x
    channels = x.shape[1] // math.prod(blocks.kernel)
    x = reshape(x, shape=(x.shape[0], channels, *blocks.kernel, *counts))
    x = table["transpose"](x, axes=_BY_ELEMENT)
    for axis, at in zip((4, 2), reversed(blocks.places(plane, counts)), strict=True):
        width, n = blocks.padding[axis // 4], plane[axis // 4]
        shape = (*x.shape[:axis], n + 2 * width, *x.shape[axis + 2 :])
        rest = (i for i in range(x.ndim) if i not in (axis, axis + 1))
        front = table["transpose"](x, axes=(axis, axis + 1, *rest))
        whole = table["full"](shape=shape, dtype=x.dtype, value=0)
        x = table["scatter"](whole, at[..., None], front, axes=(axis,), kind="add")
        start = tuple(width if i == axis else 0 for i in range(x.ndim))
        stop = tuple(width + n if i == axis else d for i, d in enumerate(x.shape))
        x = table["slice"](x, start=start, stop=stop, step=(1,) * x.ndim)
    return reshape(x, shape=x.shape[1:]) if single else x
