"""Workers that fail, die, hang or are abandoned: an error that says so, and no process left behind."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loader_subjects import (
    Broken,
    Exits,
    Killed,
    Noise,
    Pids,
    RefusesToLoad,
    SlowPids,
    Squares,
    Stuck,
    Unpicklable,
    WritesToItself,
    explode,
)

from trilobite.base.errors import DataError
from trilobite.framework.data import ArrayDataset, Loader

HERE = Path(__file__).parent
PATHS = os.pathsep.join([str(HERE), str(HERE.parent.parent), os.environ.get("PYTHONPATH", "")])
ENVIRONMENT = {**os.environ, "PYTHONPATH": PATHS.rstrip(os.pathsep)}


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pids: Any, seconds: float = 60) -> bool:
    until = time.monotonic() + seconds
    while any(map(alive, pids)) and time.monotonic() < until:
        time.sleep(0.02)
    return not any(map(alive, pids))


class TestFailures:
    @pytest.mark.parametrize(("workers", "kind"), [(0, "process"), (2, "thread"), (2, "process")])
    def test_good_batches_come_first_then_the_error_names_the_index(self, workers: int, kind: str) -> None:
        passing = iter(Loader(Broken(20, bad=13), 3, workers=workers, worker_kind=kind))
        assert [next(passing)[1].tolist() for _ in range(4)] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
        with pytest.raises(
            DataError, match=r"item 13 could not be loaded: KeyError: 'sector of 13'"
        ) as caught:
            next(passing)
        assert "batch 4 of epoch 0" in str(caught.value)
        if kind == "thread" or not workers:
            assert isinstance(caught.value.__cause__, KeyError)

    def test_a_process_sends_the_original_traceback(self) -> None:
        with pytest.raises(DataError) as caught:
            list(Loader(Broken(4, bad=2), workers=1))
        text = str(caught.value)
        assert "Traceback (most recent call last):" in text
        assert (
            "loader_subjects.py" in text
            and "in read_the_disk" in text
            and 'raise KeyError(f"sector of {i}")' in text
        )
        assert "worker 0 (process " in text and "workers=0 raises the same error" in text

    @pytest.mark.parametrize("workers", [0, 1])
    def test_transform_and_collate_are_named(self, workers: int) -> None:
        with pytest.raises(DataError, match=r"item 0 could not be transformed: \w*TypeError"):
            list(Loader(["text"], transform=Noise(), workers=workers))
        with pytest.raises(
            DataError, match=r"items 0, 1 could not be collated: ZeroDivisionError: in collate"
        ):
            list(Loader(Squares(2), 2, collate=explode, workers=workers))

    def test_a_batch_that_cannot_be_sent(self) -> None:
        with pytest.raises(DataError, match=r"(?s)cannot be stacked|could not be sent"):
            list(Loader(Unpicklable(4, bad=1), workers=1))
        with pytest.raises(DataError, match=r"(?s)a batch could not be sent.*lambda"):
            list(Loader(Unpicklable(4, bad=1), workers=1, collate=list))

    def test_a_dataset_that_cannot_be_sent(self) -> None:
        with pytest.raises(
            DataError, match=r"(?s)cannot be sent to worker processes.*lambda.*remedy:.*worker_kind='thread'"
        ):
            list(Loader(range(3), transform=lambda x: x, workers=1))

    def test_a_dataset_that_cannot_be_unpacked(self) -> None:
        with pytest.raises(
            DataError, match=r"could not unpack the dataset: RuntimeError\('not in this process'\)"
        ):
            list(Loader(RefusesToLoad(3), workers=1))

    def test_killed_by_a_signal(self) -> None:
        passing = iter(Loader(Killed(20, bad=6), 2, workers=2, prefetch=1))
        assert [next(passing)[1].tolist() for _ in range(3)] == [[0, 1], [2, 3], [4, 5]]
        with pytest.raises(DataError, match=r"worker 1 \(process \d+\) was killed by SIGKILL") as caught:
            next(passing)
        assert "batch 3 of epoch 0" in str(caught.value) and "memory" in str(caught.value)

    def test_killed_from_outside_while_we_wait(self) -> None:
        loader = Loader(Pids(8), workers=2, keep_workers=True)
        pids = sorted({int(b[0]) for b in loader})
        assert len(pids) == 2
        os.kill(pids[0], signal.SIGKILL)
        with pytest.raises(DataError, match="was killed by SIGKILL"):
            list(loader)
        assert gone(pids)
        assert len(list(loader)) == 8  # the next epoch has new workers

    @pytest.mark.parametrize("seed", range(6))
    def test_killed_at_any_moment_is_never_a_hang(self, seed: int) -> None:
        """Batches of 3 MB travel all the time, so that kills fall into every stage of sending them."""
        before = set(multiprocessing.active_children())
        loader = Loader(Squares(4000, (200, 1000)), 4, workers=2, timeout=60)
        passing = iter(loader)
        next(passing)
        victim = [child for child in multiprocessing.active_children() if child not in before][seed % 2]
        kill = threading.Timer(seed * 0.013, os.kill, (victim.pid, signal.SIGKILL))
        kill.start()
        with pytest.raises(DataError, match="was killed by SIGKILL"):
            for _ in passing:
                pass
        kill.join()
        assert not set(multiprocessing.active_children()) - before

    def test_exit_in_a_worker(self) -> None:
        with pytest.raises(DataError, match=r"worker 0 \(process \d+\) ended with exit code 3"):
            list(Loader(Exits(4, bad=1), workers=1))

    @pytest.mark.parametrize("kind", ["thread", "process"])
    def test_timeout(self, kind: str) -> None:
        with pytest.raises(DataError, match=r"has not answered within 0.2 s\n  expected: a batch\n  remedy"):
            list(Loader(Stuck(4), workers=1, worker_kind=kind, timeout=0.2))


class TestNothingIsLeftBehind:
    def test_after_a_whole_epoch(self) -> None:
        pids = {int(b[0]) for b in Loader(Pids(6), workers=2)}
        assert len(pids) == 2 and os.getpid() not in pids and gone(pids, 0)

    def test_when_iteration_is_abandoned(self) -> None:
        loader = Loader(Pids(100), workers=2)
        for batch in loader:
            pid = int(batch[0])
            break
        assert gone([pid])

    def test_when_a_worker_is_busy(self) -> None:
        passing = iter(Loader(SlowPids(50), workers=1, prefetch=2))
        pid = int(next(passing)[0])
        passing.close()  # type: ignore[attr-defined]  # does not wait for the next item, which never comes
        assert gone([pid], 0)

    def test_when_the_loader_is_collected(self) -> None:
        loader = Loader(Pids(4), workers=1, keep_workers=True)
        pid = int(next(iter(loader))[0])
        assert {int(b[0]) for b in loader} == {pid} and alive(pid)
        del loader
        assert gone([pid])

    def test_threads_end_too(self) -> None:
        before = set(threading.enumerate())
        for _ in Loader(Squares(30), workers=4, worker_kind="thread"):
            break
        assert not set(threading.enumerate()) - before

    def test_no_descriptors_are_kept(self) -> None:
        def run() -> list[Any]:
            return list(Loader(Squares(12, (100, 100)), 2, workers=1))

        run()
        gc.collect()  # what other tests left is not closed in between
        before = len(os.listdir("/proc/self/fd"))
        kept = run()
        assert len(os.listdir("/proc/self/fd")) == before and len(kept) == 6

    @pytest.mark.parametrize("how", ["return", "raise", "exit", "kill", "kept"])
    def test_when_the_parent_ends(self, tmp_path: Path, how: str) -> None:
        script, told = tmp_path / "job.py", tmp_path / "pids"
        script.write_text(PARENT.format(told=str(told), how=how))
        done = subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, timeout=110, env=ENVIRONMENT
        )
        pids = [int(word) for word in told.read_text().split()]
        assert len(pids) == 3 and gone(pids), done.stderr
        assert done.returncode == {"raise": 1, "exit": 7, "kill": -9}.get(how, 0), done.stderr
        assert "Traceback" not in done.stderr or how == "raise"

    def test_interrupt_reaches_the_parent_only(self, tmp_path: Path) -> None:
        script, told = tmp_path / "job.py", tmp_path / "pids"
        script.write_text(PARENT.format(told=str(told), how="wait"))
        job = subprocess.Popen(
            [sys.executable, str(script)],
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=ENVIRONMENT,
        )
        until = time.monotonic() + 60
        while not (told.exists() and len(told.read_text().split()) == 3) and time.monotonic() < until:
            time.sleep(0.05)
        os.killpg(job.pid, signal.SIGINT)  # as a terminal does it: to the whole group
        try:
            _, errors = job.communicate(timeout=50)
        finally:
            job.kill()
            job.wait()
        assert errors.count("KeyboardInterrupt") == 1, errors
        assert gone([int(word) for word in told.read_text().split()])

    def test_a_script_without_a_main_guard_is_told_so(self, tmp_path: Path) -> None:
        script = tmp_path / "job.py"
        script.write_text(UNGUARDED)
        done = subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, timeout=110, env=ENVIRONMENT
        )
        assert done.returncode == 1
        assert "ended with exit code 1" in done.stderr and "if __name__ == '__main__':" in done.stderr


PARENT = """
import os, signal, sys, time
from loader_subjects import Pids
from trilobite.framework.data import Loader

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
    loader = Loader(Pids(1000), workers=2, keep_workers={how!r} == "kept")
    passing = iter(loader)
    pids = {{os.getpid(), int(next(passing)[0]), int(next(passing)[0])}}
    with open({told!r}, "w") as file:
        file.write(" ".join(map(str, pids)))
    if {how!r} == "raise":
        raise RuntimeError("the caller's own")
    if {how!r} == "exit":
        sys.exit(7)
    if {how!r} == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if {how!r} == "wait":
        time.sleep(60)
"""
UNGUARDED = """
from loader_subjects import Squares
from trilobite.framework.data import Loader
list(Loader(Squares(3), workers=1))
"""


class TestSharing:
    def test_large_arrays_are_mapped_and_writes_stay_private(self) -> None:
        data = WritesToItself(np.zeros((1000, 100)))
        batches = list(Loader(data, 100, workers=2))
        assert sum(float(b.sum()) for b in batches) == 1000 * 100.0
        assert not data.arrays[0].any()

    def test_a_parent_that_is_slow_to_read_does_not_block(self) -> None:
        loader = Loader(Squares(40, (64, 64)), 2, workers=2, prefetch=8)
        for i, batch in enumerate(loader):
            if i == 0:
                time.sleep(0.3)
            assert batch[1].tolist() == [2 * i, 2 * i + 1]

    def test_long_lists_of_indices(self) -> None:
        data = ArrayDataset(np.arange(300_000))
        batches = list(Loader(data, 100_000, workers=1, prefetch=3, shuffle=True))
        assert np.array_equal(np.sort(np.concatenate(batches)), data.arrays[0])
