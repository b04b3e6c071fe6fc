"""Convolutions of tensors, and their transposes. A batch axis may be missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trilobite.base.errors import ArgumentError, ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.autocast import operands
from trilobite.framework.nn.composites.arithmetic import add, along, reshape
from trilobite.framework.nn.functional.calling import run
from trilobite.framework.nn.functional.padding import checked_rank
from trilobite.framework.nn.settings import repeated
from trilobite.framework.ops.meeting import common
from trilobite.framework.tensor import Tensor
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.types import Dim

Ints = tuple[int, ...]


def _with_batch(x: Value, fn: Callable[[Value], Value], space: int) -> Value:
    """`fn` of x with a batch axis, which is made for it and taken away again where it is missing."""
    if x.ndim == space + 2:
        return fn(x)
    out = fn(reshape(x, shape=(1, *x.shape)))
    return reshape(out, shape=out.shape[1:])


def _shifted(out: Value, bias: Value | None) -> Value:
    return out if bias is None else add(out, along(bias, (1,), out.ndim))


def padding_of(padding: Any, kernel: Sequence[Dim], stride: Ints, dilation: Ints) -> tuple[Ints, Ints]:
    """Padding below and above per axis; 'same' keeps the size, with the odd one above."""
    space = len(stride)
    if not isinstance(padding, str):
        both = repeated("padding", padding, space)
        if min(both, default=0) < 0:
            raise ArgumentError(
                f"padding {padding!r}", where=user_location(), expected="numbers of at least 0"
            )
        return both, both
    if padding == "valid":
        return (0,) * space, (0,) * space
    if padding != "same":
        raise ArgumentError(
            f"padding {padding!r}", where=user_location(), expected="numbers, 'valid' or 'same'"
        )
    if any(s != 1 for s in stride):
        raise ArgumentError(
            f"padding 'same' with stride {stride}", where=user_location(), expected="stride 1"
        )
    totals = [d * (int(k) - 1) for k, d in zip(kernel, dilation, strict=True)]
    return tuple(t // 2 for t in totals), tuple(t - t // 2 for t in totals)


def _conv(
    x: Value,
    weight: Value,
    bias: Value | None = None,
    *,
    space: int,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Value:
    name = f"conv{space}d"
    checked_rank(name, x, space)
    x, weight, bias = operands("conv", x, weight, bias)
    x, weight = common(x, weight)
    stride, dilation = repeated("stride", stride, space), repeated("dilation", dilation, space)
    _check_channels(name, x.shape[-space - 1], weight, space, groups)
    low, high = padding_of(padding, weight.shape[2:], stride, dilation)
    window = {"stride": stride, "low": low, "high": high, "w_dilation": dilation, "x_dilation": (1,) * space}
    out = _with_batch(
        x, lambda v: _shifted(table["conv"](v, weight, groups=groups, dtype=v.dtype, **window), bias), space
    )
    return out


def _check_channels(name: str, channels: Dim, weight: Value, space: int, groups: int) -> None:
    if weight.ndim != space + 2:
        raise ShapeError(
            f"{name} with a weight of shape {tuple(weight.shape)}",
            where=user_location(),
            expected=f"{space + 2} axes: outputs, inputs of a group, and a kernel of {space}",
        )
    if groups < 1 or weight.shape[0] % groups or channels != weight.shape[1] * groups:
        raise ShapeError(
            f"{name} of {channels} channels in {groups} groups, weight of shape {tuple(weight.shape)}",
            where=user_location(),
            expected=f"{weight.shape[1] * groups} channels; groups divide the {weight.shape[0]} outputs",
            remedy="channels stand in axis 1 of a batch: move them there, or build the layer for them",
        )


def conv1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Convolution of (N, C, L) with kernels (K, C/groups, R)."""
    return run(
        _conv, input, weight, bias, space=1, stride=stride, padding=padding, dilation=dilation, groups=groups
    )


def conv2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Convolution of (N, C, H, W) with kernels (K, C/groups, R, S)."""
    return run(
        _conv, input, weight, bias, space=2, stride=stride, padding=padding, dilation=dilation, groups=groups
    )


def conv3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Convolution of (N, C, D, H, W) with kernels (K, C/groups, Q, R, S)."""
    return run(
        _conv, input, weight, bias, space=3, stride=stride, padding=padding, dilation=dilation, groups=groups
    )


# -- transposed ----------------------------------------------------------------------------------------------


def _conv_transpose(
    x: Value, weight: Value, bias: Value | None = None, *, space: int, stride: Any, padding: Any,
    output_padding: Any, groups: int, dilation: Any,
) -> Value:  # fmt: skip
    name = f"conv_transpose{space}d"
    checked_rank(name, x, space)
    x, weight, bias = operands("conv_transpose", x, weight, bias)
    x, weight = common(x, weight)
    numbers = (
        ("stride", stride),
        ("padding", padding),
        ("output_padding", output_padding),
        ("dilation", dilation),
    )
    s, p, extra, d = (repeated(what, value, space) for what, value in numbers)
    if weight.ndim != space + 2 or x.shape[-space - 1] != weight.shape[0] or weight.shape[0] % groups:
        raise ShapeError(
            f"{name} of shape {tuple(x.shape)} in {groups} groups, weight of shape {tuple(weight.shape)}",
            where=user_location(),
            expected="a weight of (channels, outputs of a group, kernel); groups divide the channels",
        )
    if any(e >= max(a, b) for e, a, b in zip(extra, s, d, strict=True)):
        raise ArgumentError(
            f"output_padding {extra} with stride {s} and dilation {d}",
            where=user_location(),
            expected="numbers below the stride or the dilation",
        )
    window = {
        "stride": s,
        "low": p,
        "high": tuple(a - e for a, e in zip(p, extra, strict=True)),
        "w_dilation": d,
    }
    kernel = weight.shape[2:]

    def transposed(v: Value) -> Value:
        sizes = zip(v.shape[2:], s, p, extra, d, kernel, strict=True)
        out = tuple((n - 1) * a - 2 * b + c * (k - 1) + e + 1 for n, a, b, e, c, k in sizes)
        y = table["conv_input_grad"](
            v, weight, space=out, groups=groups, dtype=v.dtype, x_dilation=(1,) * space, **window
        )
        return _shifted(y, bias)

    return _with_batch(x, transposed, space)


def conv_transpose1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
) -> Tensor:  # fmt: skip
    """The transpose of conv1d: kernels are (C, K/groups, R)."""
    return run(
        _conv_transpose, input, weight, bias, space=1, stride=stride, padding=padding,
        output_padding=output_padding, groups=groups, dilation=dilation,
    )  # fmt: skip


def conv_transpose2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
) -> Tensor:  # fmt: skip
    """The transpose of conv2d: kernels are (C, K/groups, R, S)."""
    return run(
        _conv_transpose, input, weight, bias, space=2, stride=stride, padding=padding,
        output_padding=output_padding, groups=groups, dilation=dilation,
    )  # fmt: skip


def conv_transpose3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
) -> Tensor:  # fmt: skip
    """The transpose of conv3d: kernels are (C, K/groups, Q, R, S)."""
    return run(
        _conv_transpose, input, weight, bias, space=3, stride=stride, padding=padding,
        output_padding=output_padding, groups=groups, dilation=dilation,
    )  # fmt: skip
