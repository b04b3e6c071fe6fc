"""Exchanges without other processes: operations of a block in order, and what is left to Python."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from trilobite.native.exchange import (
    DONE,
    MEMORY,
    OPERAND,
    RESULT,
    STUCK,
    UNDERWAY,
    Arrived,
    At,
    Block,
    Check,
    Copy,
    Library,
    Link,
    Look,
    Op,
    Receive,
    Zero,
)

X, OUT = At(OPERAND, 0), At(RESULT, 0)


@pytest.fixture
def link() -> Link:
    return Link(Library(0, 0, 0, 0, 0, 8, 64))


def run(link: Link, ops: list[Op], x: np.ndarray[Any, Any], out: np.ndarray[Any, Any]) -> Block:
    block = Block(link, ops, np.zeros(1, np.int64))
    block.start(x.ctypes.data, out.ctypes.data)
    return block


def test_rows_are_copied_with_their_strides(link: Link) -> None:
    x = np.random.default_rng(0).normal(size=(5, 8)).astype(np.float32)
    out = np.full((5, 3), 7, np.float32)
    block = run(link, [Copy(OUT, X + 8, 5, 12, 12, 32)], x, out)
    assert block.state == DONE
    np.testing.assert_array_equal(out, x[:, 2:5])


def test_zeros_are_written_behind_an_offset(link: Link) -> None:
    out = np.arange(6, dtype=np.int64)
    run(link, [Zero(OUT + 16, 24)], out, out)
    np.testing.assert_array_equal(out, [0, 1, 0, 0, 0, 5])


def test_words_that_differ_stop_it_and_equal_ones_do_not(link: Link) -> None:
    words = np.array([1, 2, 1, 2, 1, 3], np.int64)
    at = int(words.ctypes.data)
    same, other = Check(at, at + 16), Check(at, at + 32)
    assert run(link, [same], words, words).state == DONE
    block = run(link, [same, other], words, words)
    assert block.state == STUCK and block.next == 1
    assert list(link.underway()) == [block]


def test_python_does_its_part_and_it_goes_on(link: Link) -> None:
    x, out, seen = np.arange(4.0), np.zeros(4), []

    def double(block: Block) -> None:
        seen.append(block.place(X))
        out[:2] = 2 * x[:2]
        block.go_on()

    block = run(link, [Look(double), Copy(OUT + 16, X, 1, 16, 0, 0)], x, out)
    assert block.state == STUCK
    op = block.ops[block.next]
    assert isinstance(op, Look)
    op.function(block)
    link.poll()
    assert block.state == DONE and not list(link.underway()) and seen == [x.ctypes.data]
    np.testing.assert_array_equal(out, [0, 2, 0, 1])


def test_a_block_begins_again_with_other_arrays(link: Link) -> None:
    rng, block = np.random.default_rng(1), None
    for _ in range(3):
        x, out = rng.normal(size=9), np.zeros(9)
        if block is None:
            block = run(link, [Copy(OUT, X, 1, 72, 0, 0)], x, out)
        else:
            block.start(x.ctypes.data, out.ctypes.data)
        assert block.wait() == DONE
        np.testing.assert_array_equal(out, x)
    assert block is not None and block.words[17] == 3


def test_addresses_count_from_memory_of_ones_own(link: Link) -> None:
    own, out = np.arange(3.0), np.zeros(3)
    run(link, [Copy(OUT, At(MEMORY, int(own.ctypes.data)), 1, 24, 0, 0)], out, out)
    np.testing.assert_array_equal(out, own)


def test_who_waits_rests_between_looks() -> None:
    """A message that never comes: MPI is asked all the time, or every five milliseconds."""
    asked = [0]
    number, pointer = ctypes.c_int, ctypes.c_void_p

    def testall(count: int, requests: int, flag: int, statuses: int) -> int:
        asked[0] += 1
        ctypes.c_int.from_address(flag).value = 0
        return 0

    irecv = ctypes.CFUNCTYPE(number, pointer, number, pointer, number, number, pointer, pointer)(lambda *_: 0)
    test = ctypes.CFUNCTYPE(number, number, pointer, pointer, pointer)(testall)
    at = [ctypes.cast(f, pointer).value or 0 for f in (irecv, test)]
    link = Link(Library(0, at[0], at[1], 0, 0, 8, 64))
    out, looks = np.zeros(1), []
    for rest in (0, 5000):
        block = run(link, [Receive(OUT, 8, 0, 0), Arrived()], out, out)
        block.rest(rest)
        block.words[19] = 50_000_000
        asked[0] = 0
        assert block.wait() == UNDERWAY
        looks.append(asked[0] / len(list(link.underway())))
    assert looks[1] <= 12 and looks[0] > 2 * looks[1]


@pytest.mark.parametrize("first", [0, 1, 2])
def test_only_messages_of_the_exchange_at_hand_are_missing(first: int) -> None:
    """Requests are counted anew after every wait: what was waited for before is not asked about again."""
    number, pointer, request = ctypes.c_int, ctypes.c_void_p, ctypes.c_int64
    there: set[int] = set()  # requests are the tags of their messages
    asked: list[int] = []

    def post(at: int, tag: int) -> int:
        request.from_address(at).value = tag
        return 0

    def testall(count: int, requests: int, flag: int, statuses: int) -> int:
        ctypes.c_int.from_address(flag).value = all(
            request.from_address(requests + 8 * k).value in there for k in range(count)
        )
        return 0

    def status(tag: int, flag: int, status: int) -> int:
        asked.append(tag)
        ctypes.c_int.from_address(flag).value = tag in there
        return 0

    kind = ctypes.CFUNCTYPE(number, pointer, number, pointer, number, number, pointer, pointer)
    irecv = kind(lambda _a, _n, _t, _peer, tag, _c, at: post(at, tag))
    others = (
        ctypes.CFUNCTYPE(number, number, pointer, pointer, pointer)(testall),
        ctypes.CFUNCTYPE(number, request, pointer, pointer)(status),
    )
    at = [ctypes.cast(f, pointer).value or 0 for f in (irecv, irecv, *others)]
    link = Link(Library(*at, 0, 8, 64))
    rounds = [[(5, 11)], [(6, 12), (7, 13)], [(8, 14), (9, 15), (5, 16)]]
    ops: list[Op] = []
    for messages in rounds:
        ops += [Receive(OUT, 8, peer, 0, tag) for peer, tag in messages] + [Arrived()]
    there.update(tag for messages in rounds[:first] for _, tag in messages)
    out = np.zeros(1)
    block = run(link, ops, out, out)
    assert block.state == UNDERWAY
    peers = [peer for peer, _ in rounds[first]]
    assert block.missing() == peers and asked == [tag for _, tag in rounds[first]]
    there.add(rounds[first][0][1])
    assert block.missing() == peers[1:]
    there.update(range(20))
    link.poll()
    assert block.state == DONE
