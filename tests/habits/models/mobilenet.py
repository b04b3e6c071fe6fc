"""Inverted residuals with squeeze and excitation, and a stochastic depth that is off."""

from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

BATCH = {"x": ("normal", (2, 3, 32, 32)), "y": ("int", 4, (2,))}


def _make_divisible(v, divisor, min_value=None):
    min_value = min_value or divisor
    new_v = max(min_value, int(v + divisor / 2) // divisor * divisor)
    return new_v + divisor if new_v < 0.9 * v else new_v


def drop_path(x, drop_prob: float = 0.0, training: bool = False, scale_by_keep: bool = True):
    if drop_prob == 0.0 or not training:
        return x
    keep_prob = 1 - drop_prob
    shape = (x.shape[0],) + (1,) * (x.ndim - 1)
    random_tensor = x.new_empty(shape).bernoulli_(keep_prob)
    if keep_prob > 0.0 and scale_by_keep:
        random_tensor.div_(keep_prob)
    return x * random_tensor


class SqueezeExcitation(nn.Module):
    def __init__(self, channels, squeeze, activation=nn.ReLU, scale_activation=nn.Hardsigmoid):
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(channels, squeeze, 1)
        self.fc2 = nn.Conv2d(squeeze, channels, 1)
        self.activation = activation()
        self.scale_activation = scale_activation()

    def forward(self, input):
        scale = x = input.mean((2, 3), keepdim=True)
        scale = self.activation(self.fc1(scale))
        return self.scale_activation(self.fc2(scale)) * input


class InvertedResidual(nn.Module):
    def __init__(self, inp, oup, stride, expand_ratio, act_layer, drop=0.0):
        super().__init__()
        assert stride in [1, 2]
        hidden_dim = int(round(inp * expand_ratio))
        self.use_res_connect = stride == 1 and inp == oup
        norm = partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)
        layers = []
        if expand_ratio != 1:
            layers.extend(
                [nn.Conv2d(inp, hidden_dim, 1, bias=False), norm(hidden_dim), act_layer(inplace=True)]
            )
        layers.extend(
            [
                nn.Conv2d(hidden_dim, hidden_dim, 3, stride, 1, groups=hidden_dim, bias=False),
                norm(hidden_dim),
                act_layer(inplace=True),
                SqueezeExcitation(hidden_dim, _make_divisible(hidden_dim // 4, 4)),
                nn.Conv2d(hidden_dim, oup, 1, 1, 0, bias=False),
                norm(oup),
            ]
        )
        self.conv = nn.Sequential(*layers)
        self.drop = drop

    def forward(self, x):
        if self.use_res_connect:
            return x + drop_path(self.conv(x), self.drop, self.training)
        return self.conv(x)


class MobileNet(nn.Module):
    def __init__(self, num_classes=4):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.Hardswish(inplace=True)
        )
        self.blocks = nn.ModuleList(
            [
                InvertedResidual(8, 8, 1, 2, nn.ReLU6),
                InvertedResidual(8, 12, 2, 3, nn.Hardswish),
                InvertedResidual(12, 12, 1, 3, nn.SiLU),
            ]
        )
        self.classifier = nn.Sequential(
            nn.Linear(12, 16),
            nn.Hardswish(inplace=True),
            nn.Dropout(p=0.0, inplace=True),
            nn.Linear(16, num_classes),
        )

    @torch.jit.ignore
    def no_weight_decay(self):
        return set()

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        x = F.adaptive_avg_pool2d(x, 1).flatten(start_dim=1)
        return self.classifier(x)


def make():
    return MobileNet()


def loss(model, batch):
    logits = model(batch["x"])
    log_probs = F.log_softmax(logits, dim=-1)
    nll = -log_probs.gather(dim=-1, index=batch["y"].unsqueeze(1)).squeeze(1)
    smooth = -log_probs.mean(dim=-1)
    return (0.9 * nll + 0.1 * smooth).mean()
