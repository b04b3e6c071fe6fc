"""Matrix products."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

import trilobite as tb
from trilobite.framework.tensor import Tensor
from trilobite.inference.model import Node
from trilobite.inference.operators.registry import operator

Array = np.ndarray[Any, Any]


@operator("MatMul")
def matmul(node: Node, x: Tensor, y: Tensor) -> Tensor:
    return tb.matmul(x, y)


@operator("Gemm")
def gemm(node: Node, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    """alpha·A·B + beta·C, either transposed."""
    if node.attribute("transA", 0):
        a = tb.matrix_transpose(a)
    if node.attribute("transB", 0):
        b = tb.matrix_transpose(b)
    alpha, beta = node.attribute("alpha", 1.0), node.attribute("beta", 1.0)
    out = tb.matmul(a, b)
    if alpha != 1.0:
        out = (out * alpha).astype(a.dtype)
    if c is None or beta == 0:
        return out
    return out + (c if beta == 1.0 else (c * beta).astype(c.dtype))


def lowered(x: Tensor, zero: Tensor | None, axis: int) -> Tensor:
    """Integers less their zero point (one, or one per place on an axis), in int32."""
    wide = x.astype(tb.int32)
    if zero is None:
        return wide
    point = zero.astype(tb.int32)
    if point.ndim == 1 and point.shape[0] != 1:
        point = tb.reshape(point, [-1 if a == axis % x.ndim else 1 for a in range(x.ndim)])
    elif point.ndim == 1:
        point = tb.reshape(point, ())
    return wide - point


@operator("MatMulInteger", since=10)
def matmul_integer(node: Node, a: Tensor, b: Tensor, a_zero: Any = None, b_zero: Any = None) -> Tensor:
    return tb.matmul(lowered(a, a_zero, -2), lowered(b, b_zero, -1))


def product_of(sizes: Any) -> Any:
    return reduce(lambda a, b: a * b, sizes, 1)
