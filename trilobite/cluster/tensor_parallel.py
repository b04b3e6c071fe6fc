"""Layers whose weights are split over the members of a group: columns, rows, vocabulary (after Megatron).

Enters: a whole layer, alike on all members (`ColumnLinear.of(layer, group)`), or sizes. Leaves: this rank's
part of it. Between a column and a row layer activations are split along their last axis and nothing is moved:
two all_reduces for two products, forward and backward together. Sizes may be uneven. The loss that follows is
one value that all members hold.
"""

from __future__ import annotations

from typing import Any

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.cluster import collectives as c
from trilobite.cluster.groups import Group, as_group, part_of
from trilobite.cluster.splits import Split, Step
from trilobite.framework.nn import functional as F
from trilobite.framework.nn.layers.embedding import Embedding
from trilobite.framework.nn.layers.linear import Linear
from trilobite.framework.nn.module import Module
from trilobite.framework.nn.parameter import Parameter
from trilobite.framework.ops.registry import operators
from trilobite.framework.tensor import Tensor

where = operators["where"].public


def _piece(t: Tensor, axis: int, group: Group, blocks: int = 1) -> Parameter:
    """This rank's part along an axis; of each of `blocks` equal blocks, if there are several in it."""
    size = int(t.shape[axis])
    if size % blocks:
        raise ArgumentError(
            f"{size} rows in {blocks} blocks", where=user_location(), expected=f"a multiple of {blocks}"
        )
    each = size // blocks
    begin, end = part_of(each, group)
    rows = [r for b in range(blocks) for r in range(b * each + begin, b * each + end)]
    data = t.detach().numpy().take(rows, axis=axis)
    return Parameter(data, requires_grad=t.requires_grad)


class ColumnLinear(Module):
    """Each member computes some of the outputs. What enters is whole on all members; what leaves is split
    along the last axis, or whole again with `gather`.
    """

    def __init__(
        self, weight: Parameter, bias: Parameter | None, group: Group, size: int, gather: bool, blocks: int
    ) -> None:
        super().__init__()
        self.weight, self.bias, self.group = weight, bias, group
        self.size, self.gather, self.blocks = size, gather, blocks

    @classmethod
    def of(
        cls, layer: Linear, group: Group | None = None, *, gather: bool = False, blocks: int = 1
    ) -> ColumnLinear:
        """The part of a whole layer. `blocks`: how many things its rows are, each split alone: 3 for queries,
        keys and values.
        """
        g = as_group(group)
        weight = _piece(layer.weight, 0, g, blocks)
        bias = None if layer.bias is None else _piece(layer.bias, 0, g, blocks)
        return cls(weight, bias, g, layer.out_features, gather, blocks)

    def splits(self) -> dict[str, tuple[Step, ...]]:
        rows = (Split(self.group, 0, self.size, self.blocks),)
        return {"weight": rows, "bias": rows}

    def forward(self, input: Tensor) -> Tensor:
        out = F.linear(c.share(input, group=self.group), self.weight, self.bias)
        return c.all_gather(out, -1, group=self.group, size=self.size, shared=True) if self.gather else out


class RowLinear(Module):
    """Each member multiplies its part of the inputs; the products are summed. What enters is split along the
    last axis, as a column layer leaves it; what leaves is whole on all members.
    """

    def __init__(self, weight: Parameter, bias: Parameter | None, group: Group, size: int) -> None:
        super().__init__()
        self.weight, self.bias, self.group, self.size = weight, bias, group, size

    @classmethod
    def of(cls, layer: Linear, group: Group | None = None) -> RowLinear:
        g = as_group(group)
        bias = None if layer.bias is None else Parameter(layer.bias.detach().numpy())
        return cls(_piece(layer.weight, 1, g), bias, g, layer.in_features)

    def splits(self) -> dict[str, tuple[Step, ...]]:
        return {"weight": (Split(self.group, 1, self.size),)}

    def forward(self, input: Tensor) -> Tensor:
        out = c.all_reduce(F.linear(input, self.weight), group=self.group, shared=True)
        return out if self.bias is None else out + self.bias


class VocabularyEmbedding(Module):
    """Each member has some of the rows of the table; a token that none of them is gives zeros there."""

    def __init__(self, weight: Parameter, group: Group, vocabulary: int) -> None:
        super().__init__()
        self.weight, self.group, self.vocabulary = weight, group, vocabulary

    @classmethod
    def of(cls, layer: Embedding, group: Group | None = None) -> VocabularyEmbedding:
        g = as_group(group)
        return cls(_piece(layer.weight, 0, g), g, layer.num_embeddings)

    def splits(self) -> dict[str, tuple[Step, ...]]:
        return {"weight": (Split(self.group, 0, self.vocabulary),)}

    def forward(self, tokens: Tensor) -> Tensor:
        begin, end = part_of(self.vocabulary, self.group)
        here = (tokens >= begin) & (tokens < end)
        rows = F.embedding(where(here, tokens - begin, 0), self.weight)
        own = where(here.reshape((*here.shape, 1)), rows, 0.0)
        return c.all_reduce(own, group=self.group, shared=True)


def vocabulary_cross_entropy(
    logits: Tensor, targets: Tensor, vocabulary: int, group: Group | None = None
) -> Tensor:
    """The mean cross entropy of logits whose classes are split over the members, along the last axis: no
    member ever has all of them.
    """
    g = as_group(group)
    begin, end = part_of(vocabulary, g)
    if logits.shape[-1] != end - begin:
        raise ArgumentError(
            f"logits of {logits.shape[-1]} classes",
            where=user_location(),
            expected=f"{end - begin}: this member's part of {vocabulary}",
        )
    top = c.all_reduce(logits.detach().amax(axis=-1), "max", group=g)
    shifted = logits - top.reshape((*top.shape, 1))
    total = c.all_reduce(shifted.exp().sum(axis=-1), group=g, shared=True)
    here = (targets >= begin) & (targets < end)
    at = where(here, targets - begin, 0)
    own = where(here, shifted.take_along_dim(at.reshape((*at.shape, 1)), -1).reshape(at.shape), 0.0)
    found = c.all_reduce(own, group=g, shared=True)
    loss: Any = (total.log() - found).mean()
    out: Tensor = loss
    return out
