"""AlexNet: images (N, 3, H, W) to class scores (N, classes).

Krizhevsky, "One weird trick for parallelizing convolutional neural networks", 2014: the one-column form that
torchvision publishes weights for, whose names the parameters have.
"""

from __future__ import annotations

from trilobite.framework import nn
from trilobite.framework.tensor import Tensor


class AlexNet(nn.Module):
    def __init__(self, classes: int = 1000, dropout: float = 0.5) -> None:
        self.features = nn.Sequential(
            *(nn.Conv2d(3, 64, 11, stride=4, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2)),
            *(nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2)),
            *(nn.Conv2d(192, 384, 3, padding=1), nn.ReLU()),
            *(nn.Conv2d(384, 256, 3, padding=1), nn.ReLU()),
            *(nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2)),
        )
        self.avgpool = nn.AdaptiveAvgPool2d(6)
        self.classifier = nn.Sequential(
            *(nn.Dropout(dropout), nn.Linear(256 * 6 * 6, 4096), nn.ReLU()),
            *(nn.Dropout(dropout), nn.Linear(4096, 4096), nn.ReLU()),
            nn.Linear(4096, classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.classifier(self.avgpool(self.features(x)).flatten(1))
        return scores
