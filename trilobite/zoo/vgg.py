"""VGG: images (N, 3, H, W) to class scores (N, classes), or to features alone.

Simonyan and Zisserman, "Very deep convolutional networks for large-scale image recognition", 2014; the form
without normalisation, which style transfer uses. Parameters have torchvision's names.
"""

from __future__ import annotations

from collections.abc import Sequence

from trilobite.framework import nn
from trilobite.framework.tensor import Tensor

POOL = 0
VGG19 = (
    *(64, 64, POOL, 128, 128, POOL, 256, 256, 256, 256, POOL),
    *(512, 512, 512, 512, POOL, 512, 512, 512, 512, POOL),
)
"""Channels of each 3×3 convolution, and where pooling halves the size: configuration E of the paper."""


def features(plan: Sequence[int]) -> nn.Sequential:
    """The convolutions, each with its ReLU."""
    layers: list[nn.Module] = []
    inputs = 3
    for outputs in plan:
        if outputs == POOL:
            layers.append(nn.MaxPool2d(2))
        else:
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU()]
            inputs = outputs
    return nn.Sequential(*layers)


class VGG(nn.Module):
    """Convolutions, and three wide linear layers for images of 224×224; without `classifier`, the
    convolutions alone, for images of any size.
    """

    def __init__(
        self, plan: Sequence[int], classes: int = 1000, dropout: float = 0.5, classifier: bool = True
    ) -> None:
        self.features = features(plan)
        self.avgpool = nn.AdaptiveAvgPool2d(7) if classifier else None
        self.classifier = _classifier(classes, dropout) if classifier else None
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
                nn.init.zeros_(module.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        x = self.features(x)
        if self.avgpool is None or self.classifier is None:
            return x
        scores: Tensor = self.classifier(self.avgpool(x).flatten(1))
        return scores


def _classifier(classes: int, dropout: float) -> nn.Sequential:
    layers = nn.Sequential(
        *(nn.Linear(512 * 7 * 7, 4096), nn.ReLU(), nn.Dropout(dropout)),
        *(nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout(dropout)),
        nn.Linear(4096, classes),
    )
    for layer in layers:
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, 0.0, 0.01)
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
    return layers


def vgg19(classes: int = 1000, dropout: float = 0.5, classifier: bool = True) -> VGG:
    return VGG(VGG19, classes, dropout, classifier)
