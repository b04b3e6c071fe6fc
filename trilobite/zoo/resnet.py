"""ResNet: images (N, 3, H, W) to class scores (N, classes).

He et al., "Deep residual learning for image recognition", 2015. As usual today, a bottleneck strides in its
3×3 convolution. Parameters have torchvision's names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from trilobite.framework import nn
from trilobite.framework.nn import functional as F
from trilobite.framework.tensor import Tensor


def conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    """A convolution that keeps the size when it does not stride; the normalisation behind it has the bias."""
    return nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)


class BasicBlock(nn.Module):
    """Two 3×3 convolutions and a way past them."""

    expansion: ClassVar[int] = 1

    def __init__(self, inputs: int, width: int, stride: int, downsample: nn.Module | None) -> None:
        self.conv1, self.bn1 = conv(inputs, width, 3, stride), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = conv(width, width, 3), nn.BatchNorm2d(width)
        self.downsample = downsample

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    """1×1 to fewer channels, 3×3 among those, 1×1 to four times as many, and a way past."""

    expansion: ClassVar[int] = 4

    def __init__(self, inputs: int, width: int, stride: int, downsample: nn.Module | None) -> None:
        outputs = width * self.expansion
        self.conv1, self.bn1 = conv(inputs, width, 1), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = conv(width, width, 3, stride), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = conv(width, outputs, 1), nn.BatchNorm2d(outputs)
        self.downsample = downsample

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """Four stages of blocks. With `small_images` the stem keeps the size: 3×3 and no pooling."""

    def __init__(
        self,
        block: type[BasicBlock] | type[Bottleneck],
        depths: Sequence[int],
        classes: int = 1000,
        small_images: bool = False,
    ) -> None:
        self.small_images = small_images
        self.conv1 = conv(3, 64, 3) if small_images else conv(3, 64, 7, stride=2)
        self.bn1 = nn.BatchNorm2d(64)
        inputs = 64
        for stage, depth in enumerate(depths):
            width, stride = 64 * 2**stage, 1 if stage == 0 else 2
            blocks = []
            for i in range(depth):
                blocks.append(_block(block, inputs, width, stride if i == 0 else 1))
                inputs = width * block.expansion
            self.add_module(f"layer{stage + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(inputs, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        if not self.small_images:
            x = F.max_pool2d(x, 3, stride=2, padding=1)
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = stage(x)
        scores: Tensor = self.fc(x.mean((2, 3)))
        return scores

    layer1: nn.Sequential
    layer2: nn.Sequential
    layer3: nn.Sequential
    layer4: nn.Sequential


def _block(
    block: type[BasicBlock] | type[Bottleneck], inputs: int, width: int, stride: int
) -> BasicBlock | Bottleneck:
    """A block whose way past fits: a 1×1 convolution where size or channels change."""
    outputs = width * block.expansion
    past = None
    if stride != 1 or inputs != outputs:
        past = nn.Sequential(conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))
    return block(inputs, width, stride, past)


def resnet18(**options: Any) -> ResNet:
    return ResNet(BasicBlock, (2, 2, 2, 2), **options)


def resnet34(**options: Any) -> ResNet:
    return ResNet(BasicBlock, (3, 4, 6, 3), **options)


def resnet50(**options: Any) -> ResNet:
    return ResNet(Bottleneck, (3, 4, 6, 3), **options)


def resnet18_32x32(classes: int = 10) -> ResNet:
    """For images as small as CIFAR's."""
    return ResNet(BasicBlock, (2, 2, 2, 2), classes, small_images=True)
