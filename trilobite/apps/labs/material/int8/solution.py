"""Eight bits: quantise, multiply, requantise; then the same as one kernel of the processor."""

import numpy as np

from trilobite import dlp


def scale_of(x):
    largest = np.abs(x).max()
    return np.float32(largest / 127) if largest > 0 else np.float32(1)


def quantise(x, scale):
    return np.clip(np.rint(x / scale), -128, 127).astype(np.int8)


def product(a, b):
    return a.astype(np.int32) @ b.astype(np.int32)


def requantise(total, scale):
    exact = total.astype(np.float64) * scale
    return np.clip(np.rint(exact), -128, 127).astype(np.int8)


@dlp.kernel
def matmul_int8(
    a: dlp.gm[dlp.i8],
    b: dlp.gm[dlp.i8],
    scale: dlp.gm[dlp.f32],
    c: dlp.gm[dlp.i8],
    m: int,
    k: int,
    n: int,
    *,
    rows: int = 32,
    deepest: int = 512,
    widest: int = 256,
):
    weights, factors = dlp.wram(deepest * widest, dlp.i8), dlp.nram(widest, dlp.f32)
    dlp.copy(weights[: k * n], b[: k * n])
    dlp.copy(factors[:n], scale[:n])
    for i in dlp.pipeline(dlp.task_id() * rows, m, dlp.task_dim() * rows):
        now = min(rows, m - i)
        left, out = dlp.nram(rows * deepest, dlp.i8), dlp.nram(rows * widest, dlp.i8)
        dlp.load(left[: now * k], a[i * k : (i + now) * k])
        dlp.matmul(
            out[: now * n].view(now, n),
            left[: now * k].view(now, k),
            weights[: k * n].view(k, n),
            scale=factors[:n],
        )
        dlp.store(c[i * n : (i + now) * n], out[: now * n])
