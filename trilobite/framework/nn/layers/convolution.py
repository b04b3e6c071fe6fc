"""Convolution layers, plain and transposed, in 1, 2 and 3 dimensions."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.framework.nn import functional as F
from trilobite.framework.nn import init
from trilobite.framework.nn.functional.convolution import padding_of
from trilobite.framework.nn.functional.padding import checked_rank
from trilobite.framework.nn.module import Module
from trilobite.framework.nn.parameter import Parameter
from trilobite.framework.nn.settings import check_sizes, repeated
from trilobite.framework.ops.creation import zeros
from trilobite.framework.tensor import Tensor

_MODES = ("zeros", "reflect", "replicate", "circular")


class _Conv(Module):
    """What plain and transposed convolutions share."""

    space: ClassVar[int]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        groups: int,
    ) -> None:
        name, n = type(self).__name__, self.space
        check_sizes(name, in_channels=in_channels, out_channels=out_channels, groups=groups)
        if in_channels % groups or out_channels % groups:
            raise ArgumentError(
                f"{name} of {in_channels} to {out_channels} channels in {groups} groups",
                where=user_location(),
                expected="groups that divide both numbers of channels",
            )
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = repeated("kernel_size", kernel_size, n)
        self.stride, self.dilation = repeated("stride", stride, n), repeated("dilation", dilation, n)
        self.padding = padding if isinstance(padding, str) else repeated("padding", padding, n)
        for what in ("kernel_size", "stride", "dilation"):
            if min(getattr(self, what)) < 1:
                raise ArgumentError(
                    f"{name}: {what} {getattr(self, what)}", where=user_location(), expected="at least 1"
                )

    weight: Parameter
    bias: Parameter | None

    def _make(self, shape: tuple[int, ...], bias: bool, dtype: Any) -> None:
        self.weight = Parameter(zeros(shape, dtype=dtype))
        self.register_parameter("bias", Parameter(zeros((self.out_channels,), dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform within ±1/sqrt(inputs that reach one output)."""
        bound = 1 / math.sqrt(math.prod(self.weight.shape[1:]))
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        )
        for name, plain in (("padding", (0,)), ("dilation", (1,)), ("groups", 1)):
            value = self.__dict__[name]
            if value not in (plain, plain * self.space if isinstance(plain, tuple) else plain):
                text += f", {name}={value!r}"
        return text if self.bias is not None else f"{text}, bias=False"


_ConvNd = _Conv  # PyTorch's name


class _Plain(_Conv):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        dtype: Any = None,
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups)
        if padding_mode not in _MODES:
            raise ArgumentError(
                f"padding_mode {padding_mode!r}",
                where=user_location(),
                expected=f"one of {', '.join(_MODES)}",
            )
        self.padding_mode = padding_mode
        padding_of(
            self.padding, self.kernel_size, self.stride, self.dilation
        )  # refuse early what makes no sense
        self._make((out_channels, in_channels // groups, *self.kernel_size), bias, dtype)

    def forward(self, input: Tensor) -> Tensor:
        checked_rank(type(self).__name__, input, self.space)
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            low, high = padding_of(padding, self.kernel_size, self.stride, self.dilation)
            sides = [n for a, b in zip(reversed(low), reversed(high), strict=True) for n in (a, b)]
            input, padding = F.pad(input, sides, self.padding_mode), 0
        conv = (F.conv1d, F.conv2d, F.conv3d)[self.space - 1]
        return conv(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def extra_repr(self) -> str:
        text = super().extra_repr()
        return text if self.padding_mode == "zeros" else f"{text}, padding_mode={self.padding_mode!r}"


class Conv1d(_Plain):
    """Convolution of (N, C, L)."""

    space = 1


class Conv2d(_Plain):
    """Convolution of (N, C, H, W)."""

    space = 2


class Conv3d(_Plain):
    """Convolution of (N, C, D, H, W)."""

    space = 3


class _Transposed(_Conv):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        dtype: Any = None,
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups)
        if padding_mode != "zeros" or isinstance(padding, str):
            raise ArgumentError(
                f"{type(self).__name__} with padding {padding!r} of {padding_mode!r}",
                where=user_location(),
                expected="numbers, and padding_mode 'zeros'",
            )
        self.output_padding = repeated("output_padding", output_padding, self.space)
        self._make((in_channels, out_channels // groups, *self.kernel_size), bias, dtype)

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        checked_rank(type(self).__name__, input, self.space)
        extra = self.output_padding if output_size is None else self._extra(input, output_size)
        conv = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[self.space - 1]
        return conv(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )

    def _extra(self, x: Tensor, output_size: Any) -> tuple[int, ...]:
        """The output padding that gives a size that several strides fit."""
        wanted = repeated("output_size", tuple(output_size)[-self.space :], self.space)
        rows: Any = zip(
            x.shape[-self.space :], self.stride, self.padding, self.dilation, self.kernel_size, strict=True
        )
        least = [(n - 1) * s - 2 * p + d * (k - 1) + 1 for n, s, p, d, k in rows]
        extra = tuple(w - n for w, n in zip(wanted, least, strict=True))
        if any(not 0 <= e < s for e, s in zip(extra, self.stride, strict=True)):
            most = tuple(n + s - 1 for n, s in zip(least, self.stride, strict=True))
            raise ArgumentError(
                f"output_size {wanted} of {type(self).__name__}",
                where=user_location(),
                expected=f"between {tuple(least)} and {most}",
            )
        return extra


class ConvTranspose1d(_Transposed):
    """Transposed convolution of (N, C, L)."""

    space = 1


class ConvTranspose2d(_Transposed):
    """Transposed convolution of (N, C, H, W)."""

    space = 2


class ConvTranspose3d(_Transposed):
    """Transposed convolution of (N, C, D, H, W)."""

    space = 3
