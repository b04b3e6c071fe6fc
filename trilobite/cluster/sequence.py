"""Sequences that are split over the members of a group: around split layers (Megatron's sequence
parallelism), and attention over a ring of ranks that each hold a part of the keys and values.

A parameter that each member uses on its own part of the sequence (norms, biases) is read through
`share_parameters`, so that its gradient is the sum of all parts'.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trilobite.cluster import collectives as c
from trilobite.cluster.groups import Group, as_group, part_of
from trilobite.cluster.tensor_parallel import ColumnLinear, RowLinear
from trilobite.framework.nn import functional as F
from trilobite.framework.nn.module import Module
from trilobite.framework.nn.skeleton import functional_call
from trilobite.framework.ops.registry import operators
from trilobite.framework.tensor import Tensor, wrap

where = operators["where"].public


class SequenceColumnLinear(ColumnLinear):
    """A column layer on a sequence that is split along axis 1: gathers it before the product."""

    length: int | None = None  # of the whole sequence, if parts are uneven

    def forward(self, input: Tensor) -> Tensor:
        whole = c.all_gather(input, 1, group=self.group, size=self.length)
        return F.linear(whole, self.weight, self.bias)


class SequenceRowLinear(RowLinear):
    """A row layer that leaves each member its part of the sequence, along axis 1."""

    def forward(self, input: Tensor) -> Tensor:
        out = c.reduce_scatter(F.linear(input, self.weight), 1, group=self.group)
        return out if self.bias is None else out + c.share(self.bias, group=self.group)


class share_parameters(Module):
    """A module whose parameters all members hold alike and use each on its own data: gradients are summed."""

    def __init__(self, module: Module, group: Group | None = None) -> None:
        super().__init__()
        self.module, self.group = module, as_group(group)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        shared = {n: c.share(p, group=self.group) for n, p in self.module.named_parameters()}
        return functional_call(self.module, shared, args, kwargs)


def ring_attention(
    query: Tensor, key: Tensor, value: Tensor, *, group: Group | None = None, causal: bool = False,
    scale: float | None = None, length: int | None = None,
) -> Tensor:  # fmt: skip
    """softmax(q·kᵀ)·v for (..., sequence, features), each member with its part of the sequence (axis -2).

    Keys and values go round the ring; each member folds what comes into its sums, scaled by the largest score
    so far, so that no member ever holds all keys or all scores. `length` is that of the whole sequence where
    parts are uneven: they are then padded to the longest while they travel.
    """
    g = as_group(group)
    n, me = g.size, g.index
    total = query.shape[-2] * n if length is None else length
    longest = -(-total // n)
    begin, end = part_of(total, g)
    factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    k, v = _padded(key, longest), _padded(value, longest)
    top: Any = None
    weight: Any = None
    out: Any = None
    for step in range(n):
        whose = (me - step) % n
        scores = (query @ k.mT) * factor
        allowed = wrap(_allowed(begin, end, _place(total, n, whose), longest, causal))
        scores = where(allowed, scores, -math.inf)
        best = scores.detach().amax(axis=-1, keepdims=True)
        best = where(best == -math.inf, 0.0, best) if top is None else where(best > top, best, top)
        parts = (scores - best).exp()
        if top is None:
            weight, out = parts.sum(axis=-1, keepdims=True), parts @ v
        else:
            fade = (top - best).exp()
            weight, out = weight * fade + parts.sum(axis=-1, keepdims=True), out * fade + parts @ v
        top = best
        if step < n - 1:
            k, v = c.rotate(k, group=g), c.rotate(v, group=g)
    result: Tensor = out / weight
    return result


def _place(total: int, n: int, k: int) -> tuple[int, int]:
    from trilobite.cluster.groups import parts

    sizes = parts(total, n)
    return sum(sizes[:k]), sum(sizes[: k + 1])


def _padded(x: Tensor, size: int) -> Tensor:
    if x.shape[-2] == size:
        return x
    out: Tensor = F.pad(x, (0, 0, 0, size - x.shape[-2]))
    return out


def _allowed(begin: int, end: int, keys: tuple[int, int], width: int, causal: bool) -> Any:
    """Which of the keys that came each query sees."""
    at = keys[0] + np.arange(width)[None, :]
    seen = np.broadcast_to(at < keys[1], (end - begin, width))
    return np.ascontiguousarray(seen & (at <= np.arange(begin, end)[:, None]) if causal else seen)
