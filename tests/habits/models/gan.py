"""A generator and a discriminator with a gradient penalty, in one loss."""

import torch
import torch.nn as nn
from torch import autograd

BATCH = {
    "z": ("normal", (3, 7, 1, 1)),
    "real": ("normal", (3, 2, 16, 16)),
    "alpha": ("uniform", (3, 1, 1, 1)),
}


class Generator(nn.Module):
    def __init__(self, nz=7, ngf=4, nc=2):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(nz, ngf * 2, 4, 1, 0, bias=False),
            nn.BatchNorm2d(ngf * 2),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf * 2, ngf, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ngf),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf, nc, 4, 2, 1, bias=False),
            nn.Tanh(),
        )

    def forward(self, input):
        return self.main(input)


class Discriminator(nn.Module):
    def __init__(self, ndf=4, nc=2):
        super().__init__()
        self.main = nn.Sequential(
            nn.utils.spectral_norm(nn.Conv2d(nc, ndf, 4, 2, 1, bias=False)),
            nn.LeakyReLU(0.2),
            nn.Conv2d(ndf, ndf * 2, 4, 2, 1, bias=False),
            nn.GroupNorm(2, ndf * 2),
            nn.Softplus(),
            nn.Conv2d(ndf * 2, 1, 4, 1, 0, bias=False),
        )

    def forward(self, input):
        return self.main(input).view(-1, 1).squeeze(1)


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Conv") != -1 and hasattr(m, "weight_orig") is False:
        nn.init.normal_(m.weight.data, 0.0, 0.2)
    elif classname.find("BatchNorm") != -1:
        nn.init.normal_(m.weight.data, 1.0, 0.02)
        nn.init.constant_(m.bias.data, 0)


class GAN(nn.Module):
    def __init__(self):
        super().__init__()
        self.g = Generator()
        self.d = Discriminator()
        self.apply(weights_init)

    def penalty(self, real, fake, alpha):
        mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
        score = self.d(mixed)
        gradients = autograd.grad(
            outputs=score,
            inputs=mixed,
            grad_outputs=torch.ones_like(score),
            create_graph=True,
            retain_graph=True,
            only_inputs=True,
        )[0]
        gradients = gradients.view(gradients.size(0), -1)
        return ((gradients.norm(2, dim=1) - 1) ** 2).mean()


def make():
    return GAN()


def loss(model, batch):
    model.d.eval()
    fake = model.g(batch["z"])
    errD = model.d(batch["real"]).mean() - model.d(fake.detach()).mean()
    gp = model.penalty(batch["real"].data, fake.data, batch["alpha"])
    errG = nn.BCEWithLogitsLoss()(model.d(fake), torch.full((fake.size(0),), 1.0, dtype=fake.dtype))
    return errG - errD + 10 * gp
