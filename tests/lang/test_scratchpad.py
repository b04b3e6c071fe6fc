"""Places of buffers, beside first fit as its definition says it."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest

from trilobite.processor.lang.ir import Buffer
from trilobite.processor.lang.scratchpad import ScratchpadOverflow, place
from trilobite.processor.machine import load_machine

MACHINE = load_machine("dlp-m")
Together = Mapping[Buffer, set[Buffer]]


def shares(buffer: Buffer, other: Buffer, together: Together | None) -> bool:
    """May the two lie on the same bytes?"""
    own = other.offset is not None and not other.handed
    return together is not None and not own and other not in together[buffer]


def first_fit(buffers: list[Buffer], together: Together | None) -> dict[Buffer, int]:
    """Large ones first, each at the least multiple of its alignment where no neighbour lies on its bytes."""
    found = {b: b.offset for b in buffers if b.offset is not None}
    for buffer in sorted((b for b in buffers if b.offset is None), key=lambda b: -b.bytes):
        near = [(at, at + b.bytes) for b, at in found.items()
                if b.space == buffer.space and not shares(buffer, b, together)]  # fmt: skip
        ends = [-(-end // buffer.align) * buffer.align for _, end in near]
        free = (at for at in sorted([0, *ends])
                if all(at + buffer.bytes <= first or at >= end for first, end in near))  # fmt: skip
        found[buffer] = next(free)
    return found


def drawn(rng: Random) -> tuple[list[Buffer], Together | None]:
    buffers = []
    for number in range(rng.randint(0, 40)):
        space, size = rng.choice(("nram", "wram", "sram")), rng.choice((1, 64, 100, 256, 1000, 4096))
        buffer = Buffer(f"b{number}", space, size, rng.choice((1, 32, 64, 128)))
        if rng.random() < 0.2:
            buffer.offset, buffer.handed = rng.randrange(0, 8192, buffer.align), rng.random() < 0.5
        buffers.append(buffer)
    if rng.random() < 0.2:
        return buffers, None
    together: dict[Buffer, set[Buffer]] = {b: {b} for b in buffers}
    for a in buffers:
        for b in rng.sample(buffers, rng.randint(0, min(8, len(buffers)))):
            together[a].add(b)
            together[b].add(a)
    return buffers, together


@pytest.mark.parametrize("seed", range(60))
def test_buffers_lie_where_first_fit_says(seed: int) -> None:
    buffers, together = drawn(Random(seed))
    layout, wanted = place(buffers, MACHINE, together), first_fit(buffers, together)
    assert {b.name: at for b, at in layout.offsets.items()} == {b.name: at for b, at in wanted.items()}
    for space in ("nram", "wram", "sram"):
        ends = [wanted[b] + b.bytes for b in buffers if b.space == space]
        assert layout.sizes[space] == max(ends, default=0)


def test_what_does_not_fit_is_refused() -> None:
    half = MACHINE.core.wram.bytes // 2 + 64
    a, b = Buffer("a", "wram", half), Buffer("b", "wram", half)
    assert place([a, b], MACHINE, {a: {a}, b: {b}}).offsets == {a: 0, b: 0}
    with pytest.raises(ScratchpadOverflow, match="wram overflows by 128 bytes"):
        place([a, b], MACHINE, {a: {a, b}, b: {a, b}})
