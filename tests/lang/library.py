"""The kernels of examples/kernels as a table: random inputs, a call in each language, what NumPy says.

`same` says how near the two languages must come to each other: 0 means the same bits, because both name the
same instructions in the same order; otherwise it is a bound in float32 roundings of the largest result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from harness import example

from trilobite.processor.isa.formats import I4, pack

matmul, elementwise, rows = example("matmul"), example("elementwise"), example("rows")
moves, images = example("arrangement"), example("images")
detection, networks = example("detection"), example("networks")
Array = np.ndarray[Any, Any]
MANY = (4, 1, 1)


@dataclass(frozen=True)
class Call:
    """One way to say a kernel: what is launched, with which arguments, which of the arrays are results."""

    kernel: Any  # a Python kernel, or (file, entry, *defines) of BANG C
    args: Sequence[Any]
    results: Sequence[int]
    dim: tuple[int, int, int] = MANY
    task: str = "block"


@dataclass(frozen=True)
class Case:
    """A kernel with its inputs. `near` bounds the distance to NumPy, `same` that between the languages."""

    python: Call
    bang: Call
    want: Sequence[Array]
    near: float
    same: float = 0.0


CASES: dict[str, Callable[[np.random.Generator], Case]] = {}


def case(make: Callable[[np.random.Generator], Case]) -> Callable[[np.random.Generator], Case]:
    CASES[make.__name__] = make
    return make


def wide(rng: np.random.Generator, *shape: int, low: float = -1.5) -> Array:
    """Signed values over several powers of ten."""
    return (rng.normal(size=shape) * 10.0 ** rng.uniform(low, 1, size=shape)).astype(np.float32)


def none(*shape: int, dtype: Any = np.float32) -> Array:
    return np.zeros(shape, dtype)


# ---- the ladder

STEPS = {1: "1_scalar_gdram", 2: "2_scalar_nram", 3: "3_matrix", 4: "4_cores", 5: "5_pipeline", 6: "6_sram"}


def ladder(step: int, rng: np.random.Generator) -> Case:
    m, k, n = (5, 7, 3) if step < 3 else (37, 19, 64 if step == 5 else 23)
    a, b = wide(rng, m, k), wide(rng, k, n)
    kernel = getattr(matmul, f"step{step}")
    if step > 3:
        kernel = kernel.meta(rows=4, room=2432) if step == 6 else kernel.meta(rows=4)
    dim = (1, 1, 1) if step < 4 else (8, 1, 1) if step == 6 else MANY
    task, union = (
        ("union1", "union2") if step == 6 else ("block", "block")
    )  # BANG C counts its union's clusters
    transposed = np.ascontiguousarray(b.T)
    return Case(
        Call(kernel, [a, b, none(m, n), m, k, n], [2], dim, task),
        Call(("matmul_ladder", f"matmul_{STEPS[step]}", "ROWS=4"), [none(m, n), a, transposed, m, n, k],
             [0], dim, union),
        [a.astype(float) @ b], 20,
    )  # fmt: skip


for number in STEPS:
    CASES[f"ladder_{number}"] = lambda rng, step=number: ladder(step, rng)


@case
def matmul_fp16(rng: np.random.Generator) -> Case:
    m, k, n = 37, 19, 23
    a, b = (rng.normal(size=s).astype(np.float16) for s in ((m, k), (k, n)))
    return Case(
        Call(matmul.matmul_fp16.meta(rows=4), [a, b, none(m, n, dtype=np.float16), m, k, n], [2]),
        Call(("pipelines", "matmul_half", "ROWS=4"),
             [none(m, n, dtype=np.float16), a, np.ascontiguousarray(b.T), m, n, k], [0]),
        [a.astype(float) @ b.astype(float)], 2.0**13,
    )  # fmt: skip


def integers(rng: np.random.Generator, bits: int) -> tuple[Array, ...]:
    low, high = -(1 << (bits - 1)), 1 << (bits - 1)
    a, b = (rng.integers(low, high, s).astype(np.int8) for s in ((37, 20), (20, 24)))
    scale = wide(rng, 24)
    want = ((a.astype(np.int64) @ b.astype(np.int64)).astype(float) * scale).astype(np.float32)
    return a, b, scale, want


@case
def matmul_int8(rng: np.random.Generator) -> Case:
    a, b, scale, want = integers(rng, 8)
    return Case(
        Call(matmul.matmul_int8.meta(rows=4), [a, b, scale, none(37, 24), 37, 20, 24], [3]),
        Call(("pipelines", "matmul_int8", "ROWS=4"),
             [none(37, 24), a, np.ascontiguousarray(b.T), scale, 37, 24, 20], [0]),
        [want], 0,
    )  # fmt: skip


@case
def matmul_int4(rng: np.random.Generator) -> Case:
    a, b, scale, want = integers(rng, 4)
    left, right = pack(I4, a), pack(I4, np.ascontiguousarray(b.T))
    return Case(
        Call(matmul.matmul_int4.meta(rows=4), [left, pack(I4, b), scale, none(37, 24), 37, 20, 24], [3]),
        Call(("networks", "scaled_int4"), [left, right, scale, none(37, 24), 37, 24, 20], [3], (1, 1, 1)),
        [want], 0,
    )  # fmt: skip


# ---- streams and rows


@case
def power_difference(rng: np.random.Generator) -> Case:
    x, y = wide(rng, 999), wide(rng, 999)
    want = (x - y) * (x - y) * (x - y)
    return Case(
        Call(elementwise.power_difference.meta(tile=100), [x, y, none(999), 999, 3], [2]),
        Call(("power_difference", "power_difference<float>"), [x, y, none(999), 999, 3], [2]),
        [want], 0,
    )  # fmt: skip


@case
def sigmoid(rng: np.random.Generator) -> Case:
    x = wide(rng, 1301)
    return Case(
        Call(elementwise.sigmoid.meta(tile=64), [x, none(1301), 1301], [1]),
        Call(("activations", "sigmoid_forward"), [x, none(1301), 1301], [1]),
        [1 / (1 + np.exp(-x.astype(float)))], 4,
    )  # fmt: skip


@case
def sigmoid_backward(rng: np.random.Generator) -> Case:
    y, dy = rng.uniform(0, 1, 1301).astype(np.float32), wide(rng, 1301)
    want = dy.astype(float) * y * (1 - y.astype(float))
    return Case(
        Call(elementwise.sigmoid_backward.meta(tile=64), [y, dy, none(1301), 1301], [2]),
        Call(("activations", "sigmoid_backward"), [y, dy, none(1301), 1301], [2]),
        [want], 3, same=2,
    )  # fmt: skip


@case
def softmax(rng: np.random.Generator) -> Case:
    a = wide(rng, 13, 137)
    e = np.exp(a.astype(float) - a.max(1, keepdims=True))
    return Case(
        Call(rows.softmax.meta(tile=512), [a, none(13, 137), 13, 137], [1]),
        Call(("pipelines", "softmax"), [a, none(13, 137), 13, 137], [1]),
        [e / e.sum(1, keepdims=True)], 8, same=8,
    )  # fmt: skip


@case
def layer_norm(rng: np.random.Generator) -> Case:
    a, gamma, beta = wide(rng, 13, 137), wide(rng, 137), wide(rng, 137)
    b = a.astype(float)
    want = (b - b.mean(1, keepdims=True)) / np.sqrt(b.var(1, keepdims=True) + 1e-5) * gamma + beta
    return Case(
        Call(rows.layer_norm.meta(tile=512), [a, gamma, beta, none(13, 137), 13, 137, 1e-5], [3]),
        Call(("pipelines", "layer_norm"), [a, gamma, beta, none(13, 137), 13, 137, 1e-5], [3]),
        [want], 8, same=8,
    )  # fmt: skip


# ---- what moves


@case
def transpose(rng: np.random.Generator) -> Case:
    a = wide(rng, 70, 133)
    return Case(
        Call(moves.transpose.meta(block=16), [a, none(133, 70), 70, 133], [1]),
        Call(("rows", "transpose"), [a, none(133, 70), 70, 133], [1]),
        [a.T], 0,
    )  # fmt: skip


@case
def reduce_rows(rng: np.random.Generator) -> Case:
    a = wide(rng, 21, 70)
    return Case(
        Call(moves.reduce_rows.meta(tile=128), [a, none(21), none(21), 21, 70], [1]),
        Call(("rows", "row_sum"), [a, none(21), 21, 70], [1]),
        [a.astype(float).sum(1)], 16,
    )  # fmt: skip


@case
def reduce_maximum(rng: np.random.Generator) -> Case:
    a = wide(rng, 21, 70)
    return Case(
        Call(moves.reduce_rows.meta(tile=32), [a, none(21), none(21), 21, 70], [2]),
        Call(("rows", "row_argmax"), [a, none(21), none(21, dtype=np.int32), 21, 70], [1]),
        [a.max(1)], 0,
    )  # fmt: skip


@case
def reduce_columns(rng: np.random.Generator) -> Case:
    a = wide(rng, 21, 70)
    want = none(70)
    for row in a:
        want = want + row
    return Case(
        Call(moves.reduce_columns.meta(tile=32), [a, none(70), 21, 70], [1]),
        Call(("rows", "column_sum"), [a, none(70), 21, 70], [1]),
        [want], 0,
    )  # fmt: skip


@case
def top_k(rng: np.random.Generator) -> Case:
    a = rng.integers(-40, 40, (6, 70)).astype(np.float32)  # with equal elements
    places = np.argsort(-a, axis=1, kind="stable")[:, :7]
    out = [none(6, 7), none(6, 7, dtype=np.int32)]
    return Case(
        Call(moves.top_k.meta(tile=32, room=64), [a, *out, 6, 70, 7], [1, 2]),
        Call(("rows", "top_k"), [a, *out, 6, 70, 7], [1, 2]),
        [np.take_along_axis(a, places, 1), places], 0,
    )  # fmt: skip


@case
def embedding_gather(rng: np.random.Generator) -> Case:
    table, ids = wide(rng, 20, 19), rng.integers(0, 20, 33).astype(np.int32)
    return Case(
        Call(moves.embedding.meta(batch=8), [table, ids, none(33, 19), 33, 19], [2]),
        Call(("networks", "embedding"), [table, ids, none(33, 19), 33, 19], [2]),
        [table[ids]], 0,
    )  # fmt: skip


@case
def scatter_add(rng: np.random.Generator) -> Case:
    table, ids, grad = wide(rng, 20, 19), rng.integers(0, 20, 33).astype(np.int32), wide(rng, 33, 19)
    want = table.copy()
    for i, name in enumerate(ids):
        want[name] += grad[i]
    return Case(
        Call(moves.embedding_backward, [grad, ids, table, 33, 19, 20], [2]),
        Call(("networks", "scatter_add"), [table, ids, grad, 33, 19], [0], (1, 1, 1)),
        [want], 0,
    )  # fmt: skip


# ---- images and boxes


def windows(image: Array, k: int, stride: int = 1) -> Array:
    """[p][q][c][k][k]"""
    return np.lib.stride_tricks.sliding_window_view(image, (k, k), axis=(0, 1))[::stride, ::stride]


def pooling(rng: np.random.Generator, name: str, near: float) -> Case:
    image = wide(rng, 9, 11, 5)
    found = windows(image.astype(float), 2, 2)
    want = found.max((3, 4)) if name == "max_pool" else found.mean((3, 4))
    return Case(
        Call(getattr(images, name), [image, none(4, 5, 5), 9, 11, 5], [1]),
        Call(("images", name), [image, none(4, 5, 5), 9, 11, 5, 2, 2, 2, 2], [1], (1, 1, 1)),
        [want], near,
    )  # fmt: skip


@case
def max_pool(rng: np.random.Generator) -> Case:
    return pooling(rng, "max_pool", 0)


@case
def average_pool(rng: np.random.Generator) -> Case:
    return pooling(rng, "average_pool", 4)


@case
def convolution(rng: np.random.Generator) -> Case:
    batch, w, bias = wide(rng, 2, 9, 11, 5), wide(rng, 64, 3, 3, 5), wide(rng, 64)
    framed = np.pad(batch.astype(float), ((0, 0), (1, 1), (1, 1), (0, 0)))
    want = np.stack([np.einsum("pqcrs,orsc->pqo", windows(x, 3), w) for x in framed]) + bias
    given = [batch, w, bias, none(*want.shape), 2, 9, 11, 5, 64]
    return Case(
        Call(images.convolution, given, [3]), Call(("pipelines", "convolution"), [*given, 3], [3]), [want], 30
    )


@case
def depthwise(rng: np.random.Generator) -> Case:
    image, w = wide(rng, 9, 11, 5), wide(rng, 3, 3, 5)
    want = none(7, 9, 5)
    for r in range(3):
        for s in range(3):
            want = want + image[r : r + 7, s : s + 9] * w[r, s]
    given = [image, w, none(7, 9, 5), 9, 11, 5]
    return Case(
        Call(images.depthwise, given, [2]), Call(("images", "depthwise"), [*given, 3], [2]), [want], 0
    )


def sampled(image: Array, y: float, x: float) -> Array:
    h, w, _ = image.shape
    top, left = min(int(y), h - 1), min(int(x), w - 1)
    below, right = min(top + 1, h - 1), min(left + 1, w - 1)
    fy, fx = (0.0 if top == below else y - top), (0.0 if left == right else x - left)
    upper = (1 - fx) * image[top, left] + fx * image[top, right]
    found: Array = (1 - fy) * upper + fy * ((1 - fx) * image[below, left] + fx * image[below, right])
    return found


@case
def roi_align(rng: np.random.Generator) -> Case:
    image, bins = wide(rng, 9, 11, 5, low=-0.5), 2
    boxes = np.array([[-3, 2, 24, 13.5], [8.4, 6.6, 9.0, 6.8], [20, 16, 26, 24]], np.float32)
    want = np.zeros((3, bins, bins, 5))
    for n, (x1, y1, x2, y2) in enumerate(boxes.astype(float) / 2):
        high, across = max(y2 - y1, 1) / bins, max(x2 - x1, 1) / bins
        for p, q, i, j in np.ndindex(bins, bins, 2, 2):
            y, x = y1 + (p + (i + 0.5) / 2) * high, x1 + (q + (j + 0.5) / 2) * across
            if -1 < y < 9 and -1 < x < 11:
                want[n, p, q] += sampled(image.astype(float), max(y, 0), max(x, 0)) / 4
    given = [image, boxes, none(3, bins, bins, 5), 9, 11, 5, 3]
    return Case(
        Call(detection.roi_align.meta(bins=bins), [*given, 0.5], [2]),
        Call(("images", "roi_align"), [*given, bins, 2, 0.5], [2]),
        [want], 64, same=64,
    )  # fmt: skip


@case
def nms(rng: np.random.Generator) -> Case:
    n, limit = 41, np.float32(0.3)
    corner, size = rng.uniform(-9, 11, (2, n)), rng.uniform(1, 9, (2, n))
    boxes = np.concatenate([corner, corner + size]).astype(np.float32)
    scores = (rng.permutation(n) + 1).astype(np.float32)
    area = (boxes[2] - boxes[0]) * (boxes[3] - boxes[1])
    left, kept = list(np.argsort(-scores)), none(n, dtype=np.int32)
    count = 0
    while left:
        i = left.pop(0)
        kept[count], count = i, count + 1
        across = np.maximum(np.minimum(boxes[2], boxes[2, i]) - np.maximum(boxes[0], boxes[0, i]), 0)
        high = np.maximum(np.minimum(boxes[3], boxes[3, i]) - np.maximum(boxes[1], boxes[1, i]), 0)
        both = across * high
        left = [j for j in left if not (both > limit * (area + area[i] - both))[j]]
    given = [boxes, scores, none(n, dtype=np.int32), none(1, dtype=np.int32), n, float(limit)]
    return Case(
        Call(detection.nms, given, [2, 3], (2, 1, 1)), Call(("networks", "nms"), given, [2, 3], (1, 1, 1)),
        [kept, np.array([count])], 0,
    )  # fmt: skip


# ---- networks


def logistic(x: Array) -> Array:
    found: Array = 1 / (1 + np.exp(-x))
    return found


@case
def lstm_cell(rng: np.random.Generator) -> Case:
    b, i, h = 21, 7, 5
    x, state, cell = wide(rng, b, i, low=-1), wide(rng, b, h, low=-1), wide(rng, b, h, low=-1)
    w, u, bias = rng.normal(size=(i, 4 * h)), rng.normal(size=(h, 4 * h)), rng.normal(size=4 * h)
    w, u, bias = (v.astype(np.float32) for v in (w, u, bias))
    a, f, g, o = np.split(x.astype(float) @ w + state.astype(float) @ u + bias, 4, axis=1)
    want = logistic(f) * cell + logistic(a) * np.tanh(g)
    out = none(b, h), none(b, h)
    across = [np.ascontiguousarray(v.T) for v in (w, u)]
    return Case(
        Call(networks.lstm_cell.meta(rows=4, room=512), [x, state, cell, w, u, bias, *out, b, i, h], [6, 7]),
        Call(("networks", "lstm_step"), [x, state, cell, *across, bias, b, i, h], [1, 2]),
        [logistic(o) * np.tanh(want), want], 200, same=200,
    )  # fmt: skip


@case
def flash_attention(rng: np.random.Generator) -> Case:
    q, k, v = wide(rng, 1, 21, 16, low=-1), wide(rng, 1, 29, 16, low=-1), wide(rng, 1, 29, 16)
    scores = (q[0].astype(float) @ k[0].T) * 0.25
    e = np.exp(scores - scores.max(-1, keepdims=True))
    want = (e / e.sum(-1, keepdims=True)) @ v[0]
    chosen = networks.flash_attention.meta(width=16, rows=8, cols=8)
    return Case(
        Call(chosen, [q, k, v, none(1, 21, 16), 1, 21, 29, 0.25], [3]),
        Call(("pipelines", "flash_attention", "QUERIES=8", "KEYS=8"),
             [q[0], k[0], v[0], none(21, 16), 21, 29, 16], [3]),
        [want], 400, same=400,
    )  # fmt: skip
