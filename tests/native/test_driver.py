"""The step table: kernels, loops, branches, calls of Python, patches, events."""

from __future__ import annotations

import gc
import signal
import sys
import threading
import time
import weakref
from typing import Any

import numpy as np
import pytest

from tests.native.kernels import ADD, AFFINE, BURN, loop
from trilobite.base.errors import ArgumentError
from trilobite.native.cache import Kernels, kernels
from trilobite.native.driver import (
    Again,
    Call,
    Host,
    Jump,
    JumpIfZero,
    Method,
    Patch,
    Repeat,
    Set,
    Swap,
    Table,
)

# counts a[0] down by one, and says in b[0] whether something is left
COUNT = loop(
    """  %n = load i64, ptr %a0
  %less = sub i64 %n, 1
  store i64 %less, ptr %a0
  %left = icmp ne i64 %less, 0
  %byte = zext i1 %left to i8
  store i8 %byte, ptr %a1""",
    2,
)


@pytest.fixture(scope="module")
def code() -> Kernels:
    return kernels([(text, 0) for text in (AFFINE, ADD, COUNT, BURN)])


def _address(array: np.ndarray[Any, Any]) -> int:
    return int(array.ctypes.data)


def test_a_run_reads_and_writes_the_callers_arrays(code: Kernels) -> None:
    table = Table(
        [Call(code.addresses[0], 0, 5), Call(code.addresses[0], 2, 5, serial=True)],
        [0, 0, 0, 0],
        [Patch(0, 0), Patch(1, 1), Patch(2, 1), Patch(3, 2, 12)],
        arrays=3,
        alive=code,
    )
    for seed in range(3):
        x = np.random.default_rng(seed).normal(0, 100, 5).astype(np.float32)
        y, z = np.zeros(5, np.float32), np.full(9, 7, np.float32)
        table.run((x, y, z))
        np.testing.assert_array_equal(y, 2 * x + 1)
        np.testing.assert_array_equal(z, [7, 7, 7, *(2 * y + 1), 7])


def test_no_units_and_no_rows_are_fine(code: Kernels) -> None:
    y = np.zeros(1, np.float32)
    Table([Call(code.addresses[0], 0, 0)], [0, 0], [Patch(1, 0)], arrays=1).run((y,))
    Table([], []).run()
    assert y[0] == 0


def test_a_method_finds_its_description_until_it_is_freed() -> None:
    """Python reads it when it frees the method; a table's attributes go one by one, the description first."""
    table = Table([], [])
    run = table._call
    table._method = Method()
    overwriting = [Method(b"other", 0, 0x7777, None) for _ in range(2000)]
    assert len(overwriting) == 2000 and run(()) == 0
    assert run.__name__ == "run"


def test_units_change_without_a_new_table(code: Kernels) -> None:
    x, y = np.arange(6, dtype=np.int64), np.zeros(6, np.int64)
    table = Table([Call(code.addresses[1], 0, 2)], [_address(x), _address(y)], alive=(code, x, y))
    table.run()
    table.set_units(0, 6)
    table.run()
    assert y.tolist() == [0, 2, 2, 3, 4, 5]


@pytest.mark.parametrize("count", [0, 1, 2, 7, 3000])
def test_a_loop_walks_through_memory_and_takes_its_steps_back(count: int, code: Kernels) -> None:
    """Prefix sums, as a scan computes them: each round reads the one before."""
    rng = np.random.default_rng(count)
    table = Table(
        [
            Repeat(count, again=3),
            Call(code.addresses[1], 0, 2),  # y[i + 1] += y[i]
            Call(code.addresses[1], 2, 2),  # y[i + 1] += x[i]
            Again(0, bumps=((0, 16), (1, 16), (2, 16), (3, 16))),
        ],
        [0, 0, 0, 0],
        [Patch(0, 1), Patch(1, 1, 16), Patch(2, 0), Patch(3, 1, 16)],
        arrays=2,
        alive=code,
    )
    for _ in range(2):
        x = rng.integers(-(10**6), 10**6, (count, 2))
        y = np.zeros((count + 1, 2), np.int64)
        table.run((x, y))
        np.testing.assert_array_equal(y[1:], x.cumsum(0))
        assert table.words.tolist() == [_address(y), _address(y) + 16, _address(x), _address(y) + 16]


def test_loops_nest(code: Kernels) -> None:
    x, y = np.arange(12, dtype=np.int64), np.zeros(4, np.int64)
    table = Table(
        [
            Repeat(4, again=4),
            Repeat(3, again=3),
            Call(code.addresses[1], 0, 1),
            Again(1, bumps=((0, 8),)),
            Again(0, bumps=((0, 24), (1, 8))),
        ],
        [_address(x), _address(y)],
        alive=(code, x, y),
    )
    table.run()
    table.set_units(1, 2)  # two of every three
    table.run()
    sums = x.reshape(4, 3)
    np.testing.assert_array_equal(y, sums.sum(1) + sums[:, :2].sum(1))
    assert table.words.tolist() == [_address(x), _address(y)]


def test_words_that_are_swapped_alternate_between_two_buffers(code: Kernels) -> None:
    x = np.array([3, -5], np.float32)
    for rounds in (1, 2, 3):
        a, b = x.copy(), np.zeros(2, np.float32)
        table = Table(
            [
                Set(((0, 2), (1, 3))),
                Repeat(rounds, again=4),
                Call(code.addresses[0], 0, 2),
                Swap(((0, 1),)),
                Again(1),
            ],
            [0, 0, _address(a), _address(b)],
            alive=(code, a, b),
        )
        for _ in range(2):
            a[:] = x
            table.run()
            expected = x
            for _ in range(rounds):
                expected = 2 * expected + 1
            np.testing.assert_array_equal((a, b)[rounds % 2], expected)


@pytest.mark.parametrize(("dtype", "true"), [(np.bool_, 1), (np.int32, -(2**31)), (np.int64, 2**40)])
def test_a_branch_is_taken_by_what_stands_in_memory(dtype: Any, true: int, code: Kernels) -> None:
    flag, x, y = np.zeros(1, dtype), np.array([4, 9], np.int64), np.zeros(1, np.int64)
    table = Table(
        [
            JumpIfZero(0, flag.itemsize, 3),
            Call(code.addresses[1], 1, 1),
            Jump(4),
            Call(code.addresses[1], 3, 1),
        ],
        [0, _address(x), _address(y), _address(x) + 8, _address(y)],
        [Patch(0, 0)],
        arrays=1,
        alive=(code, x, y),
    )
    for value, expected in ((true, 4), (0, 13), (0, 22), (true, 26)):
        flag[0] = value
        table.run((flag,))
        assert y[0] == expected


@pytest.mark.parametrize("count", [1, 2, 1023, 5000])
def test_a_while_loop_ends_when_memory_says_so(count: int, code: Kernels) -> None:
    n, more, total = np.array([count]), np.ones(1, np.bool_), np.zeros(1, np.int64)
    one = np.ones(1, np.int64)
    table = Table(
        [
            JumpIfZero(2, 1, 4),
            Call(code.addresses[2], 0, 1),
            Call(code.addresses[1], 3, 1),
            Jump(0),
        ],
        [_address(n), _address(more), _address(more), _address(one), _address(total)],
        alive=(code, n, more, total, one),
    )
    table.run()
    assert (n[0], total[0]) == (0, count)


@pytest.mark.parametrize("brief", [False, True])
def test_an_endless_loop_can_be_interrupted(brief: bool) -> None:
    table = Table([Jump(0)], [], brief=brief)

    def ring(*_: object) -> None:
        raise TimeoutError("ring")

    before = signal.signal(signal.SIGALRM, ring)
    try:
        for _ in range(2):
            with pytest.raises(TimeoutError, match="ring"):
                signal.setitimer(signal.ITIMER_REAL, 0.05)
                table.run()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("brief", [False, True])
def test_python_is_called_between_kernels(brief: bool, code: Kernels) -> None:
    x, y, seen = np.array([1, 2]), np.zeros(2, np.int64), []
    rows = [
        Repeat(3, again=3),
        Call(code.addresses[1], 0, 2),
        Host(lambda: seen.append(y.tolist())),
        Again(0),
    ]
    Table(rows, [_address(x), _address(y)], alive=(code, x, y), brief=brief).run()
    assert seen == [[1, 2], [2, 4], [3, 6]]


def test_a_program_may_run_programs_through_python(code: Kernels) -> None:
    x, y = np.array([5]), np.zeros(1, np.int64)
    inner = Table([Call(code.addresses[1], 0, 1)], [_address(x), _address(y)], alive=(code, x, y))
    middle = Table([Host(inner.run), Host(inner.run)], [])
    Table([Host(middle.run), Call(code.addresses[1], 0, 1)], [_address(x), _address(y)], alive=code).run()
    assert y[0] == 15


def test_what_python_raises_ends_the_run_and_the_table_runs_again() -> None:
    calls: list[int] = []

    def twice() -> None:
        calls.append(1)
        if len(calls) == 2:
            raise ZeroDivisionError("here")

    table = Table([Host(twice), Host(twice)], [])
    with pytest.raises(ZeroDivisionError, match="here"):
        table.run()
    table.run()
    assert len(calls) == 4


def test_nothing_is_leaked(code: Kernels) -> None:
    x, y, result = np.ones(1, np.float32), np.zeros(1, np.float32), object()
    words, patches = [0, 0], [Patch(0, 0), Patch(1, 1)]
    arrays = (x, y)
    host = Host(lambda: result)
    table = Table([Call(code.addresses[0], 0, 1), host], words, patches, arrays=2, alive=code)
    table.run(arrays)
    watched: tuple[object, ...] = (x, y, arrays, result, table.header, host.function)
    before = [sys.getrefcount(one) for one in watched]
    for _ in range(1000):
        table.run(arrays)
    assert [sys.getrefcount(one) for one in watched] == before
    gone = weakref.ref(table)
    del table
    gc.collect()
    assert gone() is None


def test_two_threads_that_run_one_table_take_turns(code: Kernels) -> None:
    """The table adds 1 to a shared number with Python in between, where turns would be lost."""
    total = [0]

    def bump() -> None:
        seen = total[0]
        time.sleep(0.0005)
        total[0] = seen + 1

    table = Table([Host(bump)], [])
    threads = [threading.Thread(target=lambda: [table.run() for _ in range(20)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert total[0] == 80


def test_events_tell_when_each_row_began_and_ended(code: Kernels) -> None:
    n = np.array([20000])
    table = Table(
        [Repeat(3, again=2), Call(code.addresses[3], 0, 1), Again(0), Call(code.addresses[3], 0, 1)],
        [_address(n)],
        alive=(code, n),
    )
    table.time(100)
    begin = time.monotonic_ns()
    table.run()
    end = time.monotonic_ns()
    events = table.events()
    assert events[:, 0].tolist() == [1, 1, 1, 3]
    stamps = events[:, 1:].ravel()
    assert begin <= stamps[0] and stamps[-1] <= end and (np.diff(stamps) >= 0).all()
    assert (events[:, 2] - events[:, 1]).min() > 1000
    assert len(table.events()) == 0
    table.time(2)
    table.run()
    assert len(table.events()) == 2
    table.time(0)
    table.run()
    assert len(table.events()) == 0


def test_wrong_arrays_are_refused_by_name(code: Kernels) -> None:
    x = np.ones((4, 6), np.float32)
    table = Table([Call(code.addresses[0], 0, 4)], [0, 0], [Patch(0, 0), Patch(1, 1)], arrays=2, alive=code)
    with pytest.raises(ArgumentError, match=r"array 1 of a program is not a row-major NumPy array"):
        table.run((x, x.T))
    with pytest.raises(ArgumentError, match="array 0"):
        table.run(([1.0], x))  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="a program was run with 1\n  expected: a tuple of 2 arrays"):
        table.run((x,))
    with pytest.raises(ArgumentError, match="a program was run with list"):
        table.run([x, x])  # type: ignore[arg-type]
    y = np.zeros(4, np.float32)
    table.run((x, y))
    assert y.tolist() == [3, 3, 3, 3]


@pytest.mark.parametrize(
    ("rows", "patches"),
    [
        ([Jump(2)], []),
        ([JumpIfZero(0, 1, -1)], []),
        ([JumpIfZero(2, 1, 0)], []),
        ([Call(1, 3, 1)], []),
        ([Repeat(1, 5)], []),
        ([Again(0, ((-1, 8),))], []),
        ([Swap(((0, 2),))], []),
        ([], [Patch(2, 0)]),
        ([], [Patch(0, 1)]),
    ],
)
def test_a_table_that_points_outside_is_refused(rows: list[Any], patches: list[Patch]) -> None:
    with pytest.raises(ArgumentError, match="points"):
        Table(rows, [0, 0], patches, arrays=1)


@pytest.mark.bench
def test_a_call_costs_less_than_two_microseconds(code: Kernels) -> None:
    x, y = np.ones(1, np.float32), np.zeros(1, np.float32)
    table = Table(
        [Call(code.addresses[0], 0, 1, True)], [0, 0], [Patch(0, 0), Patch(1, 1)], arrays=2, alive=code
    )
    arrays, best = (x, y), 1.0
    for _ in range(50):
        begin = time.perf_counter()
        for _ in range(1000):
            table.run(arrays)
        best = min(best, (time.perf_counter() - begin) / 1000)
    assert best < 2e-6
