"""Memory given out while a program is written: first fit, neighbours merged, the highest byte remembered."""

from __future__ import annotations

GRAIN = 256  # bytes: as the device aligns its own arrays


class Arena:
    def __init__(self) -> None:
        self.free: list[tuple[int, int]] = []
        self.top = 0
        self.peak = 0

    def has_room(self, size: int, limit: int) -> bool:
        """Whether so many bytes find a place below the limit."""
        needed = -(-max(size, 1) // GRAIN) * GRAIN
        return self.top + needed <= limit or any(room >= needed for _, room in self.free)

    def take(self, size: int) -> int:
        """Where that many bytes lie; of nothing, a place that nobody reads."""
        needed = -(-max(size, 1) // GRAIN) * GRAIN
        for place, (start, room) in enumerate(self.free):
            if room >= needed:
                self.free[place : place + 1] = [(start + needed, room - needed)] if room > needed else []
                return start
        start, self.top = self.top, self.top + needed
        self.peak = max(self.peak, self.top)
        return start

    def give(self, start: int, size: int) -> None:
        blocks = sorted([*self.free, (start, -(-max(size, 1) // GRAIN) * GRAIN)])
        merged: list[tuple[int, int]] = []
        for at, room in blocks:
            if merged and merged[-1][0] + merged[-1][1] == at:
                merged[-1] = (merged[-1][0], merged[-1][1] + room)
            else:
                merged.append((at, room))
        if merged and merged[-1][0] + merged[-1][1] == self.top:
            self.top = merged.pop()[0]
        self.free = merged
