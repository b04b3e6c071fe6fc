"""Softmax over many classes of which few are frequent: rare ones share a place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.framework.nn import functional as F
from trilobite.framework.nn.containers import ModuleList, Sequential
from trilobite.framework.nn.layers.linear import Linear
from trilobite.framework.nn.module import Module
from trilobite.framework.ops.registry import operators
from trilobite.framework.tensor import Tensor


class Scored(NamedTuple):
    """The log probability of each target, and the mean of what is missing to 0."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """An efficient softmax (Grave et al. 2017): classes in the order of how often they come, cut into a head
    and tails; a tail's classes are scored by a smaller layer and share one place of the head.
    """

    def __init__(
        self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float = 4.0,
        head_bias: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        cuts = list(cutoffs)
        if not cuts or cuts != sorted(set(cuts)) or cuts[0] <= 0 or cuts[-1] > n_classes - 1:
            raise ArgumentError(
                f"cutoffs {cuts} for {n_classes} classes",
                where=user_location(),
                expected="rising numbers, each between 1 and the number of classes less one",
            )
        self.in_features, self.n_classes, self.cutoffs = in_features, n_classes, [*cuts, n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size, self.n_clusters = cuts[0], len(cuts)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, dtype=dtype)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            inner = int(in_features // (div_value ** (i + 1)))
            size = self.cutoffs[i + 1] - self.cutoffs[i]
            layers = [Linear(in_features, inner, False, dtype=dtype), Linear(inner, size, False, dtype=dtype)]
            self.tail.append(Sequential(*layers))

    def reset_parameters(self) -> None:
        """Draw the weights anew."""
        self.head.reset_parameters()
        for first, second in self.tail:
            first.reset_parameters()
            second.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> Scored:
        """How likely the target of each row is, and the loss."""
        single = target_.ndim == 0
        rows, targets = (input_.unsqueeze(0), target_.unsqueeze(0)) if single else (input_, target_)
        found = operators["take_along_axis"].public(self.log_prob(rows), targets.unsqueeze(1), axis=1)
        output = found.squeeze(1)
        return Scored(output.squeeze(0) if single else output, (-output).mean())

    def log_prob(self, input: Tensor) -> Tensor:
        """The log probability of every class, row by row."""
        head = F.log_softmax(self.head(input), 1)
        parts = [head[:, : self.shortlist_size]]
        for i, layers in enumerate(self.tail):
            place = self.shortlist_size + i
            parts.append(F.log_softmax(layers(input), 1) + head[:, place : place + 1])
        return operators["concat"].public(parts, axis=1)  # type: ignore[no-any-return]

    def predict(self, input: Tensor) -> Tensor:
        """The likeliest class of each row."""
        return self.log_prob(input).argmax(1)  # type: ignore[no-any-return]
