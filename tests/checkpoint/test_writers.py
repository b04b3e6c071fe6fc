"""Several writers and readers of one place: they take turns, and nobody sees half a checkpoint."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoint_trees import assert_same, training_state
from fault_layer import Layer, in_child, standing_in

from trilobite.base.errors import StateError
from trilobite.framework import checkpoint
from trilobite.framework.checkpoint import Checkpointer, directory, durable


@pytest.fixture(autouse=True)
def several_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "SHARD_BYTES", 300)


def test_writers_of_one_path_take_turns_and_readers_see_whole_checkpoints(tmp_path: Path) -> None:
    path = tmp_path / "c"
    checkpoint.save(path, training_state(0))
    failures: list[BaseException] = []
    stop = threading.Event()

    def write(offset: int) -> None:
        try:
            for step in range(12):
                checkpoint.save(path, training_state(2 * step + offset))
        except BaseException as error:
            failures.append(error)

    def read() -> None:
        try:
            while not stop.is_set():
                found = checkpoint.load(path)
                assert_same(found, training_state(found["step"]))
        except BaseException as error:
            failures.append(error)

    writers = [threading.Thread(target=write, args=(offset,)) for offset in (0, 1)]
    reader = threading.Thread(target=read)
    for thread in (*writers, reader):
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    reader.join()
    assert not failures, failures
    assert checkpoint.load(path)["step"] in (22, 23)
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def test_a_reader_of_the_latest_survives_its_removal(tmp_path: Path) -> None:
    run = Checkpointer(tmp_path, keep=1)
    run.save(0, training_state(0))
    failures: list[BaseException] = []
    stop = threading.Event()

    def read() -> None:
        try:
            while not stop.is_set():
                found = run.load()
                assert_same(found, training_state(found["step"]))
        except BaseException as error:
            failures.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for step in range(1, 30):
        run.save(step, training_state(step))
    stop.set()
    reader.join()
    assert not failures, failures


def test_a_writer_that_never_ends_is_reported(tmp_path: Path) -> None:
    mine = durable.lock(str(tmp_path), "c")
    with mine, pytest.raises(StateError) as caught, durable.lock(str(tmp_path), "c", wait=0.05):
        raise AssertionError("two writers hold one lock")
    assert str(caught.value) == (
        "another process has been saving here for 0.05 seconds\n"
        f"  where: {tmp_path / '.c.lock'}\n"
        "  expected: one writer at a time\n"
        "  remedy: wait for it to end, or save to another path"
    )
    with durable.lock(str(tmp_path), "c", wait=0):
        pass
    assert list(tmp_path.iterdir()) == []


def test_the_lock_of_a_dead_process_is_free(tmp_path: Path) -> None:
    def die_holding() -> None:
        with durable.lock(str(tmp_path), "c"):
            os._exit(3)

    assert in_child(die_holding) == 3
    assert (tmp_path / ".c.lock").exists()
    with durable.lock(str(tmp_path), "c", wait=0):
        pass


def test_a_child_forked_during_a_save_does_not_keep_the_lock(tmp_path: Path) -> None:
    done, release = os.pipe()
    with durable.lock(str(tmp_path), "c"):
        child = os.fork()
        if child == 0:  # as a data worker would be: it inherits the descriptor and lives on
            os.close(release)
            os.read(done, 1)
            os._exit(0)
    try:
        with durable.lock(str(tmp_path), "c", wait=0):
            pass
    finally:
        os.close(release)
        os.waitpid(child, 0)
        os.close(done)


def test_a_lock_on_a_removed_file_is_worth_nothing(tmp_path: Path) -> None:
    """The owner lets go between the opening and the locking of the next: that one must lock what is there."""
    owner = durable.lock(str(tmp_path), "c")
    owner.__enter__()
    opened: list[int] = []

    class Interleaved(Layer):
        def open(self, *args: Any, **kwargs: Any) -> int:
            opened.append(os.open(*args, **kwargs))
            if len(opened) == 1:
                owner.__exit__(None, None, None)
            return opened[-1]

    with standing_in(Interleaved(lambda *_: None)), durable.lock(str(tmp_path), "c", wait=5):
        assert len(opened) == 2
        with durable.try_lock(str(tmp_path), "c") as free:
            assert not free, "two writers hold one lock"


def test_the_latest_may_be_removed_while_it_is_being_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Checkpointer(tmp_path, keep=1)
    run.save(1, training_state(1))
    load = directory.load
    calls: list[Any] = []

    def overtaken(path: Any, like: Any = None) -> Any:
        calls.append(path)
        if len(calls) == 1:
            run.save(2, training_state(2))
        return load(path, like)

    monkeypatch.setattr(directory, "load", overtaken)
    assert_same(run.load(), training_state(2))
    assert calls == [run.path(1), run.path(2)]


def test_a_checkpoint_may_be_replaced_while_it_is_being_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint.save(tmp_path / "c", training_state(1))
    parse = directory.parse
    calls: list[Any] = []

    def overtaken(text: bytes, where: str) -> Any:
        calls.append(text)
        if len(calls) == 1:
            checkpoint.save(tmp_path / "c", training_state(2))
        return parse(text, where)

    monkeypatch.setattr(directory, "parse", overtaken)
    assert_same(checkpoint.load(tmp_path / "c"), training_state(2))
    assert len(calls) == 2


def test_many_processes_in_turn_never_hold_the_lock_together(tmp_path: Path) -> None:
    """Locks are removed when released; who had opened the removed file must not count it as held."""

    def work() -> None:
        for _ in range(60):
            with durable.lock(str(tmp_path), "c"):
                mark = os.open(tmp_path / "inside", os.O_CREAT | os.O_EXCL)  # fails if another is inside
                os.close(mark)
                os.unlink(tmp_path / "inside")

    children = []
    for _ in range(3):
        child = os.fork()
        if child == 0:
            code = 99
            try:
                work()
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0, 0]


def test_changing_arrays_while_they_are_saved_never_makes_a_corrupt_file(tmp_path: Path) -> None:
    array = np.zeros(2_000_000)
    stop = threading.Event()

    def stir() -> None:
        while not stop.is_set():
            array[:] += 1

    stirrer = threading.Thread(target=stir)
    stirrer.start()
    try:
        for _ in range(3):
            checkpoint.save(tmp_path / "c", array)
            checkpoint.verify(tmp_path / "c")
    finally:
        stop.set()
        stirrer.join()
