"""GoogLeNet: images (N, 3, H, W) to class scores (N, classes).

Szegedy and others, "Going deeper with convolutions", 2014, as torchvision has it: batch norms behind the
convolutions, 3×3 in place of 5×5, without the auxiliary classifiers, which only training used.
"""

from __future__ import annotations

from collections.abc import Sequence

import trilobite as tb
from trilobite.framework import nn
from trilobite.framework.nn import functional as F
from trilobite.framework.tensor import Tensor

# Channels of each inception: the 1×1, the 3×3 (before, after), the "5×5" (before, after), the pooled.
PLAN = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}


class Convolution(nn.Module):
    def __init__(self, inputs: int, outputs: int, size: int, stride: int = 1) -> None:
        self.conv = nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)
        self.bn = nn.BatchNorm2d(outputs, eps=1e-3)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.bn(self.conv(x)))


class Inception(nn.Module):
    """Four branches side by side, joined by channels."""

    def __init__(self, inputs: int, plan: Sequence[int]) -> None:
        one, before3, after3, before5, after5, pooled = plan
        self.branch1 = Convolution(inputs, one, 1)
        self.branch2 = nn.Sequential(Convolution(inputs, before3, 1), Convolution(before3, after3, 3))
        self.branch3 = nn.Sequential(Convolution(inputs, before5, 1), Convolution(before5, after5, 3))
        self.branch4 = nn.Sequential(nn.MaxPool2d(3, 1, 1), Convolution(inputs, pooled, 1))

    def forward(self, x: Tensor) -> Tensor:
        branches = (self.branch1, self.branch2, self.branch3, self.branch4)
        out: Tensor = tb.concat([branch(x) for branch in branches], axis=1)
        return out


class GoogLeNet(nn.Module):
    def __init__(self, classes: int = 1000, dropout: float = 0.2) -> None:
        self.conv1, self.maxpool1 = Convolution(3, 64, 7, 2), nn.MaxPool2d(3, 2, ceil_mode=True)
        self.conv2, self.conv3 = Convolution(64, 64, 1), Convolution(64, 192, 3)
        self.maxpool2 = nn.MaxPool2d(3, 2, ceil_mode=True)
        inputs = 192
        for name, plan in PLAN.items():
            self.add_module(f"inception{name}", Inception(inputs, plan))
            inputs = plan[0] + plan[2] + plan[4] + plan[5]
        self.maxpool3, self.maxpool4 = nn.MaxPool2d(3, 2, ceil_mode=True), nn.MaxPool2d(2, 2, ceil_mode=True)
        self.dropout, self.fc = nn.Dropout(dropout), nn.Linear(inputs, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool2(self.conv3(self.conv2(self.maxpool1(self.conv1(x)))))
        for name in PLAN:
            x = getattr(self, f"inception{name}")(x)
            if name == "3b":
                x = self.maxpool3(x)
            elif name == "4e":
                x = self.maxpool4(x)
        scores: Tensor = self.fc(self.dropout(x.mean((2, 3))))
        return scores
