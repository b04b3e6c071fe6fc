"""Operators of com.microsoft that join several of ONNX: activations, norms with additions, products."""

from __future__ import annotations

from typing import Any

import numpy as np

import trilobite as tb
from trilobite.base.errors import ArgumentError
from trilobite.framework.nn import functional as F
from trilobite.framework.tensor import Tensor
from trilobite.inference.model import Node
from trilobite.inference.operators.comparison import unique
from trilobite.inference.operators.convolution import conv
from trilobite.inference.operators.joining import pad
from trilobite.inference.operators.normalising import rms
from trilobite.inference.operators.primitives import primitive
from trilobite.inference.operators.product import gemm
from trilobite.inference.operators.registry import find, operator
from trilobite.inference.operators.resampling import grid_sample
from trilobite.inference.operators.shaping import fixed, trilu

Array = np.ndarray[Any, Any]
MS = "com.microsoft"


@operator("Gelu", domain=MS)
def gelu(node: Node, x: Tensor) -> Tensor:
    return F.gelu(x)


@operator("BiasGelu", domain=MS)
def bias_gelu(node: Node, x: Tensor, bias: Tensor) -> Tensor:
    return F.gelu(x + bias)


@operator("FastGelu", domain=MS)
def fast_gelu(node: Node, x: Tensor, bias: Tensor | None = None) -> Tensor:
    return F.gelu(x if bias is None else x + bias, "tanh")


@operator("QuickGelu", domain=MS)
def quick_gelu(node: Node, x: Tensor) -> Tensor:
    return x * tb.sigmoid(x * node.attribute("alpha", 1.702))


@operator("BiasSplitGelu", domain=MS)
def bias_split_gelu(node: Node, x: Tensor, bias: Tensor) -> Tensor:
    both = x + bias
    half = fixed(x.shape)[-1] // 2
    return both[..., :half] * F.gelu(both[..., half:])


@operator("BiasAdd", domain=MS)
def bias_add(node: Node, x: Tensor, bias: Tensor, skip: Tensor) -> Tensor:
    return x + bias + skip


def _normed(x: Tensor, scale: Tensor, bias: Tensor | None, epsilon: float) -> Tensor:
    return F.layer_norm(x, fixed(x.shape[-1:]), scale, bias, epsilon)


@operator("SkipLayerNormalization", domain=MS)
def skip_layer_normalization(
    node: Node,
    x: Tensor,
    skip: Tensor,
    scale: Tensor,
    shift: Tensor | None = None,
    bias: Tensor | None = None,
) -> tuple[Any, ...]:
    total = x + skip
    total = total if bias is None else total + bias
    return _normed(total, scale, shift, node.attribute("epsilon", 1e-12)), *_moments(node, total), total


def _moments(node: Node, x: Tensor) -> tuple[Any, Any]:
    if len(node.outputs) < 2 or not any(node.outputs[1:3]):
        return None, None
    wide = x.astype(tb.float32)
    inverse = tb.rsqrt(tb.var(wide, -1, keepdims=True) + node.attribute("epsilon", 1e-12))
    return tb.mean(wide, -1, keepdims=True), inverse


@operator("SkipSimplifiedLayerNormalization", domain=MS)
def skip_simplified_layer_normalization(
    node: Node, x: Tensor, skip: Tensor, scale: Tensor, bias: Tensor | None = None
) -> tuple[Any, ...]:
    total = x + skip
    total = total if bias is None else total + bias
    out, inverse = rms(total, scale, node.attribute("epsilon", 1e-5))
    return out, None, inverse, total


@operator("EmbedLayerNormalization", domain=MS)
def embed_layer_normalization(
    node: Node, ids: Tensor, segments: Tensor | None, words: Tensor, places: Tensor, kinds: Tensor | None,
    scale: Tensor, shift: Tensor, mask: Tensor | None = None, positions: Tensor | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """The sum of embeddings of words, positions and segments, normalised; and how long each row is."""
    total = primitive("gather", words, ids.astype(tb.int64), axis=0)
    if positions is None:
        total = total + places[: ids.shape[1]]
    else:
        total = total + primitive("gather", places, positions.astype(tb.int64), axis=0)
    if segments is not None and kinds is not None:
        total = total + primitive("gather", kinds, segments.astype(tb.int64), axis=0)
    out = _normed(total, scale, shift, node.attribute("epsilon", 1e-12))
    count = tb.zeros((ids.shape[0],), dtype=tb.int32)
    if mask is not None:
        count = tb.sum(tb.not_equal(mask, 0).astype(tb.int32), 1, dtype=tb.int32)
    return out, count, total


@operator("FusedMatMul", "TransposeMatMul", domain=MS)
def fused_matmul(node: Node, a: Tensor, b: Tensor) -> Tensor:
    for name, which in (("A", 0), ("B", 1)):
        x = (a, b)[which]
        if node.attribute(f"transBatch{name}", 0):
            x = tb.permute_dims(x, (*range(1, x.ndim - 1), 0, x.ndim - 1))
        if node.attribute(f"trans{name}", 0) and x.ndim > 1:
            x = tb.matrix_transpose(x)
        a, b = (x, b) if which == 0 else (a, x)
    alpha = node.attribute("alpha", 1.0)
    out = tb.matmul(a, b)
    return out if alpha == 1.0 else (out * alpha).astype(a.dtype)


_BY_NAME = (
    "Relu Sigmoid Tanh HardSwish Softplus Softsign Elu Selu ThresholdedRelu LeakyRelu HardSigmoid".split()
)


def activated(node: Node, x: Tensor) -> Tensor:
    """By the activation that an attribute names, with its parameters; what they are is the operator's own."""
    name = node.attribute("activation", "")
    alpha, beta = (*(node.attribute("activation_params") or ()), None, None)[:2]
    alpha = node.attribute("activation_alpha", alpha)
    beta = node.attribute("activation_beta", beta)
    gamma = node.attribute("activation_gamma")
    if name in ("", "None"):
        return x
    if name == "Clip":
        return tb.clip(x, alpha, beta)
    if name not in _BY_NAME:
        raise ArgumentError(f"the activation {name!r}", expected=", ".join((*_BY_NAME, "Clip")))
    found = {k: v for k, v in (("alpha", alpha), ("beta", beta), ("gamma", gamma)) if v is not None}
    row = find("", name, 22)
    assert row is not None
    out: Tensor = row.function(Node(name, (), (), found, "", 22), x)
    return out


@operator("FusedConv", domain=MS)
def fused_conv(
    node: Node, x: Tensor, w: Tensor, bias: Tensor | None = None, more: Tensor | None = None
) -> Tensor:
    out = conv(node, x, w, bias)
    return activated(node, out if more is None else out + more)


@operator("FusedGemm", domain=MS)
def fused_gemm(node: Node, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    return activated(node, gemm(node, a, b, c))


@operator("Inverse", domain=MS)
def inverse(node: Node, x: Tensor) -> Tensor:
    return tb.linalg.inv(x)


@operator("ExpandDims", domain=MS, known=(1,))
def expand_dims(node: Node, x: Tensor, axis: Array) -> Tensor:
    at = int(axis.reshape(()))
    return tb.expand_dims(x, axis=at if at >= 0 else at + x.ndim + 1)


operator("Trilu", domain=MS, known=(1,))(trilu)
operator("Pad", domain=MS, known=(1, 2, 3))(pad)
operator("GridSample", domain=MS)(grid_sample)


@operator("Unique", domain=MS, host=True, gives="same")
def first_of_each(node: Node, x: Array) -> tuple[Array, ...]:
    """Elements in the order in which they appear, which of them each element is, and how many there are."""
    found, _, inverse, counts = unique(Node(node.op, (), (), {"sorted": 0}, "", 11), x)
    return found, inverse, counts
