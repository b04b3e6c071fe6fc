"""Detection and networks of examples/kernels against NumPy, in all ways of running them."""

from __future__ import annotations

import numpy as np
import pytest
from harness import MACHINES, example, run

detection, networks = example("detection"), example("networks")
rng = np.random.default_rng(6)


def wide(*shape: int) -> np.ndarray:
    return (rng.normal(size=shape) * 10.0 ** rng.uniform(-1, 1, size=shape)).astype(np.float32)


def aligned(image: np.ndarray, boxes: np.ndarray, bins: int) -> np.ndarray:
    """Bilinear means in float64, four samples a bin."""
    h, w, c = image.shape
    out = np.zeros((len(boxes), bins, bins, c))
    for n, (x1, y1, x2, y2) in enumerate(boxes.astype(float)):
        high, across = max(y2 - y1, 1) / bins, max(x2 - x1, 1) / bins
        for place in np.ndindex(bins, bins, 2, 2):
            y, x = (
                y1 + (place[0] + (place[2] + 0.5) / 2) * high,
                x1 + (place[1] + (place[3] + 0.5) / 2) * across,
            )
            if -1 < y < h and -1 < x < w:
                out[n, place[0], place[1]] += sampled(image, max(y, 0), max(x, 0)) / 4
    return out


def sampled(image: np.ndarray, y: float, x: float) -> np.ndarray:
    h, w, _ = image.shape
    top, left = min(int(y), h - 1), min(int(x), w - 1)
    below, right = min(top + 1, h - 1), min(left + 1, w - 1)
    fy, fx = (0.0 if top == below else y - top), (0.0 if left == right else x - left)
    upper = (1 - fx) * image[top, left] + fx * image[top, right]
    return (1 - fy) * upper + fy * ((1 - fx) * image[below, left] + fx * image[below, right])


@pytest.mark.parametrize("machine", MACHINES)
def test_roi_align(machine: str) -> None:
    image = wide(9, 11, 5)
    boxes = np.array([[-3, 2, 24, 13.5], [8.4, 6.6, 9.0, 6.8], [20, 16, 26, 24]], np.float32)
    given = [image, boxes, np.zeros((3, 2, 2, 5), np.float32), 9, 11, 5, 3, 0.5]
    out = run(detection.roi_align.meta(bins=2), given, machine, dim=(6, 1, 1))[2]
    assert np.allclose(out, aligned(image, boxes * np.float32(0.5), 2), rtol=1e-4, atol=1e-4)


def suppressed(boxes: np.ndarray, scores: np.ndarray, limit: float) -> list[int]:
    area = (boxes[2] - boxes[0]) * (boxes[3] - boxes[1])
    left, kept = list(np.argsort(-scores)), []
    while left:
        i = left.pop(0)
        kept.append(int(i))
        wide = np.maximum(np.minimum(boxes[2], boxes[2, i]) - np.maximum(boxes[0], boxes[0, i]), 0)
        high = np.maximum(np.minimum(boxes[3], boxes[3, i]) - np.maximum(boxes[1], boxes[1, i]), 0)
        both = wide * high
        over = both > np.float32(limit) * (area + area[i] - both)
        left = [j for j in left if not over[j]]
    return kept


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("n", [1, 41])
def test_nms(machine: str, n: int) -> None:
    corner, size = rng.uniform(0, 20, (2, n)), rng.uniform(1, 9, (2, n))
    boxes = np.concatenate([corner, corner + size]).astype(np.float32)
    scores = rng.permutation(n).astype(np.float32) - 5
    given = [boxes, scores, np.zeros(n, np.int32), np.zeros(1, np.int32), n, 0.3]
    _, _, kept, found = run(detection.nms, given, machine, dim=(2, 1, 1))
    want = suppressed(boxes, scores, 0.3)
    assert kept[: found[0]].tolist() == want


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("machine", MACHINES)
def test_lstm_cell(machine: str) -> None:
    b, i, h = 11, 7, 5
    x, state, cell, w, u, bias = (
        wide(b, i),
        wide(b, h),
        wide(b, h),
        wide(i, 4 * h),
        wide(h, 4 * h),
        wide(4 * h),
    )
    given = [x, state, cell, w, u, bias, state * 0, cell * 0, b, i, h]
    *_, new_state, new_cell = run(networks.lstm_cell.meta(rows=4, room=512), given, machine)
    gates = x.astype(float) @ w + state.astype(float) @ u + bias
    a, f, g, o = np.split(gates, 4, axis=1)
    want = sigmoid(f) * cell + sigmoid(a) * np.tanh(g)
    assert np.allclose(new_cell, want, rtol=1e-5, atol=1e-5)
    assert np.allclose(new_state, sigmoid(o) * np.tanh(want), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "machine, causal", [("dlp-m", True), ("dlp-s", False), ("dlp-s", True), ("mlu370-x4", False)]
)
def test_flash_attention(machine: str, causal: bool) -> None:
    q, k, v = wide(2, 21, 16), wide(2, 29, 16), wide(2, 29, 16)
    scores = np.einsum("hqd,hkd->hqk", q.astype(float), k) * 0.25
    if causal:
        scores = np.where(np.arange(29)[None, :] > np.arange(21)[:, None], -np.inf, scores)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    want = np.einsum("hqk,hkd->hqd", e / e.sum(-1, keepdims=True), v)
    chosen = networks.flash_attention.meta(width=16, rows=8, cols=8, causal=causal)
    out = run(chosen, [q, k, v, q * 0, 2, 21, 29, 0.25], machine)[3]
    assert np.allclose(out, want, rtol=2e-4, atol=2e-4)
