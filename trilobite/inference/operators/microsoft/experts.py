"""Mixtures of experts: each row goes through the networks that a router rates highest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trilobite as tb
from trilobite.base.errors import ArgumentError
from trilobite.framework.nn import functional as F
from trilobite.framework.tensor import Tensor
from trilobite.inference.model import Node
from trilobite.inference.operators.microsoft.fused import MS
from trilobite.inference.operators.microsoft.weights import unpacked
from trilobite.inference.operators.primitives import primitive
from trilobite.inference.operators.registry import only, operator
from trilobite.inference.operators.shaping import fixed

Layer = tuple[Tensor, Tensor | None]  # weights (experts, out, in) and biases (experts, out)
_INTEGERS = only(15, 16, 17, 18, 19, 20, use_sparse_mixer=0, quant_type="int")


@operator("MoE", domain=MS, limit=only(use_sparse_mixer=0))
def moe(
    node: Node, x: Tensor, router: Tensor, w1: Tensor, b1: Tensor | None, w2: Tensor,
    b2: Tensor | None = None, w3: Tensor | None = None, b3: Tensor | None = None,
) -> Tensor:  # fmt: skip
    third = None if w3 is None else (w3, b3)
    return _mixed(node, x, _shares(node, router, router), (w1, b1), (w2, b2), third)


@operator("QMoE", domain=MS, limit=_INTEGERS)
def qmoe(
    node: Node, x: Tensor, router: Tensor, w1: Tensor, s1: Tensor, b1: Tensor | None, w2: Tensor, s2: Tensor,
    b2: Tensor | None = None, w3: Tensor | None = None, s3: Tensor | None = None, b3: Tensor | None = None,
    z1: Tensor | None = None, z2: Tensor | None = None, z3: Tensor | None = None,
    mixing: Tensor | None = None, *_: Any,
) -> Tensor:  # fmt: skip
    """With weights of 2, 4 or 8 bits."""
    first = (_weights(node, 1, w1, s1, z1), b1)
    second = (_weights(node, 2, w2, s2, z2), b2)
    third = None if w3 is None or s3 is None else (_weights(node, 3, w3, s3, z3), b3)
    return _mixed(node, x, _shares(node, router, router if mixing is None else mixing), first, second, third)


def _weights(node: Node, layer: int, packed: Tensor, scales: Tensor, zeros: Tensor | None) -> Tensor:
    bits = node.attribute(f"fc{layer}_expert_weight_bits", node.attribute("expert_weight_bits", 4))
    experts, rows, width = fixed(packed.shape)
    depth = width * 8 // bits
    blocks = fixed(scales.shape)[2] if scales.ndim == 3 else 1
    q = tb.reshape(unpacked(packed, bits, depth), (experts, rows, blocks, depth // blocks))
    if zeros is None:
        point: Any = float(1 << (bits - 1))
    else:
        count = blocks if zeros.ndim == 3 else rows
        point = tb.reshape(unpacked(zeros, bits, count), (experts, rows, blocks, 1)).astype(tb.float32)
    scale = tb.reshape(scales, (experts, rows, blocks, 1)).astype(tb.float32)
    return tb.reshape((q.astype(tb.float32) - point) * scale, (experts, rows, depth))


def _shares(node: Node, router: Tensor, mixing: Tensor) -> Tensor:
    """How much of each expert each row gets: (rows, experts), 0 but for the k that are rated highest."""
    values, chosen = tb.topk(router.astype(tb.float32), node.attribute("k", 1))
    if mixing is router:
        weights = tb.softmax(values, -1)
        if not node.attribute("normalize_routing_weights", 0):
            weights = tb.take_along_axis(tb.softmax(router.astype(tb.float32), -1), chosen, axis=-1)
    else:
        weights = tb.take_along_axis(mixing.astype(tb.float32), chosen, axis=-1)
        if node.attribute("normalize_routing_weights", 0):
            weights = weights / tb.sum(weights, -1, keepdims=True)
    none = tb.zeros(tuple(router.shape), dtype=tb.float32)
    return primitive("scatter_along", none, chosen.astype(tb.int64), weights, axis=1, kind="set")


def _mixed(node: Node, x: Tensor, shares: Tensor, first: Layer, second: Layer, third: Layer | None) -> Tensor:
    rows = tb.reshape(x, (-1, x.shape[-1])).astype(tb.float32)
    hidden = _through(rows, first)
    other = None if third is None else _through(rows, third)
    out = _through(_activated(node, hidden, other), second)
    total = tb.sum(out * tb.expand_dims(tb.matrix_transpose(shares), axis=-1), 0)
    return tb.reshape(total, x.shape).astype(x.dtype)


def _through(x: Tensor, layer: Layer) -> Tensor:
    """A layer of all experts: (experts, rows, out)."""
    weight, bias = layer
    out = tb.matmul(x, tb.matrix_transpose(weight.astype(tb.float32)))
    return out if bias is None else out + tb.expand_dims(bias.astype(tb.float32), axis=1)


_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu, "gelu": lambda x: F.gelu(x, "tanh"), "silu": F.silu, "identity": lambda x: x,
}  # fmt: skip


def _activated(node: Node, x: Tensor, other: Tensor | None) -> Tensor:
    name = node.attribute("activation_type", "relu")
    if name == "swiglu":
        return _gated(node, x, other)
    if name not in _ACTIVATIONS:
        raise ArgumentError(
            f"the activation {name!r} of experts", expected=", ".join((*_ACTIVATIONS, "swiglu"))
        )
    out = _ACTIVATIONS[name](x)
    return out if other is None else out * other


def _gated(node: Node, x: Tensor, other: Tensor | None) -> Tensor:
    """A gate times a line: two products, or one whose columns alternate or stand side by side."""
    fusion = node.attribute("swiglu_fusion", 0)
    half = fixed(x.shape)[-1] // 2
    if fusion == 1:
        x, other = x[..., 0::2], x[..., 1::2]
    elif fusion == 2:
        x, other = x[..., :half], x[..., half:]
    if other is None:
        raise ArgumentError(f"{node.label()} without the weights of its line", expected="a third layer")
    limit = node.attribute("swiglu_limit")
    if limit is not None:
        x, other = tb.clip(x, None, limit), tb.clip(other, -limit, limit)
    gate = x * tb.sigmoid(x * node.attribute("activation_alpha", 1.0))
    return gate * (other + node.attribute("activation_beta", 0.0))
