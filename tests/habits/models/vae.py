"""A variational autoencoder with distributions, a prior of its own and a discrete code."""

import torch
import torch.utils.data
from torch import nn
from torch.distributions import Categorical, Independent, Normal, kl_divergence
from torch.nn import functional as F

BATCH = {"x": ("uniform", (3, 1, 8, 8)), "eps": ("normal", (3, 4)), "code": ("int", 5, (3,))}


class VAE(nn.Module):
    def __init__(self, latent=4):
        super(VAE, self).__init__()
        self.fc1 = nn.Linear(64, 20)
        self.fc21 = nn.Linear(20, latent)
        self.fc22 = nn.Linear(20, latent)
        self.codes = nn.Linear(20, 5)
        self.fc3 = nn.Linear(latent, 20)
        self.fc4 = nn.Linear(20, 64)
        self.prior_loc = nn.Parameter(torch.zeros(latent))
        self.prior_log_scale = nn.Parameter(torch.zeros(latent))

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1), self.codes(h1)

    def reparameterize(self, mu, logvar, eps):
        std = torch.exp(0.5 * logvar)
        return eps.mul(std).add_(mu)

    def decode(self, z):
        h3 = F.relu(self.fc3(z))
        return torch.sigmoid(self.fc4(h3))

    def forward(self, x, eps):
        mu, logvar, codes = self.encode(x.view(-1, 64))
        z = self.reparameterize(mu, logvar, eps)
        return self.decode(z), mu, logvar, codes


def make():
    return VAE()


def loss(model, batch):
    recon_x, mu, logvar, codes = model(batch["x"], batch["eps"])
    BCE = F.binary_cross_entropy(recon_x, batch["x"].view(-1, 64), reduction="sum")
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    q = Independent(Normal(mu, logvar.mul(0.5).exp()), 1)
    p = Independent(Normal(model.prior_loc.expand(3, -1), model.prior_log_scale.exp().expand(3, -1)), 1)
    code = Categorical(logits=codes)
    sampled = q.rsample()
    assert sampled.shape == mu.shape and sampled.requires_grad
    return BCE + KLD + kl_divergence(q, p).sum() - code.log_prob(batch["code"]).mean() + code.entropy().mean()
