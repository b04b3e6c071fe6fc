"""Linear maps of the last axis."""

from __future__ import annotations

from trilobite.base.errors import ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.autocast import operands
from trilobite.framework.nn.composites.arithmetic import add, reshape
from trilobite.framework.nn.functional.calling import run
from trilobite.framework.ops.meeting import common
from trilobite.framework.tensor import Tensor
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.types import size_of


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x·weightᵀ + bias over the last axis; weight is (out, in), or (in,) for one output without an axis."""
    return run(linear_of, input, weight, bias)


def linear_of(x: Value, weight: Value, bias: Value | None = None) -> Value:
    """`linear` over values."""
    x, weight, bias = operands("linear", x, weight, bias)
    x, weight = common(x, weight)
    if not x.ndim or weight.ndim not in (1, 2) or x.shape[-1] != weight.shape[-1]:
        raise ShapeError(
            f"linear of an input of shape {tuple(x.shape)} with a weight of shape {tuple(weight.shape)}",
            where=user_location(),
            expected=f"a last axis of {weight.shape[-1] if weight.ndim else 'as many'} features",
            remedy="build the layer for the input's last axis, or reshape the input",
        )
    out = table["dot"](x, weight, contract=((x.ndim - 1,), (weight.ndim - 1,)), batch=((), ()), dtype=x.dtype)
    return out if bias is None else add(out, bias)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x1ᵀ·weight[k]·x2 + bias[k] for every output k; leading axes of the inputs agree."""
    return run(_bilinear, input1, input2, weight, bias)


def _bilinear(x1: Value, x2: Value, weight: Value, bias: Value | None = None) -> Value:
    x1, x2, weight, bias = operands("bilinear", x1, x2, weight, bias)
    x1, x2, weight = common(x1, x2, weight)
    lead = x1.shape[:-1]
    fits = x1.ndim and x2.ndim and lead == x2.shape[:-1] and weight.ndim == 3
    if not fits or (x1.shape[-1], x2.shape[-1]) != weight.shape[1:]:
        raise ShapeError(
            f"bilinear of shapes {tuple(x1.shape)}, {tuple(x2.shape)} with a weight of {tuple(weight.shape)}",
            where=user_location(),
            expected="equal leading axes, and a weight of (out, first features, second features)",
        )
    rows = size_of(lead)
    a, b = reshape(x1, shape=(rows, x1.shape[-1])), reshape(x2, shape=(rows, x2.shape[-1]))
    mixed = table["dot"](a, weight, contract=((1,), (1,)), batch=((), ()), dtype=a.dtype)  # rows, out, second
    out = table["dot"](mixed, b, contract=((2,), (1,)), batch=((0,), (0,)), dtype=a.dtype)
    out = reshape(out, shape=(*lead, weight.shape[0]))
    return out if bias is None else add(out, bias)
