"""EfficientNet-Lite0: images (N, 3, H, W) to class scores (N, classes).

Tan and Le, "EfficientNet: rethinking model scaling for convolutional neural networks", 2019, in the form for
small devices: no squeeze-and-excitation, ReLU6. Padding is TensorFlow's: where a stride leaves an odd number
of rows to add, the last side gets one more. Parameters have the names of the PyTorch port's files.
"""

from __future__ import annotations

from trilobite.framework import nn
from trilobite.framework.nn import functional as F
from trilobite.framework.tensor import Tensor

# Of each row of blocks: how many, kernel, first stride, expansion, output channels.
PLAN = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
EPSILON = 1e-3  # of the batch norms, as TensorFlow has it


class SameConv2d(nn.Conv2d):
    """A convolution whose output has ceil(size / stride) rows and columns."""

    def __init__(self, inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__(inputs, outputs, size, stride, groups=groups, bias=False)
        self.size, self.step = size, stride

    def forward(self, x: Tensor) -> Tensor:
        missing = [max((-(-n // self.step) - 1) * self.step + self.size - n, 0) for n in x.shape[-2:]]
        (top, bottom), (left, right) = ((m // 2, m - m // 2) for m in missing)
        out: Tensor = super().forward(F.pad(x, (left, right, top, bottom)) if any(missing) else x)
        return out


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=EPSILON)


class Block(nn.Module):
    """An inverted bottleneck, beside a shortcut where sizes allow."""

    def __init__(self, inputs: int, outputs: int, size: int, stride: int, expansion: int) -> None:
        wide = inputs * expansion
        self.expands = expansion != 1
        if self.expands:
            self._expand_conv, self._bn0 = SameConv2d(inputs, wide, 1), _norm(wide)
        self._depthwise_conv, self._bn1 = SameConv2d(wide, wide, size, stride, groups=wide), _norm(wide)
        self._project_conv, self._bn2 = SameConv2d(wide, outputs, 1), _norm(outputs)
        self.shortcut = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu6(self._bn0(self._expand_conv(x))) if self.expands else x
        y = self._bn2(self._project_conv(F.relu6(self._bn1(self._depthwise_conv(y)))))
        out: Tensor = x + y if self.shortcut else y
        return out


class EfficientNetLite0(nn.Module):
    """Inputs are (pixel − 127) / 128 of 224×224 images."""

    def __init__(self, classes: int = 1000, dropout: float = 0.2) -> None:
        self._conv_stem, self._bn0 = SameConv2d(3, 32, 3, 2), _norm(32)
        blocks: list[nn.Module] = []
        inputs = 32
        for count, size, stride, expansion, outputs in PLAN:
            for number in range(count):
                blocks.append(Block(inputs, outputs, size, 1 if number else stride, expansion))
                inputs = outputs
        self._blocks = nn.ModuleList(blocks)
        self._conv_head, self._bn1 = SameConv2d(inputs, 1280, 1), _norm(1280)
        self._dropout = nn.Dropout(dropout)
        self._fc = nn.Linear(1280, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu6(self._bn0(self._conv_stem(x)))
        for block in self._blocks:
            x = block(x)
        x = F.relu6(self._bn1(self._conv_head(x))).mean((2, 3))
        scores: Tensor = self._fc(self._dropout(x))
        return scores
