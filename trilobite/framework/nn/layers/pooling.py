"""Pooling layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from trilobite.framework.nn import functional as F
from trilobite.framework.nn.layers.base import FunctionLayer, shown
from trilobite.framework.nn.module import Module
from trilobite.framework.tensor import Tensor


class _MaxPool(Module):
    function: ClassVar[Callable[..., Any]]

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input: Tensor) -> Any:
        return type(self).function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            self.ceil_mode,
            self.return_indices,
        )

    def extra_repr(self) -> str:
        return shown(self, "kernel_size", "stride", "padding", "dilation", "ceil_mode")


class MaxPool1d(_MaxPool):
    """The largest of each window of (N, C, L)."""

    function = F.max_pool1d


class MaxPool2d(_MaxPool):
    """The largest of each window of (N, C, H, W)."""

    function = F.max_pool2d


class MaxPool3d(_MaxPool):
    """The largest of each window of (N, C, D, H, W)."""

    function = F.max_pool3d


class _MaxUnpool(Module):
    function: ClassVar[Callable[..., Tensor]]

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        self.kernel_size, self.stride, self.padding = (
            kernel_size,
            kernel_size if stride is None else stride,
            padding,
        )

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        return type(self).function(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return shown(self, "kernel_size", "stride", "padding")


class MaxUnpool1d(_MaxUnpool):
    """Pooled elements back where MaxPool1d found them."""

    function = F.max_unpool1d


class MaxUnpool2d(_MaxUnpool):
    """Pooled elements back where MaxPool2d found them."""

    function = F.max_unpool2d


class MaxUnpool3d(_MaxUnpool):
    """Pooled elements back where MaxPool3d found them."""

    function = F.max_unpool3d


class AvgPool1d(FunctionLayer):
    """The average of each window of (N, C, L)."""

    function = F.avg_pool1d


class AvgPool2d(FunctionLayer):
    """The average of each window of (N, C, H, W)."""

    function = F.avg_pool2d


class AvgPool3d(FunctionLayer):
    """The average of each window of (N, C, D, H, W)."""

    function = F.avg_pool3d


class LPPool1d(FunctionLayer):
    """The p-norm of each window of (N, C, L)."""

    function = F.lp_pool1d


class LPPool2d(FunctionLayer):
    """The p-norm of each window of (N, C, H, W)."""

    function = F.lp_pool2d


class LPPool3d(FunctionLayer):
    """The p-norm of each window of (N, C, D, H, W)."""

    function = F.lp_pool3d


class AdaptiveAvgPool1d(FunctionLayer):
    """Averages to a given length."""

    function = F.adaptive_avg_pool1d


class AdaptiveAvgPool2d(FunctionLayer):
    """Averages to a given size."""

    function = F.adaptive_avg_pool2d


class AdaptiveAvgPool3d(FunctionLayer):
    """Averages to a given size."""

    function = F.adaptive_avg_pool3d


class AdaptiveMaxPool1d(FunctionLayer):
    """Largest elements to a given length."""

    function = F.adaptive_max_pool1d


class AdaptiveMaxPool2d(FunctionLayer):
    """Largest elements to a given size."""

    function = F.adaptive_max_pool2d


class FractionalMaxPool2d(FunctionLayer):
    """The largest of windows whose places are drawn."""

    function = F.fractional_max_pool2d


class FractionalMaxPool3d(FunctionLayer):
    """The largest of windows whose places are drawn."""

    function = F.fractional_max_pool3d


class AdaptiveMaxPool3d(FunctionLayer):
    """Largest elements to a given size."""

    function = F.adaptive_max_pool3d
