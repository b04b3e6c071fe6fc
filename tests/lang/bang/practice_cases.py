"""What the kernels of corpus/practice compute, by NumPy: arguments, launch, and the arrays they must leave."""

# ruff: noqa: E501 (tables of cases)
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

F32, F16, BF16 = np.float32, np.float16, ml_dtypes.bfloat16
Array = Any


@dataclass(frozen=True)
class Case:
    """One launch. `want` names the arguments that are results, with what they hold, and how near they must be."""

    file: str
    entry: str
    args: list[Any]
    want: dict[int, Array]
    dim: tuple[int, int, int] = (1, 1, 1)
    task: str = "block"
    near: float = 1e-5
    machines: tuple[str, ...] = field(default=("mlu370-x4", "mlu590"))


CASES: dict[str, Callable[[np.random.Generator], Case]] = {}
UNION = {"dim": (4, 1, 1), "task": "union1"}


def case(function: Callable[[np.random.Generator], Case]) -> Callable[[np.random.Generator], Case]:
    CASES[function.__name__] = function
    return function


def record(**fields: tuple[str, Any]) -> Any:
    """A struct of C: name=(type, value)."""
    made = np.zeros(
        (),
        np.dtype(
            [
                (name, *kind.split("*"))
                if "*" not in kind
                else (name, kind.split("*")[0], int(kind.split("*")[1]))
                for name, (kind, _) in fields.items()
            ],
            align=True,
        ),
    )
    for name, (_, value) in fields.items():
        made[name] = value
    return made[()]


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def attention(rng: np.random.Generator, causal: bool, sq: int, sk: int) -> Case:
    q, k, v = (rng.standard_normal((2, n, 64)).astype(F32) for n in (sq, sk, sk))
    s = q.astype(float) @ k.astype(float).transpose(0, 2, 1) * 0.125
    if causal:
        s = np.where(np.arange(sk)[None, :] <= np.arange(sq)[:, None], s, -np.inf)
    p = record(sq=("i4", sq), sk=("i4", sk), scale=("f4", 0.125), causal=("?", causal))
    return Case(
        "attention",
        "attention",
        [q, k, v, np.zeros_like(q), p],
        {3: softmax(s) @ v},
        (4, 2, 1),
        "union1",
        2e-5,
    )


@case
def attention_full(rng: np.random.Generator) -> Case:
    return attention(rng, False, 37, 150)


@case
def attention_causal(rng: np.random.Generator) -> Case:
    return attention(rng, True, 70, 70)


def layer_norm(rng: np.random.Generator, kind: str, dtype: Any, near: float) -> Case:
    rows, cols = 11, 203
    x, g, b = (rng.standard_normal(s).astype(dtype) for s in ((rows, cols), cols, cols))
    w = x.astype(float)
    mean = w.mean(1, keepdims=True)
    y = (w - mean) / np.sqrt(w.var(1, keepdims=True) + 1e-5) * g.astype(float) + b.astype(float)
    args = [x, g, b, np.zeros_like(x), np.zeros(rows, F32), rows, cols, 1e-5]
    return Case("layer_norm", f"layerNorm<{kind}>", args, {3: y, 4: mean[:, 0]}, near=near, **UNION)


@case
def layer_norm_float(rng: np.random.Generator) -> Case:
    return layer_norm(rng, "float", F32, 1e-5)


@case
def layer_norm_half(rng: np.random.Generator) -> Case:
    return layer_norm(rng, "half", F16, 2e-3)


@case
def layer_norm_bfloat16(rng: np.random.Generator) -> Case:
    return layer_norm(rng, "bfloat16_t", BF16, 1e-2)


@case
def conv_im2col(rng: np.random.Generator) -> Case:
    h, w, c, k, stride, pad, oc = 13, 17, 7, 3, 2, 1, 64
    x = rng.uniform(-1, 1, (h, w, c)).astype(F16)
    f = rng.uniform(-0.5, 0.5, (oc, k, k, c)).astype(F16)
    b = rng.uniform(-1, 1, oc).astype(F16)
    padded = np.pad(x.astype(float), ((pad, pad), (pad, pad), (0, 0)))
    ho, wo = (h + 2 * pad - k) // stride + 1, (w + 2 * pad - k) // stride + 1
    y = np.zeros((ho, wo, oc))
    for i in range(ho):
        for j in range(wo):
            y[i, j] = np.tensordot(f.astype(float), padded[i * 2 : i * 2 + k, j * 2 : j * 2 + k], 3) + b
    p = record(
        h=("i4", h), w=("i4", w), c=("i4", c), k=("i4", k), s=("i4", stride), p=("i4", pad), o=("i4", oc)
    )
    return Case(
        "conv_im2col",
        "convIm2col",
        [x, f, b, np.zeros((ho, wo, oc), F16), p],
        {3: np.maximum(y, 0)},
        near=1e-2,
        **UNION,
    )


def top_k(rng: np.random.Generator, entry: str) -> Case:
    rows, n, k = 5, 333, 17
    x = rng.permutation(rows * n).reshape(rows, n).astype(F32)
    order = np.argsort(-x, axis=1, kind="stable")[:, :k]
    args = [x, np.zeros((rows, k), F32), np.zeros((rows, k), np.int32), rows, n, k]
    return Case("top_k", entry, args, {1: np.take_along_axis(x, order, 1), 2: order}, (2, 1, 1), near=0)


@case
def top_k_heap(rng: np.random.Generator) -> Case:
    return top_k(rng, "topkHeap")


@case
def top_k_max(rng: np.random.Generator) -> Case:
    return top_k(rng, "topkMax")


@case
def prefix_sum(rng: np.random.Generator) -> Case:
    x = rng.integers(-99, 99, 7777).astype(np.int32)
    return Case(
        "prefix_sum",
        "scan",
        [x, np.zeros_like(x), np.zeros(8, np.int32), x.size],
        {1: np.cumsum(x)},
        (8, 1, 1),
        "union2",
        0,
    )


@case
def prefix_sum_vector(rng: np.random.Generator) -> Case:
    x = rng.uniform(0, 1, 777).astype(F32)
    return Case("prefix_sum", "scanVector", [x, np.zeros_like(x), 777], {1: np.cumsum(x.astype(float))})


@case
def histogram(rng: np.random.Generator) -> Case:
    x = (rng.standard_normal(20011) * 40 + 128).clip(0, 255).astype(np.uint8)
    return Case(
        "histogram",
        "histogram",
        [x, np.zeros(256, np.int32), x.size],
        {1: np.bincount(x, minlength=256)},
        (8, 1, 1),
        "union2",
        0,
    )


@case
def histogram_vector(rng: np.random.Generator) -> Case:
    x = rng.uniform(-2, 2, 3001).astype(F32)
    want = np.bincount(np.floor((x - F32(-2)) * F32(4)).astype(int), minlength=16)[:16]
    return Case(
        "histogram",
        "histogramVector",
        [x, np.zeros(16, np.uint32), x.size, -2.0, 0.25, 16],
        {1: want},
        (4, 1, 1),
        near=0,
    )


@case
def nms(rng: np.random.Generator) -> Case:
    n, iou, least, most = 400, 0.4, 0.3, 50
    corner, size = rng.uniform(0, 100, (n, 2)), rng.uniform(5, 30, (n, 2))
    boxes = np.concatenate([corner, corner + size], 1).astype(F32)
    scores = rng.permutation(n).astype(F32) / n + F32(0.001)
    left, kept = scores.copy(), []
    area = np.maximum(boxes[:, 2] - boxes[:, 0], 0) * np.maximum(boxes[:, 3] - boxes[:, 1], 0)
    while len(kept) < most and left.max() >= F32(least):
        i = int(left.argmax())
        kept.append(i)
        wide = np.maximum(np.minimum(boxes[:, 2], boxes[i, 2]) - np.maximum(boxes[:, 0], boxes[i, 0]), 0)
        high = np.maximum(np.minimum(boxes[:, 3], boxes[i, 3]) - np.maximum(boxes[:, 1], boxes[i, 1]), 0)
        left = left * (wide * high <= F32(iou) * (area + area[i] - wide * high))
        left[i] = 0
    out = np.full(most, -1, np.int32)
    want = out.copy()
    want[: len(kept)] = kept
    return Case(
        "nms",
        "nmsKernel",
        [boxes, scores, out, np.zeros(1, np.int32), n, iou, least, most],
        {2: want, 3: np.array([len(kept)])},
        near=0,
    )


@case
def lstm_cell(rng: np.random.Generator) -> Case:
    steps, b, n = 3, 8, 64
    x = rng.standard_normal((steps, b, n)).astype(F32)
    h, c = rng.standard_normal((2, b, n)).astype(F32)
    wi, wh = rng.standard_normal((2, 4, n, n)).astype(F32) * F32(0.1)
    bias = rng.standard_normal((4, n)).astype(F32)
    hh, cc, out = h.astype(float), c.astype(float), []
    for s in range(steps):
        i, f, g, o = (x[s] @ wi[j].T.astype(float) + hh @ wh[j].T.astype(float) + bias[j] for j in range(4))
        cc = sigmoid(f) * cc + sigmoid(i) * np.tanh(g)
        hh = sigmoid(o) * np.tanh(cc)
        out.append(hh)
    return Case(
        "lstm_cell",
        "lstmCell",
        [x, h, c, wi, wh, bias, steps, np.zeros_like(x)],
        {1: hh, 2: cc, 7: np.array(out)},
        near=3e-5,
    )


@case
def int8_gemm(rng: np.random.Generator) -> Case:
    m, n, k = 45, 128, 192
    a, b = rng.integers(-128, 128, (m, k)).astype(np.int8), rng.integers(-128, 128, (n, k)).astype(np.int8)
    bias = rng.integers(-5000, 5000, n).astype(F32)
    scale = rng.uniform(1e-4, 2e-3, n).astype(F32)
    sums = (a.astype(np.int64) @ b.T.astype(np.int64)).astype(F32) + bias
    want = np.rint(np.clip(sums * scale, -128, 127)).astype(np.int8)
    return Case(
        "int8_gemm",
        "gemmInt8",
        [np.zeros((m, n), np.int8), a, b, bias, scale, m, n, k],
        {0: want},
        near=0,
        **UNION,
    )


def transpose(rng: np.random.Generator, kind: str, dtype: Any) -> Case:
    x = rng.integers(-100, 100, (150, 201)).astype(dtype)
    return Case(
        "transposes",
        f"transpose<{kind}>",
        [np.zeros((201, 150), dtype), x, 150, 201],
        {0: x.T},
        (4, 2, 1),
        "union1",
        0,
    )


@case
def transpose_float(rng: np.random.Generator) -> Case:
    return transpose(rng, "float", F32)


@case
def transpose_half(rng: np.random.Generator) -> Case:
    return transpose(rng, "half", F16)


@case
def transpose_int8(rng: np.random.Generator) -> Case:
    return transpose(rng, "int8_t", np.int8)


@case
def transpose_int(rng: np.random.Generator) -> Case:
    return transpose(rng, "int", np.int32)


@case
def permute(rng: np.random.Generator) -> Case:
    shape, order = (3, 4, 5, 6), (2, 0, 3, 1)
    x = rng.standard_normal(shape).astype(F32)
    y = np.ascontiguousarray(x.transpose(order))
    return Case(
        "transposes",
        "permute",
        [np.zeros_like(y), x, np.array(shape, np.int32).tobytes(), np.array(order, np.int32).tobytes()],
        {0: y},
        near=0,
    )


@case
def depth_to_space(rng: np.random.Generator) -> Case:
    h, w, c, r = 5, 7, 12, 2
    x = rng.standard_normal((h, w, r, r, c)).astype(F16)
    y = np.ascontiguousarray(x.transpose(0, 2, 1, 3, 4)).reshape(h * r, w * r, c)
    return Case("transposes", "depthToSpace", [np.zeros_like(y), x, h, w, c, r], {0: y}, near=0, **UNION)


@case
def all_reduce(rng: np.random.Generator) -> Case:
    x = (rng.standard_normal(20000) * 3 + 5).astype(F32)
    want = (x - x.mean(dtype=float)) / np.sqrt(x.astype(float).var() + 1e-6)
    return Case(
        "all_reduce", "standardise", [x, np.zeros((4, 2), F32), x.size], {0: want}, (8, 1, 1), "union2", 1e-4
    )


@case
def double_buffer(rng: np.random.Generator) -> Case:
    m, n, k = 96, 128, 384
    a, b = rng.uniform(-1, 1, (m, k)).astype(F16), rng.uniform(-0.2, 0.2, (n, k)).astype(F16)
    return Case(
        "double_buffer",
        "gemmPipelined",
        [np.zeros((m, n), F16), a, b, m, n, k],
        {0: a.astype(float) @ b.T.astype(float)},
        near=1e-2,
        **UNION,
    )


def blend(rng: np.random.Generator, mode: int) -> Case:
    x, y = rng.standard_normal((2, 900)).astype(F32)
    o = record(a=("f4", 0.25), b=("f4", -1.5), begin=("i4", 17), end=("i4", 801), mode=("u1", mode))
    want = np.zeros(900, F32)
    mixed = (x * F32(0.25) + y * F32(-1.5), np.maximum(x, y), np.minimum(x, y))[mode]
    want[17:801] = mixed[17:801]
    return Case("planner", "blend", [np.zeros(900, F32), x, y, o], {0: want}, near=0)


@case
def planner_blend(rng: np.random.Generator) -> Case:
    return blend(rng, 0)


@case
def planner_smaller(rng: np.random.Generator) -> Case:
    return blend(rng, 2)


@case
def functional_polynomial(rng: np.random.Generator) -> Case:
    x = rng.uniform(-1, 1, 999).astype(F32)
    want = np.polyval([1 / 4, 1 / 3, 1 / 2, 1], x.astype(float)) + 3.5 + 1.25
    return Case("functional", "polynomial", [np.zeros_like(x), x, x.size, 3.5], {0: want}, (2, 1, 1))


@case
def functional_chain(rng: np.random.Generator) -> Case:
    x = rng.uniform(-1, 1, 999).astype(F32)
    return Case(
        "functional",
        "chained<Chain<Power<3>, Absolute, Halve>>",
        [np.zeros_like(x), x, x.size],
        {0: abs(x.astype(float) ** 3) / 2},
    )


MACROS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "hypot": np.hypot,
    "clip": lambda a, b: np.minimum(np.maximum(a, b), 1),
}


def macro(name: str, kind: str, dtype: Any) -> Callable[[np.random.Generator], Case]:
    def made(rng: np.random.Generator) -> Case:
        a, b = rng.uniform(-2, 2, (2, 1000)).astype(dtype)
        want = MACROS[name](a.astype(float), b.astype(float))
        return Case(
            "macros",
            f"{name}_{kind}",
            [np.zeros_like(a), a, b, a.size],
            {0: want},
            (2, 1, 1),
            near=3e-3 if kind == "half" else 1e-5,
        )

    return made


CASES |= {
    f"macro_{name}_{kind}": macro(name, kind, dtype)
    for name in MACROS
    for kind, dtype in (("float", F32), ("half", F16))
}


@case
def batch_norm_statistics(rng: np.random.Generator) -> Case:
    x = rng.standard_normal((333, 40)).astype(F32)
    want = np.stack([x.sum(0, dtype=float), (x.astype(float) ** 2).sum(0)])
    return Case(
        "batch_norm", "bnStatistics", [x, np.zeros((2, 40), F32), 333, 40], {1: want}, near=1e-4, **UNION
    )


@case
def batch_norm_apply(rng: np.random.Generator) -> Case:
    x = (rng.standard_normal((333, 40)) * 2 + 1).astype(F32)
    g, b = rng.standard_normal((2, 40)).astype(F32)
    w = x.astype(float)
    sums = np.stack([w.sum(0), (w**2).sum(0)]).astype(F32)
    want = (w - w.mean(0)) / np.sqrt(w.var(0) + 1e-3) * g + b
    return Case(
        "batch_norm",
        "bnApply",
        [np.zeros_like(x), x, sums, g, b, 333, 40, 1e-3],
        {0: want},
        near=1e-4,
        **UNION,
    )


@case
def depthwise(rng: np.random.Generator) -> Case:
    h, w, c = 11, 19, 24
    x, k = rng.standard_normal((h, w, c)).astype(F32), rng.standard_normal((3, 3, c)).astype(F32)
    p = np.pad(x.astype(float), ((1, 1), (1, 1), (0, 0)))
    want = sum(p[i : i + h, j : j + w] * k[i, j] for i in range(3) for j in range(3))
    return Case("depthwise", "depthwise3x3", [np.zeros_like(x), x, k, h, w, c], {0: want}, (3, 1, 1))


def sampled(x: Array, fy: float, fx: float) -> Array:
    h, w = x.shape[:2]
    fy, fx = min(max(fy, 0), h - 1), min(max(fx, 0), w - 1)
    y0, x0 = int(np.floor(fy)), int(np.floor(fx))
    y1, x1 = min(y0 + 1, h - 1), min(x0 + 1, w - 1)
    a, b = fy - y0, fx - x0
    return (1 - a) * ((1 - b) * x[y0, x0] + b * x[y0, x1]) + a * ((1 - b) * x[y1, x0] + b * x[y1, x1])


@case
def resize_bilinear(rng: np.random.Generator) -> Case:
    h, w, c, ho, wo = 5, 7, 33, 9, 4
    x = rng.standard_normal((h, w, c)).astype(F32)
    want = [
        [sampled(x.astype(float), (i + 0.5) * h / ho - 0.5, (j + 0.5) * w / wo - 0.5) for j in range(wo)]
        for i in range(ho)
    ]
    return Case(
        "resize",
        "resizeBilinear",
        [np.zeros((ho, wo, c), F32), x, h, w, c, ho, wo, 0],
        {0: np.array(want)},
        (2, 1, 1),
        near=1e-4,
    )


@case
def resize_aligned(rng: np.random.Generator) -> Case:
    h, w, c, ho, wo = 5, 7, 8, 9, 4
    x = rng.standard_normal((h, w, c)).astype(F32)
    want = [
        [sampled(x.astype(float), i * (h - 1) / (ho - 1), j * (w - 1) / (wo - 1)) for j in range(wo)]
        for i in range(ho)
    ]
    return Case(
        "resize",
        "resizeBilinear",
        [np.zeros((ho, wo, c), F32), x, h, w, c, ho, wo, 1],
        {0: np.array(want)},
        near=1e-4,
    )


@case
def roi_align(rng: np.random.Generator) -> Case:
    h, w, c, side, samples = 12, 14, 16, 3, 2
    x = rng.standard_normal((2, h, w, c)).astype(F32)
    rois = np.array([[0, 3, 2, 30, 40], [1, 10, 11, 12, 13], [1, 0, 0, 55, 47]], F32)
    want = np.zeros((3, side, side, c))
    for r, (n, x1, y1, x2, y2) in enumerate(rois.astype(float)):
        x1, y1, x2, y2 = (v * 0.25 for v in (x1, y1, x2, y2))
        bw, bh = max(x2 - x1, 1) / side, max(y2 - y1, 1) / side
        for i in range(side):
            for j in range(side):
                taps = [sampled(x[int(n)].astype(float), y1 + i * bh + (a + 0.5) * bh / samples, x1 + j * bw + (b + 0.5) * bw / samples)
                        for a in range(samples) for b in range(samples)]  # fmt: skip
                want[r, i, j] = np.mean(taps, 0)
    return Case(
        "resize",
        "roiAlign",
        [np.zeros(want.shape, F32), x, rois, 3, h, w, c, side, 0.25, samples],
        {0: want},
        (2, 1, 1),
        near=1e-4,
    )


@case
def embedding(rng: np.random.Generator) -> Case:
    vocabulary, dim, n = 50, 72, 150
    table = rng.standard_normal((vocabulary, dim)).astype(F16)
    index = rng.integers(-vocabulary, vocabulary + 3, n).astype(np.int64)
    where = np.where(index < 0, index + vocabulary, index)
    fine = (where != 7) & (where < vocabulary)
    want = np.where(fine[:, None], table[np.where(fine, where, 0)], 0)
    return Case(
        "embedding",
        "embedding",
        [np.zeros((n, dim), F16), table, index, n, vocabulary, dim, 7],
        {0: want},
        (2, 1, 1),
        near=0,
    )


@case
def embedding_gradient(rng: np.random.Generator) -> Case:
    index, g = rng.integers(0, 20, 150).astype(np.int64), rng.integers(-9, 9, (150, 72)).astype(F32)
    want = np.zeros((20, 72))
    np.add.at(want, index, g)
    return Case(
        "embedding", "embeddingGrad", [np.zeros((20, 72), F32), g, index, 150, 72], {0: want}, near=0, **UNION
    )


@case
def masked_select(rng: np.random.Generator) -> Case:
    x = rng.standard_normal(1000).astype(F32)
    want = np.zeros_like(x)
    want[: (x > 0.5).sum()] = x[x > 0.5]
    return Case(
        "embedding",
        "maskedSelect",
        [np.zeros_like(x), np.zeros(1, np.int32), x, x.size, 0.5],
        {0: want, 1: np.array([(x > 0.5).sum()])},
        near=0,
    )


@case
def gather_rows(rng: np.random.Generator) -> Case:
    x, index = rng.standard_normal((90, 20)).astype(F32), rng.integers(0, 90, 33).astype(np.int32)
    return Case("embedding", "gatherRows", [np.zeros((33, 20), F32), x, index, 33, 20], {0: x[index]}, near=0)


@case
def cross_entropy(rng: np.random.Generator) -> Case:
    rows, classes, s = 7, 301, 0.1
    x = (rng.standard_normal((rows, classes)) * 3).astype(F16)
    labels = rng.integers(0, classes, rows).astype(np.int32)
    labels[2] = -100
    log_p = np.log(softmax(x.astype(float)))
    goal = np.full((rows, classes), s / classes)
    goal[np.arange(rows), np.maximum(labels, 0)] += 1 - s
    used = (labels >= 0)[:, None]
    args = [x, labels, np.zeros(rows, F32), np.zeros_like(x), rows, classes, s, -100]
    return Case(
        "cross_entropy",
        "crossEntropy",
        args,
        {2: -(log_p * goal * used).sum(1), 3: (softmax(x.astype(float)) - goal) * used},
        (2, 1, 1),
        near=1e-3,
    )


@case
def bitonic(rng: np.random.Generator) -> Case:
    x = rng.standard_normal(256).astype(F32)
    return Case("sorting", "bitonic", [x, 256], {0: np.sort(x)}, near=0)


@case
def argsort(rng: np.random.Generator) -> Case:
    x = rng.integers(0, 30, (3, 177)).astype(F32)
    return Case(
        "sorting",
        "argsort",
        [x, np.zeros((3, 177), np.int32), 3, 177],
        {1: np.argsort(x, 1, kind="stable")},
        (2, 1, 1),
        near=0,
    )


@case
def edit_distance(rng: np.random.Generator) -> Case:
    a, b = rng.integers(97, 101, 60).astype(np.int8), rng.integers(97, 101, 75).astype(np.int8)
    line = list(range(76))
    for i in range(60):
        last, line[0] = line[0], i + 1
        for j in range(75):
            last, line[j + 1] = line[j + 1], min(line[j + 1] + 1, line[j] + 1, last + int(a[i] != b[j]))
    return Case(
        "sorting", "editDistance", [a, b, np.zeros(1, np.int32), 60, 75], {2: np.array([line[-1]])}, near=0
    )


@case
def max_pool(rng: np.random.Generator) -> Case:
    h, w, c, k, s = 9, 11, 13, 3, 2
    x = rng.permutation(h * w * c).reshape(h, w, c).astype(F32)
    ho, wo = (h - k) // s + 1, (w - k) // s + 1
    y, dx = np.zeros((ho, wo, c), F32), np.zeros_like(x)
    for i in range(ho):
        for j in range(wo):
            window = x[i * s : i * s + k, j * s : j * s + k].reshape(k * k, c)
            y[i, j] = window.max(0)
            for ch, t in enumerate(window.argmax(0)):
                dx[i * s + t // k, j * s + t % k, ch] += 1
    return Case(
        "pooling", "maxPool", [x, np.zeros_like(y), np.zeros_like(x), h, w, c, k, s], {1: y, 2: dx}, near=0
    )


@case
def adaptive_average(rng: np.random.Generator) -> Case:
    h, w, c, ho, wo = 7, 10, 20, 3, 4
    x = rng.standard_normal((h, w, c)).astype(F32)
    ends = lambda i, n, o: slice(i * n // o, -((-(i + 1) * n) // o))  # noqa: E731
    want = [
        [x[ends(i, h, ho), ends(j, w, wo)].mean((0, 1), dtype=float) for j in range(wo)] for i in range(ho)
    ]
    return Case(
        "pooling", "adaptiveAverage", [x, np.zeros((ho, wo, c), F32), h, w, c, ho, wo], {1: np.array(want)}
    )


@case
def global_average(rng: np.random.Generator) -> Case:
    x = rng.uniform(0, 2, (49, 100)).astype(F16)
    return Case(
        "pooling", "globalAverage", [x, np.zeros(100, F16), 49, 100], {1: x.mean(0, dtype=float)}, near=2e-3
    )


def philox(count: int, seed: int) -> Array:
    c = np.zeros((4, count), np.uint64)
    c[0], low = np.arange(count), np.uint64(0xFFFFFFFF)
    k = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = np.stack(
            [
                (p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k[0]),
                p1 & low,
                (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k[1]),
                p0 & low,
            ]
        )
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c.T.reshape(-1)


@case
def dropout(rng: np.random.Generator) -> Case:
    x, seed = rng.standard_normal(1111).astype(F32), 0x1234567890ABCDEF
    u = (philox(278, seed)[:1111] >> np.uint64(8)).astype(F32) * F32(1 / 16777216)
    want = x * np.where(u < F32(0.7), F32(1) / F32(0.7), F32(0))
    return Case(
        "random_numbers", "dropout", [np.zeros_like(x), x, x.size, seed, 0.7], {0: want}, (2, 1, 1), near=0
    )


@case
def xorshift(rng: np.random.Generator) -> Case:
    s, want, mask = 42, [], 2**64 - 1
    for _ in range(20):
        s ^= s << 13 & mask
        s ^= s >> 7
        s ^= s << 17 & mask
        want.append(s % 1000003)
    return Case(
        "random_numbers",
        "xorshift",
        [np.zeros(20, np.uint64), 20, 42],
        {0: np.array(want, np.uint64)},
        near=0,
    )


@case
def rope(rng: np.random.Generator) -> Case:
    tokens, heads, dim = 6, 3, 64
    x = rng.standard_normal((tokens, heads, dim)).astype(F16)
    angle = np.arange(tokens)[:, None] * 10000.0 ** (-2 * np.arange(dim // 2) / dim)
    a, b = x[..., : dim // 2].astype(float), x[..., dim // 2 :].astype(float)
    s, c = np.sin(angle)[:, None], np.cos(angle)[:, None]
    return Case(
        "rope",
        "rope",
        [x, tokens, heads, dim, 10000.0],
        {0: np.concatenate([a * c - b * s, b * c + a * s], -1)},
        (2, 1, 1),
        near=2e-3,
    )


@case
def rms_norm_gated(rng: np.random.Generator) -> Case:
    x, g = rng.standard_normal((2, 5, 301)).astype(BF16)
    w = rng.standard_normal(301).astype(BF16)
    xf, gf = x.astype(float), g.astype(float)
    want = xf / np.sqrt((xf**2).mean(1, keepdims=True) + 1e-5) * w.astype(float) * gf * sigmoid(gf)
    return Case(
        "rope", "rmsNormGated", [np.zeros_like(x), x, g, w, 5, 301, 1e-5], {0: want}, (2, 1, 1), near=1e-2
    )


def fft(rng: np.random.Generator, inverse: int) -> Case:
    x = rng.standard_normal((3, 128, 2)).astype(F32)
    z = x[..., 0].astype(float) + 1j * x[..., 1]
    y = (np.fft.ifft if inverse else np.fft.fft)(z)
    return Case("fft", "fft", [x, 128, 3, inverse], {0: np.stack([y.real, y.imag], -1)}, (2, 1, 1), near=1e-4)


@case
def fft_forward(rng: np.random.Generator) -> Case:
    return fft(rng, 0)


@case
def fft_inverse(rng: np.random.Generator) -> Case:
    return fft(rng, 1)


@case
def normalise(rng: np.random.Generator) -> Case:
    x = rng.integers(0, 256, (5003, 3)).astype(np.uint8)
    mean = np.array([123.5, 116.25, 103.75], F32)
    want = ((x.astype(F32) - mean) * (F32(1) / F32(58.5))).T
    return Case(
        "pictures",
        "normalise",
        [np.zeros((3, 5003), F32), x, 5003, *mean.tolist(), 58.5],
        {0: want},
        (2, 1, 1),
        near=1e-6,
    )


@case
def blur(rng: np.random.Generator) -> Case:
    x = rng.integers(0, 256, (21, 33)).astype(np.uint8)
    k = np.array([1, 4, 6, 4, 1])
    p = np.pad(x.astype(int), 2, mode="reflect")
    mid = sum(k[j] * p[:, j : j + 33] for j in range(5))
    want = (sum(k[i] * mid[i : i + 21] for i in range(5)) + 128) >> 8
    return Case("pictures", "blur", [np.zeros_like(x), x, 21, 33], {0: want}, near=0)


@case
def fast_inverse(rng: np.random.Generator) -> Case:
    x = rng.uniform(0.01, 900, 70).astype(F32)
    return Case(
        "pictures",
        "fastInverse",
        [np.zeros_like(x), np.zeros(70, np.int32), x, 70],
        {0: 1 / np.sqrt(x.astype(float)), 1: np.frexp(x)[1] - 1},
        (4, 1, 1),
    )
