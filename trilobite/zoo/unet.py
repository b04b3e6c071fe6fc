"""U-Net: images (N, channels, H, W) to scores of every pixel (N, classes, H, W).

Ronneberger, Fischer and Brox, "U-Net: convolutional networks for biomedical image segmentation", 2015. The
convolutions are padded, so that the result has the picture's size; sides are multiples of 16.
"""

from __future__ import annotations

import trilobite as tb
from trilobite.framework import nn
from trilobite.framework.nn import functional as F
from trilobite.framework.tensor import Tensor

WIDTHS = (64, 128, 256, 512, 1024)


class Double(nn.Module):
    """Two convolutions of 3×3."""

    def __init__(self, inputs: int, outputs: int) -> None:
        self.first = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.second(F.relu(self.first(x))))


class UNet(nn.Module):
    def __init__(self, channels: int = 1, classes: int = 2, widths: tuple[int, ...] = WIDTHS) -> None:
        inputs = (channels, *widths[:-1])
        self.down = nn.ModuleList([Double(i, o) for i, o in zip(inputs, widths, strict=True)])
        steps = list(zip(widths[::-1], widths[-2::-1], strict=False))
        self.grow = nn.ModuleList([nn.ConvTranspose2d(i, o, 2, stride=2) for i, o in steps])
        self.up = nn.ModuleList([Double(2 * o, o) for _, o in steps])
        self.last = nn.Conv2d(widths[0], classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        passed: list[Tensor] = []
        for number, block in enumerate(self.down):
            x = block(x if number == 0 else F.max_pool2d(x, 2))
            passed.append(x)
        for grow, block, beside in zip(self.grow, self.up, passed[-2::-1], strict=True):
            x = block(tb.concat([beside, grow(x)], axis=1))
        scores: Tensor = self.last(x)
        return scores
