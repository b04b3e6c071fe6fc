"""A mixture of experts, the experts spread over the members of a group, the tokens too.

Every token goes to its best expert (or two best). An expert takes as many tokens as its capacity says,
counted over the tokens of all members in their order: those that come later pass it by. Each member lays its
tokens into the experts' places, which no two tokens share; a reduce_scatter brings every expert its full
places, an all_gather the results back. So what an expert sees is what it would see in one process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.cluster import collectives as c
from trilobite.cluster.groups import Group, as_group, part_of
from trilobite.framework.modes import no_grad
from trilobite.framework.nn import functional as F
from trilobite.framework.nn.module import Module
from trilobite.framework.ops.registry import operators
from trilobite.framework.tensor import Tensor, wrap

where, einsum = operators["where"].public, operators["einsum"].public


class Experts(Module):
    """Experts behind a gate. `forward(x)` for (tokens, features) gives the result and the loss that balances
    the load; add it, times a small factor, to the loss.
    """

    def __init__(
        self, gate: Module, experts: Sequence[Module | Callable[[], Module]], group: Group | None = None, *,
        top: int = 1, capacity: float = 1.25, batch: Group | None = None,
    ) -> None:  # fmt: skip
        """`batch`: all ranks that share the tokens, where more than the members of `group` do, each with
        experts of its own group (`mesh["data", "expert"]`).
        """
        super().__init__()
        if top not in (1, 2) or capacity <= 0:
            raise ArgumentError(
                f"experts for the top {top} with a capacity of {capacity}",
                where=user_location(),
                expected="1 or 2 of them, and a positive capacity",
            )
        self.gate, self.group, self.count = gate, as_group(group), len(experts)
        self.top, self.capacity = top, capacity
        self.batch = self.group if batch is None else batch
        begin, end = part_of(len(experts), self.group)
        for e in range(begin, end):
            found: Any = experts[e]
            setattr(self, f"expert{e}", found if isinstance(found, Module) else found())

    def own(self) -> list[Module]:
        """The experts of this rank."""
        begin, end = part_of(self.count, self.group)
        return [getattr(self, f"expert{e}") for e in range(begin, end)]

    def places(self, tokens: int) -> int:
        """How many tokens an expert takes, of those that all members have."""
        return math.ceil(self.top * tokens / self.count * self.capacity)

    def forward(self, x: Tensor, tokens: int | None = None) -> tuple[Tensor, Tensor]:
        """`tokens` are those of all members, where each has not the same number."""
        everyone = int(x.shape[0]) * self.batch.size if tokens is None else tokens
        room = self.places(everyone)
        chances = F.softmax(self.gate(x), -1)
        chosen = _best(chances, self.top)
        laid = self._laid(chosen, room)
        weights = [(chances * m).sum(axis=-1) for m in chosen]
        if self.top == 2:
            total = weights[0] + weights[1]
            weights = [w / total for w in weights]
        sent = einsum("tec,td->ecd", sum(laid[1:], start=laid[0]), x)
        came = c.reduce_scatter(sent, group=self.group)
        done = [expert(came[k]) for k, expert in enumerate(self.own())]
        results = operators["stack"].public(done) if done else came
        back = c.all_gather(results, group=self.group, size=self.count)
        pairs = zip(laid, weights, strict=True)
        mixed = [einsum("tec,ecd->td", d * w.reshape((-1, 1, 1)), back) for d, w in pairs]
        result: Tensor = mixed[0] if self.top == 1 else mixed[0] + mixed[1]
        return result, self._balance(chosen[0], chances, float(everyone))

    def _laid(self, chosen: Sequence[Tensor], room: int) -> list[Tensor]:
        """For each choice, which token lies in which place of which expert: (tokens, experts, places)."""
        out, filled = [], wrap(np.zeros(self.count, chosen[0].dtype))
        line = wrap(np.arange(room).astype(chosen[0].dtype))
        for mask in chosen:
            counts = c.all_gather(mask.sum(axis=0).reshape((1, -1)), group=self.batch)
            before = counts[: self.batch.index].sum(axis=0) + filled
            place = mask.cumsum(axis=0) - mask + before
            at = (place * mask).sum(axis=-1)
            fits = (at.reshape((-1, 1)) == line).to(mask.dtype)
            out.append(mask.reshape((*mask.shape, 1)) * fits.reshape((-1, 1, room)))
            filled = filled + counts.sum(axis=0)
        return out

    def _balance(self, mask: Tensor, chances: Tensor, tokens: float) -> Tensor:
        """experts · Σ (part of the tokens) · (mean chance), over the tokens of all members."""
        parts = c.all_reduce(mask.sum(axis=0), group=self.batch) / tokens
        means = c.all_reduce(chances.sum(axis=0), group=self.batch) / tokens
        loss: Tensor = (parts * means).sum() * float(self.count)
        return loss

    def mean_gradients(self) -> None:
        """Gradients of this rank's experts hold what all members' tokens make of them: as the gradient of the
        mean loss. Those of the gate are reduced like others, over `batch`; with ranks that have the same
        experts (along "data"), those of the experts are then reduced over these.
        """
        with no_grad():
            for expert in self.own():
                for p in expert.parameters():
                    if p.grad is not None:
                        p.grad = p.grad / self.group.size


def _one_hot(index: Tensor, count: int, dtype: Any) -> Tensor:
    line = wrap(np.arange(count))
    out: Tensor = (index.reshape((-1, 1)) == line).to(dtype)
    return out


def _best(chances: Tensor, top: int) -> list[Tensor]:
    """One-hot rows of the best expert of each token, and of the second best."""
    free = chances.detach()
    first = _one_hot(free.argmax(axis=-1), int(free.shape[-1]), free.dtype)
    if top == 1:
        return [first]
    second = _one_hot(where(first > 0, -1.0, free).argmax(axis=-1), int(free.shape[-1]), free.dtype)
    return [first, second]
