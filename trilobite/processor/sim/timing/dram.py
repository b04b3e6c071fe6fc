"""What a region costs DRAM: the channels it lies in, the granules that its pieces touch, the rows it opens.

Enters: a machine and a region. Leaves: numbers of channels and of bytes. Who carries them and when is the
business of `cost`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import ceil

import numpy as np

from trilobite.processor.isa.address import split
from trilobite.processor.isa.row import Region
from trilobite.processor.machine import Machine
from trilobite.processor.sim.timing.ranges import bounds


def channels_of(machine: Machine, region: Region) -> tuple[int, ...]:
    """Channels take turns every burst; a stride of whole turns stays in one of them."""
    dram = machine.dram
    offset = split(region.address)[3] % (dram.burst_bytes * dram.channels)
    outer = (region.shape[:-1], region.strides[:-1])
    return _channels_from(dram.burst_bytes, dram.channels, offset, pieces_of((region,)), *outer)


@lru_cache(maxsize=1 << 16)
def _channels_from(
    burst: int,
    channels: int,
    offset: int,
    pieces: tuple[int, int],
    shape: tuple[int, ...],
    strides: tuple[int, ...],
) -> tuple[int, ...]:
    count, size = pieces
    first = offset // burst
    spanned = (offset + size - 1) // burst - first + 1
    if spanned >= channels:
        return tuple(range(channels))
    bursts = (first + np.arange(spanned)) % channels
    if count > 1:
        for extent, stride in zip(shape, strides, strict=True):
            steps = np.arange(extent, dtype=np.int64) * stride
            bursts = np.unique((bursts[:, None] + steps // burst) % channels)
    return tuple(sorted(map(int, bursts)))


def pieces_of(ends: Sequence[Region]) -> tuple[int, int]:
    """How many contiguous pieces, and how long each, on the more scattered side."""
    found = []
    for region in ends:
        count, size = 1, region.fmt.bytes(region.shape[-1])
        for extent, stride in zip(reversed(region.shape[:-1]), reversed(region.strides[:-1]), strict=True):
            if stride == size and count == 1:
                size *= extent
            else:
                count *= extent
        found.append((count, size))
    return max(found)


def dram_bytes(machine: Machine, region: Region, is_write: bool) -> int:
    """Bytes of whole granules that the pieces touch; a granule written in part is read first."""
    if region.count == 0:
        return 0
    granule = machine.dram.granule_bytes
    (pieces, size), start = pieces_of((region,)), split(region.address)[3] % granule
    if pieces == 1:
        return _granules(start, size, granule, is_write)
    row = region.fmt.bytes(region.shape[-1])
    return _scattered_bytes(granule, start, size, row, region.shape[:-1], region.strides[:-1], is_write)


@lru_cache(maxsize=1 << 16)
def _scattered_bytes(
    granule: int,
    start: int,
    size: int,
    row: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    is_write: bool,
) -> int:
    starts = np.array([start], np.int64)
    for extent, stride in zip(shape, strides, strict=True):
        starts = (starts[:, None] + np.arange(extent, dtype=np.int64) * stride).reshape(-1)
    # a piece's granules depend only on where in a granule it starts
    skews, counts = np.unique(starts[:: size // row] % granule, return_counts=True)
    touched = [_granules(int(skew), size, granule, is_write) for skew in skews]
    return sum(each * int(count) for each, count in zip(touched, counts, strict=True))


def row_bytes(machine: Machine, region: Region) -> int:
    """What DRAM could have carried while it opened the rows of a region, where it has rows."""
    dram = machine.dram
    if not dram.row_bytes or not region.count:
        return 0
    row = dram.row_bytes * dram.channels
    (pieces, size), start = pieces_of((region,)), split(region.address)[3]
    low, high = bounds(region)
    each = (start % row + size - 1) // row + 1
    opened = min(pieces * each, (high - low - 1) // row + 2)
    return ceil(opened * dram.row_ns * machine.clock_ghz / dram.banks * machine.dram_bytes_per_cycle)


def _granules(start: int, size: int, granule: int, is_write: bool) -> int:
    first, last = start // granule, (start + size - 1) // granule
    touched = last - first + 1
    if is_write:
        head, tail = start % granule != 0, (start + size) % granule != 0
        touched += (head or tail) if first == last else head + tail
    return touched * granule
