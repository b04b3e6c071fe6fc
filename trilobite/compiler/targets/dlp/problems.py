"""Products and convolutions of a graph as problems of the contraction room.

Enters: an equation (`dot`, `conv`, `conv_input_grad`, `conv_weight_grad`) and how its operands and result lie
in memory. Leaves: a `Problem`. A convolution without two spatial axes gets axes of one element.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Literal

from trilobite.base.dtypes import DType, bits, float32, float64, int32, is_float
from trilobite.compiler.targets.dlp.interfaces import Convolution, Product, Tensor, row_major
from trilobite.compiler.targets.dlp.kernels.passes import row_strides
from trilobite.compiler.targets.dlp.shapes import extents
from trilobite.ir.graph import Equation, Var
from trilobite.ir.primitives.dot import free_axes

Strides = Sequence[int]
View = Literal["forward", "input_grad", "weight_grad"]
_VIEWS: dict[str, View] = {
    "conv": "forward", "conv_input_grad": "input_grad", "conv_weight_grad": "weight_grad",
}  # fmt: skip


def accumulated(operand: DType, result: DType) -> DType:
    """What the sums of a product are kept in."""
    if is_float(operand):
        return float64 if float64 in (operand, result) else float32
    return int32 if bits(result) <= 32 else result


def groups_of(shape: Sequence[int], batch: Sequence[int], contract: Sequence[int]) -> list[Sequence[int]]:
    return [batch, free_axes(len(shape), contract, batch), contract]


def one_stride(shape: Sequence[int], own: Strides, axes: Sequence[int]) -> int | None:
    """The stride of these axes as one; None if there is none."""
    kept = [a for a in axes if shape[a] != 1]
    if any(own[a] != own[b] * shape[b] for a, b in pairwise(kept)):
        return None
    return own[kept[-1]] if kept else 0


def are_matrices(e: Equation, place: int, strides: Strides) -> bool:
    """Has each group of axes of an operand of a dot one stride?"""
    shape = extents(e.inputs[place])
    groups = groups_of(shape, e.attributes["batch"][place], e.attributes["contract"][place])
    return all(one_stride(shape, strides, g) is not None for g in groups)


def result_groups(e: Equation) -> list[range]:
    """The axes of a dot's result: batch, free of x, free of y."""
    batch, contract = e.attributes["batch"][0], e.attributes["contract"][0]
    first, rank = len(batch), len(e.inputs[0].type.shape)
    second = first + rank - len(batch) - len(contract)
    return [range(first), range(first, second), range(second, len(e.outputs[0].type.shape))]


def product_result(e: Equation, dtype: DType, strides: Strides) -> Tensor:
    """A tensor of the shape of a dot's result, as matrices."""
    shape = extents(e.outputs[0])
    groups = result_groups(e)
    sizes = tuple(prod(shape[a] for a in g) for g in groups)
    return Tensor(sizes, dtype, tuple(one_stride(shape, strides, g) or 0 for g in groups))


def convolution_result(e: Equation, dtype: DType, strides: Strides) -> Tensor:
    """A tensor of the shape of a convolution's result, channels last."""
    found = _channels_last(e.outputs[0], strides)
    return Tensor(found.shape, dtype, found.strides)


def product_of(e: Equation, given: Sequence[Strides] | None = None) -> Product:
    """A dot whose groups of axes have one stride each, as matrices."""
    contract, batch = e.attributes["contract"], e.attributes["batch"]
    tensors = []
    for i, v in enumerate(e.inputs):
        shape = extents(v)
        groups = groups_of(shape, batch[i], contract[i])
        if i == 1:
            groups = [groups[0], groups[2], groups[1]]
        sizes = tuple(prod(shape[a] for a in g) for g in groups)
        strides = tuple(one_stride(shape, given[i] if given else row_strides(shape), g) or 0 for g in groups)
        tensors.append(Tensor(sizes, v.type.dtype, strides))
    x, y = tensors
    out = row_major((x.shape[0], x.shape[1], y.shape[2]), e.outputs[0].type.dtype)
    return Product(x, y, out, accumulated(x.dtype, out.dtype))


def _channels_last(v: Var, strides: Strides) -> Tensor:
    """[n, c, *space] in memory, read as [n, *space, c]; a missing second spatial axis has one element."""
    shape = extents(v)
    first, second, *space = zip(shape, strides, strict=True)
    while len(space) < 2:
        space.append((1, 0))
    axes = [first, *space, second]
    return Tensor(tuple(n for n, _ in axes), v.type.dtype, tuple(s for _, s in axes))


def convolution_of(e: Equation, strides: Sequence[Strides] | None = None) -> Convolution:
    """`strides` of operands and result; row-major where none are given."""
    values = (*e.inputs, e.outputs[0])
    given = strides or [row_strides(extents(v)) for v in values]
    a, b, out = (_channels_last(v, s) for v, s in zip(values, given, strict=True))
    view = _VIEWS[e.primitive.name]
    x, w, y = {"forward": (a, b, out), "input_grad": (out, b, a), "weight_grad": (a, out, b)}[view]
    at = e.attributes

    def two(name: str, fill: int) -> tuple[int, ...]:
        found = tuple(at[name])
        return found + (fill,) * (2 - len(found))

    return Convolution(
        view, x, w, y, two("stride", 1), two("low", 0), two("high", 0), two("x_dilation", 1),
        two("w_dilation", 1), at["groups"], accumulated(a.dtype, out.dtype),
    )  # fmt: skip


def is_planar(e: Equation) -> bool:
    """Has it at most two spatial axes and something to do?"""
    values = (*e.inputs, e.outputs[0])
    return all(2 <= len(extents(v)) <= 4 and 0 not in extents(v) for v in values)
