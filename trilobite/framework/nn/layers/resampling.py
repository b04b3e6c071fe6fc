"""Layers that change the size of space, or exchange it for channels."""

from __future__ import annotations

from typing import Any

from trilobite.framework.nn import functional as F
from trilobite.framework.nn.layers.base import FunctionLayer, shown
from trilobite.framework.nn.module import Module
from trilobite.framework.tensor import Tensor


class Upsample(Module):
    """Space at another size."""

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        self.size, self.scale_factor, self.mode = size, scale_factor, mode
        self.align_corners, self.recompute_scale_factor = align_corners, recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor
        )

    def extra_repr(self) -> str:
        return shown(self, "scale_factor" if self.scale_factor is not None else "size", "mode")


class UpsamplingNearest2d(Upsample):
    """Upsample by the nearest neighbour."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """Upsample bilinearly, corners on corners."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "bilinear", True)


class PixelShuffle(FunctionLayer):
    """(..., C·r², H, W) to (..., C, H·r, W·r)."""

    function = F.pixel_shuffle


class PixelUnshuffle(FunctionLayer):
    """(..., C, H·r, W·r) to (..., C·r², H, W)."""

    function = F.pixel_unshuffle


class ChannelShuffle(FunctionLayer):
    """Channels dealt out among groups."""

    function = F.channel_shuffle
