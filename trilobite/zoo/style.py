"""The transform network of fast style transfer: pictures (N, 3, H, W) between 0 and 1 to stylised ones.

Johnson, Alahi and Fei-Fei, "Perceptual losses for real-time style transfer and super-resolution", 2016, with
instance norms after Ulyanov and others, 2016: three convolutions that shrink the picture to a quarter of its
sides, five residual blocks, two transposed convolutions, and a last convolution of 9×9.
"""

from __future__ import annotations

from trilobite.framework import nn
from trilobite.framework.nn import functional as F
from trilobite.framework.tensor import Tensor


class Convolution(nn.Module):
    """Reflected edges, a convolution, an instance norm with scale and shift."""

    def __init__(self, inputs: int, outputs: int, size: int, stride: int = 1) -> None:
        self.pad = nn.ReflectionPad2d(size // 2)
        self.conv = nn.Conv2d(inputs, outputs, size, stride)
        self.norm = nn.InstanceNorm2d(outputs, affine=True)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(self.conv(self.pad(x)))
        return out


class Residual(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, channels: int) -> None:
        self.first, self.second = Convolution(channels, channels, 3), Convolution(channels, channels, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.second(F.relu(self.first(x)))
        return out


class Enlarge(nn.Module):
    """A transposed convolution that doubles both sides, and an instance norm."""

    def __init__(self, inputs: int, outputs: int) -> None:
        self.conv = nn.ConvTranspose2d(inputs, outputs, 3, stride=2, padding=1, output_padding=1)
        self.norm = nn.InstanceNorm2d(outputs, affine=True)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(self.conv(x))
        return out


class StyleTransform(nn.Module):
    """`width` channels at full size; 32 is the published network, with 1,679,235 parameters."""

    def __init__(self, width: int = 32, blocks: int = 5) -> None:
        self.shrink = nn.ModuleList(
            [
                Convolution(3, width, 9),
                Convolution(width, 2 * width, 3, 2),
                Convolution(2 * width, 4 * width, 3, 2),
            ]
        )
        self.blocks = nn.Sequential(*(Residual(4 * width) for _ in range(blocks)))
        self.grow = nn.ModuleList([Enlarge(4 * width, 2 * width), Enlarge(2 * width, width)])
        self.pad = nn.ReflectionPad2d(4)
        self.last = nn.Conv2d(width, 3, 9)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.shrink:
            x = F.relu(layer(x))
        x = self.blocks(x)
        for layer in self.grow:
            x = F.relu(layer(x))
        out: Tensor = F.sigmoid(self.last(self.pad(x)))
        return out
