"""Ranks that do not do the same raise, all of them, and say where each of them is."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest

import trilobite as tb
from trilobite import cluster as c
from trilobite.base.errors import ClusterError

CALLS: dict[str, Callable[[], Any]] = {
    "sum": lambda: c.all_reduce(tb.ones((4, 4))),
    "another shape": lambda: c.all_reduce(tb.ones((4, 5))),
    "another dtype": lambda: c.all_reduce(tb.ones((4, 4), dtype=tb.float64)),
    "another reduction": lambda: c.all_reduce(tb.ones((4, 4)), "max"),
    "another collective": lambda: c.all_gather(tb.ones((4, 4))),
    "another axis": lambda: c.all_gather(tb.ones((4, 4)), 1),
    "another group": lambda: c.all_reduce(tb.ones((4, 4)), group=c.Group(((0, 1), (2, 3)))),
    "nothing": lambda: None,
}  # fmt: skip


def ends(first: str, second: str) -> tuple[list[str], list[str]]:
    """How each rank ended when ranks 0, 1 and 3 make one call and rank 2 another."""
    seen: list[str] = [""] * 4

    def rank() -> None:
        try:
            CALLS[second if c.rank() == 2 else first]()
            c.barrier()
        except ClusterError as error:
            seen[c.rank()] = str(error)
            raise

    with pytest.raises(ClusterError):
        c.lockstep(rank, 4)
    lines = [f"test_mismatches.py:{CALLS[n].__code__.co_firstlineno}" for n in (first, second)]
    return seen, lines


@pytest.mark.parametrize(("first", "second"), list(permutations(CALLS, 2)))
def test_every_rank_raises_and_names_both_lines(first: str, second: str) -> None:
    seen, lines = ends(first, second)
    assert all(seen)
    assert any(all(line in text for line in lines if "nothing" not in (first, second)) for text in seen)


def test_a_ring_of_groups_is_noticed() -> None:
    def rank() -> None:
        pair = ((0, 1), (1, 2), (0, 2))[c.rank()]
        c.all_reduce(tb.ones(2), group=c.Group((pair,)))

    with pytest.raises(ClusterError, match=r"(?s)wait for each other.*rank 0: .*rank 1: .*rank 2: "):
        c.lockstep(rank, 3)


def test_groups_that_overlap_may_come_in_any_order_that_ends() -> None:
    """Rank 1 is busy with rank 2 when rank 0 calls it: rank 0 waits."""

    def rank() -> float:
        total = 0.0
        if c.rank() in (1, 2):
            total += c.all_reduce(tb.ones(2) * c.rank(), group=c.Group(((1, 2),))).sum().item()
        if c.rank() in (0, 1):
            total += c.all_reduce(tb.ones(2) * c.rank(), group=c.Group(((0, 1),))).sum().item()
        return total

    assert c.lockstep(rank, 3) == [2.0, 8.0, 6.0]


def test_an_error_of_one_rank_is_what_the_run_raises() -> None:
    def rank() -> None:
        if c.rank() == 1:
            raise ZeroDivisionError("of rank 1")
        c.barrier()

    with pytest.raises(ZeroDivisionError, match="of rank 1"):
        c.lockstep(rank, 3)


def test_a_message_of_another_type_is_named() -> None:
    def rank() -> None:
        if c.rank() == 0:
            c.send(tb.ones(3), 1)
        else:
            c.receive((4,), tb.float32, 0)

    with pytest.raises(ClusterError, match=r"f32\[3\] from rank 0, sent at .*test_mismatches"):
        c.lockstep(rank, 2)


def test_random_numbers_are_each_ranks_own() -> None:
    def rank() -> tuple[float, float]:
        tb.manual_seed(c.rank())
        first = tb.rand(1).item()
        c.barrier()
        return first, tb.rand(1).item()

    def alone(seed: int) -> tuple[float, float]:
        tb.manual_seed(seed)
        return tb.rand(1).item(), tb.rand(1).item()

    assert c.lockstep(rank, 3) == [alone(k) for k in range(3)]


def test_words_that_had_piled_up_count_once() -> None:
    """A rank that compiled for seconds hears all at once what a waiting one said: it may have gone on."""
    from trilobite.cluster.notices import BEAT, SURE, Notices

    notices = Notices.__new__(Notices)
    notices.words, notices.rank, notices.size = {}, 0, 2
    for k in range(9):
        notices._note(1, "waiting", 7, (0,), "a sum", 10.0 + k * 1e-4)
    assert notices.words[1].times == 1
    for k in range(SURE):
        notices._note(1, "waiting", 7, (0,), "a sum", 11.0 + k * BEAT)
    assert notices.words[1].times == SURE + 1
