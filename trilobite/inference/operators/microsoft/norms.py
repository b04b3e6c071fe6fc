"""Norms of com.microsoft with what stands around them: skip connections, gates, bytes."""

from __future__ import annotations

from typing import Any

import trilobite as tb
from trilobite.framework.nn import functional as F
from trilobite.framework.tensor import Tensor
from trilobite.inference.model import Node
from trilobite.inference.operators.microsoft.fused import MS, embed_layer_normalization
from trilobite.inference.operators.registry import operator
from trilobite.inference.operators.shaping import fixed


@operator("GroupNorm", domain=MS)
def group_norm(node: Node, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """Channels last unless said otherwise, with an activation of its own."""
    last = node.attribute("channels_last", 1)
    moved = tb.moveaxis(x, -1, 1) if last else x
    out = F.group_norm(moved, node.attributes["groups"], scale, bias, node.attribute("epsilon", 1e-5))
    out = F.silu(out) if node.attributes["activation"] else out
    return tb.moveaxis(out, 1, -1) if last else out


@operator("SkipGroupNorm", domain=MS)
def skip_group_norm(
    node: Node, x: Tensor, scale: Tensor, shift: Tensor, skip: Tensor, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Of a sum, which is a result as well."""
    last = node.attribute("channels_last", 1)
    if skip.ndim == 2:
        space = (1,) * (x.ndim - 2)
        skip = tb.reshape(skip, (skip.shape[0], *space, -1) if last else (*skip.shape, *space))
    total = x + skip
    if bias is not None:
        total = total + tb.reshape(bias, (-1,) if last else (1, -1, *(1,) * (x.ndim - 2)))
    return group_norm(node, total, scale, shift), total


@operator("QEmbedLayerNormalization", domain=MS)
def q_embed_layer_normalization(
    node: Node, ids: Tensor, segments: Tensor | None, words: Tensor, places: Tensor, kinds: Tensor | None,
    scale: Tensor, shift: Tensor, mask: Tensor | None, *grids: Tensor | None,
) -> tuple[Any, ...]:  # fmt: skip
    """As of floats, with tables of bytes: five scales and five zero points stand behind."""
    tables: list[Any] = []
    for table, size, zero in zip((words, places, kinds, scale, shift), grids[:5], grids[5:], strict=True):
        if table is None or size is None or zero is None:
            tables.append(None)
        else:
            tables.append((table.astype(tb.float32) - zero.astype(tb.float32)) * size)
    out, count, _ = embed_layer_normalization(node, ids, segments, *tables, mask)
    return out, count


@operator("GatedRMSNorm", domain=MS)
def gated_rms_norm(node: Node, x: Tensor, scale: Tensor, gate: Tensor) -> Tensor:
    """Each group of channels by itself, times an activation of a gate; all in float32."""
    channels = fixed(scale.shape)[0]
    wide = tb.reshape(x.astype(tb.float32), (*x.shape[:-1], -1, channels))
    inverse = tb.rsqrt(tb.mean(wide * wide, -1, keepdims=True) + node.attribute("epsilon", 1e-5))
    normed = tb.reshape(wide * inverse * scale.astype(tb.float32), x.shape)
    z = gate.astype(tb.float32)
    weight = tb.sigmoid(z) if node.attribute("activation", "silu") == "sigmoid" else F.silu(z)
    return (normed * weight).astype(x.dtype)


@operator("BranchwiseRMSNorm", domain=MS)
def branchwise_rms_norm(node: Node, x: Tensor, scale: Tensor | None = None) -> Tensor:
    """Each branch by itself; branches are an axis, or lie side by side on the last."""
    branches = node.attribute("num_branches", 0)
    wide = x.astype(tb.float32)
    if branches:
        wide = tb.reshape(wide, (*x.shape[:-1], branches, fixed(x.shape)[-1] // branches))
    out = wide * tb.rsqrt(tb.mean(wide * wide, -1, keepdims=True) + node.attribute("epsilon", 1e-5))
    if scale is not None:
        whole = int(scale.shape[-1]) != fixed(out.shape)[-1]
        weight = tb.reshape(scale, tuple(out.shape[-2:])) if whole else scale
        out = out * weight.astype(tb.float32)
    return tb.reshape(out, x.shape).astype(x.dtype)


@operator("GatedAdd", domain=MS)
def gated_add(node: Node, x: Tensor, y: Tensor, gate: Tensor) -> Tensor:
    return x + y * gate


@operator("ScaledSiLU", domain=MS)
def scaled_silu(node: Node, x: Tensor, scale: Tensor | None = None) -> Tensor:
    """Rounded to the format of x after each part."""
    factor = node.attribute("alpha", 1.0) if scale is None else tb.reshape(scale, ()).astype(tb.float32)
    z = (x.astype(tb.float32) * factor).astype(x.dtype)
    s = tb.sigmoid(z.astype(tb.float32)).astype(x.dtype)
    return z * s
