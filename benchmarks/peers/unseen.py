"""Networks of the literature that no kernel was tuned on, written once with PyTorch's names.

Each function takes the package that a network is built with, `torch` or `trilobite`, and gives a module. They
have the layers, widths and depths of the papers: Huang 2016 (DenseNet), Xie 2016 (ResNeXt), Tan and Le 2019
(EfficientNet), Radosavovic 2020 (RegNet), Iandola 2016 (SqueezeNet). No dropout: rows run without.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

Maker = Callable[[Any], Any]
"""From the package to the module."""


def conv_norm(
    nn: Any, inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1, act: Any = None
) -> Any:
    """A convolution that keeps the size when it does not stride, its normalisation and an activation."""
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), *([] if act is None else [act()]))


def squeeze_excite(torch: Any, channels: int, squeezed: int, act: Any) -> Any:
    """Channels are weighed by what two small layers make of their means."""
    nn = torch.nn

    class SqueezeExcite(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.pool = nn.AdaptiveAvgPool2d(1)
            self.fc1, self.fc2 = nn.Conv2d(channels, squeezed, 1), nn.Conv2d(squeezed, channels, 1)
            self.act, self.gate = act(), nn.Sigmoid()

        def forward(self, x: Any) -> Any:
            return x * self.gate(self.fc2(self.act(self.fc1(self.pool(x)))))

    return SqueezeExcite()


def residual(torch: Any, body: Any, past: Any, act: Any) -> Any:
    """What a body makes of a value, added to the value or to what `past` makes of it."""
    nn = torch.nn

    class Residual(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.body, self.past, self.act = body, past or nn.Identity(), act() if act else nn.Identity()

        def forward(self, x: Any) -> Any:
            return self.act(self.body(x) + self.past(x))

    return Residual()


def classifier(nn: Any, channels: int) -> list[Any]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(1), nn.Linear(channels, 1000)]


def resnext50(torch: Any) -> Any:
    """ResNeXt-50, 32 groups of 4 channels."""
    nn = torch.nn
    relu = partial(nn.ReLU, inplace=True)
    layers = [conv_norm(nn, 3, 64, 7, 2, act=relu), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for stage, depth in enumerate((3, 4, 6, 3)):
        width, outputs = 128 << stage, 256 << stage
        for i in range(depth):
            stride = 2 if stage and not i else 1
            body = nn.Sequential(
                conv_norm(nn, inputs, width, act=relu),
                conv_norm(nn, width, width, 3, stride, groups=32, act=relu),
                conv_norm(nn, width, outputs),
            )
            past = conv_norm(nn, inputs, outputs, 1, stride) if not i else None
            layers.append(residual(torch, body, past, relu))
            inputs = outputs
    return nn.Sequential(*layers, *classifier(nn, inputs))


def densenet121(torch: Any) -> Any:
    """DenseNet-121: growth 32, bottlenecks of 128; every layer joins all that came before it in its block."""
    nn = torch.nn
    relu = partial(nn.ReLU, inplace=True)

    class Layer(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self, inputs: int) -> None:
            super().__init__()
            self.norm, self.act = nn.BatchNorm2d(inputs), relu()
            self.bottleneck = conv_norm(nn, inputs, 128, act=relu)
            self.conv = nn.Conv2d(128, 32, 3, padding=1, bias=False)

        def forward(self, features: list[Any]) -> Any:
            return self.conv(self.bottleneck(self.act(self.norm(torch.cat(features, 1)))))

    class Block(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self, inputs: int, depth: int) -> None:
            super().__init__()
            self.layers = nn.ModuleList([Layer(inputs + 32 * i) for i in range(depth)])

        def forward(self, x: Any) -> Any:
            features = [x]
            for layer in self.layers:
                features.append(layer(features))
            return torch.cat(features, 1)

    layers = [conv_norm(nn, 3, 64, 7, 2, act=relu), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, depth in enumerate((6, 12, 24, 16)):
        if stage:
            transition = [nn.Conv2d(channels, channels // 2, 1, bias=False), nn.AvgPool2d(2, 2)]
            layers += [nn.BatchNorm2d(channels), relu(), *transition]
            channels //= 2
        layers.append(Block(channels, depth))
        channels += 32 * depth
    return nn.Sequential(*layers, nn.BatchNorm2d(channels), relu(), *classifier(nn, channels))


# expansion, channels, repeats, stride, kernel
EFFICIENTNET_STAGES = (
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5), (6, 320, 1, 1, 3),
)  # fmt: skip


def efficientnet_b0(torch: Any) -> Any:
    """EfficientNet-B0."""
    nn = torch.nn
    silu = partial(nn.SiLU, inplace=True)
    layers = [conv_norm(nn, 3, 32, 3, 2, act=silu)]
    inputs = 32
    for expansion, outputs, repeats, first_stride, kernel in EFFICIENTNET_STAGES:
        for i in range(repeats):
            wide, stride = inputs * expansion, first_stride if not i else 1
            parts = [conv_norm(nn, inputs, wide, act=silu)] if expansion != 1 else []
            parts.append(conv_norm(nn, wide, wide, kernel, stride, groups=wide, act=silu))
            parts += [squeeze_excite(torch, wide, inputs // 4, silu), conv_norm(nn, wide, outputs)]
            body = nn.Sequential(*parts)
            alike = stride == 1 and inputs == outputs
            layers.append(residual(torch, body, None, None) if alike else body)
            inputs = outputs
    return nn.Sequential(*layers, conv_norm(nn, inputs, 1280, act=silu), *classifier(nn, 1280))


def regnet_y_400mf(torch: Any) -> Any:
    """RegNetY-400MF: groups of 8 channels, squeeze and excitation."""
    nn = torch.nn
    relu = partial(nn.ReLU, inplace=True)
    layers = [conv_norm(nn, 3, 32, 3, 2, act=relu)]
    inputs = 32
    for width, depth in ((48, 1), (104, 3), (208, 6), (440, 6)):
        for i in range(depth):
            stride = 2 if not i else 1
            body = nn.Sequential(
                conv_norm(nn, inputs, width, act=relu),
                conv_norm(nn, width, width, 3, stride, groups=width // 8, act=relu),
                squeeze_excite(torch, width, round(inputs / 4), relu),
                conv_norm(nn, width, width),
            )
            past = conv_norm(nn, inputs, width, 1, stride) if not i else None
            layers.append(residual(torch, body, past, relu))
            inputs = width
    return nn.Sequential(*layers, *classifier(nn, inputs))


def squeezenet(torch: Any) -> Any:
    """SqueezeNet 1.1: branches of 1×1 and 3×3 that are joined."""
    nn = torch.nn
    relu = partial(nn.ReLU, inplace=True)

    class Fire(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self, inputs: int, squeezed: int, expanded: int) -> None:
            super().__init__()
            self.squeeze, self.act = nn.Conv2d(inputs, squeezed, 1), relu()
            self.small = nn.Conv2d(squeezed, expanded, 1)
            self.large = nn.Conv2d(squeezed, expanded, 3, padding=1)

        def forward(self, x: Any) -> Any:
            x = self.act(self.squeeze(x))
            return torch.cat([self.act(self.small(x)), self.act(self.large(x))], 1)

    def pool() -> Any:
        return nn.MaxPool2d(3, 2, ceil_mode=True)

    fires = [Fire(64, 16, 64), Fire(128, 16, 64), pool(), Fire(128, 32, 128), Fire(256, 32, 128), pool()]
    fires += [Fire(256, 48, 192), Fire(384, 48, 192), Fire(384, 64, 256), Fire(512, 64, 256)]
    head = [nn.Conv2d(512, 1000, 1), relu(), nn.AdaptiveAvgPool2d(1), nn.Flatten(1)]
    return nn.Sequential(nn.Conv2d(3, 64, 3, 2), relu(), pool(), *fires, *head)


NETWORKS: Mapping[str, Maker] = {
    "ResNeXt-50 32×4d": resnext50,
    "DenseNet-121": densenet121,
    "EfficientNet-B0": efficientnet_b0,
    "RegNetY-400MF": regnet_y_400mf,
    "SqueezeNet 1.1": squeezenet,
}


def drawn(shapes: Mapping[str, tuple[int, ...]], seed: int = 0) -> dict[str, Any]:
    """Weights under which values keep their size from layer to layer, by the names of a state dict."""
    source = np.random.default_rng(seed)
    return {name: _drawn(source, name, shape) for name, shape in shapes.items()}


def _drawn(source: Any, name: str, shape: tuple[int, ...]) -> Any:
    if name.endswith("num_batches_tracked"):
        return np.zeros(shape, np.int64)
    if name.endswith("running_var") or (name.endswith("weight") and len(shape) == 1):
        return source.uniform(0.5, 1.5, shape).astype(np.float32)
    if len(shape) == 1:
        return source.normal(0, 0.1, shape).astype(np.float32)
    return source.normal(0, math.sqrt(2 / math.prod(shape[1:])), shape).astype(np.float32)
