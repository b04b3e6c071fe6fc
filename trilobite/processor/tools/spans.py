"""Where an access lies: which memory of the chip, and which bytes of it.

Enters: regions as one core names them. Leaves: `Span`s: a memory's key, the first byte, and the axes that
repeat a contiguous row. Two cores that reach the same bytes by different addresses get the same key and
offsets. Empty regions have no span.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trilobite.processor.isa.address import NAMES, OFFSET_MASK, SPACES
from trilobite.processor.isa.formats import I4
from trilobite.processor.isa.row import CODE, GDRAM, SRAM, Region
from trilobite.processor.sim.memory import Memory, Place

Key = tuple[str, int, int]  # space letter, then cluster and core, or the start of a DRAM block
Axes = tuple[tuple[int, int], ...]  # (extent, stride in bytes), outermost first; strides are positive


class Span(NamedTuple):
    """Rows of `row` bytes, the first at `low`, repeated along the axes; `high` is behind the last byte."""

    key: Key
    low: int
    high: int
    row: int
    axes: Axes


def home(memory: Memory, place: Place, address: int) -> tuple[Key, int]:
    """The memory that a lawful address of this core means, and the offset in it."""
    space = SPACES[address >> 56 & 0xFF]
    offset = address & OFFSET_MASK
    if space == GDRAM:
        at = bisect_right(memory.blocks, (offset, 1 << 62)) - 1
        start = memory.blocks[at][0] if at >= 0 else 0
        return (GDRAM, start, 0), offset - start
    if space == CODE:
        return (CODE, 0, 0), offset
    cluster, core = address >> 48 & 0xFF, address >> 40 & 0xFF
    where = cluster - 1 if cluster else place.cluster
    return (space, where, 0 if space == SRAM else (core - 1 if core else place.core)), offset


def key_text(key: Key, low: int, high: int, asking: Place | None = None) -> str:
    """nram+0x40 to +0x80, with its owner unless that is who asks."""
    space, first, second = key
    name = NAMES[space]
    if space == GDRAM:
        low, high, owner = low + first, high + first, ""
    elif space == SRAM:
        owner = "" if asking is not None and asking.cluster == first else f"cluster {first} "
    else:
        is_own = asking is not None and (asking.cluster, asking.core) == (first, second)
        owner = "" if is_own else f"cluster {first} core {second} "
    return f"{owner}{name}+{low:#x} to +{high:#x}"


def span_of(memory: Memory, place: Place, region: Region) -> Span | None:
    """The bytes of a region whose bounds were checked; None if it is empty."""
    if region.count == 0:
        return None
    key, low = home(memory, place, region.address)
    before, row, axes = rows_of(region)
    low += before
    reach = sum((extent - 1) * stride for extent, stride in axes)
    return Span(key, low, low + reach + row, row, axes)


def rows_of(region: Region) -> tuple[int, int, Axes]:
    """How far from its address the first byte of a region lies, the bytes of a row, and the axes."""
    shape, low = region.shape, 0
    if len(shape) == 1 or region.fmt is I4:
        return 0, region.bytes, ()
    row = region.fmt.bytes(shape[-1])
    axes: list[tuple[int, int]] = []
    for extent, stride in zip(reversed(shape[:-1]), reversed(region.strides[:-1]), strict=True):
        if extent == 1 or stride == 0:
            continue
        if stride < 0:
            low, stride = low + (extent - 1) * stride, -stride
        if stride == row and not axes:
            row *= extent
        else:
            axes.append((extent, stride))
    axes.reverse()
    return low, row, tuple(axes)


def spans_of(memory: Memory, place: Place, regions: Sequence[Region]) -> list[Span]:
    """The spans of regions that are not empty and whose bytes can change."""
    spans = [span_of(memory, place, region) for region in regions]
    return [span for span in spans if span is not None and span.key[0] != CODE]


def cut(low: int, row: int, axes: Axes, page: int) -> Iterator[tuple[int, int, int, Axes]]:
    """The parts of a span that lie in one page each: page number, offset in it, row, axes."""
    if not axes:
        while row:
            number, offset = divmod(low, page)
            size = min(row, page - offset)
            yield number, offset, size, ()
            low, row = low + size, row - size
        return
    (extent, stride), rest = axes[0], axes[1:]
    reach = row + sum((inner - 1) * step for inner, step in rest)
    done = 0
    while done < extent:
        number, offset = divmod(low + done * stride, page)
        room = page - offset - reach
        if room < 0:
            yield from cut(low + done * stride, row, rest, page)
            done += 1
        else:
            count = min(extent - done, room // stride + 1)
            yield number, offset, row, ((count, stride), *rest)
            done += count
