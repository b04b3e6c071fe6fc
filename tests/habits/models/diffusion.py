"""A noise schedule and a small network of time, with attention, that predicts the noise."""

import math

import torch
from torch import nn
from torch.nn import functional as F

BATCH = {"x": ("normal", (2, 3, 16, 16)), "noise": ("normal", (2, 3, 16, 16)), "t": ("int", 50, (2,))}


def get_timestep_embedding(
    timesteps: torch.Tensor, embedding_dim: int, flip_sin_to_cos=True, max_period: int = 10000
):
    assert len(timesteps.shape) == 1, "Timesteps should be a 1d-array"
    half_dim = embedding_dim // 2
    exponent = -math.log(max_period) * torch.arange(
        start=0, end=half_dim, dtype=torch.float64, device=timesteps.device
    )
    exponent = exponent / half_dim
    emb = torch.exp(exponent)
    emb = timesteps[:, None].double() * emb[None, :]
    emb = torch.cat([torch.sin(emb), torch.cos(emb)], dim=-1)
    if flip_sin_to_cos:
        emb = torch.cat([emb[:, half_dim:], emb[:, :half_dim]], dim=-1)
    if embedding_dim % 2 == 1:
        emb = F.pad(emb, (0, 1, 0, 0))
    return emb


class ResnetBlock2D(nn.Module):
    def __init__(self, in_channels, out_channels, temb_channels, groups=2):
        super().__init__()
        self.norm1 = torch.nn.GroupNorm(num_groups=groups, num_channels=in_channels, eps=1e-6, affine=True)
        self.conv1 = torch.nn.Conv2d(in_channels, out_channels, kernel_size=3, stride=1, padding=1)
        self.time_emb_proj = torch.nn.Linear(temb_channels, out_channels * 2)
        self.norm2 = torch.nn.GroupNorm(num_groups=groups, num_channels=out_channels)
        self.conv2 = torch.nn.Conv2d(out_channels, out_channels, 3, padding=1)
        self.nonlinearity = nn.SiLU()
        self.conv_shortcut = (
            torch.nn.Conv2d(in_channels, out_channels, 1) if in_channels != out_channels else None
        )

    def forward(self, input_tensor, temb):
        h = self.conv1(self.nonlinearity(self.norm1(input_tensor)))
        temb = self.time_emb_proj(self.nonlinearity(temb))[:, :, None, None]
        scale, shift = torch.chunk(temb, 2, dim=1)
        h = self.norm2(h) * (1 + scale) + shift
        h = self.conv2(self.nonlinearity(h))
        if self.conv_shortcut is not None:
            input_tensor = self.conv_shortcut(input_tensor)
        return (input_tensor + h) / 1.5


class AttnBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm = nn.GroupNorm(2, c)
        self.attention = nn.MultiheadAttention(c, 2, batch_first=True)

    def forward(self, x):
        b, c, h, w = x.shape
        y = self.norm(x).view(b, c, h * w).transpose(1, 2)
        y, _ = self.attention(y, y, y, need_weights=False)
        return x + y.transpose(1, 2).reshape(b, c, h, w)


class Downsample2D(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv = nn.Conv2d(c, c, 3, stride=2, padding=0)

    def forward(self, hidden_states):
        return self.conv(F.pad(hidden_states, (0, 1, 0, 1), mode="constant", value=0))


class UNet(nn.Module):
    def __init__(self, c=4):
        super().__init__()
        self.time_proj = nn.Sequential(nn.Linear(8, 12), nn.SiLU(), nn.Linear(12, 12))
        self.conv_in = nn.Conv2d(3, c, 3, padding=1)
        self.down = nn.ModuleList([ResnetBlock2D(c, c, 12), Downsample2D(c), ResnetBlock2D(c, 2 * c, 12)])
        self.mid = AttnBlock(2 * c)
        self.up = ResnetBlock2D(3 * c, c, 12)
        self.conv_out = nn.Conv2d(c, 3, 3, padding=1)

    @property
    def dtype(self) -> torch.dtype:
        return next(self.parameters()).dtype

    def forward(self, sample, timesteps):
        emb = self.time_proj(get_timestep_embedding(timesteps, 8).to(dtype=self.dtype))
        h1 = self.down[0](self.conv_in(sample), emb)
        h = self.down[2](self.down[1](h1), emb)
        h = F.interpolate(self.mid(h), scale_factor=2.0, mode="nearest")
        return self.conv_out(F.silu(self.up(torch.cat([h, h1], dim=1), emb)))


def make():
    model = UNet()
    betas = torch.linspace(1e-4**0.5, 0.02**0.5, 50, dtype=torch.float64) ** 2
    model.alphas_cumprod = torch.cumprod(1.0 - betas, dim=0)
    return model


def loss(model, batch):
    alphas_cumprod = model.alphas_cumprod.to(device=batch["x"].device, dtype=batch["x"].dtype)
    sqrt_alpha_prod = alphas_cumprod[batch["t"]] ** 0.5
    sqrt_alpha_prod = sqrt_alpha_prod.flatten()
    while len(sqrt_alpha_prod.shape) < len(batch["x"].shape):
        sqrt_alpha_prod = sqrt_alpha_prod.unsqueeze(-1)
    sqrt_one_minus = (1 - alphas_cumprod[batch["t"]]).sqrt().view(-1, 1, 1, 1)
    noisy = sqrt_alpha_prod * batch["x"] + sqrt_one_minus * batch["noise"]
    pred = model(noisy, batch["t"])
    snr_weight = torch.stack(
        [sqrt_alpha_prod.view(-1), 5 * torch.ones_like(batch["t"]).to(pred.dtype)], dim=1
    ).min(dim=1)[0]
    per_image = F.mse_loss(pred, batch["noise"], reduction="none").mean(dim=list(range(1, len(pred.shape))))
    return (per_image * snr_weight).mean()
