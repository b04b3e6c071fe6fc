"""More networks of the literature that no kernel was tuned on: other shapes of graphs than those of `unseen`.

The channel shuffle of ShuffleNetV2 (Ma 2018), depthwise 7×7 and layer norms over channels of ConvNeXt (Liu
2022), the branches of Inception v3 (Szegedy 2015), the levels of a U-Net (Ronneberger 2015), a one-stage
detector with a path aggregation neck (Bochkovskiy 2020, Liu 2018), a vision transformer (Dosovitskiy 2020).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from benchmarks.peers.unseen import Maker, classifier, conv_norm, residual


def joined(torch: Any, *branches: Any) -> Any:
    """What all branches make of a value, side by side."""
    nn = torch.nn

    class Joined(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.branches = nn.ModuleList(branches)

        def forward(self, x: Any) -> Any:
            return torch.cat([branch(x) for branch in self.branches], 1)

    return Joined()


# -- ShuffleNetV2 ------------------------------------------------------------------------------


def _shuffled(torch: Any, channels: int, stride: int, inputs: int) -> Any:
    """Half of the channels pass by; both halves are dealt out like cards."""
    nn, act, half = torch.nn, torch.nn.ReLU, channels // 2

    class Shuffle(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            first = inputs if stride > 1 else half
            self.past = (
                nn.Sequential(conv_norm(nn, first, first, 3, 2, first), conv_norm(nn, first, half, act=act))
                if stride > 1
                else nn.Identity()
            )
            self.body = nn.Sequential(
                conv_norm(nn, first, half, act=act),
                conv_norm(nn, half, half, 3, stride, half),
                conv_norm(nn, half, half, act=act),
            )

        def forward(self, x: Any) -> Any:
            left, right = (x, x) if stride > 1 else (x[:, :half], x[:, half:])
            y = torch.cat([self.past(left), self.body(right)], 1)
            n, _, h, w = y.shape
            return y.reshape(n, 2, half, h, w).transpose(1, 2).reshape(n, channels, h, w)

    return Shuffle()


def shufflenet_v2(torch: Any) -> Any:
    """ShuffleNetV2 1.0×."""
    nn = torch.nn
    layers = [conv_norm(nn, 3, 24, 3, 2, act=nn.ReLU), nn.MaxPool2d(3, 2, 1)]
    inputs = 24
    for channels, count in ((116, 4), (232, 8), (464, 4)):
        layers.append(_shuffled(torch, channels, 2, inputs))
        layers += [_shuffled(torch, channels, 1, channels) for _ in range(count - 1)]
        inputs = channels
    return nn.Sequential(*layers, conv_norm(nn, 464, 1024, act=nn.ReLU), *classifier(nn, 1024))


# -- ConvNeXt ------------------------------------------------------------------------------


def _norm_of_channels(torch: Any, channels: int) -> Any:
    nn = torch.nn

    class NormOfChannels(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(channels, eps=1e-6)

        def forward(self, x: Any) -> Any:
            return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

    return NormOfChannels()


def _convnext_block(torch: Any, channels: int) -> Any:
    nn = torch.nn

    class Block(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
            self.norm = nn.LayerNorm(channels, eps=1e-6)
            self.wide, self.act, self.narrow = (
                nn.Linear(channels, 4 * channels),
                nn.GELU(),
                nn.Linear(4 * channels, channels),
            )

        def forward(self, x: Any) -> Any:
            y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
            return x + self.narrow(self.act(self.wide(y))).permute(0, 3, 1, 2)

    return Block()


def convnext_tiny(torch: Any) -> Any:
    """ConvNeXt-T."""
    nn = torch.nn
    layers: list[Any] = []
    inputs = 3
    for channels, count in ((96, 3), (192, 3), (384, 9), (768, 3)):
        side = 4 if inputs == 3 else 2
        down = nn.Conv2d(inputs, channels, side, side)
        norm = _norm_of_channels(torch, channels if inputs == 3 else inputs)
        layers += [down, norm] if inputs == 3 else [norm, down]
        layers += [_convnext_block(torch, channels) for _ in range(count)]
        inputs = channels
    return nn.Sequential(*layers, *classifier(nn, 768))


# -- Inception ------------------------------------------------------------------------------


def inception(torch: Any) -> Any:
    """The stem of Inception v3, three of its first blocks, and two with rows and columns of seven taps."""
    nn = torch.nn
    unit = partial(conv_norm, nn, act=nn.ReLU)

    def row(inputs: int, outputs: int, down: int, across: int) -> Any:
        conv = nn.Conv2d(inputs, outputs, (down, across), 1, (down // 2, across // 2), bias=False)
        return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU())

    def first(inputs: int, pooled: int) -> Any:
        return joined(
            torch,
            unit(inputs, 64),
            nn.Sequential(unit(inputs, 48), unit(48, 64, 5)),
            nn.Sequential(unit(inputs, 64), unit(64, 96, 3), unit(96, 96, 3)),
            nn.Sequential(nn.AvgPool2d(3, 1, 1), unit(inputs, pooled)),
        )

    def second(width: int) -> Any:
        return joined(
            torch,
            unit(768, 192),
            nn.Sequential(unit(768, width), row(width, width, 1, 7), row(width, 192, 7, 1)),
            nn.Sequential(
                unit(768, width), row(width, width, 7, 1), row(width, width, 1, 7), row(width, width, 7, 1),
                row(width, 192, 1, 7),
            ),
            nn.Sequential(nn.AvgPool2d(3, 1, 1), unit(768, 192)),
        )  # fmt: skip

    smaller = joined(
        torch,
        unit(288, 384, 3, 2),
        nn.Sequential(unit(288, 64), unit(64, 96, 3), unit(96, 96, 3, 2)),
        nn.MaxPool2d(3, 2, 1),
    )
    stem = (unit(3, 32, 3, 2), unit(32, 32, 3), unit(32, 64, 3), nn.MaxPool2d(3, 2), unit(64, 80))
    middle = (unit(80, 192, 3), nn.MaxPool2d(3, 2), first(192, 32), first(256, 64), first(288, 64))
    return nn.Sequential(*stem, *middle, smaller, second(128), second(160), *classifier(nn, 768))


# -- U-Net ------------------------------------------------------------------------------


def unet(torch: Any) -> Any:
    """Four levels from 32 channels on, up by transposed convolutions, 21 classes for each pixel."""
    nn = torch.nn

    def twice(inputs: int, outputs: int) -> Any:
        unit = partial(conv_norm, nn, kernel=3, act=nn.ReLU)
        return nn.Sequential(unit(inputs, outputs), unit(outputs, outputs))

    class Level(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self, inputs: int, width: int, deeper: Any) -> None:
            super().__init__()
            self.before, self.deeper = twice(inputs, width), deeper
            self.pool, self.up = nn.MaxPool2d(2), nn.ConvTranspose2d(2 * width, width, 2, 2)
            self.after = twice(2 * width, width)

        def forward(self, x: Any) -> Any:
            here = self.before(x)
            return self.after(torch.cat([here, self.up(self.deeper(self.pool(here)))], 1))

    found = twice(256, 512)
    for width, inputs in ((256, 128), (128, 64), (64, 32), (32, 3)):
        found = Level(inputs, width, found)
    return nn.Sequential(found, nn.Conv2d(32, 21, 1))


# -- a detector ------------------------------------------------------------------------------


def detector(torch: Any) -> Any:
    """Stages that pass half of their channels by, a pyramid of pools, a neck up and down, three heads."""
    nn = torch.nn
    unit = partial(conv_norm, nn, act=nn.SiLU)

    def stage(inputs: int, outputs: int, count: int, adds: bool = True) -> Any:
        half = outputs // 2

        def block() -> Any:
            body = nn.Sequential(unit(half, half), unit(half, half, 3))
            return residual(torch, body, None, None) if adds else body

        inner = nn.Sequential(unit(inputs, half), *(block() for _ in range(count)))
        return nn.Sequential(joined(torch, inner, unit(inputs, half)), unit(outputs, outputs))

    class Pools(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.before, self.after = unit(channels, channels // 2), unit(2 * channels, channels)
            self.pool = nn.MaxPool2d(5, 1, 2)

        def forward(self, x: Any) -> Any:
            a = self.before(x)
            b = self.pool(a)
            c = self.pool(b)
            return self.after(torch.cat([a, b, c, self.pool(c)], 1))

    class Detector(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            first = (nn.Conv2d(3, 32, 6, 2, 2, bias=False), nn.BatchNorm2d(32), nn.SiLU())
            self.stem = nn.Sequential(*first, unit(32, 64, 3, 2), stage(64, 64, 1))
            self.p3 = nn.Sequential(unit(64, 128, 3, 2), stage(128, 128, 2))
            self.p4 = nn.Sequential(unit(128, 256, 3, 2), stage(256, 256, 3))
            self.p5 = nn.Sequential(unit(256, 512, 3, 2), stage(512, 512, 1), Pools(512))
            self.up = nn.Upsample(scale_factor=2, mode="nearest")
            self.a, self.b = unit(512, 256), unit(256, 128)
            self.n4, self.n3 = stage(512, 256, 1, False), stage(256, 128, 1, False)
            self.down3, self.down4 = unit(128, 128, 3, 2), unit(256, 256, 3, 2)
            self.m4, self.m5 = stage(256, 256, 1, False), stage(512, 512, 1, False)
            self.heads = nn.ModuleList([nn.Conv2d(c, 255, 1) for c in (128, 256, 512)])

        def forward(self, x: Any) -> Any:
            p3 = self.p3(self.stem(x))
            p4 = self.p4(p3)
            a = self.a(self.p5(p4))
            b = self.b(self.n4(torch.cat([self.up(a), p4], 1)))
            n3 = self.n3(torch.cat([self.up(b), p3], 1))
            m4 = self.m4(torch.cat([self.down3(n3), b], 1))
            m5 = self.m5(torch.cat([self.down4(m4), a], 1))
            found = [head(v) for head, v in zip(self.heads, (n3, m4, m5), strict=True)]
            return torch.cat([v.reshape(v.shape[0], 255, -1) for v in found], 2)

    return Detector()


# -- a vision transformer ------------------------------------------------------------------------------


def vit_tiny(torch: Any) -> Any:
    """ViT-Ti/16."""
    nn, functional, width, heads = torch.nn, torch.nn.functional, 192, 3

    class Block(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.wide, self.act, self.narrow = nn.Linear(width, 768), nn.GELU(), nn.Linear(768, width)

        def forward(self, x: Any) -> Any:
            n, s, _ = x.shape
            qkv = self.qkv(self.norm1(x)).reshape(n, s, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
            seen = functional.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2])
            x = x + self.out(seen.permute(0, 2, 1, 3).reshape(n, s, width))
            return x + self.narrow(self.act(self.wide(self.norm2(x))))

    class Transformer(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, width, 16, 16)
            self.position = nn.Parameter(torch.zeros(1, 197, width))
            self.first = nn.Parameter(torch.zeros(1, 1, width))
            self.blocks = nn.Sequential(*(Block() for _ in range(12)))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

        def forward(self, x: Any) -> Any:
            patches = self.patches(x).reshape(x.shape[0], width, 196).permute(0, 2, 1)
            x = torch.cat([self.first, patches], 1) + self.position
            return self.head(self.norm(self.blocks(x))[:, 0])

    return Transformer()


NETWORKS: Mapping[str, Maker] = {
    "ShuffleNetV2 1.0×": shufflenet_v2,
    "ConvNeXt-T": convnext_tiny,
    "Inception v3, first half": inception,
    "U-Net": unet,
    "detector with a neck": detector,
    "ViT-Ti/16": vit_tiny,
}
