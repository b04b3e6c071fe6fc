"""Threads: the same bits for any number of them; forks, exits, two programs at once, busy machines."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.native.kernels import ADD, AFFINE, BURN, SCRATCH, UNEVEN
from trilobite.base.errors import ArgumentError
from trilobite.native import driver
from trilobite.native import pool as pool_module
from trilobite.native.cache import Kernels, kernels
from trilobite.native.driver import Call, Host, Patch, Table
from trilobite.native.pool import Pool, pool, set_threads, threads
from trilobite.native.runtime import Runtime, runtime

Script = Callable[..., subprocess.CompletedProcess[str]]
_SPIN_WORD = 49

PRELUDE = """
import atexit, os, signal, threading, time
import numpy as np
from trilobite.native.cache import kernels
from trilobite.native.driver import *
from trilobite.native.pool import pool, set_threads, threads
set_threads(2)
code = kernels([(AFFINE, 0), (BURN, 0)])
x = np.arange(1000, dtype=np.float32)
def make():
    rows, patches = [Call(code.addresses[0], 0, 1000)] * 3, [Patch(0, 0), Patch(1, 1)]
    return Table(rows, [0, 0], patches, arrays=2, alive=code)
table = make()
n = np.array([10**7])
burn = Table([Call(code.addresses[1], 0, 2)], [n.ctypes.data], alive=(code, n))
def check(table=table):
    y = np.zeros_like(x)
    table.run((x, y))
    assert (y == 2 * x + 1).all()
"""


@pytest.fixture(scope="module")
def code() -> Kernels:
    return kernels([(text, 0) for text in (AFFINE, BURN, SCRATCH, ADD, UNEVEN)])


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = threads()
    yield
    set_threads(before)


def _affine(code: Kernels, units: int) -> Table:
    return Table(
        [Call(code.addresses[0], 0, units)], [0, 0], [Patch(0, 0), Patch(1, 1)], arrays=2, alive=code
    )


def _burn(code: Kernels, count: np.ndarray[Any, Any], units: int = 2) -> Table:
    return Table([Call(code.addresses[1], 0, units)], [count.ctypes.data], alive=(code, count))


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_results_do_not_depend_on_the_number_of_threads(count: int, code: Kernels) -> None:
    set_threads(count)
    assert threads() == count
    for units in (0, 1, 2, 3, 5, 64, 1001):
        x = np.random.default_rng(units).normal(0, 1e5, units + 1).astype(np.float32)
        y = np.zeros_like(x)
        table = _affine(code, units)
        for _ in range(20):
            y[:] = 0
            table.run((x, y))
            np.testing.assert_array_equal(y[:units], 2 * x[:units] + 1)
            assert y[units] == 0


def test_threads_share_the_work(code: Kernels) -> None:
    """Long parts are run by different threads, each with scratch memory of its own; parts that must not be
    cut are run by one each.
    """
    set_threads(2)
    count, where = np.array([3_000_000]), np.zeros(8, np.int64)
    table = Table(
        [Call(code.addresses[1], 0, 2), Call(code.addresses[2], 1, 8, whole=True)],
        [count.ctypes.data, where.ctypes.data],
        scratch=4096,
        alive=(code, count, where),
    )
    seen = set()
    for _ in range(50):
        table.run()
        seen |= set(where.tolist())
        assert len(set(where[:4].tolist())) == 1 and len(set(where[4:].tolist())) == 1
    assert len(seen) <= 2 and all(address % 64 == 0 for address in seen)
    if len(seen) == 2:
        assert abs(np.diff(sorted(seen))[0]) >= 4096


def _takers(code: Kernels, units: int, whole: bool) -> tuple[Table, np.ndarray[Any, Any]]:
    """A step whose first half is all the work, and who ran each of its units."""
    where = np.zeros(units, np.int64)
    call = Call(code.addresses[4], 0, units, whole=whole)
    return Table([call], [where.ctypes.data, units // 2, 100_000], alive=(code, where)), where


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one core")
def test_who_is_through_takes_pieces_of_the_others(code: Kernels) -> None:
    set_threads(2)
    table, where = _takers(code, 32, whole=False)
    for _ in range(200):  # the other thread may not be let run
        table.run()
        if len(set(where[:16].tolist())) == 2:
            break
    first = where[:16].tolist()
    assert first[0] != first[15]  # its own thread begins at the front, others take from the back
    assert sum(a != b for a, b in pairwise(first)) == 1


def test_parts_that_must_not_be_cut_are_not(code: Kernels) -> None:
    set_threads(2)
    table, where = _takers(code, 8, whole=True)
    for _ in range(50):
        table.run()
        assert len(set(where[:4].tolist())) == 1 and len(set(where[4:].tolist())) == 1


def test_no_worker_outlives_its_pool(code: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that did would share its part and its scratch memory with the next of its number."""
    monkeypatch.setattr("trilobite.native.pool._PATIENCE", 0.0)
    table = _affine(code, 64)
    x, y = np.arange(65, dtype=np.float32), np.zeros(65, np.float32)
    for _ in range(30):
        set_threads(3)
        table.run((x, y))
        set_threads(2)
        table.run((x, y))
        names = [t.name for t in threading.enumerate() if t.name.startswith("trilobite-")]
        assert [n for n in names if n in ("trilobite-1", "trilobite-2")] == ["trilobite-1"]


@pytest.mark.parametrize("count", [2, 3, 7])
def test_every_unit_runs_once(count: int, code: Kernels) -> None:
    """However long a step took the time before, and so into however many pieces it is cut."""
    set_threads(count)
    for units in (1, 2, 17, 1001, 300_007):
        x = np.random.default_rng(units).integers(-(2**40), 2**40, units)
        y = np.zeros(units + 1, np.int64)
        table = Table(
            [Call(code.addresses[3], 0, units)], [0, 0], [Patch(0, 0), Patch(1, 1)], arrays=2, alive=code
        )
        for last in (0, 1, 4_999, 12_000, 10**6, 10**12, None, None, None):
            if last is not None:
                table.rows[0, 5] = last  # nanoseconds
            table.run((x, y))
        np.testing.assert_array_equal(y[:units], 9 * x)
        assert y[units] == 0


def test_scratch_memory_grows_for_programs_that_want_more(code: Kernels) -> None:
    where = np.zeros(3, np.int64)
    Table([Call(code.addresses[2], 0, 3)], [where.ctypes.data], scratch=4096, alive=(code, where)).run()
    small = pool()._scratch_bytes
    Table([], [], scratch=small + 100)
    assert pool()._scratch_bytes >= small + 100
    assert all(memory.nbytes == pool()._scratch_bytes for memory in pool()._scratch)


def test_programs_are_made_while_programs_run(code: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    """A branch of a program may be compiled when it is first taken: more threads, more scratch memory."""
    set_threads(2)
    where, inner = np.zeros(8, np.int64), []

    def make() -> None:
        more = 2 * pool()._scratch_bytes
        inner.append(
            Table([Call(code.addresses[2], 0, 8)], [where.ctypes.data], scratch=more, alive=(code, where))
        )
        inner[0].run()

    # Nothing waits for the outer program's end, which comes after this: so no patience is worn out.
    waited: list[float] = []
    monkeypatch.setattr(pool_module, "time", SimpleNamespace(monotonic=time.monotonic, sleep=waited.append))
    Table([Host(make)], []).run()
    assert waited == []
    assert len(set(where.tolist())) == 1 and where[0] % 64 == 0


def test_workers_sleep_when_there_is_nothing_to_do(code: Kernels) -> None:
    set_threads(4)
    x, y = np.ones(100, np.float32), np.zeros(100, np.float32)
    table = _affine(code, 100)
    table.run((x, y))
    # Of their own clocks: others in this process may work. A busy machine lets them fall asleep late.
    clocks = [time.pthread_getcpuclockid(worker.ident) for worker in pool()._workers]
    assert len(clocks) == 3

    def spent() -> float:
        before = sum(map(time.clock_gettime, clocks))
        time.sleep(0.4)
        return sum(map(time.clock_gettime, clocks)) - before

    assert any(spent() < 0.02 for _ in range(50)), "they look for work all the time"
    table.run((x, y))
    assert (y == 3).all()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one core")
def test_a_thread_that_slept_keeps_off_the_callers_core(code: Kernels) -> None:
    set_threads(2)
    x, y = np.ones(100, np.float32), np.zeros(100, np.float32)
    table = _affine(code, 100)
    table.run((x, y))
    cores = os.sched_getaffinity(0)
    worker = pool()._workers[0].native_id
    assert worker is not None
    try:
        for core in sorted(cores)[:2]:
            os.sched_setaffinity(0, {core})
            for _ in range(200):  # only who slept is moved, and a busy machine lets it fall asleep late
                time.sleep(0.05)
                table.run((x, y))
                if os.sched_getaffinity(worker) == cores - {core}:
                    break
            assert os.sched_getaffinity(worker) == cores - {core}
    finally:
        os.sched_setaffinity(0, cores)


def test_more_threads_than_cores_do_not_spin(code: Kernels) -> None:
    set_threads(len(os.sched_getaffinity(0)) + 6)
    x, y = np.ones(1000, np.float32), np.zeros(1000, np.float32)
    table = _affine(code, 1000)
    for _ in range(200):
        table.run((x, y))
    assert pool().control[_SPIN_WORD] == 0
    set_threads(2)
    table.run((x, y))
    assert pool().control[_SPIN_WORD] == (pool_module.SPIN if len(os.sched_getaffinity(0)) >= 2 else 0)


def test_two_programs_at_once_the_second_does_not_wait(code: Kernels) -> None:
    set_threads(2)
    count = np.array([100_000])
    inside, end = threading.Event(), threading.Event()

    def stay() -> None:
        inside.set()
        end.wait(60)

    # Work on both threads, then a stay in the middle of it that ends when the second has run.
    work = Call(code.addresses[1], 0, 2)
    long = Table([work, Host(stay), work], [count.ctypes.data], alive=(code, count))
    x = np.arange(1000, dtype=np.float32)
    other = threading.Thread(target=long.run)
    other.start()
    assert inside.wait(60)
    table = _affine(code, 1000)
    for _ in range(10):
        y = np.zeros_like(x)
        table.run((x, y))
        np.testing.assert_array_equal(y, 2 * x + 1)
    busy = other.is_alive()
    end.set()
    other.join()
    assert busy, "the second waited for the end of the first"


def test_many_threads_run_their_own_programs(code: Kernels) -> None:
    set_threads(2)
    wrong: list[int] = []

    def work(seed: int) -> None:
        x = np.random.default_rng(seed).normal(0, 1e3, 777).astype(np.float32)
        table = _affine(code, 777)
        for _ in range(200):
            y = np.zeros_like(x)
            table.run((x, y))
            if not np.array_equal(y, 2 * x + 1):
                wrong.append(seed)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(5)]
    for worker in workers:
        worker.start()
    for i in range(20):
        set_threads(1 + i % 3)  # while they run
    for worker in workers:
        worker.join()
    assert wrong == []


def test_a_program_inside_a_program_runs_alone(code: Kernels) -> None:
    set_threads(2)
    x, y = np.ones(10, np.float32), np.zeros(10, np.float32)
    inner = _affine(code, 10)
    levels: list[Any] = [lambda: inner.run((x, y))]
    for _ in range(3):
        levels.append(Table([Host(levels[-1])], []).run)
    levels[-1]()
    assert (y == 3).all()
    assert len(pool()._own.blocks) >= 3


def test_a_forked_child_computes(script: Script) -> None:
    done = script(
        PRELUDE
        + """
check()
stop = []
def busy():
    other = make()
    while not stop:
        check(other)
thread = threading.Thread(target=busy)
thread.start()
for round in range(20):
    child = os.fork()
    if child == 0:
        for _ in range(5):
            check()
            check(make())
        alive = sum(t.is_alive() for t in pool()._workers)
        grandchild = os.fork()
        if grandchild == 0:
            check()
            os._exit(7)
        os._exit(5 if alive == 1 and os.waitpid(grandchild, 0)[1] >> 8 == 7 else 1)
    assert os.waitpid(child, 0)[1] >> 8 == 5, round
    check()
stop.append(1)
thread.join()
print("fine")
"""
    )
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr


@pytest.mark.parametrize(
    "ending",
    [
        "check()",  # right behind a run, the worker still looks for work
        "check(); time.sleep(0.05)",  # it sleeps
        "pass",  # the pool was never started
        "check(); atexit.register(check)",  # runs before the pool's own handler
        "atexit._run_exitfuncs(); check(); print(len(pool()._workers), end='')",
        "check(); sys.exit(0)",
        "threading.Thread(target=lambda: [burn.run() for _ in range(100)], daemon=True).start()\n"
        "time.sleep(0.05)",
        "threading.Thread(target=lambda: [burn.run() for _ in range(10)]).start()",
    ],
    ids="busy asleep never atexit after exit daemon thread".split(),
)
def test_the_interpreter_ends_in_peace(ending: str, script: Script) -> None:
    done = script("import atexit, sys\n" + PRELUDE + ending + "\n", timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == ("0" if "_run_exitfuncs" in ending else "")


def test_one_core_means_one_thread(script: Script) -> None:
    core = min(os.sched_getaffinity(0))
    done = script(
        f"import os\nos.sched_setaffinity(0, {{{core}}})\n"
        + PRELUDE.replace("set_threads(2)", "")
        + "check()\nprint(threads(), len(pool()._workers), threading.active_count())\n"
    )
    assert (done.returncode, done.stdout) == (0, "1 0 1\n"), done.stderr


def test_the_environment_chooses_the_number(script: Script) -> None:
    text = PRELUDE.replace("set_threads(2)", "") + "check()\nprint(threads(), len(pool()._workers))\n"
    done = script(text, TRILOBITE_THREADS="3")
    assert (done.returncode, done.stdout) == (0, "3 2\n"), done.stderr
    done = script(text, TRILOBITE_THREADS="many")
    assert done.returncode == 1
    assert "TRILOBITE_THREADS is 'many'" in done.stderr and "a number from 1 to 256" in done.stderr


@pytest.mark.parametrize("count", [0, -1, 257, 2.0, True, "2"])
def test_a_number_of_threads_that_makes_no_sense(count: Any) -> None:
    with pytest.raises(ArgumentError, match="threads make no sense"):
        set_threads(count)


def test_a_system_that_gives_no_threads(code: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    set_threads(4)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    x, y = np.ones(100, np.float32), np.zeros(100, np.float32)
    _affine(code, 100).run((x, y))
    assert (y == 3).all() and pool()._workers == []
    set_threads(2)


def test_where_there_is_no_futex_threads_sleep_on_pythons_events(
    code: Kernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = runtime()
    addresses = {name: at for name, at in whole.addresses.items() if name not in ("sleep", "wake", "place")}
    own = Pool(3)
    own.__dict__["_code"] = Runtime(addresses, whole.kernels)
    monkeypatch.setattr(driver, "pool", lambda: own)
    x = np.arange(1000, dtype=np.float32)
    table = _affine(code, 1000)
    count = np.array([200_000])
    burn = _burn(code, count, 3)
    for _ in range(30):
        y = np.zeros_like(x)
        table.run((x, y))
        np.testing.assert_array_equal(y, 2 * x + 1)
        burn.run()
        time.sleep(0.002)
    assert len(own._workers) == 2 and own._rest._events
    own.close()
    assert own._workers == []


@pytest.mark.bench
def test_a_step_costs_less_than_a_microsecond_more_on_two_threads(code: Kernels) -> None:
    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
    row = Call(code.addresses[0], 0, 64)
    table = Table([row] * 1000, [0, 0], [Patch(0, 0), Patch(1, 1)], arrays=2, alive=code)
    best = {}
    for count in (1, 2):
        set_threads(count)
        best[count] = 1.0
        for _ in range(50):
            begin = time.perf_counter()
            table.run((x, y))
            best[count] = min(best[count], (time.perf_counter() - begin) / 1000)
    assert best[2] - best[1] / 2 < 1e-6
