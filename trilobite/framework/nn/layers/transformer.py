"""Transformer layers and stacks of them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.framework.nn import functional as F
from trilobite.framework.nn import init
from trilobite.framework.nn.containers import ModuleList
from trilobite.framework.nn.layers.attention import MultiheadAttention
from trilobite.framework.nn.layers.dropout import Dropout
from trilobite.framework.nn.layers.linear import Linear
from trilobite.framework.nn.layers.normalisation import LayerNorm
from trilobite.framework.nn.module import Module
from trilobite.framework.ops.creation import to_array
from trilobite.framework.tensor import Tensor, wrap

Activation = Callable[[Tensor], Tensor]


def _activation(given: str | Activation) -> Activation:
    if callable(given):
        return given
    known: dict[str, Activation] = {"relu": F.relu, "gelu": F.gelu}
    if given not in known:
        raise ArgumentError(
            f"an activation {given!r}", where=user_location(), expected="'relu', 'gelu' or a function"
        )
    return known[given]


_get_activation_fn = _activation  # PyTorch's name for it


class _Block(Module):
    """What encoder and decoder layers share: attention to oneself, and two linear layers with an activation
    between.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        dtype: Any = None,
    ) -> None:
        self.norm_first, self.activation = norm_first, _activation(activation)
        attention = {"dropout": dropout, "bias": bias, "batch_first": batch_first, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, **attention)
        self._attend_to_others(d_model, nhead, attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias, dtype=dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, dtype=dtype)
        for i in range(1, self._parts() + 1):
            setattr(self, f"norm{i}", LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype))
        for i in range(1, self._parts() + 1):
            setattr(self, f"dropout{i}", Dropout(dropout))

    def _parts(self) -> int:
        return 2

    def _attend_to_others(self, d_model: int, nhead: int, attention: dict[str, Any]) -> None:
        """Made here so that parameters come in PyTorch's order."""

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))  # type: ignore[no-any-return]

    def _add(self, x: Tensor, part: int, fn: Callable[[Tensor], Tensor]) -> Tensor:
        """x plus what a part makes of it, normalised before or after."""
        norm, drop = self.__dict__[f"norm{part}"], self.__dict__[f"dropout{part}"]
        if self.norm_first:
            return x + drop(fn(norm(x)))  # type: ignore[no-any-return]
        return norm(x + drop(fn(x)))  # type: ignore[no-any-return]


class TransformerEncoderLayer(_Block):
    """Attention to oneself, then a feed-forward network; each with a residual and a normalisation."""

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        x = self._add(
            src,
            1,
            lambda h: self.self_attn(h, h, h, src_key_padding_mask, False, src_mask, is_causal=is_causal)[0],
        )
        return self._add(x, 2, self._feed_forward)


class TransformerDecoderLayer(_Block):
    """Attention to oneself, to an encoder's memory, then a feed-forward network."""

    def _parts(self) -> int:
        return 3

    def _attend_to_others(self, d_model: int, nhead: int, attention: dict[str, Any]) -> None:
        self.multihead_attn = MultiheadAttention(d_model, nhead, **attention)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        own, other = self.self_attn, self.multihead_attn
        x = self._add(
            tgt, 1, lambda h: own(h, h, h, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal)[0]
        )
        to_memory = (memory, memory, memory_key_padding_mask, False, memory_mask)
        x = self._add(x, 2, lambda h: other(h, *to_memory, is_causal=memory_is_causal)[0])
        return self._add(x, 3, self._feed_forward)


class TransformerEncoder(Module):
    """Copies of an encoder layer, one after the other."""

    def __init__(self, encoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        self.layers = ModuleList(copy.deepcopy(encoder_layer) for _ in range(num_layers))
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, is_causal)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """Copies of a decoder layer, one after the other."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        self.layers = ModuleList(copy.deepcopy(decoder_layer) for _ in range(num_layers))
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        for layer in self.layers:
            tgt = layer(
                tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
                tgt_is_causal, memory_is_causal
            )  # fmt: skip
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder and a decoder."""

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = "relu",
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        dtype: Any = None,
    ) -> None:
        block = (
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
            bias,
            dtype,
        )
        norms = [LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype) for _ in range(2)]
        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*block), num_encoder_layers, norms[0]
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*block), num_decoder_layers, norms[1]
        )
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Matrices by Xavier; the rest as the layers left it."""
        for p in self.parameters():
            if p.ndim > 1:
                init.xavier_uniform_(p)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool = False,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(  # type: ignore[no-any-return]
            tgt,
            memory,
            tgt_mask,
            memory_mask,
            tgt_key_padding_mask,
            memory_key_padding_mask,
            tgt_is_causal,
            memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, dtype: Any = None) -> Tensor:
        """A mask to add: -inf where a query would attend to later keys."""
        import numpy as np

        ahead = np.triu(np.ones((sz, sz), bool), 1)
        return wrap(to_array(np.where(ahead, -np.inf, 0.0), "float32" if dtype is None else dtype))
