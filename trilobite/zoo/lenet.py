"""LeNet: grey images (N, 1, 28, 28) to class scores (N, classes).

After LeCun et al., "Gradient-based learning applied to document recognition", 1998: two convolutions with
pooling, two linear layers; wider than in 1998, with ReLU and maxima, as it is usually trained today.
"""

from __future__ import annotations

from trilobite.framework import nn
from trilobite.framework.nn import functional as F
from trilobite.framework.tensor import Tensor


class LeNet(nn.Module):
    def __init__(self, classes: int = 10) -> None:
        self.conv1 = nn.Conv2d(1, 32, 5, padding=2)
        self.conv2 = nn.Conv2d(32, 64, 5, padding=2)
        self.fc1, self.fc2 = nn.Linear(64 * 7 * 7, 512), nn.Linear(512, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        scores: Tensor = self.fc2(F.relu(self.fc1(x.flatten(1))))
        return scores
