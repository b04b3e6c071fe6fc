"""Style transfer: the losses of the optimisation, and the layers of the real-time network."""

from trilobite.nn import functional as F

import trilobite as tb


def gram(values):
    n, c, h, w = values.shape
    rows = values.reshape(n, c, h * w)
    return rows @ rows.transpose(1, 2) / (c * h * w)


def total_variation(picture):
    down = picture[:, :, 1:] - picture[:, :, :-1]
    right = picture[:, :, :, 1:] - picture[:, :, :, :-1]
    return (down * down).mean() + (right * right).mean()


def paint(content, style, features, steps=60):
    wanted_style = gram(features(style)).detach()
    wanted_content = features(content).detach()
    picture = content.detach().clone().requires_grad_(True)
    opt = tb.optim.Adam([picture], lr=0.03)

    @tb.jit
    def step():
        opt.zero_grad()
        seen = features(picture)
        loss = 1e4 * ((gram(seen) - wanted_style) ** 2).mean() + 0.01 * total_variation(picture)
        loss = loss + 0.01 * ((seen - wanted_content) ** 2).mean()
        loss.backward()
        opt.step()
        with tb.no_grad():
            picture[...] = tb.clip(picture, 0.0, 1.0)
        return loss

    for _ in range(steps):
        step()
    return picture.detach()


def instance_norm(x, scale, shift):
    mean = x.mean(axis=(2, 3), keepdims=True)
    centred = x - mean
    variance = (centred * centred).mean(axis=(2, 3), keepdims=True)
    return centred / tb.sqrt(variance + 1e-5) * scale.reshape(1, -1, 1, 1) + shift.reshape(1, -1, 1, 1)


def residual(x, w1, w2):
    ones, zeros = tb.ones(x.shape[1], dtype=x.dtype), tb.zeros(x.shape[1], dtype=x.dtype)

    def layer(values, w):
        edges = F.pad(values, (1, 1, 1, 1), mode="reflect")
        return instance_norm(F.conv2d(edges, w), ones, zeros)

    return x + layer(F.relu(layer(x, w1)), w2)
