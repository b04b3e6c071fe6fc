"""Shapes, and the order of elements: nothing here computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import trilobite as tb
from trilobite.base.errors import ShapeError
from trilobite.framework.tensor import Tensor
from trilobite.inference.model import Node
from trilobite.inference.operators.primitives import primitive
from trilobite.inference.operators.registry import operator
from trilobite.inference.program.symbolic import sizes_array
from trilobite.ir.types import Affine, size_of

Array = np.ndarray[Any, Any]


def ints(array: Array) -> tuple[Any, ...]:
    """Sizes out of an operand: Python numbers, or symbols."""
    return tuple(array.reshape(-1).tolist())


def fixed(sizes: Sequence[Any]) -> tuple[int, ...]:
    """Sizes as numbers; one that only a run knows is an error that says so."""
    return tuple(int(n) for n in sizes)


def reshaped(x: Tensor, sizes: Sequence[Any]) -> Tensor:
    """The same elements under another shape, of which one size may be -1; several may be symbols."""
    if not any(isinstance(d, Affine) for d in (*x.shape, *sizes)):
        return tb.reshape(x, sizes)
    have: list[Any] = list(x.shape)
    want: list[Any] = [d for d in sizes if isinstance(d, Affine) or d != -1]
    for d in list(want):
        if isinstance(d, Affine) and d in have:
            have.remove(d)
            want.remove(d)
    if len(sizes) != sum(isinstance(d, Affine) or d != -1 for d in sizes):
        total: Any = size_of(have)
        rest = total // size_of(want)
        sizes = [d if isinstance(d, Affine) or d != -1 else rest for d in sizes]
    return primitive("reshape", x, shape=tuple(sizes))


def _reshaped(x: Tensor, sizes: Sequence[Any], zero_copies: bool) -> Tensor:
    copies = [zero_copies and not isinstance(n, Affine) and n == 0 for n in sizes]
    return reshaped(x, [x.shape[i] if c else n for i, (n, c) in enumerate(zip(sizes, copies, strict=True))])


@operator("Reshape")
def reshape_by_attribute(node: Node, x: Tensor) -> Tensor:
    return _reshaped(x, node.attributes["shape"], True)


@operator("Reshape", since=5, known=(1,))
def reshape(node: Node, x: Tensor, shape: Array) -> Tensor:
    return _reshaped(x, ints(shape), not node.attribute("allowzero", 0))


@operator("Flatten")
def flatten(node: Node, x: Tensor) -> Tensor:
    axis = node.attribute("axis", 1)
    at = axis + x.ndim if axis < 0 else axis
    return reshaped(x, (size_of(x.shape[:at]), size_of(x.shape[at:])))


@operator("Squeeze")
def squeeze_by_attribute(node: Node, x: Tensor) -> Tensor:
    return _squeezed(x, node.attribute("axes"))


@operator("Squeeze", since=13, known=(1,))
def squeeze(node: Node, x: Tensor, axes: Array | None = None) -> Tensor:
    return _squeezed(x, None if axes is None else ints(axes))


def _squeezed(x: Tensor, axes: Sequence[int] | None) -> Tensor:
    if not any(isinstance(d, Affine) for d in x.shape):
        return tb.squeeze(x, axes)
    gone = {a for a, d in enumerate(x.shape) if _is_one(d)} if axes is None else {a % x.ndim for a in axes}
    return reshaped(x, [d for a, d in enumerate(x.shape) if a not in gone])


def _is_one(size: Any) -> bool:
    """Where a size that varies may be 1, a result has as many axes as each run says."""
    if isinstance(size, Affine) and size.bounds()[0] <= 1 <= size.bounds()[1]:
        raise ShapeError(f"Squeeze: whether {size} is 1 depends on the symbols", remedy="name the axes")
    return bool(size == 1)


@operator("Unsqueeze")
def unsqueeze_by_attribute(node: Node, x: Tensor) -> Tensor:
    return _unsqueezed(x, node.attributes["axes"])


@operator("Unsqueeze", since=13, known=(1,))
def unsqueeze(node: Node, x: Tensor, axes: Array) -> Tensor:
    return _unsqueezed(x, ints(axes))


def _unsqueezed(x: Tensor, axes: Sequence[int]) -> Tensor:
    rank = x.ndim + len(axes)
    new = {a % rank for a in axes}
    if len(new) != len(axes) or any(not -rank <= a < rank for a in axes):
        raise ShapeError(
            f"new axes {tuple(axes)} of a result of {rank} axes", expected="distinct ones within it"
        )
    sizes = iter(x.shape)
    return reshaped(x, [1 if a in new else next(sizes) for a in range(rank)])


@operator("Transpose")
def transpose(node: Node, x: Tensor) -> Tensor:
    return tb.permute_dims(x, node.attribute("perm") or tuple(reversed(range(x.ndim))))


@operator("Expand", since=8, known=(1,), makes=True)
def expand(node: Node, x: Tensor, shape: Array) -> Tensor:
    return tb.broadcast_to(x, tb.broadcast_shapes(tuple(x.shape), ints(shape)))


@operator("Tile", known=(1, 2), makes=True)
def tile_axis(node: Node, x: Tensor, tiles: Array, axis: Array) -> Tensor:
    at = int(axis.reshape(()))
    return tb.tile(x, tuple(int(tiles.reshape(())) if a == at else 1 for a in range(x.ndim)))


@operator("Tile", since=6, known=(1,), makes=True)
def tile(node: Node, x: Tensor, repeats: Array) -> Tensor:
    return tb.tile(x, ints(repeats))


@operator("DepthToSpace")
def depth_to_space(node: Node, x: Tensor) -> Tensor:
    b, (n, c, h, w) = node.attributes["blocksize"], x.shape
    if node.attribute("mode", "DCR") == "DCR":
        y = tb.permute_dims(tb.reshape(x, (n, b, b, c // (b * b), h, w)), (0, 3, 4, 1, 5, 2))
    else:
        y = tb.permute_dims(tb.reshape(x, (n, c // (b * b), b, b, h, w)), (0, 1, 4, 2, 5, 3))
    return tb.reshape(y, (n, c // (b * b), h * b, w * b))


@operator("SpaceToDepth")
def space_to_depth(node: Node, x: Tensor) -> Tensor:
    b, (n, c, h, w) = node.attributes["blocksize"], x.shape
    split = tb.reshape(x, (n, c, h // b, b, w // b, b))
    if node.attribute("mode", "DCR") == "DCR":
        y = tb.permute_dims(split, (0, 3, 5, 1, 2, 4))
    else:
        y = tb.permute_dims(split, (0, 1, 3, 5, 2, 4))
    return tb.reshape(y, (n, c * b * b, h // b, w // b))


@operator("Shape", gives="numbers")
def shape(node: Node, x: Any) -> Array:
    sizes = x.shape[slice(node.attribute("start", 0), node.attribute("end"))]
    return sizes_array(sizes)


@operator("Size", gives="numbers")
def size(node: Node, x: Any) -> Array:
    return sizes_array([size_of(x.shape)]).reshape(())


@operator("ReverseSequence", since=10)
def reverse_sequence(node: Node, x: Tensor, lengths: Tensor) -> Tensor:
    return back_to_front(x, lengths, node.attribute("time_axis", 0), node.attribute("batch_axis", 1))


def back_to_front(x: Tensor, lengths: Tensor, time: int = 0, batch: int = 1) -> Tensor:
    """The first elements of each line along the time axis in reverse, as many as its length says."""
    along: list[Any] = [1] * x.ndim
    along[time] = x.shape[time]
    across: list[Any] = [1] * x.ndim
    across[batch] = x.shape[batch]
    place = tb.reshape(tb.arange(x.shape[time]), along)
    count = tb.reshape(lengths, across).astype(tb.int64)
    source = tb.where(place < count, count - 1 - place, place)
    return tb.gather(x, time, tb.broadcast_to(source, x.shape))


@operator("Trilu", since=14, known=(1,))
def trilu(node: Node, x: Tensor, k: Array | None = None) -> Tensor:
    at = 0 if k is None else int(k.reshape(()))
    return (tb.triu if node.attribute("upper", 1) else tb.tril)(x, k=at)


@operator("CenterCropPad", since=18, known=(1,))
def center_crop_pad(node: Node, x: Tensor, shape: Array) -> Tensor:
    axes = node.attribute("axes") or tuple(range(x.ndim))
    low, high = [0] * x.ndim, [0] * x.ndim
    for a, wanted in zip(axes, ints(shape), strict=True):
        extra = wanted - x.shape[a]
        low[a] = extra // 2 if extra >= 0 else -(-extra // 2)
        high[a] = extra - low[a]
    return primitive("pad", x, low=tuple(low), high=tuple(high), between=(0,) * x.ndim, value=0.0)
