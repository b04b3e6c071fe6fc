"""A run stopped anywhere and started again ends as one that was not: the same bits, the same history, the
same logs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fit_subjects import Run, loss

import trilobite as tb
from trilobite.base.errors import StateError
from trilobite.framework import logs, metrics, optim
from trilobite.framework.fit import EarlyStopping, History, fit

EPOCHS = 4
STEPS = 5 * EPOCHS


class StoppedError(Exception):
    pass


def arguments(run: Run, place: Path | None, **more: Any) -> dict[str, Any]:
    return run.arguments(
        epochs=EPOCHS,
        validation=run.validation,
        metrics={"accuracy": metrics.Accuracy()},
        schedule=optim.CosineAnnealingLR(run.optimizer, STEPS),
        schedule_every="step",
        average=optim.ExponentialMovingAverage(run.model, 0.9),
        early_stopping=EarlyStopping(patience=9),
        checkpoint=place,
        **more,
    )


def uninterrupted(**more: Any) -> tuple[dict[str, bytes], History]:
    run = Run()
    history = fit(**arguments(run, None, **more))
    return run.bits(), history


@pytest.fixture(scope="module")
def whole() -> tuple[dict[str, bytes], History]:
    """What a run that nobody stops ends with."""
    return uninterrupted()


def interrupted(place: Path, stops: list[int], **more: Any) -> tuple[Run, History]:
    """Stops before the given numbers of steps (counted over all attempts), then runs to the end."""
    taken = 0
    remaining = list(stops)

    def counting(prediction: Any, target: Any) -> tb.Tensor:
        nonlocal taken
        if prediction.requires_grad:
            taken += 1
            if remaining and taken > remaining[0]:
                remaining.pop(0)
                raise StoppedError
        return loss(prediction, target)

    while True:
        run = Run(seed=77)  # other weights and another random state: everything must come from the checkpoint
        if not list(Path(place).glob("step-*")):
            run = Run()
        try:
            return run, fit(**{**arguments(run, place, **more), "loss": counting})
        except StoppedError:
            continue


def rows(history: History) -> list[dict[str, float]]:
    return [{k: v for k, v in row.items() if k != "seconds"} for row in history.rows]


@pytest.mark.parametrize(
    ("stops", "save_every"), [([1], 1), ([5, 7], 3), ([11, 12], 1), ([4, 9, 17], None), ([3], 2)]
)
def test_stopped_and_started_again(
    tmp_path: Path, whole: tuple[dict[str, bytes], History], stops: list[int], save_every: int | None
) -> None:
    again, later = interrupted(tmp_path / "run", stops, save_every=save_every)
    assert again.bits() == whole[0]
    assert rows(later) == rows(whole[1])


def test_compiled_and_stopped(tmp_path: Path, whole: tuple[dict[str, bytes], History]) -> None:
    place = tmp_path / "run"
    run = Run()
    fit(**{**arguments(run, place, jit=True), "epochs": 2})
    run = Run(seed=77)
    later = fit(**arguments(run, place, jit=True))
    assert run.bits() == whole[0] and rows(later) == rows(whole[1])


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_mixed_precision_and_stopped(tmp_path: Path, precision: str) -> None:
    want, _ = uninterrupted(precision=precision)
    again, _ = interrupted(tmp_path / "run", [8], save_every=2, precision=precision)
    assert again.bits() == want


def test_logs_go_on_without_a_seam(tmp_path: Path) -> None:
    uninterrupted(logs=[tmp_path / "whole.jsonl"], log_every=1)
    names = [tmp_path / "log.jsonl", tmp_path / "log.csv", tmp_path / "board"]
    interrupted(tmp_path / "run", [2, 9], save_every=4, logs=names, log_every=1)
    want = [
        {k: v for k, v in row.items() if k != "seconds"} for row in logs.read_jsonl(tmp_path / "whole.jsonl")
    ]
    for found in (logs.read_jsonl(tmp_path / "log.jsonl"), logs.read_csv(tmp_path / "log.csv")):
        assert [{k: v for k, v in row.items() if k != "seconds"} for row in found] == want


def test_a_finished_run_does_nothing_more(tmp_path: Path) -> None:
    run = Run()
    history = fit(**arguments(run, tmp_path / "run"))
    other = Run(seed=77)
    again = fit(**arguments(other, tmp_path / "run"))
    assert rows(again) == rows(history) and other.bits() == run.bits()


def test_a_run_that_stopped_early_stays_stopped(tmp_path: Path) -> None:
    run = Run(lr=0.0)
    stop = EarlyStopping("loss", patience=1, min_delta=10.0)
    first = fit(**run.arguments(epochs=9, early_stopping=stop, checkpoint=tmp_path / "run"))
    other = Run(lr=0.0)
    again = fit(**other.arguments(epochs=9, early_stopping=stop, checkpoint=tmp_path / "run"))
    assert first.stopped and again.stopped and len(first.rows) == len(again.rows) == 2


def test_another_run_s_checkpoint_is_refused(tmp_path: Path) -> None:
    run = Run()
    fit(**run.arguments(epochs=1, checkpoint=tmp_path / "run"))
    other = Run()
    before = other.bits()
    with pytest.raises(StateError, match=r"a run with \['model', 'optimizer'\][\s\S]*'schedule'"):
        fit(
            **other.arguments(
                epochs=2, checkpoint=tmp_path / "run", schedule=optim.StepLR(other.optimizer, 3)
            )
        )
    assert other.bits() == before
