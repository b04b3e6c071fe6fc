"""Shared parts under contention: which transfer moves how many bytes per cycle.

Enters: transfers that begin at some cycle, each with a size, a highest rate of its own, and the parts on
its way. Leaves: the cycle in which each ends. Round-robin service of equal bursts gives every waiting
transfer the same share of a part; in the limit of small bursts that is max-min fairness, which is computed
here without stepping through bursts. Between two events all rates are constant.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from math import ceil

EPSILON = 1e-6  # of a byte, or of a cycle: below this a transfer is over


@dataclass(eq=False)
class Transfer:
    amount: float
    top_rate: float
    resources: tuple[Hashable, ...]
    order: int
    left: float = field(init=False)
    rate: float = 0.0

    def __post_init__(self) -> None:
        self.left = self.amount


class Sharing:
    """The transfers under way, and time as far as it is known."""

    def __init__(self, capacity: Callable[[Hashable], float]) -> None:
        self._capacity = capacity
        self._known: dict[Hashable, float] = {}
        self.active: list[Transfer] = []
        self.now = 0

    def begin(self, transfer: Transfer, cycle: int) -> None:
        self._advance(cycle)
        self.active.append(transfer)
        self._share()

    def next_end(self) -> int | None:
        """The first cycle in which some transfer is over, if nothing else begins before."""
        if not self.active:
            return None
        soonest = min(transfer.left / transfer.rate for transfer in self.active)
        return self.now + max(0, ceil(soonest - EPSILON))

    def finish(self, cycle: int) -> list[Transfer]:
        """The transfers that are over in this cycle, in the order of their cores."""
        self._advance(cycle)
        over = [transfer for transfer in self.active if transfer.left <= EPSILON]
        if over:
            self.active = [transfer for transfer in self.active if transfer.left > EPSILON]
            self._share()
        return sorted(over, key=lambda transfer: transfer.order)

    def _advance(self, cycle: int) -> None:
        passed = cycle - self.now
        if passed > 0:
            for transfer in self.active:
                transfer.left = max(0.0, transfer.left - transfer.rate * passed)
            self.now = cycle

    def _limit(self, resource: Hashable) -> float:
        if resource not in self._known:
            self._known[resource] = self._capacity(resource)
        return self._known[resource]

    def _share(self) -> None:
        """Fill all rates at the same pace; whoever meets its own top or a full part stays there."""
        open_transfers = list(self.active)
        room = {resource: self._limit(resource) for t in open_transfers for resource in t.resources}
        while open_transfers:
            users = dict.fromkeys(room, 0)
            for transfer in open_transfers:
                for resource in transfer.resources:
                    users[resource] += 1
            fair = {resource: room[resource] / count for resource, count in users.items() if count}
            level = min([*fair.values(), *(transfer.top_rate for transfer in open_transfers)])
            still = []
            for transfer in open_transfers:
                bound = min([transfer.top_rate, *(fair[resource] for resource in transfer.resources)])
                if bound <= level * (1 + 1e-12):
                    transfer.rate = level
                    for resource in transfer.resources:
                        room[resource] -= level
                else:
                    still.append(transfer)
            open_transfers = still
