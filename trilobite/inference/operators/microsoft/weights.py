"""Products and look-ups with weights of few bits, of which each block has a scale of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import trilobite as tb
from trilobite.base.errors import ArgumentError
from trilobite.framework.nn import functional as F
from trilobite.framework.tensor import Tensor, wrap
from trilobite.inference.model import Node
from trilobite.inference.operators.microsoft.fused import MS
from trilobite.inference.operators.normalising import rms
from trilobite.inference.operators.primitives import primitive
from trilobite.inference.operators.registry import only, operator
from trilobite.inference.operators.shaping import fixed

Array = np.ndarray[Any, Any]
_AS_STORED = only(weight_prepacked=0)


@operator("MatMulNBits", domain=MS, limit=_AS_STORED)
def matmul_nbits(
    node: Node, a: Tensor, b: Tensor, scales: Tensor, zeros: Tensor | None = None,
    groups: Tensor | None = None, bias: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """A product with weights of 2, 4 or 8 bits, each block of a row with a scale and a zero point."""
    rows, depth = node.attributes["N"], node.attributes["K"]
    bits, block = node.attribute("bits", 4), node.attributes["block_size"]
    blocks = -(-depth // block)
    q = unpacked(tb.reshape(b, (rows, blocks, block * bits // 8)), bits, block)
    scale = tb.reshape(scales, (rows, blocks))
    if zeros is None:
        point: Any = float(1 << (bits - 1))
    elif zeros.dtype == tb.uint8 and bits < 8:
        packed = tb.reshape(zeros, (rows, -(-blocks * bits // 8)))
        point = tb.expand_dims(unpacked(packed, bits, blocks).astype(a.dtype), axis=-1)
    else:
        point = tb.reshape(zeros.astype(a.dtype), (rows, blocks, 1))
    if groups is None:
        weight = (q.astype(a.dtype) - point) * tb.expand_dims(scale.astype(a.dtype), axis=-1)
        weight = tb.reshape(weight, (rows, blocks * block))[:, :depth]
    else:
        weight = _by_group(q, scale, point, groups, rows, depth, a.dtype)
    out = tb.matmul(a, tb.matrix_transpose(weight))
    return out if bias is None else out + bias


def _by_group(
    q: Tensor, scale: Tensor, point: Any, groups: Tensor, rows: int, depth: int, dtype: Any
) -> Tensor:
    """Columns in any order: a list says which block each belongs to."""
    flat = tb.reshape(q, (rows, -1))[:, :depth].astype(dtype)
    at = groups.astype(tb.int64)[:depth]
    if isinstance(point, Tensor):
        point = primitive("gather", tb.reshape(point, scale.shape), at, axis=1)
    return (flat - point) * primitive("gather", scale.astype(dtype), at, axis=1)


def unpacked(packed: Tensor, bits: int, count: int) -> Tensor:
    """Numbers of some bits out of bytes along the last axis, the lowest first."""
    if bits == 8:
        return packed
    if bits not in (1, 2, 4):
        raise ArgumentError(f"weights of {bits} bits", expected="2, 4 or 8")
    each = 8 // bits
    parts = [(packed >> (bits * i)) & ((1 << bits) - 1) for i in range(each)]
    joined = tb.stack(parts, axis=-1)
    flat = tb.reshape(joined, (*packed.shape[:-1], packed.shape[-1] * each))
    return flat[..., :count]


@operator("MatMulNBitsMlp", domain=MS)
def matmul_nbits_mlp(
    node: Node, x: Tensor, skip: Tensor | None, norm: Tensor | None, gate: Tensor, gate_scales: Tensor,
    gate_bias: Tensor | None, up: Tensor, up_scales: Tensor, up_bias: Tensor | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """Two products of the same rows, one through an activation, multiplied."""
    x, total = _normed(node, x, skip, norm, 1e-5)
    name = node.attributes["activation"].lower()
    if name not in _GATES:
        raise ArgumentError(f"the activation {name!r} of a gate", expected=", ".join(_GATES))
    left = _GATES[name](matmul_nbits(node, x, gate, gate_scales, None, None, gate_bias))
    return left * matmul_nbits(node, x, up, up_scales, None, None, up_bias), total


_GATES: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": F.silu,
    "swish": F.silu,
    "gelu": F.gelu,
    "relu": F.relu,
    "sigmoid": tb.sigmoid,
}


@operator("MatMulNBitsQkv", domain=MS)
def matmul_nbits_qkv(
    node: Node, x: Tensor, skip: Tensor | None, norm: Tensor, q: Tensor, q_scales: Tensor,
    q_bias: Tensor | None, k: Tensor, k_scales: Tensor, k_bias: Tensor | None, v: Tensor, v_scales: Tensor,
    v_bias: Tensor | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """Queries, keys and values of the same rows."""
    x, total = _normed(node, x, skip, norm, 1e-6)
    sides = (("Nq", q, q_scales, q_bias), ("Nkv", k, k_scales, k_bias), ("Nkv", v, v_scales, v_bias))
    outs = []
    for size, w, scales, bias in sides:
        one = Node(node.op, (), (), {**node.attributes, "N": node.attributes[size]})
        outs.append(matmul_nbits(one, x, w, scales, None, None, bias))
    return *outs, total


def _normed(
    node: Node, x: Tensor, skip: Tensor | None, norm: Tensor | None, epsilon: float
) -> tuple[Tensor, Tensor]:
    total = x if skip is None else x + skip
    return (total if norm is None else rms(total, norm, node.attribute("epsilon", epsilon))[0]), total


@operator("GatherBlockQuantized", domain=MS)
def gather_block_quantized(
    node: Node, data: Tensor, indices: Tensor, scales: Tensor, zeros: Tensor | None = None
) -> Tensor:
    """Rows of a table whose elements stand on grids; a row that is not there is 0."""
    axis, along = node.attribute("gather_axis", 0) % data.ndim, node.attribute("quantize_axis", 1) % data.ndim
    packed, bits = data.dtype == tb.uint8, node.attribute("bits", 4)
    floats = tb.is_floating_point(data)
    block = node.attribute("block_size", 128) or fixed(data.shape)[along]
    size = fixed(data.shape)[axis]
    at = indices.astype(tb.int64)
    at = tb.where(at < 0, at + size, at)
    there = tb.logical_and(at >= 0, at < size)
    at = tb.clip(at, 0, size - 1)
    same = axis == along
    in_scales = at // block if same else at
    q = _taken(data, at, axis)
    s = _taken(scales, in_scales, axis)
    z = None if zeros is None else _taken(zeros, in_scales, axis)
    last = q.ndim - 1
    along = along if along <= axis else along + at.ndim - 1
    if packed and bits < 8:
        q = unpacked(q, bits, fixed(q.shape)[last] * 8 // bits)
        z = z if z is None else unpacked(z, bits, fixed(s.shape)[last])
    if z is None:
        z = tb.full((1,) * s.ndim, 1 << (bits - 1) if packed and not floats else 0)
    if not same:
        s, z = (_spread(v, block, along, fixed(q.shape)[along]) for v in (s, z))
    out = (q.astype(tb.float32) - z.astype(tb.float32)) * s.astype(tb.float32)
    seen = tb.reshape(there, (*(1,) * axis, *there.shape, *(1,) * (out.ndim - axis - there.ndim)))
    return tb.where(seen, out, 0.0).astype(scales.dtype)


def _taken(x: Tensor, at: Tensor, axis: int) -> Tensor:
    """Rows along an axis, all of one size 1 if that is all there is."""
    return primitive("gather", x, tb.zeros_like(at) if x.shape[axis] == 1 else at, axis=axis)


def _spread(v: Tensor, block: int, axis: int, size: int) -> Tensor:
    """Scales of blocks, one per element."""
    if v.shape[axis] == 1:
        return v
    whole = tb.repeat(v, block, axis=axis)
    return whole[tuple(slice(0, size) if a == axis else slice(None) for a in range(v.ndim))]


_FP4 = (0.0, 1 / 192, 2 / 3, 1.0, 1 / 3, 0.5, 1 / 6, 0.25)
_NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
    -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
    0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
    0.7229568362236023, 1.0,
)  # fmt: skip
_FORMATS = {0: (*_FP4, *(-v for v in _FP4)), 1: _NF4}
"""Numbers of 4 bits by their code: a sign and seven magnitudes, or quantiles of the normal distribution."""


@operator("MatMulBnb4", domain=MS)
def matmul_bnb4(node: Node, a: Tensor, b: Tensor, largest: Tensor) -> Tensor:
    """A product with weights of 4 bits that a table turns into numbers, the first of two in the high bits."""
    rows, depth, block = (node.attributes[k] for k in ("N", "K", "block_size"))
    table = wrap(np.asarray(_FORMATS[node.attributes["quant_type"]], np.float32))
    codes = tb.reshape(tb.stack([b >> 4, b & 15], axis=-1), (-1,))[: rows * depth]
    scale = _spread(tb.reshape(largest, (-1,)), block, 0, rows * depth).astype(tb.float32)
    weight = primitive("gather", table, codes.astype(tb.int64), axis=0) * scale
    weight = tb.reshape(weight, (rows, depth)).astype(a.dtype)
    return tb.matmul(a, tb.matrix_transpose(weight) if node.attribute("transB", 1) else weight)
