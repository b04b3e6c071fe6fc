"""Whether two accesses touch a common byte: what interlocks and race checks ask.

Enters: regions of one core. Leaves: yes or no, byte-exact for strided regions (bounding boxes would accuse
ping-pong buffers that are interleaved).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from trilobite.processor.isa.formats import U8, Array
from trilobite.processor.isa.row import Region
from trilobite.processor.isa.row import region as make_region


def bounds(region: Region) -> tuple[int, int]:
    """First byte and the byte behind the last; empty regions give equal bounds."""
    if region.count == 0:
        return region.address, region.address
    low = high = region.address
    for extent, stride in zip(region.shape[:-1], region.strides[:-1], strict=True):
        reach = (extent - 1) * stride
        low, high = low + min(reach, 0), high + max(reach, 0)
    return low, high + region.fmt.bytes(region.shape[-1])


@lru_cache(maxsize=65536)
def pieces(region: Region) -> tuple[Array, int]:
    """Sorted starts of the contiguous pieces, and their length."""
    starts = np.array([region.address], np.int64)
    size = region.fmt.bytes(region.shape[-1])
    for extent, stride in zip(reversed(region.shape[:-1]), reversed(region.strides[:-1]), strict=True):
        if stride == size and len(starts) == 1:
            size *= extent
        else:
            starts = (starts[:, None] + np.arange(extent, dtype=np.int64) * stride).reshape(-1)
    return np.sort(starts), size


def overlap(a: Region, b: Region) -> bool:
    a_low, a_high = bounds(a)
    b_low, b_high = bounds(b)
    if a_low >= b_high or b_low >= a_high or a_low == a_high or b_low == b_high:
        return False
    a_starts, a_size = pieces(a)
    b_starts, b_size = pieces(b)
    if len(a_starts) == 1 and len(b_starts) == 1:
        return True
    # for every piece of a, the last piece of b that starts before its end
    at = np.searchsorted(b_starts, a_starts + a_size, "left") - 1
    found = at >= 0
    return bool((b_starts[at[found]] + b_size > a_starts[found]).any())


def is_dense(region: Region) -> bool:
    """Whether the region has no holes."""
    return len(region.shape) == 1 or len(pieces(region)[0]) == 1


def solid(low: int, high: int) -> Region:
    """All the bytes between two addresses."""
    return make_region(low, U8, (high - low,))


Span = tuple[int, int, Region]


class Footprint:
    """The regions of one access with their bounds, found once."""

    __slots__ = ("reads", "writes")

    def __init__(self, reads: Sequence[Region], writes: Sequence[Region]) -> None:
        self.reads: list[Span] = [(*bounds(region), region) for region in reads]
        self.writes: list[Span] = [(*bounds(region), region) for region in writes]

    def conflicts(self, other: Footprint) -> bool:
        """Read after write, write after read, or write after write."""
        return (
            _touch(self.reads, other.writes)
            or _touch(self.writes, other.reads)
            or _touch(self.writes, other.writes)
        )


def _touch(some: Sequence[Span], others: Sequence[Span]) -> bool:
    for low, high, one in some:
        for other_low, other_high, other in others:
            if low < other_high and other_low < high and overlap(one, other):
                return True
    return False
