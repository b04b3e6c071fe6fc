"""Recurrent attention of com.microsoft: as ONNX's own, with gates and layouts that it does not have."""

from __future__ import annotations

from typing import Any

import trilobite as tb
from trilobite.framework.nn import functional as F
from trilobite.framework.tensor import Tensor
from trilobite.inference.model import Node
from trilobite.inference.operators.attention import linear_attention
from trilobite.inference.operators.microsoft.fused import MS
from trilobite.inference.operators.registry import only, operator
from trilobite.inference.operators.shaping import fixed

operator("LinearAttention", domain=MS, limit=only(state_window=0))(linear_attention)


@operator("LinearAttentionGate", domain=MS)
def linear_attention_gate(
    node: Node, a: Tensor, bias: Tensor, scale: Tensor, b: Tensor | None = None
) -> tuple[Any, ...]:
    decay = scale * F.softplus(a.astype(tb.float32) + bias)
    return decay.astype(a.dtype), None if b is None else tb.sigmoid(b.astype(tb.float32)).astype(b.dtype)


@operator("CausalConvWithState", domain=MS, limit=only(ndim=1, state_window=0))
def causal_conv_with_state(
    node: Node, x: Tensor, w: Tensor, bias: Tensor | None = None, past: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Each channel with its own kernel, over the past and the present."""
    last, dilation = node.attribute("channels_last", 0), node.attribute("dilation", 1)
    reach = (fixed(w.shape)[2] - 1) * dilation
    now = _by_channel(x) if last else x
    before = tb.zeros((now.shape[0], now.shape[1], reach), dtype=x.dtype)
    if past is not None:
        before = _by_channel(past) if last else past
    joined = tb.concat([before, now], axis=2)
    out = F.conv1d(joined, w, bias, groups=fixed(now.shape)[1], dilation=dilation)
    if node.attribute("activation", "none") in ("silu", "swish"):
        out = F.silu(out)
    state = joined[:, :, joined.shape[2] - reach :]
    return (_by_time(out, x), _by_time(state, x)) if last else (out, state)


def _by_channel(x: Tensor) -> Tensor:
    """(batch, length, ...channels) as (batch, channels, length)."""
    return tb.matrix_transpose(tb.reshape(x, (x.shape[0], x.shape[1], -1)))


def _by_time(x: Tensor, like: Tensor) -> Tensor:
    return tb.reshape(tb.matrix_transpose(x), (x.shape[0], x.shape[2], *like.shape[2:]))
