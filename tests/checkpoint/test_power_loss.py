"""Checkpoints on a disk that loses power: fsync is where it must be, and a finished save stays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pytest
from checkpoint_trees import assert_same, training_state
from disk_model import Disk, Note, Recorder
from fault_layer import standing_in

from trilobite.base.errors import TrilobiteError
from trilobite.framework import checkpoint
from trilobite.framework.checkpoint import Checkpointer, directory, durable

CHANCES = (0.0, 1.0, 0.5, 0.5, 0.5, 0.8, 0.2)


def _save_steps(root: Path, recorder: Recorder) -> None:
    run = Checkpointer(root / "run", keep=2)
    for step in range(1, 5):
        run.save(step, training_state(step, 5))
        recorder.note("returned", step)


def _check_steps(root: Path, returned: int) -> None:
    run = Checkpointer(root / "run", keep=2)
    latest = run.latest() or 0
    assert latest >= returned, "a save that had returned was lost"
    for step in run.steps():
        assert_same(run.load(step), training_state(step, 5))


def _save_in_place(root: Path, recorder: Recorder) -> None:
    for step in (1, 2, 2, 3):
        checkpoint.save(root / "c", training_state(step, 5))
        recorder.note("returned", step)


def _check_in_place(root: Path, returned: int) -> None:
    if (root / "c").exists():
        found = checkpoint.load(root / "c")
        assert found["step"] >= returned
        assert_same(found, training_state(found["step"], 5))
    else:
        assert returned == 0, "a save that had returned was lost"


def _save_file(root: Path, recorder: Recorder) -> None:
    for step in (1, 2, 3):
        checkpoint.save_safetensors(root / "f", training_state(step, 5)["model"])
        recorder.note("returned", step)


def _check_file(root: Path, returned: int) -> None:
    if (root / "f").exists():
        found = checkpoint.load_safetensors(root / "f")
        assert int(found["count"]) >= returned
        assert_same(found, training_state(int(found["count"]), 5)["model"])
    else:
        assert returned == 0, "a save that had returned was lost"


SUBJECTS: dict[str, tuple[Callable[..., None], Callable[..., None]]] = {
    "steps": (_save_steps, _check_steps),
    "in place": (_save_in_place, _check_in_place),
    "file": (_save_file, _check_file),
}


def _record(root: Path, save: Callable[..., None]) -> list[Note]:
    recorder = Recorder(root)
    with standing_in(recorder), mock.patch.object(directory, "SHARD_BYTES", 300):
        save(root, recorder)
    return recorder.notes


def _crash_everywhere(name: str, tmp_path: Path) -> int:
    """Cut the power after every change, in several ways each; the number of crashes survived."""
    save, check = SUBJECTS[name]
    (tmp_path / "real").mkdir()
    notes = _record(tmp_path / "real", save)
    crashes = 0
    for cut in range(len(notes) + 1):
        disk, returned = Disk(), 0
        for note in notes[:cut]:
            returned = note[1] if note[0] == "returned" else returned
            if note[0] != "returned":
                disk.apply(note)
        for variant, chance in enumerate(CHANCES):
            crashes += 1
            root = tmp_path / f"crash-{cut}-{variant}"
            disk.after_crash(root, Random(1000 * cut + variant), chance)
            check(root, returned)
    return crashes


@pytest.mark.parametrize("name", SUBJECTS)
def test_power_may_fail_between_any_two_changes(tmp_path: Path, name: str) -> None:
    assert _crash_everywhere(name, tmp_path) > 100


# ---- the model bites: without one of the syncs it finds a loss ----


def _no_file_sync(fd: int) -> None:
    import os
    import stat

    if stat.S_ISDIR(os.fstat(fd).st_mode):
        durable.os.fsync(fd)


def _unsafe_removal(folder: str, name: str) -> None:
    durable.remove_tree(f"{folder}/{name}")


WEAKENED: dict[str, tuple[str, Any]] = {
    "files not synced": ("_sync", _no_file_sync),
    "directories not synced": ("sync_directory", lambda path: None),
    "removal in view": ("remove_whole", _unsafe_removal),
}


@pytest.mark.parametrize("weakness", WEAKENED)
def test_the_model_notices_a_missing_sync(tmp_path: Path, weakness: str) -> None:
    attribute, weaker = WEAKENED[weakness]
    with mock.patch.object(durable, attribute, weaker), pytest.raises((AssertionError, TrilobiteError)):
        _crash_everywhere("steps", tmp_path)
