"""Activation functions. Those that `tb.nn` has as one node are that node, so that targets see them whole."""

from __future__ import annotations

from collections.abc import Callable

import trilobite as tb
from trilobite.framework.nn import functional as F
from trilobite.framework.tensor import Tensor
from trilobite.inference.model import Node
from trilobite.inference.operators.registry import operator


@operator("Relu")
def relu(node: Node, x: Tensor) -> Tensor:
    return F.relu(x)


@operator("Sigmoid")
def sigmoid(node: Node, x: Tensor) -> Tensor:
    return tb.sigmoid(x)


@operator("LeakyRelu")
def leaky_relu(node: Node, x: Tensor) -> Tensor:
    return F.leaky_relu(x, node.attribute("alpha", 0.01))


@operator("Elu")
def elu(node: Node, x: Tensor) -> Tensor:
    return F.elu(x, node.attribute("alpha", 1.0))


@operator("Celu", since=12)
def celu(node: Node, x: Tensor) -> Tensor:
    return F.celu(x, node.attribute("alpha", 1.0))


@operator("Selu")
def selu(node: Node, x: Tensor) -> Tensor:
    older = node.version < 6
    alpha = node.attribute("alpha", 1.6732 if older else 1.67326319217681884765625)
    gamma = node.attribute("gamma", 1.0507 if older else 1.05070102214813232421875)
    return F.elu(x, alpha) * gamma


@operator("ThresholdedRelu", since=10)
def thresholded_relu(node: Node, x: Tensor) -> Tensor:
    return F.threshold(x, node.attribute("alpha", 1.0), 0.0)


@operator("HardSigmoid")
def hard_sigmoid(node: Node, x: Tensor) -> Tensor:
    return tb.clip(x * node.attribute("alpha", 0.2) + node.attribute("beta", 0.5), 0.0, 1.0)


@operator("HardSwish", since=14)
def hard_swish(node: Node, x: Tensor) -> Tensor:
    return F.hardswish(x)


@operator("Softplus")
def softplus(node: Node, x: Tensor) -> Tensor:
    return F.softplus(x)


@operator("Softsign")
def softsign(node: Node, x: Tensor) -> Tensor:
    return F.softsign(x)


@operator("Gelu", since=20)
def gelu(node: Node, x: Tensor) -> Tensor:
    return F.gelu(x, node.attribute("approximate", "none"))


@operator("Mish", since=18)
def mish(node: Node, x: Tensor) -> Tensor:
    return F.mish(x)


@operator("Swish", since=24)
def swish(node: Node, x: Tensor) -> Tensor:
    alpha = node.attribute("alpha", 1.0)
    return F.silu(x) if alpha == 1.0 else x * tb.sigmoid(x * alpha)


@operator("SwiGLU", since=28)
def swiglu(node: Node, gate: Tensor, up: Tensor) -> Tensor:
    alpha = node.attribute("alpha", 1.0)
    return (F.silu(gate) if alpha == 1.0 else gate * tb.sigmoid(gate * alpha)) * up


@operator("PRelu")
def prelu(node: Node, x: Tensor, slope: Tensor) -> Tensor:
    if node.version < 7 and slope.ndim == 1 and slope.shape[0] != 1 and x.ndim > 2:
        slope = tb.reshape(slope, (slope.shape[0], *[1] * (x.ndim - 2)))  # one per channel
    return tb.where(x < 0, x * slope, x)


@operator("Shrink", since=9)
def shrink(node: Node, x: Tensor) -> Tensor:
    bias, edge = node.attribute("bias", 0.0), node.attribute("lambd", 0.5)
    zero = tb.zeros_like(x)
    out = tb.where(x > edge, x - bias, tb.where(x < -edge, x + bias, zero))
    return out.astype(x.dtype)


def _along(node: Node, x: Tensor, function: Callable[[Tensor, int], Tensor]) -> Tensor:
    """Along an axis; before operator set 13 all axes from that one on count as one."""
    axis = node.attribute("axis", -1 if node.version >= 13 else 1)
    if node.version >= 13 or axis % max(x.ndim, 1) == x.ndim - 1:
        return function(x, axis)
    return tb.reshape(function(tb.flatten(x, axis % x.ndim, -1), -1), x.shape)


@operator("Softmax")
def softmax(node: Node, x: Tensor) -> Tensor:
    return _along(node, x, tb.softmax)


@operator("LogSoftmax")
def log_softmax(node: Node, x: Tensor) -> Tensor:
    return _along(node, x, tb.log_softmax)


@operator("Hardmax")
def hardmax(node: Node, x: Tensor) -> Tensor:
    def chosen(rows: Tensor, axis: int) -> Tensor:
        at = axis % rows.ndim
        place = tb.argmax(rows, at, keepdims=True)
        counted = tb.reshape(tb.arange(rows.shape[at]), [-1 if a == at else 1 for a in range(rows.ndim)])
        return tb.equal(place, counted).astype(x.dtype)

    return _along(node, x, chosen)
