"""Lab vgg19: the layers of VGG19 in NumPy. Fill in what raises NotImplementedError.

    trilobite lab vgg19 --check this_file.py

A plan is a list of layers: a number is a 3x3 convolution to so many channels with its ReLU, 0 is a pooling.
"""

import numpy as np


def conv3x3(x, w, b):
    """x (n, c, height, width), w (k, c, 3, 3), b (k,) -> (n, k, height, width)."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    raise NotImplementedError


def max_pool2x2(x):
    """x (n, c, height, width) -> (n, c, height // 2, width // 2)."""
    raise NotImplementedError


def multiplications(plan, side):
    """How many multiplications every convolution makes of one RGB image of side x side pixels."""
    raise NotImplementedError


def vgg(x, plan, weights):
    """The values behind every layer of the plan; weights is a list of (w, b), one for each convolution."""
    raise NotImplementedError
