"""What a transfer of few pieces costs: strides between two, three and four of them, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from trilobite.processor.isa.formats import U8
from trilobite.processor.isa.row import GDRAM, Region
from trilobite.processor.machine import load_machine
from trilobite.processor.sim.timing import cost
from trilobite.processor.sim.timing.dram import channels_of

MACHINE = load_machine("dlp-m")
GRANULE, BURST = MACHINE.dram.granule_bytes, MACHINE.dram.burst_bytes


def pieces_of(region: Region) -> list[tuple[int, int]]:
    """(start, length) of every contiguous piece, byte by byte."""
    offsets = np.zeros(1, np.int64)
    for extent, stride in zip(region.shape, region.strides, strict=True):
        offsets = (offsets[:, None] + np.arange(extent) * stride).reshape(-1)
    bytes_ = sorted({int(o) for o in offsets})
    found: list[list[int]] = []
    for b in bytes_:
        if found and found[-1][0] + found[-1][1] == b:
            found[-1][1] += 1
        else:
            found.append([b, 1])
    return [(start, length) for start, length in found]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 9])
@pytest.mark.parametrize("stride", [100, 128, 512, 4096 + 64])
@pytest.mark.parametrize("start", [0, 24])
def test_granules_of_few_pieces_are_counted_one_by_one(count: int, stride: int, start: int) -> None:
    region = Region(start, U8, (count, 96), (stride, 1), GDRAM)
    touched = set()
    for at, length in pieces_of(region):
        touched |= set(range((start + at) // GRANULE, (start + at + length - 1) // GRANULE + 1))
    once = sum(
        (start + n * stride + 95) // GRANULE - (start + n * stride) // GRANULE + 1 for n in range(count)
    )
    found = cost.dram_bytes(MACHINE, region, False)
    assert len(touched) * GRANULE <= found <= once * GRANULE
    if stride % GRANULE == 0 or count <= 4:
        assert found in (len(touched) * GRANULE, once * GRANULE)


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("step", [1, 2, 3, 4, 5])
def test_channels_of_few_pieces_follow_their_stride(count: int, step: int) -> None:
    region = Region(0, U8, (count, 64), (step * BURST, 1), GDRAM)
    wanted = sorted({n * step % MACHINE.dram.channels for n in range(count)})
    assert list(channels_of(MACHINE, region)) == wanted
