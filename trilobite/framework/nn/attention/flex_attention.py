"""`tb.nn.attention.flex_attention`: attention whose scores a function of the user's changes or masks.

The functions are called once, on all places at a time: batch, head, query and key come as tensors of indices
that meet in the shape of the scores, so code written for single places works as it stands.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from trilobite.base.errors import ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.ops.registry import operators
from trilobite.framework.tensor import Tensor

_DEFAULT_SPARSE_BLOCK_SIZE = 128  # of PyTorch's masks; ours are whole
ScoreMod = Callable[..., Any]
MaskMod = Callable[..., Any]


class AuxRequest(NamedTuple):
    """What `flex_attention` gives beside its result."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was asked for by `AuxRequest`."""

    lse: Any = None
    max_scores: Any = None


class BlockMask:
    """Which keys each query may see: the function, and the mask that it gives."""

    def __init__(self, mask_mod: MaskMod, mask: Tensor, block_size: Any = 128) -> None:
        self.mask_mod, self.mask, self.BLOCK_SIZE = mask_mod, mask, block_size
        self.shape = mask.shape
        self.seq_lengths = tuple(mask.shape[-2:])

    def to_dense(self) -> Tensor:
        return self.mask

    def to(self, device: Any) -> BlockMask:
        return self

    def sparsity(self) -> float:
        """The percentage of places that are masked."""
        return 100.0 * (1.0 - float(self.mask.to("float64").mean()))

    def __repr__(self) -> str:
        return f"BlockMask(shape={tuple(self.shape)}, sparsity={self.sparsity():.2f}%)"


def _places(*sizes: int) -> list[Tensor]:
    """Indices of each dimension, in a shape that meets the others."""
    arange = operators["arange"].public
    return [arange(n).reshape([-1 if i == k else 1 for k in range(len(sizes))]) for i, n in enumerate(sizes)]


def create_mask(
    mod_fn: Any, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = "cpu", **_: Any
) -> Tensor:
    """The mask that a function of places gives."""
    shape = (B or 1, H or 1, Q_LEN, KV_LEN)
    return operators["broadcast_to"].public(mod_fn(*_places(*shape)), shape)  # type: ignore[no-any-return]


def create_block_mask(
    mask_mod: MaskMod,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = "cpu",
    BLOCK_SIZE: Any = 128,
    _compile: bool = False,
    **_: Any,
) -> BlockMask:
    """A function of places as a mask that `flex_attention` takes."""
    return BlockMask(mask_mod, create_mask(mask_mod, B, H, Q_LEN, KV_LEN), BLOCK_SIZE)


def and_masks(*mask_mods: MaskMod) -> MaskMod:
    """Keys that all of them allow."""

    def both(b: Any, h: Any, q: Any, k: Any) -> Any:
        found = mask_mods[0](b, h, q, k)
        for mod in mask_mods[1:]:
            found = found & mod(b, h, q, k)
        return found

    return both


def or_masks(*mask_mods: MaskMod) -> MaskMod:
    """Keys that any of them allows."""

    def any_of(b: Any, h: Any, q: Any, k: Any) -> Any:
        found = mask_mods[0](b, h, q, k)
        for mod in mask_mods[1:]:
            found = found | mod(b, h, q, k)
        return found

    return any_of


def noop_mask(batch: Any, head: Any, q_idx: Any, kv_idx: Any) -> Any:
    """Every key."""
    return (q_idx == q_idx) | (kv_idx == kv_idx)


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: ScoreMod | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """softmax(score_mod(query·keyᵀ·scale))·value; a query that may see no key gives zeros."""
    heads, groups = int(query.shape[-3]), int(key.shape[-3])
    if heads != groups:
        if not enable_gqa or heads % groups:
            raise ShapeError(
                f"flex_attention of {heads} query heads and {groups} key heads",
                where=user_location(),
                expected="as many, or enable_gqa=True and a multiple",
            )
        key, value = (
            operators["repeat_interleave"].public(x, heads // groups, axis=-3) for x in (key, value)
        )
    scores = (query @ key.transpose(-2, -1)) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if score_mod is not None:
        scores = operators["broadcast_to"].public(score_mod(scores, *_places(*scores.shape)), scores.shape)
    if block_mask is not None:
        scores = operators["where"].public(block_mask.mask, scores, -math.inf)
    most = scores.detach().amax(dim=-1, keepdim=True)
    most = operators["where"].public(most == -math.inf, 0.0, most)
    weights = (scores - most).exp()
    total = weights.sum(dim=-1, keepdim=True)
    seen = total > 0
    out = (weights / operators["where"].public(seen, total, 1.0)) @ value
    if return_aux is not None:
        aux = AuxOutput(
            (total.log() + most).squeeze(-1) if return_aux.lse else None,
            most.squeeze(-1) if return_aux.max_scores else None,
        )
        return out, aux
    return (out, (total.log() + most).squeeze(-1)) if return_lse else out
