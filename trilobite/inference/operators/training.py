"""Training steps of ai.onnx.preview.training: optimisers, and gradients of a part of the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import trilobite as tb
from trilobite.framework.tensor import Tensor
from trilobite.inference.model import Node
from trilobite.inference.operators.registry import operator

TRAINING = "ai.onnx.preview.training"


def _groups(tensors: Sequence[Tensor], kinds: int) -> list[tuple[Tensor, ...]]:
    """(value, gradient, states...) per optimised tensor; they come kind by kind."""
    n = len(tensors) // kinds
    return [tuple(tensors[k * n + i] for k in range(kinds)) for i in range(n)]


def _by_kind(rows: Sequence[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    return tuple(row[k] for k in range(len(rows[0])) for row in rows)


def _regularised(node: Node, x: Tensor, g: Tensor) -> Tensor:
    factor = node.attribute("norm_coefficient", 0.0)
    return g + x * factor if factor else g


@operator("Adagrad", domain=TRAINING)
def adagrad(node: Node, rate: Tensor, count: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
    r = rate / (1 + count.astype(rate.dtype) * node.attribute("decay_factor", 0.0))
    rows = []
    for x, g, h in _groups(tensors, 3):
        g = _regularised(node, x, g)
        total = h + g * g
        rows.append((x - r * g / (tb.sqrt(total) + node.attribute("epsilon", 1e-6)), total))
    return _by_kind(rows)


@operator("Adam", domain=TRAINING)
def adam(node: Node, rate: Tensor, count: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
    alpha, beta = node.attribute("alpha", 0.9), node.attribute("beta", 0.999)
    after = node.attribute("norm_coefficient_post", 0.0)
    t = count.astype(rate.dtype)
    corrected = rate * tb.sqrt(1 - tb.pow(beta, t)) / (1 - tb.pow(alpha, t))
    r = tb.where(t > 0, corrected, rate)
    rows = []
    for x, g, v, h in _groups(tensors, 4):
        g = _regularised(node, x, g)
        v, h = v * alpha + g * (1 - alpha), h * beta + g * g * (1 - beta)
        new = x - r * v / (tb.sqrt(h) + node.attribute("epsilon", 1e-6))
        rows.append((new * (1 - after) if after else new, v, h))
    return _by_kind(rows)


@operator("Momentum", domain=TRAINING)
def momentum(node: Node, rate: Tensor, count: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
    alpha, beta = node.attributes["alpha"], node.attributes["beta"]
    share = tb.where(count > 0, beta, 1.0).astype(rate.dtype)
    rows = []
    for x, g, v in _groups(tensors, 3):
        g = _regularised(node, x, g)
        v = v * alpha + g * share
        step = g + v * alpha if node.attributes["mode"] == "nesterov" else v
        rows.append((x - rate * step, v))
    return _by_kind(rows)


@operator("Gradient", domain=TRAINING)
def gradient(node: Node, *operands: Tensor) -> Any:
    """Derivatives of y by the xs: the nodes between them are the body that the reader put here."""
    from trilobite.inference.program.inline import traced
    from trilobite.inference.program.values import as_tensor

    body = node.attributes["<body>"]
    names, count = [i.name for i in body.inputs], len(node.attributes["xs"])
    outer = dict(zip(node.taken(), operands[len(node.inputs) :], strict=True))

    def y(*xs: Tensor) -> Tensor:
        given = dict(zip(names, (*xs, *operands[count : len(names)]), strict=True))
        return as_tensor(traced(body, {**outer, **given})[0])

    value, pullback = tb.vjp(y, *operands[:count])
    return tuple(pullback(tb.ones_like(value)))
