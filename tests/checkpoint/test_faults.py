"""Saving while the system fails: at every call that changes the disk, what was there before stays whole."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoint_trees import assert_same, training_state
from fault_layer import At, Layer, changes_of, in_child, standing_in

from trilobite.framework import checkpoint
from trilobite.framework.checkpoint import Checkpointer, StorageError, directory


@pytest.fixture(autouse=True)
def several_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "SHARD_BYTES", 300)


def _save_over(path: Path) -> tuple[Callable[[], None], Callable[[], None]]:
    checkpoint.save(path, training_state(1))

    def old_or_new() -> None:
        found = checkpoint.load(path)
        assert_same(found, training_state(found["step"]))
        assert found["step"] in (1, 2)

    return lambda: checkpoint.save(path, training_state(2)), old_or_new


def _save_first(path: Path) -> tuple[Callable[[], None], Callable[[], None]]:
    def nothing_or_new() -> None:
        if path.exists():
            assert_same(checkpoint.load(path), training_state(2))

    return lambda: checkpoint.save(path, training_state(2)), nothing_or_new


def _save_step(path: Path) -> tuple[Callable[[], None], Callable[[], None]]:
    run = Checkpointer(path, keep=2)
    for step in (1, 2):
        run.save(step, training_state(step))

    def every_step_whole() -> None:
        steps = run.steps()
        assert steps[-1] in (2, 3) and len(steps) >= 2
        for step in steps:
            assert_same(run.load(step), training_state(step))

    return lambda: str(run.save(3, training_state(3))), every_step_whole


SUBJECTS = {"over": _save_over, "first": _save_first, "step": _save_step}


def _next_save_is_clean(name: str, path: Path) -> None:
    """The next save works and sweeps up whatever the last one left."""
    if name == "step":
        run = Checkpointer(path, keep=2)
        run.save(9, training_state(9))
        assert_same(run.load(), training_state(9))
        assert not [p for p in path.iterdir() if p.name.startswith(".")]
    else:
        checkpoint.save(path, training_state(9))
        assert_same(checkpoint.load(path), training_state(9))
        assert [p.name for p in path.parent.iterdir()] == [path.name]
    for folder in path.glob("step-*") if name == "step" else [path]:
        files = {p.name for p in folder.iterdir()}
        named = {n for n in files if n in (folder / "manifest.json").read_text()}
        assert files == named | {"manifest.json"}


def _points(name: str, tmp_path: Path) -> int:
    """How many changes the action makes; the actions are deterministic but for random names."""
    action, _ = SUBJECTS[name](tmp_path / "rehearsal" / "c")
    changes = changes_of(action)
    assert {"open", "write", "fsync", "mkdir", "rename"} <= set(changes)
    return len(changes)


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_process_that_dies_at_any_change_leaves_a_whole_checkpoint(tmp_path: Path, name: str) -> None:
    def die(call: str, args: tuple[Any, ...]) -> None:
        if call == "write":  # half a write, as a full cache or a kill between two pages would leave
            os.write(args[0], bytes(args[1])[: len(args[1]) // 2])
        os._exit(7)

    points = _points(name, tmp_path)
    assert points > 20
    for number in range(1, points + 1):
        path = tmp_path / str(number) / "c"
        action, whole = SUBJECTS[name](path)

        def dying(action: Callable[[], None] = action, number: int = number) -> None:
            with standing_in(Layer(At(number, die))):
                action()

        assert in_child(dying) == 7
        whole()
        _next_save_is_clean(name, path)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES])
@pytest.mark.parametrize("name", SUBJECTS)
def test_an_error_at_any_change_is_reported_and_leaves_a_whole_checkpoint(
    tmp_path: Path, name: str, code: int
) -> None:
    def fail(call: str, args: tuple[Any, ...]) -> None:
        raise OSError(code, os.strerror(code))

    for number in range(1, _points(name, tmp_path) + 1):
        path = tmp_path / str(number) / "c"
        action, whole = SUBJECTS[name](path)
        with pytest.raises(StorageError) as caught, standing_in(Layer(At(number, fail))):
            action()
        assert caught.value.errno == code and os.strerror(code) in str(caught.value)
        assert str(path) in str(caught.value.where) and caught.value.expected and caught.value.remedy
        whole()
        _next_save_is_clean(name, path)


@pytest.mark.parametrize("name", SUBJECTS)
def test_an_interrupt_at_any_change_leaves_a_whole_checkpoint(tmp_path: Path, name: str) -> None:
    def interrupt(call: str, args: tuple[Any, ...]) -> None:
        raise KeyboardInterrupt

    for number in range(1, _points(name, tmp_path) + 1):
        path = tmp_path / str(number) / "c"
        action, whole = SUBJECTS[name](path)
        with pytest.raises(KeyboardInterrupt), standing_in(Layer(At(number, interrupt))):
            action()
        whole()
        _next_save_is_clean(name, path)


def test_a_full_disk_is_said_in_full(tmp_path: Path) -> None:
    checkpoint.save(tmp_path / "c", training_state(1))

    def fail(call: str, args: tuple[Any, ...]) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space") as caught, standing_in(Layer(At(2, fail, "write"))):
        checkpoint.save(tmp_path / "c", training_state(2))
    assert str(caught.value) == (
        "the checkpoint could not be saved: No space left on device\n"
        f"  where: {tmp_path / 'c'}\n"
        "  expected: what was there before is unchanged\n"
        "  remedy: make room on that disk and save again"
    )
    assert [p.name for p in tmp_path.iterdir()] == ["c"]
    assert_same(checkpoint.load(tmp_path / "c"), training_state(1))


@pytest.mark.parametrize("save", ["directory", "safetensors", "npz"])
def test_a_real_limit_of_the_kernel_is_survived(tmp_path: Path, save: str) -> None:
    """RLIMIT_FSIZE makes the kernel itself refuse to write on, in the middle of a file."""
    path = tmp_path / "c"
    tree = {"x": np.random.default_rng(0).normal(size=100_000)}
    writers: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
        "directory": (checkpoint.save, checkpoint.load),
        "safetensors": (checkpoint.save_safetensors, checkpoint.load_safetensors),
        "npz": (checkpoint.save_npz, checkpoint.load_npz),
    }
    write, read = writers[save]
    write(path, {"x": np.arange(10.0)})

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
        try:
            write(path, tree)
        except StorageError as error:
            os._exit(17 if "File too large" in str(error) and "make room" in str(error) else 18)

    assert in_child(limited) == 17
    assert read(path)["x"].tolist() == list(range(10))
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere; the injected EACCES covers this")
def test_a_directory_without_write_access_is_said(tmp_path: Path) -> None:
    checkpoint.save(tmp_path / "c", training_state(1))
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(
            StorageError, match=r"Permission denied\n.*\n.*\n  remedy: give this user write access"
        ):
            checkpoint.save(tmp_path / "c", training_state(2))
        assert_same(checkpoint.load(tmp_path / "c"), training_state(1))
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.parametrize("save", [checkpoint.save_safetensors, checkpoint.save_npz])
def test_single_files_survive_a_death_at_any_change(tmp_path: Path, save: Callable[..., None]) -> None:
    load = checkpoint.load_npz if save is checkpoint.save_npz else checkpoint.load_safetensors
    old, new = {"x": np.arange(50.0)}, {"x": np.arange(60.0) * 2}
    (tmp_path / "rehearsal").mkdir()
    points = len(changes_of(lambda: save(tmp_path / "rehearsal" / "f", new)))
    for number in range(1, points + 1):
        folder = tmp_path / str(number)
        folder.mkdir()
        save(folder / "f", old)

        def dying(folder: Path = folder, number: int = number) -> None:
            with standing_in(Layer(At(number, lambda *_: os._exit(7)))):
                save(folder / "f", new)

        assert in_child(dying) == 7
        found = load(folder / "f")["x"].tolist()
        assert found in (old["x"].tolist(), new["x"].tolist())
        save(folder / "f", new)
        assert [p.name for p in folder.iterdir()] == ["f"]
