"""Overhead of one eager operation, kind by kind.

One row for each kind of operation on small tensors, most of them recorded: what a model written for PyTorch
calls between its large layers. The aim is twice PyTorch's time.

Rows that stay above it, or at it, and why. What PyTorch answers in 0.1 to 0.4 µs (`zero_()`, `shape`) costs
here one or two calls of Python functions, and so it is with `arange`, `zeros_like` and a slice that is
assigned, whose arguments are looked at in Python. `add_` computes, copies and notes the change for the tape.
`x ** 2` and `dot` are calls of NumPy's: the bits of its power depend on how the exponent lies in memory, and
its product of vectors has no inner loop that is known by address. The sum of a transpose and `bmm` copy the
view first. `erf`, `avg_pool2d` and `randn` are one native call each; what is left is the way there. So it is
with `tensor`, `floor`, `cat`, `softplus`, the variance and the maximum of rows, which stand near 2.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.row import Row, Work
from benchmarks.rows_eager import steady

Given = dict[str, Any]
Kind = Callable[[Any, Any, Given], Any]
"""(the system's namespace, its `nn.functional`, tensors) -> a result."""

_SHAPES: dict[str, tuple[int, ...]] = {
    "x": (4, 4), "y": (4, 4), "w": (4,), "image": (1, 3, 8, 8), "kernel": (4, 3, 3, 3), "batch": (2, 3, 4),
}  # fmt: skip

PLAIN: dict[str, Kind] = {
    "rand": lambda xp, F, t: xp.rand(4, 4),
    "randn": lambda xp, F, t: xp.randn(4, 4),
    "zeros": lambda xp, F, t: xp.zeros(4, 4),
    "zeros_like": lambda xp, F, t: xp.zeros_like(t["x"]),
    "arange": lambda xp, F, t: xp.arange(8),
    "nonzero": lambda xp, F, t: t["mask"].nonzero(),
    "item": lambda xp, F, t: t["w"][0].item(),
    "add in place": lambda xp, F, t: t["y"].add_(t["x"]),
    "zero in place": lambda xp, F, t: t["w"].zero_(),
    "slice assigned": lambda xp, F, t: t["y"].__setitem__((slice(None), 0), t["w"]),
    "argmax": lambda xp, F, t: t["x"].argmax(1),
    "contiguous, no copy": lambda xp, F, t: t["x"].contiguous(),
    "float, no cast": lambda xp, F, t: t["x"].float(),
}
RECORDED: dict[str, Kind] = {
    "erf": lambda xp, F, t: xp.erf(t["x"]),
    "gelu": lambda xp, F, t: F.gelu(t["x"]),
    "sigmoid": lambda xp, F, t: xp.sigmoid(t["x"]),
    "softmax": lambda xp, F, t: F.softmax(t["x"], -1),
    "layer_norm": lambda xp, F, t: F.layer_norm(t["x"], (4,), t["w"], t["w"]),
    "batch_norm": lambda xp, F, t: F.batch_norm(t["image"], None, None, None, None, True),
    "cross_entropy": lambda xp, F, t: F.cross_entropy(t["x"], t["classes"]),
    "power": lambda xp, F, t: t["x"] ** 2,
    "variance of rows": lambda xp, F, t: t["x"].var(1),
    "largest of rows": lambda xp, F, t: t["x"].max(1),
    "sort": lambda xp, F, t: t["x"].sort(1),
    "topk": lambda xp, F, t: t["x"].topk(2),
    "cumsum": lambda xp, F, t: t["x"].cumsum(1),
    "tril": lambda xp, F, t: t["x"].tril(),
    "gather": lambda xp, F, t: t["x"].gather(1, t["places"]),
    "index_select": lambda xp, F, t: t["x"].index_select(0, t["index"]),
    "by an index": lambda xp, F, t: t["x"][t["index"]],
    "embedding": lambda xp, F, t: F.embedding(t["index"], t["x"]),
    "conv2d": lambda xp, F, t: F.conv2d(t["image"], t["kernel"]),
    "max_pool2d": lambda xp, F, t: F.max_pool2d(t["image"], 2),
    "avg_pool2d": lambda xp, F, t: F.avg_pool2d(t["image"], 2),
    "attention": lambda xp, F, t: F.scaled_dot_product_attention(t["batch"], t["batch"], t["batch"]),
    "bmm": lambda xp, F, t: xp.bmm(t["batch"], t["batch"].transpose(1, 2)),
    "einsum": lambda xp, F, t: xp.einsum("ij,jk->ik", t["x"], t["y"]),
    "addmm": lambda xp, F, t: xp.addmm(t["w"], t["x"], t["y"]),
    "dot": lambda xp, F, t: t["w"].dot(t["w"]),
    "cat": lambda xp, F, t: xp.cat([t["x"], t["y"]]),
    "split": lambda xp, F, t: t["x"].split(2),
    "view": lambda xp, F, t: t["x"].view(-1),
    "transpose": lambda xp, F, t: t["x"].transpose(0, 1),
    "row": lambda xp, F, t: t["x"][0],
    "sum of a transpose": lambda xp, F, t: t["x"].t() + t["y"],
    "clone": lambda xp, F, t: t["x"].clone(),
    "cast": lambda xp, F, t: t["x"].to(xp.float64),
}
BACKWARD = (
    "softmax",
    "cross_entropy",
    "conv2d",
    "max_pool2d",
    "batch_norm",
    "gather",
    "by an index",
    "row",
    "view",
)


def given(xp: Any, recorded: bool) -> Given:
    random = np.random.default_rng(7)
    found = {
        name: xp.tensor(random.standard_normal(shape).astype(np.float32), requires_grad=recorded)
        for name, shape in _SHAPES.items()
    }
    numbers = {
        "index": np.array([0, 2, 1]), "classes": np.arange(4),
        "places": np.array([[0, 1], [2, 3], [0, 1], [1, 1]]),
        "mask": np.array([[True, False, True, False]] * 4),
    }  # fmt: skip
    return found | {name: xp.tensor(value) for name, value in numbers.items()}


def on_torch(kind: Kind, recorded: bool, back: bool) -> Work:
    import torch
    import torch.nn.functional

    return work_of(torch, torch.nn.functional, kind, recorded, back)


def on_trilobite(kind: Kind, recorded: bool, back: bool) -> Work:
    import trilobite as tb

    return work_of(tb, tb.nn.functional, kind, recorded, back)


def work_of(xp: Any, functional: Any, kind: Kind, recorded: bool, back: bool) -> Work:
    tensors = given(xp, recorded)
    forward = partial(kind, xp, functional, tensors)
    return steady((lambda: forward().sum().backward()) if back else forward)


def row(name: str, kind: Kind, recorded: bool, back: bool = False) -> Row:
    systems = {
        "trilobite": partial(on_trilobite, kind, recorded, back),
        "torch": partial(on_torch, kind, recorded, back),
    }
    said = f"{name}, sum and backward" if back else f"{name}, {'recorded' if recorded else 'plain'}"
    return Row(said, systems, aim_ratio=2.0)


ROWS = (
    *(row(name, kind, recorded=False) for name, kind in PLAIN.items()),
    *(row(name, kind, recorded=True) for name, kind in RECORDED.items()),
    *(row(name, RECORDED[name], recorded=True, back=True) for name in BACKWARD),
)
