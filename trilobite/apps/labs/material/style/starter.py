"""Lab style: the losses and layers of style transfer, with tensors. Fill in what raises NotImplementedError.

trilobite lab style --check this_file.py
"""

from trilobite.nn import functional as F

import trilobite as tb


def gram(values):
    """values (n, c, h, w) -> (n, c, c): products of all pairs of channels, divided by c * h * w."""
    raise NotImplementedError


def total_variation(picture):
    """picture (n, 3, h, w) -> a number: the mean square of differences downwards plus that to the right."""
    raise NotImplementedError


def paint(content, style, features):
    """Two pictures (1, 3, h, w) and a function to features (1, c, h, w) -> a picture between 0 and 1."""
    picture = content.detach().clone().requires_grad_(True)
    opt = tb.optim.Adam([picture], lr=0.03)
    raise NotImplementedError


def instance_norm(x, scale, shift):
    """Each channel of each picture gets mean 0 and variance 1, then scale (c,) and shift (c,)."""
    raise NotImplementedError


def residual(x, w1, w2):
    """x + norm(conv(relu(norm(conv(x, w1))), w2)): 3x3, reflected edges, norms without scale and shift."""
    edges = F.pad(x, (1, 1, 1, 1), mode="reflect")
    raise NotImplementedError
