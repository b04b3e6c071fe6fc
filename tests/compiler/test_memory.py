"""Packing of intervals: no overlap while both are alive, and close to the lower bound."""

from __future__ import annotations

import re
from itertools import count

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


def occupied(items: list[Interval], offsets: list[int], placed: list[int], first: int, last: int) -> set[int]:
    """Bytes that those placed have at any step of a life."""
    return {
        b
        for m in placed
        if items[m].first <= last and first <= items[m].last
        for b in range(offsets[m], offsets[m] + items[m].size)
    }


few = st.lists(
    st.builds(lambda f, life, size: Interval(f, f + life, size), *(st.integers(0, n) for n in (8, 4, 6))),
    max_size=14,
)


@given(few)
@settings(max_examples=150, deadline=None)
def test_the_largest_first_takes_the_lowest_place_that_is_free(items: list[Interval]) -> None:
    offsets, placed = _largest_first(items), list[int]()
    for n in sorted(range(len(items)), key=lambda n: -items[n].size):
        i = items[n]
        taken = occupied(items, offsets, placed, i.first, i.last)
        lowest = next(o for o in count() if not taken & set(range(o, o + i.size)))
        assert offsets[n] == lowest
        placed.append(n)


@given(few)
@settings(max_examples=150, deadline=None)
def test_the_best_fit_takes_the_smallest_gap_that_is_large_enough(items: list[Interval]) -> None:
    """The lowest of equal ones; else from where the last is free; else behind all that ever was."""
    offsets, placed, end = _best_fit(items), list[int](), 0
    for n in sorted(range(len(items)), key=lambda n: (items[n].first, -items[n].size)):
        i = items[n]
        if i.size:
            taken = occupied(items, offsets, placed, i.first, i.first)
            free = "".join("x" if b in taken else "." for b in range(end))
            gaps = [(len(m.group()), m.start()) for m in re.finditer(r"\.+", free)]
            fitting = [gap for gap in gaps if gap[0] >= i.size]
            wanted = min(fitting)[1] if fitting else len(free.rstrip("."))
            assert offsets[n] == wanted
            end = max(end, wanted + i.size)
        placed.append(n)


PLANS: dict[str, tuple[list[tuple[int, int, int]], tuple[int, ...], int]] = {
    # (first step, last step, units of the alignment), where each lies, the peak; all in such units
    "one": ([(0, 3, 5)], (0,), 5),
    "a chain": ([(0, 1, 2), (1, 2, 2), (2, 3, 2), (3, 4, 2)], (0, 2, 0, 2), 4),
    "a residual block": ([(0, 4, 3), (0, 1, 3), (1, 2, 3), (2, 3, 3), (3, 4, 3)], (0, 3, 6, 3, 6), 9),
    "wide in the middle": ([(0, 1, 1), (1, 2, 8), (2, 3, 1)], (0, 1, 0), 9),
    "a gap between two": ([(0, 5, 2), (0, 1, 3), (0, 5, 2), (2, 3, 3)], (3, 0, 5, 0), 7),
    "a gap that is cut": ([(0, 1, 4), (0, 9, 1), (2, 3, 1), (2, 3, 3)], (0, 4, 3, 0), 5),
    "neighbours become one": ([(0, 1, 2), (0, 1, 2), (0, 9, 1), (2, 3, 4)], (0, 2, 4, 0), 5),
    "the end grows": ([(0, 9, 2), (1, 2, 2), (3, 4, 5)], (0, 2, 2), 7),
    "nothing of it": ([(0, 9, 0), (0, 1, 1), (2, 3, 0)], (0, 0, 0), 1),
}


@pytest.mark.parametrize("name", PLANS)
def test_plans_of_memory_stay_as_they_are(name: str) -> None:
    lives, offsets, peak = PLANS[name]
    packing = pack([Interval(f, last, n * ALIGNMENT) for f, last, n in lives])
    assert packing.offsets == tuple(o * ALIGNMENT for o in offsets) and packing.peak == peak * ALIGNMENT
    alive = max(sum(n for f, last, n in lives if f <= step <= last) for step in range(10))
    assert packing.bound == alive * ALIGNMENT and packing.naive == sum(n for *_, n in lives) * ALIGNMENT
