"""Activations as layers: each is its function with settings."""

from __future__ import annotations

from typing import Any

from trilobite.base.errors import ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.nn import functional as F
from trilobite.framework.nn import init
from trilobite.framework.nn.layers.base import FunctionLayer, shown
from trilobite.framework.nn.module import Module
from trilobite.framework.nn.parameter import Parameter
from trilobite.framework.ops.creation import zeros
from trilobite.framework.tensor import Tensor


class ReLU(FunctionLayer):
    """max(x, 0)."""

    function = F.relu


class ReLU6(FunctionLayer):
    """x between 0 and 6."""

    function = F.relu6


class LeakyReLU(FunctionLayer):
    """x, or negative_slope·x below 0."""

    function = F.leaky_relu


class Hardtanh(FunctionLayer):
    """x between two bounds."""

    function = F.hardtanh


class Threshold(FunctionLayer):
    """x above the threshold, else a value."""

    function = F.threshold


class Hardshrink(FunctionLayer):
    """x, and 0 within ±lambd."""

    function = F.hardshrink


class Softshrink(FunctionLayer):
    """x moved towards 0 by lambd."""

    function = F.softshrink


class Tanhshrink(FunctionLayer):
    """x - tanh(x)."""

    function = F.tanhshrink


class Sigmoid(FunctionLayer):
    """1/(1+e^-x)."""

    function = F.sigmoid


class LogSigmoid(FunctionLayer):
    """log(sigmoid(x))."""

    function = F.logsigmoid


class Hardsigmoid(FunctionLayer):
    """x/6 + 1/2 between 0 and 1."""

    function = F.hardsigmoid


class SiLU(FunctionLayer):
    """x·sigmoid(x)."""

    function = F.silu


class Hardswish(FunctionLayer):
    """x·hardsigmoid(x)."""

    function = F.hardswish


class Mish(FunctionLayer):
    """x·tanh(softplus(x))."""

    function = F.mish


class ELU(FunctionLayer):
    """x, or alpha·(e^x - 1) below 0."""

    function = F.elu


class SELU(FunctionLayer):
    """elu scaled so that activations keep mean 0 and variance 1."""

    function = F.selu


class CELU(FunctionLayer):
    """x, or alpha·(e^(x/alpha) - 1) below 0."""

    function = F.celu


class Softplus(FunctionLayer):
    """log(1 + e^(beta·x))/beta."""

    function = F.softplus


class Softsign(FunctionLayer):
    """x/(1+|x|)."""

    function = F.softsign


class Tanh(FunctionLayer):
    """The hyperbolic tangent."""

    function = F.tanh


class GELU(FunctionLayer):
    """x·Φ(x)."""

    function = F.gelu


class GLU(FunctionLayer):
    """The first half along an axis times the sigmoid of the second."""

    function = F.glu


class _AlongAxis(Module):
    """softmax and its kin: the axis is kept."""

    def __init__(self, dim: int | None = None) -> None:
        self.dim = dim

    def extra_repr(self) -> str:
        return shown(self, "dim")


class Softmax(_AlongAxis):
    """e^x, summing to 1 along an axis."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim)


class LogSoftmax(_AlongAxis):
    """log(softmax(x))."""

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim)


class Softmin(_AlongAxis):
    """softmax(-x)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim)


class Softmax2d(Module):
    """softmax over the channels of (N, C, H, W) or (C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise ShapeError(
                f"Softmax2d of shape {tuple(input.shape)}", where=user_location(), expected="3 or 4 axes"
            )
        return F.softmax(input, -3)


class PReLU(Module):
    """x, or weight·x below 0, with one weight for all or one per channel."""

    def __init__(self, num_parameters: int = 1, init: float = 0.25, dtype: Any = None) -> None:
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(zeros((num_parameters,), dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return shown(self, "num_parameters")


class RReLU(Module):
    """leaky_relu with random slopes in training, their mean in evaluation."""

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return shown(self, "lower", "upper")
