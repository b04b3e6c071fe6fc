"""A run's checkpoints: the newest few, in order, and never a silent choice."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from checkpoint_trees import assert_same, training_state

from trilobite.base.errors import ArgumentError, FileError, StateError
from trilobite.framework.checkpoint import Checkpointer, NotFoundError, save


def _data(checkpointer: Checkpointer, step: int) -> Path:
    return next(Path(checkpointer.path(step)).glob("arrays-*"))


def test_the_newest_are_kept(tmp_path: Path) -> None:
    run = Checkpointer(tmp_path / "run", keep=3)
    assert run.latest() is None and run.steps() == []
    for step in (0, 5, 10, 100, 20_000_000_000):
        assert run.save(step, training_state(step)) == run.path(step)
    assert run.steps() == [10, 100, 20_000_000_000] and run.latest() == 20_000_000_000
    for step in run.steps():
        assert_same(run.load(step), training_state(step))
    assert_same(run.load(), training_state(20_000_000_000))
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == [
        "step-00000010",
        "step-00000100",
        "step-20000000000",
    ]


def test_none_keeps_all(tmp_path: Path) -> None:
    run = Checkpointer(tmp_path, keep=None)
    for step in range(6):
        run.save(step, {"x": step})
    assert run.steps() == list(range(6))


def test_the_newest_step_may_be_saved_again(tmp_path: Path) -> None:
    run = Checkpointer(tmp_path, keep=2)
    run.save(3, {"x": np.arange(3)})
    run.save(3, {"x": np.arange(4)})
    assert run.load()["x"].tolist() == [0, 1, 2, 3]


def test_an_example_is_passed_on(tmp_path: Path) -> None:
    run = Checkpointer(tmp_path)
    run.save(1, {"w": np.zeros(3)})
    with pytest.raises(StateError, match="w: float64"):
        run.load(like={"w": np.zeros(4)})


def test_a_corrupt_latest_is_reported_with_the_way_out(tmp_path: Path) -> None:
    run = Checkpointer(tmp_path, keep=None)
    for step in (1, 2, 3, 4):
        run.save(step, training_state(step))
    _data(run, 4).write_bytes(_data(run, 4).read_bytes()[:-1])
    _data(run, 3).unlink()
    size = len(_data(run, 2).read_bytes())
    with pytest.raises(FileError) as caught:
        run.load()
    assert str(caught.value) == (
        f"the checkpoint of step 4 is corrupt: the file is truncated: {size - 1} bytes\n"
        f"  where: {_data(run, 4)}\n"
        f"  expected: {size} bytes\n"
        "  remedy: load(step=3) is the one before; latest(whole=True) finds the newest intact one, "
        "rewind(step) drops all after it"
    )
    assert run.latest() == 4 and run.steps() == [1, 2, 3, 4]  # nothing was skipped or repaired
    assert run.latest(whole=True) == 2
    assert_same(run.load(run.latest(whole=True)), training_state(2))
    run.rewind(2)
    assert run.steps() == [1, 2]
    run.save(3, training_state(30))
    assert_same(run.load(), training_state(30))


def test_nothing_whole_is_none(tmp_path: Path) -> None:
    run = Checkpointer(tmp_path)
    run.save(1, training_state(1))
    _data(run, 1).unlink()
    assert run.latest() == 1 and run.latest(whole=True) is None


def test_a_past_step_is_refused_because_resuming_would_take_the_other(tmp_path: Path) -> None:
    run = Checkpointer(tmp_path, keep=None)
    run.save(10, {"x": 1})
    run.save(20, {"x": 2})
    with pytest.raises(StateError) as caught:
        run.save(15, {"x": 3})
    assert str(caught.value) == (
        "step 15 is older than the newest checkpoint, of step 20\n"
        f"  where: {tmp_path}\n"
        "  expected: a step of at least 20: a resumed run would otherwise take up the other one\n"
        "  remedy: rewind(step) to the checkpoint this run began from, or use another directory"
    )
    assert run.steps() == [10, 20]
    run.rewind(10)
    run.save(15, {"x": 3})
    assert run.steps() == [10, 15]


def test_rewinding_to_nowhere_is_refused(tmp_path: Path) -> None:
    run = Checkpointer(tmp_path)
    run.save(1, {})
    with pytest.raises(
        StateError, match=r"there is no checkpoint of step 2\n.*\n  expected: one of the steps \[1\]"
    ):
        run.rewind(2)


def test_missing_steps_are_named(tmp_path: Path) -> None:
    run = Checkpointer(tmp_path / "run")
    with pytest.raises(NotFoundError, match="there is no checkpoint yet"):
        run.load()
    run.save(1, {})
    with pytest.raises(
        NotFoundError, match=r"there is no checkpoint of step 7\n.*\n  expected: one of the steps \[1\]"
    ):
        run.load(7)


@pytest.mark.parametrize("step", [-1, 1.0, True, "3", None, 10**18])
def test_bad_steps_are_refused(tmp_path: Path, step: object) -> None:
    with pytest.raises(ArgumentError, match=r"is no step\n  expected: an integer from 0"):
        Checkpointer(tmp_path).save(step, {})  # type: ignore[arg-type]


@pytest.mark.parametrize("keep", [0, -1, 2.0, True])
def test_bad_keeps_are_refused(tmp_path: Path, keep: object) -> None:
    with pytest.raises(ArgumentError, match=r"keep is .*\n  expected: None, or at least 1 checkpoint"):
        Checkpointer(tmp_path, keep=keep)  # type: ignore[arg-type]


def test_names_that_are_not_ours_are_left_alone(tmp_path: Path) -> None:
    run = Checkpointer(tmp_path, keep=1)
    strangers = ["step-7", "step-0000000012", "step-00000007.bak", "best", ".hidden"]
    for name in strangers:
        (tmp_path / name).mkdir()
    run.save(3, {})
    run.save(4, {})
    assert run.steps() == [4]
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*strangers, "step-00000004"])


def test_what_killed_writers_left_is_removed_and_what_living_ones_hold_is_not(tmp_path: Path) -> None:
    from trilobite.framework.checkpoint import durable

    run = Checkpointer(tmp_path, keep=2)
    run.save(1, {"x": np.zeros(3)})
    for name in ("step-00000002", "step-00000009"):
        work = Path(durable.beside(str(tmp_path), name, "saving"))
        shutil.copytree(run.path(1), work)
    shutil.copytree(run.path(1), durable.beside(str(tmp_path), "step-00000000", "deleting"))
    (tmp_path / ".step-00000005.lock").write_bytes(b"")
    with durable.lock(str(tmp_path), "step-00000009"):
        run.save(2, {"x": np.ones(3)})
        left = sorted(p.name for p in tmp_path.iterdir() if p.name.startswith("."))
        assert (
            left[0] == ".step-00000009.lock"
            and left[1].startswith(".step-00000009.saving-")
            and len(left) == 2
        )
    run.save(3, {"x": np.ones(3)})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-00000002", "step-00000003"]


def test_a_step_is_a_checkpoint_like_any_other(tmp_path: Path) -> None:
    run = Checkpointer(tmp_path)
    save(run.path(4), training_state(4))
    assert_same(run.load(), training_state(4))
