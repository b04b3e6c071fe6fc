"""Pooling over windows that slide: largest, average, p-norm; and putting pooled elements back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from trilobite.base import dtypes as dt
from trilobite.base.errors import ArgumentError, ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.nn.composites.arithmetic import (
    absolute,
    check_real,
    div,
    eq,
    mul,
    neg,
    power,
    reshape,
    where,
    wide,
)
from trilobite.framework.nn.functional.calling import run, run_many
from trilobite.framework.nn.functional.padding import checked_rank
from trilobite.framework.nn.settings import repeated
from trilobite.framework.ops.meeting import astype
from trilobite.framework.replay.functions import replayed
from trilobite.framework.tensor import Tensor
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.types import Dim, size_of

Ints = tuple[int, ...]


class Windows:
    """Where windows stand over the last axes of a tensor. `high` includes what ceil mode adds beyond the
    padding.
    """

    def __init__(
        self,
        what: str,
        x: Any,
        space: int,
        size: Any,
        stride: Any,
        padding: Any,
        dilation: Any = 1,
        ceil: bool = False,
    ) -> None:
        checked_rank(what, x, space)
        self.size = repeated("kernel_size", size, space)
        self.stride = (
            self.size
            if stride is None or (type(stride) is tuple and not stride)
            else repeated("stride", stride, space)
        )
        self.low, self.dilation = repeated("padding", padding, space), repeated("dilation", dilation, space)
        if any(
            not 0 <= 2 * p <= d * (k - 1) + 1
            for p, k, d in zip(self.low, self.size, self.dilation, strict=True)
        ):
            raise ArgumentError(
                f"{what}: padding {self.low} of windows {self.size}",
                where=user_location(),
                expected="at most half a window",
            )
        plane = x.shape[-space:]
        self.high = self.low
        if ceil:
            rows = zip(plane, self.size, self.stride, self.low, self.dilation, strict=True)
            self.high = tuple(_ceil_high(*row) for row in rows)

    def attributes(self) -> dict[str, Ints]:
        return {name: getattr(self, name) for name in ("size", "stride", "low", "high", "dilation")}


def _ceil_high(n: Dim, size: int, stride: int, padding: int, dilation: int) -> int:
    """Padding above, with as much more as the last, incomplete window needs if it begins inside."""
    extent = dilation * (size - 1) + 1
    span = n + 2 * padding - extent
    count = -(-span // stride) + 1
    if (count - 1) * stride >= n + padding:
        count -= 1
    return padding + max(0, (count - 1) * stride - span)


# -- largest -------------------------------------------------------------------------------------------------


@replayed
def _max_pool(
    space: int,
    input: Tensor,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    indices: bool,
) -> Any:
    windows = Windows(
        f"max_pool{space}d", input, space, kernel_size, stride, padding, dilation, ceil_mode
    ).attributes()
    if not indices:
        return run(_largest, input, **windows)
    return run_many(_largest_and_where, input, **windows)


def _largest(x: Value, **windows: Ints) -> Value:
    check_real("max_pool", x)
    return table["window_reduce"](x, kind="max", **windows)


def _largest_and_where(x: Value, **windows: Ints) -> tuple[Value, Value]:
    return _largest(x, **windows), table["window_argmax"](x, **windows)


def max_pool1d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest of each window; with return_indices also where in the row it stands."""
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest of each window; with return_indices also where in the plane it stands."""
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool3d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest of each window; with return_indices also where in the volume it stands."""
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


# -- putting back --------------------------------------------------------------------------------------------


def _max_unpool(
    space: int, input: Tensor, indices: Tensor, kernel_size: Any, stride: Any, padding: Any, output_size: Any
) -> Tensor:
    what = f"max_unpool{space}d"
    windows = Windows(what, input, space, kernel_size, stride, padding)
    if indices.shape != input.shape:
        raise ShapeError(
            f"{what} of shape {tuple(input.shape)} with indices of shape {tuple(indices.shape)}",
            where=user_location(),
            expected="equal shapes",
        )
    rows = zip(input.shape[-space:], windows.size, windows.stride, windows.low, strict=True)
    usual = tuple((n - 1) * s - 2 * p + k for n, k, s, p in rows)
    plane = usual if output_size is None else repeated("output_size", tuple(output_size)[-space:], space)
    for want, n, s in zip(plane, usual, windows.stride, strict=True):
        if not n - s < want < n + s:
            raise ArgumentError(
                f"{what}: output_size {plane}",
                where=user_location(),
                expected=f"less than a stride away from {usual}",
            )
    return run(_put_back, input, indices, plane=plane)


def _put_back(x: Value, indices: Value, plane: Ints) -> Value:
    space = len(plane)
    lead, count = x.shape[:-space], size_of(x.shape[-space:])
    empty = table["full"](shape=(*lead, size_of(plane)), dtype=x.dtype, value=0)
    flat = [reshape(v, shape=(*lead, count)) for v in (indices, x)]
    out = table["scatter_along"](empty, *flat, axis=len(lead), kind="set")
    return reshape(out, shape=(*lead, *plane))


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """Pooled elements back where max_pool1d found them, zeros elsewhere."""
    return _max_unpool(1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """Pooled elements back where max_pool2d found them, zeros elsewhere."""
    return _max_unpool(2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """Pooled elements back where max_pool3d found them, zeros elsewhere."""
    return _max_unpool(3, input, indices, kernel_size, stride, padding, output_size)


# -- averages ------------------------------------------------------------------------------------------------


@replayed
def _avg_pool(
    space: int,
    input: Tensor,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_pad: bool,
    divisor: Any,
) -> Tensor:
    windows = Windows(f"avg_pool{space}d", input, space, kernel_size, stride, padding, 1, ceil_mode)
    if divisor is not None and divisor == 0:
        raise ArgumentError(
            "avg_pool with divisor_override 0", where=user_location(), expected="another number"
        )
    return run(_average, input, windows=windows, count_pad=count_pad, divisor=divisor)


def _average(x: Value, windows: Windows, count_pad: bool, divisor: int | None) -> Value:
    summed = table["window_reduce"](wide(x), kind="sum", **windows.attributes())
    if x.dtype in dt.INTEGERS:
        summed = astype(summed, dt.float64)  # the cast back takes what is behind the point away
    whole = count_pad and windows.high == windows.low
    if divisor is not None or whole or not any((*windows.low, *windows.high)):
        return astype(div(summed, float(divisor or math.prod(windows.size))), x.dtype)
    return astype(div(summed, _counts(x.shape[-len(windows.size) :], windows, count_pad, summed)), x.dtype)


def _counts(plane: Sequence[Dim], windows: Windows, count_pad: bool, like: Value) -> Value:
    """How many elements each window covers: those of the plane, perhaps also of the padding, never what ceil
    mode adds.
    """
    at = windows.attributes()
    ones = table["full"](shape=tuple(plane), dtype=like.dtype, value=1.0)
    if count_pad:
        low, zero = windows.low, (0,) * len(windows.low)
        ones = table["pad"](ones, low=low, high=low, between=zero, value=1.0)
        at = {**at, "low": zero, "high": tuple(h - p for h, p in zip(windows.high, low, strict=True))}
    return table["window_reduce"](ones, kind="sum", **at)


def avg_pool1d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:  # fmt: skip
    """The average of each window."""
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def avg_pool2d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """The average of each window."""
    return _avg_pool(2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def avg_pool3d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """The average of each window."""
    return _avg_pool(3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


# -- p-norms -------------------------------------------------------------------------------------------------


@replayed
def _lp_pool(space: int, input: Tensor, p: float, kernel_size: Any, stride: Any, ceil_mode: bool) -> Tensor:
    windows = Windows(f"lp_pool{space}d", input, space, kernel_size, stride, 0, 1, ceil_mode)
    if p == 0:
        raise ArgumentError(
            f"lp_pool{space}d with norm_type=0",
            where=user_location(),
            expected="a number that is not 0: the root of a count is none",
            remedy="count what is not zero with avg_pool of (x != 0)",
        )
    return run(_norm, input, windows=windows, p=float(p))


def _norm(x: Value, windows: Windows, p: float) -> Value:
    """(Σ x^p)^(1/p), the largest (smallest) magnitude for p = inf (-inf); an incomplete window counts as if
    it were full of its average.
    """
    w = wide(x)
    if math.isinf(p):
        sizes = absolute(w) if p > 0 else neg(absolute(w))
        out = table["window_reduce"](sizes, kind="max", **windows.attributes())
        return astype(out if p > 0 else neg(out), x.dtype)
    summed = mul(_average(_to_the(w, p), windows, True, None), float(math.prod(windows.size)))
    return astype(_at_zero(summed, 1.0 / p), x.dtype)


def _to_the(x: Value, p: float) -> Value:
    """x^p, with slope 0 where it has none at x = 0."""
    return power(x, p) if p >= 1 else _at_zero(x, p)


def _at_zero(x: Value, p: float) -> Value:
    """x^p, flat at x = 0."""
    still = eq(x, 0.0)
    return where(still, 0.0 if p > 0 else math.inf, power(where(still, 1.0, x), p))


def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """The p-norm of each window."""
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """The p-norm of each window."""
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """The p-norm of each window."""
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)
