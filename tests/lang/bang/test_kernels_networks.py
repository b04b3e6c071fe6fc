"""The kernels of networks.mlu and clusters.mlu against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bang_harness import KERNELS, LEVELS, needs_clang, run

pytestmark = [needs_clang, pytest.mark.parametrize("level", LEVELS)]
NETWORKS = KERNELS / "networks.mlu"
CLUSTERS = KERNELS / "clusters.mlu"


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x.astype(np.float64)))


def test_lstm_cell(level: int, rng: np.random.Generator) -> None:
    gates, c = rng.standard_normal((4, 50)).astype(np.float32), rng.standard_normal(50).astype(np.float32)
    _, cell, hidden = run(NETWORKS, "lstm_cell", [gates, c, np.zeros(50, np.float32), 50], level=level)
    want = sigmoid(gates[1]) * c + sigmoid(gates[0]) * np.tanh(gates[2])
    np.testing.assert_allclose(cell, want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(hidden, sigmoid(gates[3]) * np.tanh(want), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(16, 32, 16), (21, 75, 24)])
def test_flash_attention(shape: tuple[int, int, int], level: int, rng: np.random.Generator) -> None:
    rows, keys, d = shape
    q, k, v = (rng.standard_normal((n, d)).astype(np.float32) * 2 for n in (rows, keys, keys))
    out = run(
        NETWORKS, "flash_attention", [q, k, v, np.zeros_like(q), rows, keys, d], (2, 1, 1), level=level
    )[3]
    scores = q.astype(np.float64) @ k.T / np.sqrt(d)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    np.testing.assert_allclose(out, weights / weights.sum(1, keepdims=True) @ v, rtol=2e-4, atol=1e-5)


def test_int8_product(level: int, rng: np.random.Generator) -> None:
    a, b = rng.integers(-128, 128, (9, 33)).astype(np.int8), rng.integers(-128, 128, (20, 33)).astype(np.int8)
    args = [a, b, np.zeros((9, 20), np.int32), np.zeros((9, 20), np.float32), 9, 20, 33, -3]
    c, scaled = run(NETWORKS, "matmul_int8", args, level=level)[2:]
    want = a.astype(np.int32) @ b.T.astype(np.int32)
    np.testing.assert_array_equal(c, want)
    np.testing.assert_array_equal(scaled, want / 8.0)


def test_int4_product(level: int, rng: np.random.Generator) -> None:
    a, b = rng.integers(-8, 8, (6, 32)), rng.integers(-8, 8, (10, 32))
    packed = [(x[:, ::2] & 15 | (x[:, 1::2] & 15) << 4).astype(np.uint8) for x in (a, b)]
    c = run(NETWORKS, "matmul_int4", [*packed, np.zeros((6, 10), np.int32), 6, 10, 32], level=level)[2]
    np.testing.assert_array_equal(c, a @ b.T)


def test_half_product(level: int, rng: np.random.Generator) -> None:
    a, b = rng.standard_normal((5, 40)).astype(np.float16), rng.standard_normal((30, 40)).astype(np.float16)
    c = run(NETWORKS, "matmul_half", [a, b, np.zeros((5, 30), np.float32), 5, 30, 40], level=level)[2]
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.T.astype(np.float64), rtol=1e-5, atol=1e-5)


def test_linear(level: int, rng: np.random.Generator) -> None:
    x, w, bias = (rng.standard_normal(s).astype(np.float32) for s in ((20,), (30, 20), (30,)))
    out = run(NETWORKS, "linear", [x, w, bias, np.zeros(30, np.float32), 30, 20], level=level)[3]
    np.testing.assert_allclose(out, w @ x + bias, rtol=1e-4, atol=1e-5)


def test_embedding_and_its_gradient(level: int, rng: np.random.Generator) -> None:
    table, index = rng.standard_normal((11, 6)).astype(np.float32), rng.integers(0, 11, 23).astype(np.int32)
    out = run(
        NETWORKS,
        "embedding",
        [table, index, np.zeros((23, 6), np.float32), 23, 6],
        (4, 1, 1),
        "union1",
        level=level,
    )[2]
    np.testing.assert_array_equal(out, table[index])
    whole = rng.integers(-9, 9, (23, 6)).astype(np.float32)
    added = run(
        NETWORKS,
        "scatter_add",
        [np.zeros((11, 6), np.float32), index, whole, 23, 6],
        (4, 1, 1),
        "union1",
        level=level,
    )[0]
    want = np.zeros((11, 6), np.float32)
    np.add.at(want, index, whole)
    np.testing.assert_array_equal(added, want)


def suppressed(boxes: Any, scores: Any, limit: float) -> list[int]:
    order, kept = list(np.argsort(-scores)), []
    while order:
        best = order.pop(0)
        kept.append(int(best))
        rest = []
        for i in order:
            w = min(boxes[2, best], boxes[2, i]) - max(boxes[0, best], boxes[0, i])
            h = min(boxes[3, best], boxes[3, i]) - max(boxes[1, best], boxes[1, i])
            shared = max(w, 0) * max(h, 0)
            area = [(boxes[2, j] - boxes[0, j]) * (boxes[3, j] - boxes[1, j]) for j in (best, i)]
            if shared <= limit * (sum(area) - shared):
                rest.append(i)
        order = rest
    return kept


def test_suppression(level: int, rng: np.random.Generator) -> None:
    corner, size = rng.uniform(0, 20, (2, 40)), rng.uniform(4, 12, (2, 40))
    boxes = np.concatenate([corner, corner + size]).astype(np.float32)
    scores = rng.permutation(40).astype(np.float32) + 1
    args = [boxes, scores, np.full(40, -1, np.int32), np.zeros(1, np.int32), 40, 0.5]
    kept, found = run(NETWORKS, "nms", args, level=level)[2:]
    want = suppressed(boxes, scores, 0.5)
    assert len(want) < 40
    np.testing.assert_array_equal(kept[: found[0]], want)


def test_cores_pass_their_block_to_the_next_core(level: int, rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 4, 100)).astype(np.float32)
    out = run(CLUSTERS, "neighbours", [x, np.zeros_like(x), 100], (8, 1, 1), "union2", level=level)[1]
    scaled = x * np.arange(1, 5, dtype=np.float32)[:, None]
    np.testing.assert_array_equal(out, np.roll(scaled, -1, axis=1))


def test_broadcast_table(level: int, rng: np.random.Generator) -> None:
    table, x = rng.standard_normal(99).astype(np.float32), rng.standard_normal((8, 99)).astype(np.float32)
    out = run(
        CLUSTERS, "broadcast_table", [table, x, np.zeros_like(x), 99], (8, 1, 1), "union2", level=level
    )[2]
    np.testing.assert_array_equal(out, x + table)


def test_reduce_all(level: int, rng: np.random.Generator) -> None:
    x = rng.integers(-9, 9, (8, 50)).astype(np.float32)
    args = [x, np.zeros(8, np.float32), np.zeros(1, np.float32), 50]
    out = run(CLUSTERS, "reduce_all", args, (8, 1, 1), "union2", level=level)[2]
    assert out[0] == x.sum()


def test_ping_pong(level: int, rng: np.random.Generator) -> None:
    x = rng.standard_normal(4 * 256 * 3).astype(np.float32)
    out = run(CLUSTERS, "ping_pong", [x, np.zeros_like(x), len(x)], (4, 1, 1), "union1", level=level)[1]
    np.testing.assert_array_equal(out, x * x + 1)


def test_exchange(level: int, rng: np.random.Generator) -> None:
    x = rng.standard_normal((4, 64)).astype(np.float32)
    out = run(CLUSTERS, "exchange", [x, np.zeros_like(x), 64], (16, 1, 1), "union4", level=level)[1]
    np.testing.assert_array_equal(out, np.roll(x, 1, axis=0))
