"""Batch normalisation by the statistics of all ranks: what one process with the whole batch computes."""

from __future__ import annotations

from typing import Any

import numpy as np

from trilobite.cluster import collectives as c
from trilobite.cluster.groups import Group, as_group
from trilobite.framework.modes import no_grad
from trilobite.framework.nn.functional.calling import write
from trilobite.framework.nn.layers import normalisation
from trilobite.framework.nn.module import Module
from trilobite.framework.ops.registry import operators
from trilobite.framework.tensor import Tensor, wrap


class BatchNorm(normalisation.SyncBatchNorm):
    """Mean and variance over the batch of all members of a group."""

    def __init__(self, *args: Any, group: Group | None = None, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.group = as_group(group)

    def forward(self, input: Tensor) -> Tensor:
        if self.group.size == 1 or not (self.training or self.running_mean is None):
            out: Tensor = super().forward(input)
            return out
        self._check(input, 1)
        axes = (0, *range(2, input.ndim))
        own = float(np.prod([input.shape[a] for a in axes]))
        shape = (1, -1, *[1] * (input.ndim - 2))
        # The count travels with the sums: batches need not be of one size.
        sums = operators["concatenate"].public([input.sum(axis=axes), wrap(np.full(1, own)).to(input.dtype)])
        total = c.all_reduce(sums, group=self.group)
        count = total[-1].detach()
        mean = total[:-1] / count
        centred = input - mean.reshape(shape)
        var = c.all_reduce((centred * centred).sum(axis=axes), group=self.group) / count
        normed: Tensor = centred * (var.reshape(shape) + self.eps) ** -0.5
        if self.weight is not None:
            normed = normed * self.weight.reshape(shape)
        if self.bias is not None:
            normed = normed + self.bias.reshape(shape)
        if self.training and self.track_running_stats:
            self._move(mean, var * (count / (count - 1.0)), input)
        return normed

    def _move(self, mean: Tensor, var: Tensor, input: Tensor) -> None:
        momentum = self._count(input._peek().dtype)
        with no_grad():
            for old, new in ((self.running_mean, mean), (self.running_var, var)):
                assert old is not None  # where statistics are tracked
                write(old, old * (1.0 - momentum) + new.detach() * momentum)


def over_all_ranks(module: Module, group: Group | None = None) -> Module:
    """The module with its batch norms by the statistics of all ranks. Their parameters stay the same ones."""
    if isinstance(module, normalisation._BatchNorm) and not isinstance(module, BatchNorm):
        made = BatchNorm.__new__(BatchNorm)
        made.__dict__.update(module.__dict__)
        made.group = as_group(group)
        made.ranks = type(module).ranks
        return made
    for name, child in list(module.named_children()):
        new = over_all_ranks(child, group)
        if new is not child:
            setattr(module, name, new)
    return module
