"""MobileNetV2: images (N, 3, H, W) to class scores (N, classes).

Sandler et al., "MobileNetV2: inverted residuals and linear bottlenecks", 2018. Parameters have torchvision's
names.
"""

from __future__ import annotations

from trilobite.framework import nn
from trilobite.framework.tensor import Tensor

# (how much wider inside, channels, blocks, stride of the first), the paper's table 2
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def conv_bn_relu6(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU6())


class InvertedResidual(nn.Module):
    """Wider by a 1×1, a 3×3 in each channel alone, narrow again by a 1×1 without activation."""

    def __init__(self, inputs: int, outputs: int, expansion: int, stride: int) -> None:
        inside = inputs * expansion
        self.adds = stride == 1 and inputs == outputs
        widen = [conv_bn_relu6(inputs, inside, 1)] if expansion != 1 else []
        self.conv = nn.Sequential(
            *widen,
            conv_bn_relu6(inside, inside, 3, stride, groups=inside),
            nn.Conv2d(inside, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv(x)
        return x + y if self.adds else y


class MobileNetV2(nn.Module):
    """The network of width 1."""

    def __init__(self, classes: int = 1000, dropout: float = 0.2) -> None:
        layers: list[nn.Module] = [conv_bn_relu6(3, 32, 3, stride=2)]
        inputs = 32
        for expansion, outputs, blocks, first_stride in STAGES:
            for i in range(blocks):
                layers.append(InvertedResidual(inputs, outputs, expansion, first_stride if i == 0 else 1))
                inputs = outputs
        self.features = nn.Sequential(*layers, conv_bn_relu6(inputs, 1280, 1))
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(1280, classes))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")
        head = self.classifier[1]
        nn.init.normal_(head.weight, 0.0, 0.01)
        nn.init.zeros_(head.bias)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.classifier(self.features(x).mean((2, 3)))
        return scores
