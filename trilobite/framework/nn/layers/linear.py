"""Linear layers."""

from __future__ import annotations

import math
from typing import Any

from trilobite.framework.nn import functional as F
from trilobite.framework.nn import init
from trilobite.framework.nn.layers.base import shown
from trilobite.framework.nn.module import Module
from trilobite.framework.nn.parameter import Parameter
from trilobite.framework.nn.settings import check_sizes
from trilobite.framework.ops.creation import zeros
from trilobite.framework.tensor import Tensor


class Identity(Module):
    """What enters leaves."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        return input


class Linear(Module):
    """x·weightᵀ + bias over the last axis."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True, dtype: Any = None) -> None:
        check_sizes("Linear", in_features=in_features, out_features=out_features)
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(zeros((out_features, in_features), dtype=dtype))
        self.bias = Parameter(zeros((out_features,), dtype=dtype)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform within ±1/sqrt(in_features)."""
        bound = 1 / math.sqrt(self.in_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        )


class Bilinear(Module):
    """x1ᵀ·weight[k]·x2 + bias[k] for every output k."""

    def __init__(
        self, in1_features: int, in2_features: int, out_features: int, bias: bool = True, dtype: Any = None
    ) -> None:
        check_sizes(
            "Bilinear", in1_features=in1_features, in2_features=in2_features, out_features=out_features
        )
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = Parameter(zeros((out_features, in1_features, in2_features), dtype=dtype))
        self.bias = Parameter(zeros((out_features,), dtype=dtype)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform within ±1/sqrt(in1_features)."""
        bound = 1 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"{shown(self, 'in1_features', 'in2_features', 'out_features')}, bias={self.bias is not None}"
