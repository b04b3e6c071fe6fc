"""Images of examples/kernels against NumPy, in four ways of running them."""

from __future__ import annotations

import numpy as np
import pytest
from harness import MACHINES, example, run

images = example("images")
rng = np.random.default_rng(6)


def wide(*shape: int) -> np.ndarray:
    return (rng.normal(size=shape) * 10.0 ** rng.uniform(-1, 1, size=shape)).astype(np.float32)


def pooled(image: np.ndarray, op: object) -> np.ndarray:
    assert callable(op)
    p, q = image.shape[0] // 2, image.shape[1] // 2
    blocks = [
        [op(image[2 * i : 2 * i + 2, 2 * j : 2 * j + 2], axis=(0, 1)) for j in range(q)] for i in range(p)
    ]
    return np.array(blocks)


@pytest.mark.parametrize("machine", MACHINES)
def test_pooling(machine: str) -> None:
    image, none = wide(9, 11, 5), np.zeros((4, 5, 5), np.float32)
    assert (run(images.max_pool, [image, none, 9, 11, 5], machine)[1] == pooled(image, np.max)).all()
    mean = run(images.average_pool, [image, none, 9, 11, 5], machine)[1]
    assert np.allclose(mean, pooled(image.astype(float), np.mean), rtol=1e-6, atol=1e-6)


def convolved(image: np.ndarray, w: np.ndarray, stride: int, border: int) -> np.ndarray:
    framed, k = np.pad(image.astype(float), ((border, border), (border, border), (0, 0))), w.shape[1]
    p, q = ((e - k) // stride + 1 for e in framed.shape[:2])
    out = np.zeros((p, q, w.shape[0]))
    for i in range(p):
        for j in range(q):
            window = framed[i * stride : i * stride + k, j * stride : j * stride + k]
            out[i, j] = np.tensordot(w.astype(float), window, ([1, 2, 3], [0, 1, 2]))
    return out


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("stride, border, kernel", [(1, 1, 3), (2, 1, 3), (1, 0, 1), (2, 2, 5)])
def test_convolution(machine: str, stride: int, border: int, kernel: int) -> None:
    batch, w, bias = wide(2, 9, 11, 5), wide(7, kernel, kernel, 5), wide(7)
    want = np.stack([convolved(image, w, stride, border) for image in batch]) + bias
    chosen = images.convolution.meta(stride=stride, border=border, kernel=kernel)
    out = run(chosen, [batch, w, bias, np.zeros(want.shape, np.float32), 2, 9, 11, 5, 7], machine)[3]
    assert np.allclose(out, want, rtol=1e-5, atol=2e-4)


@pytest.mark.parametrize("machine", MACHINES)
def test_depthwise(machine: str) -> None:
    image, w = wide(9, 11, 5), wide(3, 3, 5)
    out = run(images.depthwise, [image, w, np.zeros((7, 9, 5), np.float32), 9, 11, 5], machine)[2]
    want = np.zeros((7, 9, 5), np.float32)
    for r in range(3):
        for s in range(3):
            want = want + image[r : r + 7, s : s + 9] * w[r, s]
    assert (out == want).all()
