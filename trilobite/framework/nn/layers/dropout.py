"""Dropout layers: they drop in training and pass everything in evaluation."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.framework.nn import functional as F
from trilobite.framework.nn.layers.base import shown
from trilobite.framework.nn.module import Module
from trilobite.framework.tensor import Tensor


class Dropout(Module):
    """Zero each element with probability p, scale the others up."""

    function: ClassVar[Callable[..., Tensor]] = F.dropout

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        if not 0 <= p <= 1:
            raise ArgumentError(
                f"{type(self).__name__}(p={p})",
                where=user_location(),
                expected="0 <= p <= 1",
                remedy="p is the probability that an element is dropped",
            )
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        return type(self).function(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return shown(self, "p", "inplace")


class Dropout1d(Dropout):
    """Whole channels of (N, C, L)."""

    function = F.dropout1d


class Dropout2d(Dropout):
    """Whole channels of (N, C, H, W)."""

    function = F.dropout2d


class Dropout3d(Dropout):
    """Whole channels of (N, C, D, H, W)."""

    function = F.dropout3d


class AlphaDropout(Dropout):
    """Dropout that keeps selu's mean and variance."""

    function = F.alpha_dropout


class FeatureAlphaDropout(Dropout):
    """AlphaDropout of whole channels."""

    function = F.feature_alpha_dropout
