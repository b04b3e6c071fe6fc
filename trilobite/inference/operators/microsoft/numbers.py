"""Small operators of com.microsoft: transforms, distances, integers, windows."""

from __future__ import annotations

from typing import Any

import numpy as np

import trilobite as tb
from trilobite.base.errors import ArgumentError
from trilobite.framework.nn import functional as F
from trilobite.framework.tensor import Tensor
from trilobite.inference.model import Node
from trilobite.inference.operators.creation import arange
from trilobite.inference.operators.indexing import gather_nd
from trilobite.inference.operators.microsoft.fused import MS, activated, fused_matmul
from trilobite.inference.operators.primitives import primitive
from trilobite.inference.operators.product import lowered
from trilobite.inference.operators.registry import only, operator
from trilobite.inference.operators.shaping import fixed

Array = np.ndarray[Any, Any]
_ONE_SIDED = only(normalized=0, onesided=1, signal_ndim=1)

operator("GatherND", domain=MS)(gather_nd)


@operator("Range", domain=MS, known=(0, 1, 2))
def ms_range(node: Node, start: Array, limit: Array, step: Array | None = None) -> Any:
    return arange(node, start, limit, np.ones((), start.dtype) if step is None else step)


@operator("Rfft", domain=MS, limit=_ONE_SIDED)
def rfft(node: Node, x: Tensor) -> Tensor:
    z = tb.fft.rfft(x)
    return tb.stack([tb.real(z), tb.imag(z)], axis=-1)


@operator("Irfft", domain=MS, limit=_ONE_SIDED)
def irfft(node: Node, x: Tensor) -> Tensor:
    return tb.fft.irfft(tb.complex(x[..., 0], x[..., 1]))


@operator("ComplexMul", "ComplexMulConj", domain=MS)
def complex_mul(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """Of numbers whose parts are the last axis; the second conjugated if the name says so."""
    ar, ai, br, bi = a[..., 0], a[..., 1], b[..., 0], b[..., 1]
    bi = -bi if node.op == "ComplexMulConj" else bi
    return tb.stack([ar * br - ai * bi, ar * bi + ai * br], axis=-1)


@operator("CDist", domain=MS)
def cdist(node: Node, a: Tensor, b: Tensor) -> Tensor:
    metric = node.attribute("metric", "sqeuclidean")
    if metric not in ("sqeuclidean", "euclidean"):
        raise ArgumentError(f"distances by {metric!r}", expected="euclidean or sqeuclidean")
    apart = tb.expand_dims(a, axis=1) - tb.expand_dims(b, axis=0)
    squared = tb.sum(apart * apart, -1)
    return squared if metric == "sqeuclidean" else tb.sqrt(squared)


@operator("UnfoldTensor", domain=MS)
def unfold_tensor(node: Node, x: Tensor) -> Tensor:
    """Windows of an axis, each as a new last axis."""
    axis, size = node.attribute("dim", -1) % x.ndim, node.attributes["size"]
    count = (fixed(x.shape)[axis] - size) // node.attribute("step", 1) + 1
    at = np.arange(count)[:, None] * node.attribute("step", 1) + np.arange(size)
    return tb.moveaxis(primitive("gather", x, tb.asarray(at), axis=axis), axis + 1, -1)


@operator("MulInteger", domain=MS)
def mul_integer(
    node: Node, a: Tensor, a_zero: Tensor | None, b: Tensor, b_zero: Tensor | None = None
) -> Tensor:
    return lowered(a, a_zero, 0) * lowered(b, b_zero, 0)


@operator("ReduceSumInteger", domain=MS)
def reduce_sum_integer(node: Node, x: Tensor) -> Tensor:
    wide = tb.uint32 if x.dtype == tb.uint8 else tb.int32
    keep = bool(node.attribute("keepdims", 1))
    return tb.sum(x.astype(wide), tuple(node.attributes["axes"]), keepdims=keep, dtype=wide)


@operator("MatMulInteger16", domain=MS)
def matmul_integer16(node: Node, a: Tensor, b: Tensor) -> Tensor:
    wide = tb.uint32 if a.dtype == b.dtype == tb.uint16 else tb.int32
    return tb.matmul(a.astype(wide), b.astype(wide))


@operator("GemmFastGelu", domain=MS)
def gemm_fast_gelu(node: Node, x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
    out = tb.matmul(x, w)
    return F.gelu(out if bias is None else out + bias, "tanh")


@operator("FusedMatMulActivation", domain=MS)
def fused_matmul_activation(node: Node, a: Tensor, b: Tensor) -> Tensor:
    out = fused_matmul(node, a, b)
    if node.attributes["activation"] == "Softmax":
        return tb.softmax(out, node.attribute("activation_axis", -1))
    return activated(node, out)


@operator("TorchEmbedding", domain=MS)
def torch_embedding(node: Node, table: Tensor, indices: Tensor, *_: Any) -> Tensor:
    return primitive("gather", table, indices.astype(tb.int64), axis=0)


@operator("IsAllFinite", domain=MS)
def is_all_finite(node: Node, *xs: Tensor) -> Tensor:
    """Of several tensors as one."""
    found = tb.asarray(np.asarray(True))
    for x in xs:
        wrong = tb.isinf(x) if node.attribute("isinf_only", 0) else tb.isnan(x)
        if not node.attribute("isinf_only", 0) and not node.attribute("isnan_only", 0):
            wrong = tb.logical_not(tb.isfinite(x))
        found = tb.logical_and(found, tb.logical_not(tb.any(wrong)))
    return found


@operator("DynamicTimeWarping", domain=MS, host=True, gives="numbers")
def dynamic_time_warping(node: Node, costs: Array) -> Array:
    """The cheapest way through a table of costs, as rows and columns."""
    table = costs.reshape(costs.shape[-2:]).astype(np.float32)
    rows, columns = table.shape
    total = np.full((rows + 1, columns + 1), np.inf, np.float32)
    total[0, 0] = 0
    came = np.zeros((rows + 1, columns + 1), np.int8)
    for i in range(1, rows + 1):
        for j in range(1, columns + 1):
            options = total[i - 1, j - 1], total[i - 1, j], total[i, j - 1]
            came[i, j] = _least(*options)
            total[i, j] = table[i - 1, j - 1] + options[came[i, j]]
    came[0, :], came[:, 0] = 2, 1
    path, (i, j) = [], (rows, columns)
    while i > 0 or j > 0:
        path.append((i - 1, j - 1))
        step = came[i, j]
        i, j = i - (step != 2), j - (step != 1)
    return np.array(path[::-1], np.int32).T.copy()


def _least(across: Any, down: Any, along: Any) -> int:
    """Which of three ways is cheaper than both others; the last of equals."""
    if across < down and across < along:
        return 0
    return 1 if down < across and down < along else 2
