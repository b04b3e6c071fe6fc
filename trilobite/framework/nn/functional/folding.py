"""Sliding blocks as columns, and back: rows of all blocks are taken, then their columns.

Elements are moved, never multiplied by zeros: an infinity stays in the blocks that hold it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from trilobite.base.dtypes import float32, is_float
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
        width = blocks.padding[axis // 4]
        x = table["gather"](_widened(x, axis, [(width, width)]), at, axis=axis)
    size = math.prod(blocks.kernel)
    out = reshape(table["transpose"](x, axes=_BY_ELEMENT), shape=(n, channels * size, math.prod(counts)))
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
    edges = blocks.padding, blocks.padding
    rows = zip(blocks.kernel, counts, blocks.dilation, blocks.stride, plane, *edges, strict=True)
    out = summed_blocks(x, tuple(Line(*row) for row in rows))
    return reshape(out, shape=out.shape[1:]) if single else out


class Line(NamedTuple):
    """One axis along which blocks are added up, `size` long once `low` and `high` are cut off."""

    elements: int  # of a block
    blocks: int
    dilation: int
    stride: int
    size: int
    low: int
    high: int

    @property
    def runs(self) -> int:
        """As many elements as the stride lie side by side: a block is a few such runs, each of which falls on
        an earlier one of a later block. With a stride of 1 they are its elements.
        """
        return self.elements if self.stride == 1 else -(-self.reach // self.stride)

    @property
    def reach(self) -> int:
        return self.dilation * (self.elements - 1) + 1

    @property
    def shift(self) -> int:
        """Blocks from run to run."""
        return self.dilation if self.stride == 1 else 1

    @property
    def places(self) -> tuple[int, int]:
        """Which runs of the line are summed, the first and how many: those that nothing cuts off."""
        whole = self.blocks + (self.runs - 1) * self.shift
        return (self.low, self.size) if self.stride == 1 else (0, whole)


_MOST = 64  # blocks over one element whose sum is written out


def summed_blocks(x: Value, lines: tuple[Line, ...]) -> Value:
    """(N, C·elements, blocks) to (N, C, sizes), for any number of axes. Sums of short floats are float32."""
    dtype = x.dtype
    if is_float(dtype) and dtype.itemsize < 4:
        x = table["cast"](x, dtype=float32)
    kernel = [a.elements for a in lines]
    x = reshape(x, shape=(x.shape[0], x.shape[1] // math.prod(kernel), *kernel, *(a.blocks for a in lines)))
    out = _shifted(x, lines) if math.prod(a.runs for a in lines) <= _MOST else _scattered(x, lines)
    return out if out.dtype == dtype else table["cast"](out, dtype=dtype)


def _shifted(x: Value, lines: Sequence[Line]) -> Value:
    """A sum of shifted blocks, in which a target finds one pass."""
    rank, at = len(lines), 2 + 2 * len(lines)
    strided = [a.stride > 1 for a in lines]
    rest = [(0, a.runs * a.stride - a.reach if s else 0) for a, s in zip(lines, strided, strict=True)]
    x = _widened(x, 2, rest, [a.dilation - 1 if s else 0 for a, s in zip(lines, strided, strict=True)])
    x = reshape(
        x, shape=(*x.shape[:2], *(n for a in lines for n in (a.runs, a.stride)), *x.shape[2 + rank :])
    )
    x = _widened(x, at, [((a.runs - 1) * a.shift,) * 2 for a in lines])
    total = None
    for chosen in np.ndindex(*(a.runs for a in lines)):
        start, stop = [0] * x.ndim, list(x.shape)
        for i, (a, q) in enumerate(zip(lines, chosen, strict=True)):
            start[2 + 2 * i], stop[2 + 2 * i] = q, q + 1
            start[at + i] = a.places[0] + (a.runs - 1 - q) * a.shift
            stop[at + i] = start[at + i] + a.places[1]
        part = table["slice"](x, start=tuple(start), stop=tuple(stop), step=(1,) * x.ndim)
        total = part if total is None else table["add"](total, part)
    assert total is not None
    total = reshape(total, shape=(*x.shape[:2], *(a.stride for a in lines), *(a.places[1] for a in lines)))
    pairs = (axis for i in range(rank) for axis in (2 + rank + i, 2 + i))
    total = table["transpose"](total, axes=(0, 1, *pairs))
    total = reshape(total, shape=(*x.shape[:2], *(a.places[1] * a.stride for a in lines)))
    return _cut(total, lines, [a.low if s else 0 for a, s in zip(lines, strided, strict=True)])


def _scattered(x: Value, lines: Sequence[Line]) -> Value:
    """The same where blocks overlap a lot: axis by axis, each element added at its place."""
    for i, a in enumerate(lines):
        axis, other = 2 + i, 2 + len(lines)  # elements and blocks of this axis; those before it are done
        at = np.arange(a.elements)[:, None] * a.dilation + np.arange(a.blocks)[None, :] * a.stride
        rest = [k for k in range(x.ndim) if k not in (axis, other)]
        front = table["transpose"](x, axes=(axis, other, *rest))
        shape = (*front.shape[2 : 2 + axis], a.low + a.size + a.high, *front.shape[2 + axis :])
        whole = table["full"](shape=shape, dtype=x.dtype, value=0)
        x = table["scatter"](whole, at[..., None], front, axes=(axis,), kind="add")
    return _cut(x, lines, [a.low for a in lines])


def _cut(x: Value, lines: Sequence[Line], first: Sequence[int]) -> Value:
    """What lies from these places on; no block reaches what is missing there."""
    ends = [f + a.size for f, a in zip(first, lines, strict=True)]
    x = _widened(x, 2, [(0, max(0, n - d)) for n, d in zip(ends, x.shape[2:], strict=True)])
    return table["slice"](x, start=(0, 0, *first), stop=(*x.shape[:2], *ends), step=(1,) * x.ndim)


def _widened(
    x: Value, first: int, edges: Sequence[tuple[int, int]], between: Sequence[int] | None = None
) -> Value:
    """Zeros around the axes from `first` on, and between their elements."""
    gaps = between or [0] * len(edges)
    if not any(map(any, edges)) and not any(gaps):
        return x
    before, after = (0,) * first, (0,) * (x.ndim - first - len(edges))
    low, high, inner = ((*before, *ns, *after) for ns in ((a for a, _ in edges), (b for _, b in edges), gaps))
    return table["pad"](x, low=low, high=high, between=inner, value=0)
