"""Packing of intervals: no overlap while both are alive, and close to the lower bound."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilobite.compiler.program.memory import ALIGNMENT, Interval, Packing, _best_fit, _largest_first, pack

intervals = st.lists(
    st.builds(
        lambda first, life, size: Interval(first, first + life, size),
        st.integers(0, 40),
        st.integers(0, 15),
        st.one_of(st.integers(0, 5), st.integers(0, 5000)),
    ),
    max_size=60,
)


def assert_apart(items: list[Interval], offsets: list[int]) -> None:
    for a in range(len(items)):
        for b in range(a):
            i, j = items[a], items[b]
            if i.first <= j.last and j.first <= i.last and i.size and j.size:
                apart = offsets[a] + i.size <= offsets[b] or offsets[b] + j.size <= offsets[a]
                assert apart, (i, offsets[a], j, offsets[b])


@given(intervals)
@settings(max_examples=200, deadline=None)
def test_no_two_living_intervals_overlap(items: list[Interval]) -> None:
    packing = pack(items)
    assert_apart(items, list(packing.offsets))
    assert all(o % ALIGNMENT == 0 for o in packing.offsets)
    assert packing.bound <= packing.peak <= packing.naive


@given(intervals)
@settings(max_examples=100, deadline=None)
def test_both_ways_of_packing_are_right_on_their_own(items: list[Interval]) -> None:
    rounded = [Interval(i.first, i.last, -(-i.size // ALIGNMENT) * ALIGNMENT) for i in items]
    assert_apart(rounded, _best_fit(rounded))
    assert_apart(rounded, _largest_first(rounded))


def test_nothing_to_pack() -> None:
    assert pack([]) == Packing((), 0, 0, 0)


def test_a_chain_needs_two_buffers() -> None:
    chain = [Interval(i, i + 1, 640) for i in range(1000)]
    packing = pack(chain)
    assert packing.peak == packing.bound == 2 * 640 and packing.naive == 640_000


@pytest.mark.parametrize("count", [100, 3000])
def test_random_lives_are_packed_close_to_the_bound(count: int) -> None:
    rng = np.random.default_rng(count)
    items = [
        Interval(int(f), int(f + life), int(size))
        for f, life, size in zip(
            np.sort(rng.integers(0, count, count)),
            rng.geometric(0.3, count),
            2 ** rng.integers(6, 20, count),
            strict=True,
        )
    ]
    packing = pack(items)
    assert packing.peak <= 1.25 * packing.bound
