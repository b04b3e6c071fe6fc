"""Shared parts under contention: which transfer moves how many bytes per cycle. Objects instead of the arrays
of `timing/shares.py` and `timing/fairness.py`, to compare these with.

Enters: transfers that begin at some cycle, each with a size, a highest rate of its own, and the parts on its
way. Leaves: the cycle in which each ends. Round-robin service of equal bursts gives every waiting transfer
the same share of a part; in the limit of small bursts that is max-min fairness, which is computed here
without stepping through bursts. Between two events all rates are constant. A part ("channel", c, n) is
channel c of the n over which the transfer spreads evenly: it carries only an nth of the bytes. A part
("share", part, n, m) carries n bytes of a transfer of m.

Transfers with the same parts and the same highest rate always run at the same rate. They form a group, whose
bytes per member are counted once: an event costs time in the number of groups, not of transfers.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from trilobite.processor.sim.timing.tables import weighted

EPSILON = 1e-6  # of a byte, or of a cycle: below this a transfer is over


@dataclass(eq=False)
class Transfer:
    amount: float
    top_rate: float
    resources: tuple[Hashable, ...]
    order: int


@dataclass(eq=False)
class _Group:
    """`served` bytes have gone to every member that was there all the time; ends are kept on that scale."""

    resources: tuple[Hashable, ...]
    top_rate: float
    rate: float = 0.0
    served: float = 0.0
    ends: list[tuple[float, int, int, Transfer]] = field(default_factory=list)
    parts: tuple[tuple[Hashable, float], ...] = ()  # and which share of the bytes each carries

    def __post_init__(self) -> None:
        self.parts = tuple(map(weighted, self.resources))

    def left(self) -> float:
        """Bytes until the next member is done."""
        return max(0.0, self.ends[0][0] - self.served)


class Sharing:
    """The transfers under way, and time as far as it is known."""

    def __init__(self, capacity: Callable[[Any], float]) -> None:
        self._capacity = capacity
        self._known: dict[Hashable, float] = {}
        self._groups: dict[tuple[tuple[Hashable, ...], float], _Group] = {}
        self._alone: dict[tuple[float, float, tuple[Hashable, ...]], int] = {}
        self._begun = 0
        self.now = 0

    @property
    def active(self) -> int:
        """How many transfers are under way."""
        return sum(len(group.ends) for group in self._groups.values())

    @property
    def is_idle(self) -> bool:
        return not self._groups

    def cycles_alone(self, amount: float, top_rate: float, resources: tuple[Hashable, ...]) -> int:
        """How long a transfer takes with nobody beside it."""
        key = (amount, top_rate, resources)
        if key not in self._alone:
            limits = [self._limit(part) / weight for part, weight in map(weighted, resources)]
            self._alone[key] = max(0, ceil(amount / min([top_rate, *limits]) - EPSILON))
        return self._alone[key]

    def rate(self, transfer: Transfer) -> float:
        """Bytes per cycle of a transfer that is under way."""
        return self._groups[transfer.resources, transfer.top_rate].rate

    def begin(self, transfer: Transfer, cycle: int) -> None:
        self._advance(cycle)
        key = (transfer.resources, transfer.top_rate)
        group = self._groups.setdefault(key, _Group(*key))
        self._begun += 1
        heapq.heappush(group.ends, (group.served + transfer.amount, transfer.order, self._begun, transfer))
        self._share()

    def next_end(self) -> int | None:
        """The first cycle in which some transfer is over, if nothing else begins before."""
        if not self._groups:
            return None
        soonest = min(group.left() / group.rate for group in self._groups.values())
        return self.now + max(0, ceil(soonest - EPSILON))

    def finish(self, cycle: int) -> list[Transfer]:
        """The transfers that are over in this cycle, in the order of their cores."""
        self._advance(cycle)
        over = []
        for key, group in list(self._groups.items()):
            while group.ends and group.left() <= EPSILON:
                over.append(heapq.heappop(group.ends)[3])
            if not group.ends:
                del self._groups[key]
        if over:
            self._share()
        return sorted(over, key=lambda transfer: transfer.order)

    def _advance(self, cycle: int) -> None:
        passed = cycle - self.now
        if passed > 0:
            for group in self._groups.values():
                group.served += group.rate * passed
            self.now = cycle

    def _limit(self, resource: Hashable) -> float:
        if resource not in self._known:
            self._known[resource] = self._capacity(resource)
        return self._known[resource]

    def _share(self) -> None:
        """Fill all rates at the same pace; whoever meets its own top or a full part stays there."""
        waiting = list(self._groups.values())
        if len(waiting) == 1:  # nobody else is there
            group = waiting[0]
            count = len(group.ends)
            limits = [self._limit(part) / (count * weight) for part, weight in group.parts]
            group.rate = min([group.top_rate, *limits])
            return
        room = {part: self._limit(part) for group in waiting for part, _ in group.parts}
        while waiting:
            users = dict.fromkeys(room, 0.0)
            for group in waiting:
                for part, weight in group.parts:
                    users[part] += len(group.ends) * weight
            fair = {part: room[part] / count for part, count in users.items() if count}
            bounds = [min([group.top_rate, *(fair[part] for part, _ in group.parts)]) for group in waiting]
            level = min(bounds)
            still = []
            for group, bound in zip(waiting, bounds, strict=True):
                if bound > level * (1 + 1e-12):
                    still.append(group)
                    continue
                group.rate = level
                for part, weight in group.parts:
                    room[part] -= level * len(group.ends) * weight
            waiting = still
