"""Rotations by position as com.microsoft writes them: positions first, tables of angles behind."""

from __future__ import annotations

from typing import Any

import numpy as np

import trilobite as tb
from trilobite.framework.tensor import Tensor
from trilobite.inference.model import Node
from trilobite.inference.operators.attention import turned
from trilobite.inference.operators.microsoft.fused import MS
from trilobite.inference.operators.primitives import primitive
from trilobite.inference.operators.registry import only, operator
from trilobite.inference.operators.shaping import fixed

_PLAIN = only(scale=1.0)  # rows that are packed have their positions, as others do


@operator("RotaryEmbedding", domain=MS, limit=_PLAIN)
def rotary_embedding(node: Node, x: Tensor, positions: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    size = node.attribute("rotary_embedding_dim", 0)
    heads = node.attribute("num_heads", 0)
    if x.ndim == 4:
        at = _positions(positions, x.shape[0], x.shape[2])
        return turned(x, cos, sin, at, size, node, heads=1)
    features = 2 * fixed(cos.shape)[1] if not size else fixed(x.shape)[2] // heads
    split = tb.reshape(x, (x.shape[0], x.shape[1], fixed(x.shape)[2] // features, features))
    at = _positions(positions, x.shape[0], x.shape[1])
    return tb.reshape(turned(split, cos, sin, at, size, node), x.shape)


def _positions(positions: Tensor, batch: Any, length: Any) -> Tensor:
    """One per token, or counted on from one number."""
    if positions.ndim == 2:
        return positions
    counted = tb.reshape(positions, (-1, 1)).astype(tb.int64) + tb.reshape(tb.arange(length), (1, -1))
    return tb.broadcast_to(counted, (batch, length))


@operator("MRotaryEmbedding", domain=MS, limit=_PLAIN)
def m_rotary_embedding(node: Node, x: Tensor, positions: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Each angle by one of three positions of a token: time, row or column, in sections or in turns."""
    sections, half = node.attributes["mrope_section"], fixed(cos.shape)[1]
    which = np.repeat(np.arange(3), sections)
    if node.attribute("mrope_layout", 0) == 1:
        which = np.zeros(half, np.int64)
        for stream in (1, 2):
            which[stream : 3 * sections[stream] : 3] = stream
    batch, length = positions.shape[1], positions.shape[2]
    chosen = [tb.reshape(_picked(table, positions, which), (batch * length, half)) for table in (cos, sin)]
    own = tb.reshape(tb.arange(batch * length), (batch, length))
    return rotary_embedding(node, x, own, *chosen)


def _picked(table: Tensor, positions: Tensor, which: Any) -> Tensor:
    """(batch, length, angles) of the streams that `which` names."""
    streams = primitive("gather", table, positions.astype(tb.int64), axis=0)
    out = streams[0]
    for stream in (1, 2):
        out = tb.where(tb.asarray(which == stream), streams[stream], out)
    return out


@operator("GemmaRotaryEmbedding", domain=MS)
def gemma_rotary_embedding(
    node: Node, angles: Tensor, q: Tensor, q_turned: Tensor, k: Tensor, k_turned: Tensor
) -> tuple[Tensor, Tensor]:
    cos, sin = (tb.expand_dims(t(angles).astype(q.dtype), axis=1) for t in (tb.cos, tb.sin))
    return q * cos + q_turned * sin, k * cos + k_turned * sin
