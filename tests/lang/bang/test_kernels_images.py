"""The kernels of images.mlu and matmul_ladder.mlu against NumPy."""

# ruff: noqa: E501 (tables and sources of kernels)
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bang_harness import KERNELS, LEVELS, needs_clang, run

pytestmark = [needs_clang, pytest.mark.parametrize("level", LEVELS)]
IMAGES = KERNELS / "images.mlu"
LADDER = KERNELS / "matmul_ladder.mlu"
STEPS = ["1_scalar_gdram", "2_scalar_nram", "3_matrix", "4_cores", "5_pipeline", "6_sram"]


def windows(x: Any, kh: int, kw: int, sh: int, sw: int) -> Any:
    """[p][q][c][kh][kw]"""
    found = np.lib.stride_tricks.sliding_window_view(x, (kh, kw), axis=(0, 1))
    return found[::sh, ::sw]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("shape", [(9, 7, 5), (37, 128, 24)])
def test_ladder(step: str, shape: tuple[int, int, int], level: int, rng: np.random.Generator) -> None:
    m, n, k = shape
    if step[0] in "12":
        m, n = min(m, 11), min(n, 13)
    a, b = rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((n, k)).astype(np.float32)
    dim, task = ((8, 1, 1), "union2") if step[0] in "456" else ((1, 1, 1), "block")
    out = run(
        LADDER, f"matmul_{step}", [np.zeros((m, n), np.float32), a, b, m, n, k], dim, task, level=level
    )[0]
    np.testing.assert_allclose(out, a.astype(np.float64) @ b.T.astype(np.float64), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("window", [(2, 2, 2, 2), (3, 2, 1, 2)])
def test_pooling(window: tuple[int, int, int, int], level: int, rng: np.random.Generator) -> None:
    x = rng.standard_normal((9, 8, 5)).astype(np.float32)
    found = windows(x, *window)
    out = np.zeros(found.shape[:3], np.float32)
    most = run(IMAGES, "max_pool", [x, out, 9, 8, 5, *window], level=level)[1]
    np.testing.assert_array_equal(most, found.max((3, 4)))
    mean = run(IMAGES, "average_pool", [x, out, 9, 8, 5, *window], level=level)[1]
    np.testing.assert_allclose(mean, found.mean((3, 4)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("channels", [(3, 8), (4, 64), (2, 128)])
def test_convolution(channels: tuple[int, int], level: int, rng: np.random.Generator) -> None:
    ci, co = channels
    x, f = (
        rng.standard_normal((6, 7, ci)).astype(np.float32),
        rng.standard_normal((co, 3, 3, ci)).astype(np.float32),
    )
    out = run(
        IMAGES, "convolution", [x, f, np.zeros((6, 7, co), np.float32), 6, 7, ci, co, 3, 1], level=level
    )[2]
    padded = np.pad(x, ((1, 1), (1, 1), (0, 0))).astype(np.float64)
    want = np.einsum("pqcrs,orsc->pqo", windows(padded, 3, 3, 1, 1), f.astype(np.float64))
    np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-5)


def test_depthwise(level: int, rng: np.random.Generator) -> None:
    x, f = (
        rng.standard_normal((8, 9, 6)).astype(np.float32),
        rng.standard_normal((3, 3, 6)).astype(np.float32),
    )
    out = run(
        IMAGES,
        "depthwise",
        [x, f, np.zeros((6, 7, 6), np.float32), 8, 9, 6, 3],
        (4, 1, 1),
        "union1",
        level=level,
    )[2]
    want = np.einsum("pqcrs,rsc->pqc", windows(x, 3, 3, 1, 1), f)
    np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-5)


def test_turns(level: int, rng: np.random.Generator) -> None:
    x = rng.standard_normal((5, 8)).astype(np.float32)
    empty = np.zeros(40, np.float32)
    found = run(IMAGES, "turn", [x, empty, empty, empty, empty, 5, 8], level=level)[1:]
    np.testing.assert_array_equal(found[0].reshape(8, 5), np.rot90(x, -1))
    np.testing.assert_array_equal(found[1].reshape(5, 8), np.rot90(x, 2))
    np.testing.assert_array_equal(found[2].reshape(8, 5), np.rot90(x))
    np.testing.assert_array_equal(found[3].reshape(5, 8), x[:, ::-1])


def bilinear(x: Any, fy: float, fx: float) -> Any:
    h, w, _ = x.shape
    if fy < -1 or fy > h or fx < -1 or fx > w:
        return np.zeros(x.shape[2])
    fy, fx = min(max(fy, 0), h - 1), min(max(fx, 0), w - 1)
    y0, x0 = int(fy), int(fx)
    y1, x1 = min(y0 + 1, h - 1), min(x0 + 1, w - 1)
    ly, lx = fy - y0, fx - x0
    return ((1 - ly) * (1 - lx) * x[y0, x0] + (1 - ly) * lx * x[y0, x1]
            + ly * (1 - lx) * x[y1, x0] + ly * lx * x[y1, x1])  # fmt: skip


def test_roi_align(level: int, rng: np.random.Generator) -> None:
    x = rng.standard_normal((10, 12, 7)).astype(np.float32)
    boxes = np.array([[0, 0, 20, 16], [3.3, 5.1, 11.7, 9.2], [18, 14, 30, 30]], np.float32)
    out = run(IMAGES, "roi_align", [x, boxes, np.zeros((3, 2, 2, 7), np.float32), 10, 12, 7, 3, 2, 2, 0.5],
              (2, 1, 1), level=level)[2]  # fmt: skip
    for n, box in enumerate(boxes * 0.5):
        bw, bh = max(box[2] - box[0], 1) / 2, max(box[3] - box[1], 1) / 2
        for p in range(2):
            for q in range(2):
                taps = [bilinear(x, box[1] + p * bh + (i + 0.5) * bh / 2, box[0] + q * bw + (j + 0.5) * bw / 2)
                        for i in range(2) for j in range(2)]  # fmt: skip
                np.testing.assert_allclose(out[n, p, q], np.mean(taps, 0), rtol=1e-4, atol=1e-5)
