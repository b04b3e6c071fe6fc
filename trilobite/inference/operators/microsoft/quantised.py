"""Quantised operators of com.microsoft: each is its float form between two grids."""

from __future__ import annotations

from typing import Any

import trilobite as tb
from trilobite.framework.nn import functional as F
from trilobite.framework.tensor import Tensor
from trilobite.inference.model import Node
from trilobite.inference.operators.microsoft.fused import MS
from trilobite.inference.operators.pooling import average_pool
from trilobite.inference.operators.product import lowered
from trilobite.inference.operators.quantising import (
    dequantize_linear,
    dynamic_quantize_linear,
    quantised,
    quantize_linear,
)
from trilobite.inference.operators.recurrent import ALL, Product, lstm_of
from trilobite.inference.operators.registry import operator

operator("QuantizeLinear", domain=MS)(quantize_linear)
operator("DequantizeLinear", domain=MS, gives="numbers")(dequantize_linear)


def real(q: Tensor, scale: Tensor, zero: Tensor | None) -> Tensor:
    """Numbers of one scale, off their grid."""
    wide = q.astype(tb.float32)
    if zero is not None:
        wide = wide - tb.reshape(zero, ()).astype(tb.float32)
    return wide * tb.reshape(scale, ())


def grid(x: Tensor, scale: Tensor, zero: Tensor | None, like: Tensor) -> Tensor:
    """Numbers on a grid of one scale."""
    point = tb.zeros((), dtype=like.dtype) if zero is None else tb.reshape(zero, ())
    return quantised(x.astype(scale.dtype), tb.reshape(scale, ()), point, None)


@operator("QLinearAdd", "QLinearMul", domain=MS)
def qlinear_binary(
    node: Node, a: Tensor, a_scale: Tensor, a_zero: Any, b: Tensor, b_scale: Tensor, b_zero: Any,
    scale: Tensor, zero: Any = None,
) -> Tensor:  # fmt: skip
    x, y = real(a, a_scale, a_zero), real(b, b_scale, b_zero)
    return grid(x + y if node.op == "QLinearAdd" else x * y, scale, zero, a)


@operator("QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax", domain=MS)
def qlinear_unary(
    node: Node, q: Tensor, q_scale: Tensor, q_zero: Any, scale: Tensor, zero: Any = None
) -> Tensor:
    x = real(q, q_scale, q_zero)
    if node.op == "QLinearSigmoid":
        out = tb.sigmoid(x)
    elif node.op == "QLinearLeakyRelu":
        out = F.leaky_relu(x, node.attribute("alpha", 0.01))
    elif node.attribute("opset", 13) >= 13:
        out = tb.softmax(x, node.attribute("axis", -1))
    else:
        axis = node.attribute("axis", -1) % x.ndim  # not 1, as that version of Softmax has it
        out = tb.reshape(tb.softmax(tb.flatten(x, axis, -1), -1), x.shape)
    return grid(out, scale, zero, q)


def _first(x: Tensor, node: Node) -> Tensor:
    return tb.moveaxis(x, -1, 1) if node.attribute("channels_last", 0) else x


def _back(x: Tensor, node: Node) -> Tensor:
    return tb.moveaxis(x, 1, -1) if node.attribute("channels_last", 0) else x


@operator("QLinearGlobalAveragePool", domain=MS)
def qlinear_global_average_pool(
    node: Node, q: Tensor, q_scale: Tensor, q_zero: Any, scale: Tensor, zero: Any = None
) -> Tensor:
    x = _first(real(q, q_scale, q_zero), node)
    return grid(_back(tb.mean(x, tuple(range(2, x.ndim)), keepdims=True), node), scale, zero, q)


@operator("QLinearAveragePool", domain=MS)
def qlinear_average_pool(
    node: Node, q: Tensor, q_scale: Tensor, q_zero: Any, scale: Tensor, zero: Any = None
) -> Tensor:
    return grid(_back(average_pool(node, _first(real(q, q_scale, q_zero), node)), node), scale, zero, q)


@operator("QLinearReduceMean", domain=MS)
def qlinear_reduce_mean(
    node: Node, q: Tensor, q_scale: Tensor, q_zero: Any, scale: Tensor, zero: Any = None
) -> Tensor:
    axes, keep = node.attribute("axes"), bool(node.attribute("keepdims", 1))
    return grid(tb.mean(real(q, q_scale, q_zero), axes, keepdims=keep), scale, zero, q)


@operator("QLinearConcat", domain=MS)
def qlinear_concat(node: Node, scale: Tensor, zero: Tensor, *parts: Tensor) -> Tensor:
    xs = [real(parts[i], parts[i + 1], parts[i + 2]) for i in range(0, len(parts), 3)]
    return grid(tb.concat(xs, axis=node.attributes["axis"]), scale, zero, parts[0])


@operator("QLinearWhere", domain=MS)
def qlinear_where(
    node: Node, condition: Tensor, a: Tensor, a_scale: Tensor, a_zero: Any, b: Tensor, b_scale: Tensor,
    b_zero: Any, scale: Tensor, zero: Any,
) -> Tensor:  # fmt: skip
    return grid(tb.where(condition, real(a, a_scale, a_zero), real(b, b_scale, b_zero)), scale, zero, a)


@operator("MatMulIntegerToFloat", domain=MS)
def matmul_integer_to_float(
    node: Node, a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor, a_zero: Any = None,
    b_zero: Any = None, bias: Tensor | None = None,
) -> Tensor:  # fmt: skip
    total = tb.matmul(lowered(a, a_zero, -2), lowered(b, b_zero, -1)).astype(tb.float32)
    out = (total * (a_scale.astype(tb.float32) * b_scale.astype(tb.float32))).astype(a_scale.dtype)
    return out if bias is None else out + bias


@operator("DynamicQuantizeMatMul", domain=MS)
def dynamic_quantize_matmul(
    node: Node, a: Tensor, b: Tensor, b_scale: Tensor, b_zero: Any = None, bias: Tensor | None = None
) -> Tensor:
    q, scale, zero = dynamic_quantize_linear(node, a)
    return matmul_integer_to_float(node, q, b, scale, b_scale, zero, b_zero, bias)


@operator("DynamicQuantizeLSTM", domain=MS)
def dynamic_quantize_lstm(
    node: Node, x: Tensor, w: Tensor, r: Tensor, b: Any = None, lengths: Any = None, h: Any = None,
    c: Any = None, peep: Any = None, w_scale: Any = None, w_zero: Any = None, r_scale: Any = None,
    r_zero: Any = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """An LSTM with weights of 8 bits (directions, features, gates). The input and each state go to grids of
    their own, as for DynamicQuantizeMatMul.
    """
    by_w, by_r = _dynamic(node, w, w_scale, w_zero), _dynamic(node, r, r_scale, r_zero)
    return lstm_of(node, x, by_w, by_r, r.shape[1], b, lengths, h, c, peep)


def _dynamic(node: Node, weights: Tensor, scales: Tensor, zeros: Tensor) -> list[Product]:
    """Products with the weights of each direction; one scale per direction, or per direction and gate."""

    def of(q: Tensor, scale: Tensor, zero: Tensor) -> Product:
        return lambda x, gates=ALL: dynamic_quantize_matmul(node, x, q[:, gates], scale, zero)

    return [of(weights[d], scales[d], zeros[d]) for d in range(weights.shape[0])]


@operator("QGemm", domain=MS)
def qgemm(
    node: Node, a: Tensor, a_scale: Tensor, a_zero: Tensor, b: Tensor, b_scale: Tensor, b_zero: Tensor,
    c: Tensor | None = None, scale: Tensor | None = None, zero: Tensor | None = None,
) -> Tensor:  # fmt: skip
    x, y = lowered(a, a_zero, -2), lowered(b, b_zero, -1 if not node.attribute("transB", 0) else -2)
    x = tb.matrix_transpose(x) if node.attribute("transA", 0) else x
    y = tb.matrix_transpose(y) if node.attribute("transB", 0) else y
    total = tb.matmul(x, y)
    total = total if c is None else total + c
    out = total.astype(tb.float32) * (a_scale * b_scale * node.attribute("alpha", 1.0))
    return out if scale is None else grid(out, scale, zero, a)
