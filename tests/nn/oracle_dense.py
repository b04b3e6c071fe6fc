"""What layers mean, written out in NumPy float64: linear maps, activations, norms, recurrences, attention,
losses.

Each oracle takes the layer's weights by name, the case's arguments and the inputs, and returns the results.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from layer_cases import Case

Array = np.ndarray
Weights = dict[str, Array]
Oracle = Callable[..., Any]
oracles: dict[str, Oracle] = {}


def oracle(*names: str) -> Callable[[Oracle], Oracle]:
    def enter(fn: Oracle) -> Oracle:
        oracles.update(dict.fromkeys(names, fn))
        return fn

    return enter


def setting(case: Case, at: int, name: str, default: Any) -> Any:
    """An argument of the layer, by position or by name."""
    return case.args[at] if len(case.args) > at else case.kwargs.get(name, default)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def softmax(x: Array, axis: int = -1) -> Array:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


erf = np.vectorize(math.erf)

# -- linear and activations --------------------------------------------------------------------------------


@oracle("Linear")
def linear(w: Weights, c: Case, x: Array) -> Array:
    return x @ w["weight"].T + w.get("bias", 0.0)


@oracle("Bilinear")
def bilinear(w: Weights, c: Case, x: Array, y: Array) -> Array:
    return np.einsum("...i,kij,...j->...k", x, w["weight"], y) + w.get("bias", 0.0)


def pointwise(name: str, fn: Callable[..., Array], *settings: tuple[str, Any]) -> None:
    def run(w: Weights, c: Case, x: Array) -> Array:
        return fn(x, *(setting(c, i, n, d) for i, (n, d) in enumerate(settings)))

    oracles[name] = run


def softplus(x: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    return np.where(x * beta > threshold, x, np.log(1 + np.exp(beta * x)) / beta)


pointwise("Identity", lambda x: x)
pointwise("ReLU", lambda x: np.maximum(x, 0))
pointwise("ReLU6", lambda x: np.clip(x, 0, 6))
pointwise("LeakyReLU", lambda x, s: np.where(x > 0, x, s * x), ("negative_slope", 0.01))
pointwise("RReLU", lambda x, lo, hi: np.where(x > 0, x, lo * x), ("lower", 0), ("upper", 0))
pointwise("Hardtanh", np.clip, ("min_val", -1.0), ("max_val", 1.0))
pointwise("Threshold", lambda x, t, v: np.where(x > t, x, v), ("threshold", 0), ("value", 0))
pointwise("Hardshrink", lambda x, k: np.where(np.abs(x) > k, x, 0), ("lambd", 0.5))
pointwise("Softshrink", lambda x, k: np.sign(x) * np.maximum(np.abs(x) - k, 0), ("lambd", 0.5))
pointwise("Tanhshrink", lambda x: x - np.tanh(x))
pointwise("Sigmoid", sigmoid)
pointwise("LogSigmoid", lambda x: np.log(sigmoid(x)))
pointwise("Hardsigmoid", lambda x: np.clip(x + 3, 0, 6) / 6)
pointwise("SiLU", lambda x: x * sigmoid(x))
pointwise("Hardswish", lambda x: x * np.clip(x + 3, 0, 6) / 6)
pointwise("Mish", lambda x: x * np.tanh(softplus(x)))
pointwise("ELU", lambda x, a: np.where(x > 0, x, a * (np.exp(x) - 1)), ("alpha", 1.0))
pointwise("SELU", lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * (np.exp(x) - 1)))
pointwise("CELU", lambda x, a: np.maximum(x, 0) + np.minimum(0, a * (np.exp(x / a) - 1)), ("alpha", 1.0))
pointwise("Softplus", softplus, ("beta", 1.0), ("threshold", 20.0))
pointwise("Softsign", lambda x: x / (1 + np.abs(x)))
pointwise("Tanh", np.tanh)
pointwise("Softmax", softmax, ("dim", -1))
pointwise("LogSoftmax", lambda x, d: np.log(softmax(x, d)), ("dim", -1))
pointwise("Softmin", lambda x, d: softmax(-x, d), ("dim", -1))
pointwise("Softmax2d", lambda x: softmax(x, -3))


@oracle("GELU")
def gelu(w: Weights, c: Case, x: Array) -> Array:
    if setting(c, 0, "approximate", "none") == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


@oracle("GLU")
def glu(w: Weights, c: Case, x: Array) -> Array:
    a, b = np.split(x, 2, setting(c, 0, "dim", -1))
    return a * sigmoid(b)


@oracle("PReLU")
def prelu(w: Weights, c: Case, x: Array) -> Array:
    slope = w["weight"]
    shaped = slope.reshape(1, -1, *[1] * (x.ndim - 2)) if len(slope) > 1 else slope
    return np.where(x > 0, x, shaped * x)


# -- normalisation -----------------------------------------------------------------------------------------


def standardised(x: Array, axes: Any, eps: float) -> Array:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def scaled(x: Array, w: Weights, axis: int = 1) -> Array:
    if "weight" not in w:
        return x
    shape = [1] * x.ndim
    shape[axis] = -1
    return x * w["weight"].reshape(shape) + w.get("bias", np.zeros(1)).reshape(shape)


@oracle("BatchNorm1d", "BatchNorm2d", "BatchNorm3d")
def batch_norm(w: Weights, c: Case, x: Array) -> Array:
    axes = (0, *range(2, x.ndim))
    return scaled(standardised(x, axes, c.kwargs.get("eps", 1e-5)), w)


@oracle("InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d")
def instance_norm(w: Weights, c: Case, x: Array) -> Array:
    space = int(c.layer[-2])
    return scaled(standardised(x, tuple(range(x.ndim - space, x.ndim)), 1e-5), w, x.ndim - space - 1)


@oracle("LayerNorm", "RMSNorm")
def layer_norm(w: Weights, c: Case, x: Array) -> Array:
    sizes = c.args[0] if isinstance(c.args[0], tuple) else (c.args[0],)
    axes = tuple(range(-len(sizes), 0))
    if c.layer == "RMSNorm":
        out = x / np.sqrt((x * x).mean(axes, keepdims=True) + c.kwargs.get("eps", np.finfo(np.float64).eps))
    else:
        out = standardised(x, axes, c.kwargs.get("eps", 1e-5))
    return out * w.get("weight", 1.0) + w.get("bias", 0.0)


@oracle("GroupNorm")
def group_norm(w: Weights, c: Case, x: Array) -> Array:
    groups = np.split(x, c.args[0], 1)
    return scaled(np.concatenate([standardised(g, tuple(range(1, g.ndim)), 1e-5) for g in groups], 1), w)


@oracle("LocalResponseNorm")
def local_response_norm(w: Weights, c: Case, x: Array) -> Array:
    n, alpha = c.args[0], c.kwargs["alpha"]
    beta, k = c.kwargs.get("beta", 0.75), c.kwargs.get("k", 1.0)
    out = np.empty_like(x)
    for i in range(x.shape[1]):
        near = (x[:, max(0, i - n // 2) : i + (n - 1) // 2 + 1] ** 2).sum(1) / n
        out[:, i] = x[:, i] / (k + alpha * near) ** beta
    return out


@oracle("CrossMapLRN2d")
def cross_map_lrn(w: Weights, c: Case, x: Array) -> Array:
    """PyTorch's sums over a window that moves: channel 0 comes in and is never taken out again."""
    n, alpha = c.args[0], c.kwargs["alpha"]
    beta, k = c.kwargs.get("beta", 0.75), c.kwargs.get("k", 1.0)
    out, reach = np.empty_like(x), (n - 1) // 2
    for i in range(x.shape[1]):
        near = [j for j in range(x.shape[1]) if abs(i - j) <= reach or (j == 0 and i > reach)]
        out[:, i] = x[:, i] / (k + alpha / n * (x[:, near] ** 2).sum(1)) ** beta
    return out


# -- tables ------------------------------------------------------------------------------------------------


@oracle("Embedding")
def embedding(w: Weights, c: Case, x: Array) -> Array:
    return w["weight"][x]


@oracle("EmbeddingBag")
def embedding_bag(w: Weights, c: Case, x: Array, offsets: Array | None = None) -> Array:
    if offsets is None:
        bags = list(x)
    else:
        ends = [*offsets[1:], len(x)]
        bags = [x[a:b] for a, b in zip(offsets, ends, strict=True)]
        bags = bags[:-1] if c.kwargs.get("include_last_offset") else bags
    pad, mode = c.kwargs.get("padding_idx"), c.kwargs.get("mode", "mean")
    out = np.zeros((len(bags), w["weight"].shape[1]))
    for row, bag in zip(out, bags, strict=True):
        rows = w["weight"][[i for i in bag if i != pad]]
        if len(rows):
            row[:] = {"sum": rows.sum(0), "mean": rows.mean(0), "max": rows.max(0)}[mode]
    return out


# -- recurrences -------------------------------------------------------------------------------------------


def step(kind: str, x: Array, h: Array, c: Array, w: Callable[[str], Any]) -> tuple[Array, Array]:
    mine, theirs = x @ w("weight_ih").T + w("bias_ih"), h @ w("weight_hh").T + w("bias_hh")
    if kind in ("tanh", "relu"):
        total = mine + theirs
        return (np.tanh(total) if kind == "tanh" else np.maximum(total, 0)), c
    if kind == "gru":
        (r, z, n), (hr, hz, hn) = np.split(mine, 3, -1), np.split(theirs, 3, -1)
        gate = sigmoid(z + hz)
        return (1 - gate) * np.tanh(n + sigmoid(r + hr) * hn) + gate * h, c
    i, f, g, o = np.split(mine + theirs, 4, -1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    h = sigmoid(o) * np.tanh(c)
    return (h @ w("weight_hr").T if w("weight_hr") is not None else h), c


def kind_of(case: Case) -> str:
    name = case.layer.removesuffix("Cell").lower()
    return case.kwargs.get("nonlinearity", "tanh") if name == "rnn" else name


def named(w: Weights, suffix: str) -> Callable[[str], Any]:
    return lambda n: w.get(n + suffix, None if n == "weight_hr" else 0.0)


@oracle("RNN", "LSTM", "GRU")
def recurrent(w: Weights, case: Case, x: Array, h0: Array | None = None) -> Any:
    layers, hidden = setting(case, 2, "num_layers", 1), case.args[1]
    single, first = x.ndim == 2, case.kwargs.get("batch_first", False)
    x = x[:, None] if single else x.transpose(1, 0, 2) if first else x
    width, ends = case.kwargs.get("proj_size", 0) or hidden, ([], [])
    suffixes = ("", "_reverse") if case.kwargs.get("bidirectional") else ("",)
    for layer in range(layers):
        ways = []
        for suffix in suffixes:
            h = np.zeros((x.shape[1], width)) if h0 is None else h0[len(ends[0])].reshape(x.shape[1], width)
            cell, outs = np.zeros((x.shape[1], hidden)), {}
            times = range(len(x))[::-1] if suffix else range(len(x))
            for t in times:
                h, cell = step(kind_of(case), x[t], h, cell, named(w, f"_l{layer}{suffix}"))
                outs[t] = h
            ways.append(np.stack([outs[t] for t in range(len(x))]))
            ends[0].append(h)
            ends[1].append(cell)
        x = np.concatenate(ways, -1)
    last = [np.stack(e)[:, 0] if single else np.stack(e) for e in ends]
    out = x[:, 0] if single else x.transpose(1, 0, 2) if first else x
    return [out, *last] if case.layer == "LSTM" else [out, last[0]]


@oracle("RNNCell", "LSTMCell", "GRUCell")
def cell(w: Weights, case: Case, x: Array, h: Array | None = None) -> Any:
    size = (*x.shape[:-1], case.args[1])
    h, c = step(kind_of(case), x, np.zeros(size) if h is None else h, np.zeros(size), named(w, ""))
    return [h, c] if case.layer == "LSTMCell" else h


# -- attention ---------------------------------------------------------------------------------------------


def turned(x: Array, base: float = 10000.0, interleaved: bool = False) -> Array:
    """Each pair of features as a complex number, times e^(i·angle)."""
    half = x.shape[-1] // 2
    a, b = (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
    angle = np.arange(x.shape[-2])[:, None] * base ** (-np.arange(half) / half)
    z = (a + 1j * b) * np.exp(1j * angle)
    if interleaved:
        return np.stack([z.real, z.imag], -1).reshape(x.shape)
    return np.concatenate([z.real, z.imag], -1)


@oracle("RotaryEmbedding")
def rotary(w: Weights, c: Case, x: Array) -> Array:
    return turned(x, setting(c, 0, "base", 10000.0), setting(c, 1, "interleaved", False))


@oracle("MultiheadAttention")
def multihead(w: Weights, case: Case, q: Array, k: Array, v: Array) -> Any:
    e, heads = case.args
    kv_heads = case.kwargs.get("num_kv_heads", heads)
    single, first = q.ndim == 2, case.kwargs.get("batch_first", False)
    q, k, v = ((x[None] if single else x if first else x.transpose(1, 0, 2)) for x in (q, k, v))
    kv = kv_heads * (e // heads)
    if "in_proj_weight" in w:
        weights = np.split(w["in_proj_weight"], [e, e + kv])
    else:
        weights = [w[f"{n}_proj_weight"] for n in "qkv"]
    biases = np.split(w.get("in_proj_bias", np.zeros(e + 2 * kv)), [e, e + kv])
    q, k, v = (x @ m.T + b for x, m, b in zip((q, k, v), weights, biases, strict=True))
    if case.kwargs.get("add_bias_kv"):
        k, v = (
            np.concatenate([x, np.broadcast_to(w[n], (len(x), 1, kv))], 1)
            for x, n in ((k, "bias_k"), (v, "bias_v"))
        )
    if case.kwargs.get("add_zero_attn"):
        k, v = (np.concatenate([x, np.zeros((len(x), 1, kv))], 1) for x in (k, v))
    out, shares, d = np.empty((*q.shape[:2], e)), [], e // heads
    for h in range(heads):
        mine, theirs = (
            slice(h * d, (h + 1) * d),
            slice(h * kv_heads // heads * d, (h * kv_heads // heads + 1) * d),
        )
        qh, kh = (turned(a) if case.kwargs.get("rotary") else a for a in (q[..., mine], k[..., theirs]))
        share = softmax(qh @ kh.transpose(0, 2, 1) / math.sqrt(d))
        out[..., mine] = share @ v[..., theirs]
        shares.append(share)
    out = out @ w["out_proj.weight"].T + w.get("out_proj.bias", 0.0)
    out = out[0] if single else out if first else out.transpose(1, 0, 2)
    if not case.call.get("need_weights", True):
        return [out]
    share = np.stack(shares, 1) if case.call.get("average_attn_weights") is False else np.mean(shares, 0)
    return [out, share[0] if single else share]


@oracle("CosineSimilarity", "PairwiseDistance")
def compared(w: Weights, c: Case, a: Array, b: Array) -> Array:
    if c.layer == "PairwiseDistance":
        return np.linalg.norm(a - b + 1e-6, c.args[0], axis=-1, keepdims=c.kwargs["keepdim"])
    axis = c.args[0]
    return (a * b).sum(axis) / np.linalg.norm(a, axis=axis) / np.linalg.norm(b, axis=axis)


# -- losses ------------------------------------------------------------------------------------------------


def loss(name: str) -> Callable[[Callable[..., Array]], None]:
    """An oracle that gives one loss per element; the case's reduction follows."""

    def enter(fn: Callable[..., Array]) -> None:
        def run(w: Weights, c: Case, *inputs: Array) -> Array:
            each = fn(c, *inputs)
            how = c.kwargs.get("reduction", "mean")
            if how == "batchmean":
                return each.sum() / inputs[0].shape[0]
            return each if how == "none" else each.sum() if how == "sum" else each.mean()

        oracles[name] = run

    return enter


loss("MSELoss")(lambda c, x, y: (x - y) ** 2)
loss("L1Loss")(lambda c, x, y: np.abs(x - y))
loss("BCELoss")(lambda c, p, y: -(y * np.log(p) + (1 - y) * np.log(1 - p)))
loss("BCEWithLogitsLoss")(lambda c, x, y: -(y * np.log(sigmoid(x)) + (1 - y) * np.log(sigmoid(-x))))
loss("SoftMarginLoss")(lambda c, x, y: np.log(1 + np.exp(-y * x)))
loss("HingeEmbeddingLoss")(lambda c, x, y: np.where(y == 1, x, np.maximum(0, c.args[0] - x)))
loss("MarginRankingLoss")(lambda c, a, b, y: np.maximum(0, -y * (a - b) + c.kwargs["margin"]))
loss("MultiLabelSoftMarginLoss")(
    lambda c, x, y: -(y * np.log(sigmoid(x)) + (1 - y) * np.log(sigmoid(-x))).mean(-1)
)


@loss("SmoothL1Loss")
def smooth_l1(c: Case, x: Array, y: Array) -> Array:
    d, beta = np.abs(x - y), c.kwargs["beta"]
    return np.where(d < beta, d * d / (2 * beta or 1), d - beta / 2)


@loss("HuberLoss")
def huber(c: Case, x: Array, y: Array) -> Array:
    d, delta = np.abs(x - y), c.kwargs["delta"]
    return np.where(d <= delta, d * d / 2, delta * (d - delta / 2))


@loss("KLDivLoss")
def kl(c: Case, x: Array, y: Array) -> Array:
    return np.exp(y) * (y - x) if c.kwargs.get("log_target") else y * (np.log(y) - x)


@loss("PoissonNLLLoss")
def poisson(c: Case, x: Array, y: Array) -> Array:
    out = np.exp(x) - y * x if c.kwargs.get("log_input", True) else x - y * np.log(x + 1e-8)
    if c.kwargs.get("full"):
        big = np.maximum(y, 1)
        out = out + np.where(y > 1, big * np.log(big) - big + 0.5 * np.log(2 * np.pi * big), 0)
    return out


@loss("GaussianNLLLoss")
def gaussian(c: Case, x: Array, y: Array, var: Array) -> Array:
    return 0.5 * (np.log(var) + (x - y) ** 2 / var + (math.log(2 * math.pi) if c.kwargs.get("full") else 0))


@loss("CosineEmbeddingLoss")
def cosine(c: Case, a: Array, b: Array, y: Array) -> Array:
    cos = (a * b).sum(-1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1)
    return np.where(y == 1, 1 - cos, np.maximum(0, cos - c.kwargs["margin"]))


@loss("TripletMarginLoss")
def triplet(c: Case, a: Array, p: Array, n: Array) -> Array:
    order = c.kwargs.get("p", 2.0)
    near, far, other = (np.linalg.norm(u - v + 1e-6, order, axis=-1) for u, v in ((a, p), (a, n), (p, n)))
    far = np.minimum(far, other) if c.kwargs.get("swap") else far
    return np.maximum(0, near - far + c.kwargs.get("margin", 1.0))


@loss("MultiMarginLoss")
def multi_margin(c: Case, x: Array, y: Array) -> Array:
    out = np.zeros(len(x))
    for i, (row, t) in enumerate(zip(x, y, strict=True)):
        terms = [
            max(0, c.kwargs["margin"] - row[t] + v) ** c.kwargs["p"] for j, v in enumerate(row) if j != t
        ]
        out[i] = sum(terms) / len(row)
    return out


@loss("MultiLabelMarginLoss")
def multi_label_margin(c: Case, x: Array, y: Array) -> Array:
    out = np.zeros(len(x))
    for i, (row, labels) in enumerate(zip(x, y.tolist(), strict=True)):
        true = labels[: labels.index(-1)] if -1 in labels else labels
        others = [v for j, v in enumerate(row) if j not in true]
        out[i] = sum(max(0, 1 - row[t] + v) for t in true for v in others) / len(row)
    return out


@oracle("CrossEntropyLoss", "NLLLoss")
def cross_entropy(w: Weights, c: Case, x: Array, y: Array) -> Array:
    x, y = (x[None], y[None]) if x.ndim == 1 else (x, y)
    logs = x if c.layer == "NLLLoss" else np.log(softmax(x, 1))
    smoothing, classes = c.kwargs.get("label_smoothing", 0.0), x.shape[1]
    counted = np.ones(y.shape, bool)
    if y.dtype.kind != "f":
        counted = y != c.kwargs.get("ignore_index", -100)
        y = np.moveaxis(np.eye(classes)[np.where(counted, y, 0)], -1, 1)
        each = counted
    else:
        each = np.ones((len(x), *x.shape[2:]), bool)
    target = (1 - smoothing) * y + smoothing / classes
    losses = -(target * logs).sum(1) * each
    how = c.kwargs.get("reduction", "mean")
    return losses if how == "none" else losses.sum() if how == "sum" else losses.sum() / each.sum()


def collapsed(path: tuple[int, ...], blank: int) -> list[int]:
    return [k for k, _ in itertools.groupby(path) if k != blank]


@oracle("CTCLoss")
def ctc(w: Weights, c: Case, logs: Array, targets: Array, times: Array, lengths: Array) -> Array:
    """By trying every path."""
    blank = setting(c, 0, "blank", 0)
    logs = logs[:, None] if logs.ndim == 2 else logs
    times, lengths = np.atleast_1d(times), np.atleast_1d(lengths)
    if targets.ndim == 1:
        targets = np.split(targets, np.cumsum(lengths)[:-1])
    losses = np.empty(logs.shape[1])
    for n in range(len(losses)):
        wanted = list(targets[n][: lengths[n]])
        paths = itertools.product(range(logs.shape[2]), repeat=int(times[n]))
        chances = [
            math.exp(sum(logs[t, n, k] for t, k in enumerate(p)))
            for p in paths
            if collapsed(p, blank) == wanted
        ]
        losses[n] = -math.log(sum(chances))
    how = c.kwargs.get("reduction", "mean")
    if how == "none":
        return losses[0] if c.arrays()[0].ndim == 2 else losses
    return losses.sum() if how == "sum" else (losses / np.maximum(lengths, 1)).mean()
