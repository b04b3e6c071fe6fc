"""Sliding blocks as columns, and back: convolutions whose kernels each pick one element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trilobite.base.dtypes import DType
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

    def window(self) -> dict[str, Ints]:
        pad = self.padding
        return {
            "stride": self.stride,
            "low": pad,
            "high": pad,
            "w_dilation": self.dilation,
            "x_dilation": (1, 1),
        }

    def kernels(self, channels: int, dtype: DType) -> Value:
        """One kernel per element of a block, the same for every channel."""
        size = math.prod(self.kernel)
        return np.tile(np.eye(size, dtype=dtype).reshape(size, 1, *self.kernel), (channels, 1, 1, 1))


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
    kernels = blocks.kernels(channels, x.dtype)
    out = table["conv"](x, kernels, groups=channels, dtype=x.dtype, **blocks.window())
    out = reshape(out, shape=(n, len(kernels), math.prod(counts)))
    return reshape(out, shape=out.shape[1:]) if single else out


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
    kernels = blocks.kernels(channels, x.dtype)
    columns = reshape(x, shape=(*x.shape[:2], *counts))
    out = table["conv_input_grad"](
        columns, kernels, space=plane, groups=channels, dtype=x.dtype, **blocks.window()
    )
    return reshape(out, shape=out.shape[1:]) if single else out
