"""Further networks of the literature, written once with PyTorch's names; see `unseen`.

Liu 2021 (Swin-T), Liu 2022 (ConvNeXt-T), Ronneberger 2015 (U-Net, half as wide), Redmon 2018 (a detector of
one stage with two scales), a bidirectional GRU that tags words, and one block of Gulati 2020 (Conformer).
Each function takes the package and gives a module; `INPUTS` has the inputs of one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.peers.unseen import NETWORKS as CONVOLUTIONAL
from benchmarks.peers.unseen import conv_norm, residual

Maker = Callable[[Any], Any]
WINDOW = 7


# -- ConvNeXt ------------------------------------------------------------------------------------------------


def channel_norm(torch: Any, channels: int) -> Any:
    """Layer normalisation over the channels of images."""
    nn = torch.nn

    class ChannelNorm(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(channels, eps=1e-6)

        def forward(self, x: Any) -> Any:
            return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

    return ChannelNorm()


def convnext_t(torch: Any) -> Any:
    nn = torch.nn

    class Body(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self, width: int) -> None:
            super().__init__()
            self.depthwise, self.norm = (
                nn.Conv2d(width, width, 7, padding=3, groups=width),
                nn.LayerNorm(width),
            )
            self.up, self.act, self.down = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
            self.scale = nn.Parameter(torch.ones(width))

        def forward(self, x: Any) -> Any:
            y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
            return (self.down(self.act(self.up(y))) * self.scale).permute(0, 3, 1, 2)

    layers = [nn.Conv2d(3, 96, 4, 4), channel_norm(torch, 96)]
    for stage, depth in enumerate((3, 3, 9, 3)):
        width = 96 << stage
        if stage:
            layers += [channel_norm(torch, width // 2), nn.Conv2d(width // 2, width, 2, 2)]
        layers += [residual(torch, Body(width), None, None) for _ in range(depth)]
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(1), nn.LayerNorm(768), nn.Linear(768, 1000)
    )


# -- Swin ----------------------------------------------------------------------------------------------------


def _relative_places() -> Any:
    at = np.stack(np.meshgrid(np.arange(WINDOW), np.arange(WINDOW), indexing="ij")).reshape(2, -1)
    apart = at[:, :, None] - at[:, None] + WINDOW - 1
    return (apart[0] * (2 * WINDOW - 1) + apart[1]).reshape(-1)


def _mask(side: int, shift: int) -> Any:
    """Windows whose parts come from different ends of the image do not see each other."""
    part = np.zeros((side, side), np.int64)
    cuts = (slice(0, -WINDOW), slice(-WINDOW, -shift), slice(-shift, None))
    for i, rows in enumerate(cuts):
        for j, columns in enumerate(cuts):
            part[rows, columns] = 3 * i + j
    n = side // WINDOW
    windows = part.reshape(n, WINDOW, n, WINDOW).transpose(0, 2, 1, 3).reshape(n * n, -1)
    return np.where(windows[:, None] == windows[:, :, None], 0.0, -100.0).astype(np.float32)


def windowed(torch: Any, *sizes: int) -> Any:
    """Attention inside windows that may lie shifted: of a width, heads, a side of the image and a shift."""
    nn = torch.nn

    class Attention(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self, width: int, heads: int, side: int, shift: int) -> None:
            super().__init__()
            self.heads, self.side, self.shift, self.width = heads, side, shift, width
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.table = nn.Parameter(torch.zeros((2 * WINDOW - 1) ** 2, heads))
            self.register_buffer("places", torch.from_numpy(_relative_places()))
            if shift:
                self.register_buffer("mask", torch.from_numpy(_mask(side, shift)))

        def forward(self, x: Any) -> Any:
            n, side, cells = self.side // WINDOW, self.side, WINDOW * WINDOW
            x = x.reshape(-1, side, side, self.width)
            if self.shift:
                x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
            x = x.reshape(-1, n, WINDOW, n, WINDOW, self.width).permute(0, 1, 3, 2, 4, 5)
            x = x.reshape(-1, cells, self.width)
            qkv = self.qkv(x).reshape(-1, cells, 3, self.heads, self.width // self.heads)
            q, k, v = qkv.permute(2, 0, 3, 1, 4)
            scores = (q * (self.width // self.heads) ** -0.5) @ k.transpose(-2, -1)
            bias = self.table[self.places].reshape(cells, cells, self.heads).permute(2, 0, 1)
            scores = scores + bias.unsqueeze(0)
            if self.shift:
                apart = scores.reshape(-1, n * n, self.heads, cells, cells)
                scores = (apart + self.mask.unsqueeze(1).unsqueeze(0)).reshape(-1, self.heads, cells, cells)
            y = (torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(-1, cells, self.width)
            y = self.out(y).reshape(-1, n, n, WINDOW, WINDOW, self.width).permute(0, 1, 3, 2, 4, 5)
            y = y.reshape(-1, side, side, self.width)
            if self.shift:
                y = torch.roll(y, (self.shift, self.shift), (1, 2))
            return y.reshape(-1, side * side, self.width)

    return Attention(*sizes)


def merged(torch: Any, *sizes: int) -> Any:
    """Four neighbours become one place of twice the width."""
    nn = torch.nn

    class Merge(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self, width: int, side: int) -> None:
            super().__init__()
            self.width, self.side = width, side
            self.norm, self.reduce = nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width, bias=False)

        def forward(self, x: Any) -> Any:
            half = self.side // 2
            x = x.reshape(-1, half, 2, half, 2, self.width).permute(0, 1, 3, 4, 2, 5)
            return self.reduce(self.norm(x.reshape(-1, half * half, 4 * self.width)))

    return Merge(*sizes)


def swin_t(torch: Any) -> Any:
    nn = torch.nn

    class Patches(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 96, 4, 4), nn.LayerNorm(96)

        def forward(self, x: Any) -> Any:
            return self.norm(self.conv(x).flatten(2).transpose(1, 2))

    class Mean(nn.Module):  # type: ignore[name-defined, misc]
        def forward(self, x: Any) -> Any:
            return x.mean(1)

    layers = [Patches()]
    for stage, (depth, heads) in enumerate(((2, 3), (2, 6), (6, 12), (2, 24))):
        width, side = 96 << stage, 56 >> stage
        layers += [merged(torch, width // 2, side * 2)] if stage else []
        for i in range(depth):
            shift = 3 if i % 2 and side > WINDOW else 0
            attention = nn.Sequential(nn.LayerNorm(width), windowed(torch, width, heads, side, shift))
            mixed = [nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)]
            layers.append(residual(torch, attention, None, None))
            layers.append(residual(torch, nn.Sequential(nn.LayerNorm(width), *mixed), None, None))
    return nn.Sequential(*layers, nn.LayerNorm(768), Mean(), nn.Linear(768, 1000))


# -- images to images, boxes ---------------------------------------------------------------------------------


def unet(torch: Any) -> Any:
    nn = torch.nn

    def double(inputs: int, outputs: int) -> Any:
        parts = [
            conv_norm(nn, inputs, outputs, 3, act=nn.ReLU),
            conv_norm(nn, outputs, outputs, 3, act=nn.ReLU),
        ]
        return nn.Sequential(*parts)

    class UNet(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            widths = (32, 64, 128, 256, 512)
            self.down = nn.ModuleList([double(i, o) for i, o in zip((3, *widths), widths, strict=False)])
            pairs = list(zip(widths[:0:-1], widths[-2::-1], strict=True))
            self.up = nn.ModuleList([nn.ConvTranspose2d(i, o, 2, 2) for i, o in pairs])
            self.join = nn.ModuleList([double(2 * o, o) for _, o in pairs])
            self.pool, self.last = nn.MaxPool2d(2), nn.Conv2d(32, 2, 1)

        def forward(self, x: Any) -> Any:
            kept = []
            for i, layer in enumerate(self.down):
                x = layer(x if not i else self.pool(x))
                kept.append(x)
            for up, join, past in zip(self.up, self.join, kept[-2::-1], strict=True):
                x = join(torch.cat([past, up(x)], 1))
            return self.last(x)

    return UNet()


def detector(torch: Any) -> Any:
    """Boxes and scores for every cell of two scales, from centres and sizes to corners."""
    nn = torch.nn

    class Detector(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            widths = (16, 32, 64, 128, 256)
            pairs = zip((3, *widths), widths, strict=False)
            self.stem = nn.ModuleList(
                [nn.Sequential(conv_norm(nn, i, o, 3, 2, act=nn.SiLU), conv_norm(nn, o, o, 3, act=nn.SiLU))
                 for i, o in pairs]
            )  # fmt: skip
            self.lift, self.grow = conv_norm(nn, 256, 128, act=nn.SiLU), nn.Upsample(scale_factor=2)
            self.mix = conv_norm(nn, 256, 128, 3, act=nn.SiLU)
            self.heads = nn.ModuleList([nn.Conv2d(128, 85, 1), nn.Conv2d(256, 85, 1)])

        def forward(self, x: Any) -> Any:
            kept = []
            for layer in self.stem:
                x = layer(x)
                kept.append(x)
            fine = self.mix(torch.cat([self.grow(self.lift(x)), kept[-2]], 1))
            found = [head(y).flatten(2) for head, y in zip(self.heads, (fine, x), strict=True)]
            joined = torch.cat(found, 2).transpose(1, 2)
            centre, size = torch.sigmoid(joined[..., :2]), torch.exp(joined[..., 2:4] * 0.1)
            corners = [centre - size / 2, centre + size / 2]
            return torch.cat([*corners, torch.sigmoid(joined[..., 4:])], -1)

    return Detector()


# -- sequences -----------------------------------------------------------------------------------------------


def gru_tagger(torch: Any) -> Any:
    nn = torch.nn

    class Tagger(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(5000, 128)
            self.gru = nn.GRU(128, 128, num_layers=2, batch_first=True, bidirectional=True)
            self.tags = nn.Linear(256, 17)

        def forward(self, words: Any) -> Any:
            return torch.log_softmax(self.tags(self.gru(self.words(words))[0]), -1)

    return Tagger()


def conformer(torch: Any) -> Any:
    """Half a step of a feed-forward layer, attention, a convolution, another half step."""
    nn, width, heads = torch.nn, 256, 4

    def mixed() -> Any:
        parts = [nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width)]
        return nn.Sequential(*parts)

    class Block(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.last = mixed(), mixed(), nn.LayerNorm(width)
            self.norm, self.qkv, self.out = (
                nn.LayerNorm(width),
                nn.Linear(width, 3 * width),
                nn.Linear(width, width),
            )
            self.before, self.pointwise = nn.LayerNorm(width), nn.Conv1d(width, 2 * width, 1)
            self.depthwise = nn.Conv1d(width, width, 31, padding=15, groups=width)
            self.batch, self.act, self.after = nn.BatchNorm1d(width), nn.SiLU(), nn.Conv1d(width, width, 1)

        def forward(self, x: Any) -> Any:
            x = x + 0.5 * self.first(x)
            batch, length = x.shape[0], x.shape[1]
            qkv = self.qkv(self.norm(x)).reshape(batch, length, 3, heads, width // heads)
            q, k, v = qkv.permute(2, 0, 3, 1, 4)
            weights = torch.softmax(q @ k.transpose(-2, -1) * (width // heads) ** -0.5, -1)
            x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))
            y = self.pointwise(self.before(x).transpose(1, 2))
            y = y[:, :width] * torch.sigmoid(y[:, width:])
            x = x + self.after(self.act(self.batch(self.depthwise(y)))).transpose(1, 2)
            return self.last(x + 0.5 * self.second(x))

    return Block()


NETWORKS: Mapping[str, Maker] = {
    **{n: CONVOLUTIONAL[n] for n in ("DenseNet-121", "ResNeXt-50 32×4d", "RegNetY-400MF", "EfficientNet-B0")},
    "Swin-T": swin_t, "ConvNeXt-T": convnext_t, "U-Net": unet, "detector": detector,
    "GRU tagger": gru_tagger, "Conformer block": conformer,
}  # fmt: skip


def inputs(name: str, batch: int) -> Any:
    source = np.random.default_rng(batch)
    if name == "GRU tagger":
        return source.integers(0, 5000, (batch, 40))
    shapes = {"U-Net": (3, 128, 128), "detector": (3, 256, 256), "Conformer block": (128, 256)}
    return source.standard_normal((batch, *shapes.get(name, (3, 224, 224)))).astype(np.float32)
