"""Packing of intervals: when each buffer is alive, and how many bytes it has, to an offset for each.

Enters: `Interval`s. Leaves: offsets into one arena, no two of which overlap while both are alive, and the
figures that say how good the packing is. Nothing here knows what a buffer holds.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import NamedTuple

ALIGNMENT = 64  # bytes: a cache line, and more than any vector needs
_EXHAUSTIVE = 1500  # up to so many intervals the quadratic packing is tried as well


class Interval(NamedTuple):
    """Alive from step `first` to step `last`, both included."""

    first: int
    last: int
    size: int


class Packing(NamedTuple):
    """Where each interval lies. `peak` bytes were needed, `bound` would be the least possible, `naive` what
    separate buffers take.
    """

    offsets: tuple[int, ...]
    peak: int
    bound: int
    naive: int


def pack(intervals: Sequence[Interval]) -> Packing:
    """Offsets for all intervals in one arena."""
    rounded = [Interval(i.first, i.last, -(-i.size // ALIGNMENT) * ALIGNMENT) for i in intervals]
    candidates = [_best_fit(rounded)]
    bound = _bound(rounded)
    if _extent(rounded, candidates[0]) > bound and len(rounded) <= _EXHAUSTIVE:
        candidates.append(_largest_first(rounded))
    best = min(candidates, key=lambda offsets: _extent(rounded, offsets))
    return Packing(tuple(best), _extent(rounded, best), bound, sum(i.size for i in rounded))


def _extent(intervals: Sequence[Interval], offsets: Sequence[int]) -> int:
    return max((o + i.size for o, i in zip(offsets, intervals, strict=True)), default=0)


def _bound(intervals: Sequence[Interval]) -> int:
    """The most bytes that are alive at one step: no packing needs less."""
    changes: dict[int, int] = {}
    for i in intervals:
        changes[i.first] = changes.get(i.first, 0) + i.size
        changes[i.last + 1] = changes.get(i.last + 1, 0) - i.size
    alive = most = 0
    for step in sorted(changes):
        alive += changes[step]
        most = max(most, alive)
    return most


def _best_fit(intervals: Sequence[Interval]) -> list[int]:
    """In order of time: the smallest gap that is large enough, else the end. About O(n log n)."""
    offsets = [0] * len(intervals)
    free = _FreeList()
    ends: list[tuple[int, int, int]] = []
    for n in sorted(range(len(intervals)), key=lambda n: (intervals[n].first, -intervals[n].size)):
        i = intervals[n]
        while ends and ends[0][0] < i.first:
            _, offset, size = heapq.heappop(ends)
            free.give(offset, size)
        offsets[n] = free.take(i.size)
        heapq.heappush(ends, (i.last, offsets[n], i.size))
    return offsets


class _FreeList:
    """Gaps below the end of an arena that grows."""

    def __init__(self) -> None:
        self.end = 0
        self.gaps: list[tuple[int, int]] = []  # (offset, size), by offset
        self.sizes: list[tuple[int, int]] = []  # (size, offset), by size

    def take(self, size: int) -> int:
        if size == 0:
            return 0
        at = bisect_left(self.sizes, (size, -1))
        if at < len(self.sizes):
            found, offset = self.sizes.pop(at)
            del self.gaps[bisect_left(self.gaps, (offset, found))]
            if found > size:
                self._add(offset + size, found - size)
            return offset
        if self.gaps and sum(self.gaps[-1]) == self.end:  # grow the gap at the end
            offset, found = self.gaps.pop()
            del self.sizes[bisect_left(self.sizes, (found, offset))]
            self.end = offset + size
            return offset
        self.end += size
        return self.end - size

    def give(self, offset: int, size: int) -> None:
        if size == 0:
            return
        at = bisect_left(self.gaps, (offset, 0))
        if at < len(self.gaps) and self.gaps[at][0] == offset + size:
            size += self._remove(at)
        if at > 0 and sum(self.gaps[at - 1]) == offset:
            offset = self.gaps[at - 1][0]
            size += self._remove(at - 1)
        self._add(offset, size)

    def _add(self, offset: int, size: int) -> None:
        insort(self.gaps, (offset, size))
        insort(self.sizes, (size, offset))

    def _remove(self, at: int) -> int:
        offset, size = self.gaps.pop(at)
        del self.sizes[bisect_left(self.sizes, (size, offset))]
        return size


def _largest_first(intervals: Sequence[Interval]) -> list[int]:
    """In order of size: the lowest offset that is free for the whole life. Quadratic, and often tighter."""
    offsets = [0] * len(intervals)
    placed: list[int] = []
    for n in sorted(range(len(intervals)), key=lambda n: -intervals[n].size):
        i = intervals[n]
        near = sorted(
            (offsets[m], offsets[m] + intervals[m].size)
            for m in placed
            if intervals[m].first <= i.last and i.first <= intervals[m].last and intervals[m].size
        )
        at = 0
        for low, high in near:
            if at + i.size <= low:
                break
            at = max(at, high)
        offsets[n] = at
        placed.append(n)
    return offsets
