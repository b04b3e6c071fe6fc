"""Tiny YOLOv3: images (N, 3, H, W) to boxes at two scales, (N, 3·(5 + classes), H/32, W/32) and finer by two.

Redmon and Farhadi, "YOLOv3: an incremental improvement", 2018, in the small form of its authors. Sides are
multiples of 32. `decode` turns what it gives into boxes; which of them to keep is the caller's business.
"""

from __future__ import annotations

from itertools import pairwise

import trilobite as tb
from trilobite.framework import nn
from trilobite.framework.nn import functional as F
from trilobite.framework.tensor import Tensor

ANCHORS = (((81, 82), (135, 169), (344, 319)), ((10, 14), (23, 27), (37, 58)))  # pixels, coarse scale first


class Convolution(nn.Module):
    """Without bias, with a batch norm and a leaky ReLU."""

    def __init__(self, inputs: int, outputs: int, size: int) -> None:
        self.conv = nn.Conv2d(inputs, outputs, size, padding=size // 2, bias=False)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        return F.leaky_relu(self.norm(self.conv(x)), 0.1)


class TinyYOLOv3(nn.Module):
    def __init__(self, classes: int = 80) -> None:
        outputs = 3 * (5 + classes)
        sizes = (3, 16, 32, 64, 128, 256, 512, 1024)
        self.trunk = nn.ModuleList([Convolution(i, o, 3) for i, o in pairwise(sizes)])
        self.neck = Convolution(1024, 256, 1)
        self.coarse = nn.Sequential(Convolution(256, 512, 3), nn.Conv2d(512, outputs, 1))
        self.narrow = Convolution(256, 128, 1)
        self.fine = nn.Sequential(Convolution(384, 256, 3), nn.Conv2d(256, outputs, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        beside = x
        for number, layer in enumerate(self.trunk):
            x = layer(x)
            if number == 4:
                beside = x
            if number < 5:
                x = F.max_pool2d(x, 2)
            elif number == 5:
                x = F.max_pool2d(F.pad(x, (0, 1, 0, 1), value=float("-inf")), 2, 1)
        x = self.neck(x)
        finer = F.interpolate(self.narrow(x), scale_factor=2)
        return self.coarse(x), self.fine(tb.concat([finer, beside], axis=1))


def decode(scores: Tensor, anchors: tuple[tuple[int, int], ...], stride: int) -> Tensor:
    """(N, boxes, 5 + classes): centre, width and height in pixels, then the chances."""
    n, channels, rows, columns = scores.shape
    parts = scores.reshape(n, len(anchors), channels // len(anchors), rows, columns).permute(0, 1, 3, 4, 2)
    y, x = tb.meshgrid(tb.arange(rows), tb.arange(columns), indexing="ij")
    grid = tb.stack([x, y], axis=-1).astype(scores.dtype)
    centre = (parts[..., :2].sigmoid() + grid) * stride
    shape = tb.tensor(anchors, dtype=scores.dtype).reshape(1, len(anchors), 1, 1, 2)
    size = parts[..., 2:4].exp() * shape
    joined = tb.concat([centre, size, parts[..., 4:].sigmoid()], axis=-1)
    boxes: Tensor = joined.reshape(n, -1, channels // len(anchors))
    return boxes
