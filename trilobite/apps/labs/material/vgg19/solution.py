"""VGG19 layer by layer in NumPy."""

import numpy as np


def conv3x3(x, w, b):
    n, _, height, width = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    out = np.zeros((n, len(w), height, width)) + b[:, None, None]
    for i in range(3):
        for j in range(3):  # one product for each place of the filter
            seen = padded[:, :, i : i + height, j : j + width]
            out += np.einsum("nchw,kc->nkhw", seen, w[:, :, i, j])
    return out


def max_pool2x2(x):
    n, c, height, width = x.shape
    even = x[:, :, : height // 2 * 2, : width // 2 * 2]
    return even.reshape(n, c, height // 2, 2, width // 2, 2).max(axis=(3, 5))


def multiplications(plan, side):
    counts, channels = [], 3
    for outputs in plan:
        if outputs == 0:
            side //= 2
        else:
            counts.append(outputs * channels * 9 * side * side)
            channels = outputs
    return counts


def vgg(x, plan, weights):
    values, remaining = [], iter(weights)
    for outputs in plan:
        if outputs == 0:
            x = max_pool2x2(x)
        else:
            w, b = next(remaining)
            x = np.maximum(conv3x3(x, w, b), 0)
        values.append(x)
    return values
