"""Dilated causal convolutions with gates and parametrised weights, over quantised sound."""

import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

BATCH = {"wave": ("uniform", (2, 40)), "speaker": ("int", 3, (2,))}


class CausalConv1d(nn.Conv1d):
    def __init__(self, in_channels, out_channels, kernel_size, dilation=1, **kwargs):
        self.left = (kernel_size - 1) * dilation
        super().__init__(in_channels, out_channels, kernel_size, dilation=dilation, **kwargs)

    def forward(self, input):
        return super().forward(nn.functional.pad(input, (self.left, 0)))


class ResidualBlock(nn.Module):
    def __init__(self, channels, dilation):
        super().__init__()
        self.conv = weight_norm(CausalConv1d(channels, 2 * channels, 2, dilation=dilation))
        self.cond = nn.Linear(4, 2 * channels)
        self.res = nn.Conv1d(channels, channels, 1)
        self.skip = nn.Conv1d(channels, channels, 1)

    def forward(self, x, c):
        h = self.conv(x) + self.cond(c)[..., None]
        a, b = torch.split(h, h.size(1) // 2, dim=1)
        z = torch.tanh(a) * torch.sigmoid(b)
        return x + self.res(z), self.skip(z)


class WaveNet(nn.Module):
    def __init__(self, channels=6, classes=8, dilations=(1, 2, 4)):
        super().__init__()
        self.classes = classes
        self.speakers = nn.Embedding(3, 4)
        self.first = CausalConv1d(classes, channels, 2)
        self.blocks = nn.ModuleList(ResidualBlock(channels, d) for d in dilations)
        self.final = nn.Sequential(
            nn.PReLU(), nn.Conv1d(channels, channels, 1), nn.GLU(dim=1), nn.Conv1d(channels // 2, classes, 1)
        )

    def encode(self, wave):
        mu = torch.tensor(self.classes - 1, dtype=wave.dtype)
        x = wave * 2 - 1
        x_mu = torch.sign(x) * torch.log1p(mu * torch.abs(x)) / torch.log1p(mu)
        return ((x_mu + 1) / 2 * mu + 0.5).to(torch.int64)

    def forward(self, codes, speaker):
        x = nn.functional.one_hot(codes, self.classes).transpose(1, 2).to(self.first.weight.dtype)
        c = self.speakers(speaker)
        x, skips = self.first(x), 0
        for block in self.blocks:
            x, skip = block(x, c)
            skips = skips + skip
        return self.final(skips)


def make():
    return WaveNet()


def loss(model, batch):
    codes = model.encode(batch["wave"])
    logits = model(codes[:, :-1], batch["speaker"])
    return nn.functional.cross_entropy(logits, codes[:, 1:])
